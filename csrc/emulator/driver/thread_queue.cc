#include "csrc/emulator/driver/thread_queue.h"

#include <thread>
#include <utility>

#include "csrc/emulator/driver/process.h"
#include "csrc/emulator/timing/system.h"

namespace hocket::emulator {
namespace {

thread_local const char* current_operation = nullptr;

}  // namespace

const char* CurrentOperation() { return current_operation; }
void SetCurrentOperation(const char* name) { current_operation = name; }

std::uint64_t ThreadQueue::Submit(Operation operation) {
  const std::lock_guard lock(mutex_);
  const std::uint64_t number = ++submitted_;
  if (stopped_) {
    completed_ = number;
    return number;
  }
  waiting_.push_back({std::move(operation), {}});
  if (!started_) {
    started_ = true;
    timing::StartQuietly([self = shared_from_this()] { self->Run(); }).detach();
  }
  changed_.notify_all();
  return number;
}

void ThreadQueue::BeginInline() {
  std::unique_lock lock(mutex_);
  const std::thread::id self = std::this_thread::get_id();
  if (stopped_ || (depth_ > 0 && waiting_.front().inline_on == self)) {
    ++depth_;
    return;
  }
  const std::uint64_t number = ++submitted_;
  waiting_.push_back({Operation(), self});
  changed_.wait(lock, [&] { return completed_ >= number - 1; });
  depth_ = 1;
}

void ThreadQueue::EndInline() {
  const std::lock_guard lock(mutex_);
  if (--depth_ > 0 || stopped_) return;
  waiting_.pop_front();
  Complete();
}

void ThreadQueue::Complete() {
  if (!stopped_) ++completed_;
  changed_.notify_all();
}

void ThreadQueue::Wait(std::uint64_t number) {
  if (Done(number)) return;
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return completed_ >= number; });
}

void ThreadQueue::Run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return CanRun() || (waiting_.empty() && closed_) || stopped_; });
    if (!CanRun()) return;
    Operation operation = std::move(waiting_.front().operation);
    waiting_.pop_front();
    running_ = true;
    lock.unlock();
    Execute(operation);
    operation = Operation();  // what it held is freed before it counts as done
    lock.lock();
    running_ = false;
    Complete();
  }
}

void ThreadQueue::Execute(Operation& operation) const {
  for (const Point& point : operation.after) point.Wait();
  const bool copies = operation.engine != Engine::kNone && operation.engine != Engine::kCompute;
  // A late copy is what HOCKET_EMULATOR_COPY_DELAY_US asks for; nobody synchronises by this sleep.
  if (copies && copy_delay_.count() > 0) std::this_thread::sleep_for(copy_delay_);
  if (!operation.action) return;
  SetCurrentOperation(operation.name);
  operation.action(MonotonicNs());
  SetCurrentOperation(nullptr);
}

void ThreadQueue::Stop() {
  std::unique_lock lock(mutex_);
  stopped_ = true;
  waiting_.clear();
  completed_ = submitted_.load();
  changed_.notify_all();
  // Bounded: a host function that waits for the ending process would wait for ever.
  changed_.wait_for(lock, std::chrono::seconds(2), [this] { return !running_; });
}

void ThreadQueue::Close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  changed_.notify_all();
}

}  // namespace hocket::emulator
