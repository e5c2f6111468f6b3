// Values mode: a queue whose operations a thread of its own executes, started with the first of them.
#ifndef HOCKET_CSRC_EMULATOR_DRIVER_THREAD_QUEUE_H_
#define HOCKET_CSRC_EMULATOR_DRIVER_THREAD_QUEUE_H_

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include "csrc/emulator/driver/work_queue.h"

namespace hocket::emulator {

class ThreadQueue final : public WorkQueue, public std::enable_shared_from_this<ThreadQueue> {
 public:
  // Each copy starts `copy_delay` late.
  explicit ThreadQueue(std::chrono::microseconds copy_delay) : copy_delay_(copy_delay) {}

  std::uint64_t Submit(Operation operation) override;
  std::uint64_t last() const override { return submitted_; }
  bool Done(std::uint64_t number) override { return completed_ >= number; }
  void Wait(std::uint64_t number) override;
  void BeginInline() override;
  void EndInline() override;
  void Stop() override;
  void Close() override;

 private:
  struct Entry {
    Operation operation;
    std::thread::id inline_on;  // the thread that executes it itself
  };

  void Run();
  void Execute(Operation& operation) const;
  // REQUIRES: mutex_ is held, for both below.
  bool CanRun() const { return !waiting_.empty() && waiting_.front().inline_on == std::thread::id(); }
  void Complete();

  const std::chrono::microseconds copy_delay_;
  std::atomic<std::uint64_t> submitted_ = 0;  // written under mutex_
  std::atomic<std::uint64_t> completed_ = 0;  // written under mutex_
  std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_:
  std::deque<Entry> waiting_;
  int depth_ = 0;  // of the operation that a thread executes itself
  bool started_ = false;
  bool running_ = false;  // an operation is being executed
  bool stopped_ = false;
  bool closed_ = false;
};

}  // namespace hocket::emulator

#endif  // HOCKET_CSRC_EMULATOR_DRIVER_THREAD_QUEUE_H_
