// Streams, events and contexts, and the order they make.
//
// A stream owns a queue (work_queue.h). An event is the set of points that it was recorded behind: one
// stream's last operation, or those of a whole context. The default ("legacy") stream of a context and its
// blocking streams wait for each other's earlier work, as CUDA says; non-blocking streams do not.
//
// Thread-safe.
#ifndef HOCKET_CSRC_EMULATOR_DRIVER_STREAMS_H_
#define HOCKET_CSRC_EMULATOR_DRIVER_STREAMS_H_

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "csrc/emulator/driver/abi.h"
#include "csrc/emulator/driver/work_queue.h"

namespace hocket::emulator {

class StreamState;
class Streams;

class Context {
 public:
  Context(int device, Streams& streams);
  int device() const { return device_; }
  const std::shared_ptr<StreamState>& legacy() const { return legacy_; }
  cuda::Context handle() { return reinterpret_cast<cuda::Context>(this); }
  std::atomic<unsigned> flags = 0;

 private:
  const int device_;
  const std::shared_ptr<StreamState> legacy_;
};

class StreamState {
 public:
  enum class Kind { kLegacy, kBlocking, kNonBlocking };

  StreamState(Streams& streams, int device, Kind kind, int priority, std::uint64_t id,
              std::shared_ptr<WorkQueue> queue);
  ~StreamState();

  int device() const { return device_; }
  Kind kind() const { return kind_; }
  int priority() const { return priority_; }
  // Never given twice in a process.
  std::uint64_t id() const { return id_; }
  // "stream 3", "the default stream", for messages.
  std::string Name() const;

  // Queues `operation` behind what this kind of stream waits for.
  void Submit(Operation operation);
  // What must be done for all work queued so far to be done.
  std::vector<Point> Points() const;
  bool Done() const;
  void Wait() const;

  Point LastPoint() const { return Point{queue_, queue_->last()}; }
  WorkQueue& queue() { return *queue_; }
  const std::shared_ptr<WorkQueue>& shared_queue() const { return queue_; }

 private:
  Streams& streams_;
  const int device_;
  const Kind kind_;
  const int priority_;
  const std::uint64_t id_;
  const std::shared_ptr<WorkQueue> queue_;
};

// All streams of the process, by handle.
class Streams {
 public:
  std::shared_ptr<StreamState> Create(int device, StreamState::Kind kind, int priority);
  // Work queued on it is still done.
  bool Destroy(Stream handle);
  std::shared_ptr<StreamState> Find(Stream handle) const;
  std::vector<std::shared_ptr<StreamState>> Of(int device) const;
  std::vector<std::shared_ptr<StreamState>> All() const;
  static Stream Handle(const StreamState& stream) {
    return reinterpret_cast<Stream>(const_cast<StreamState*>(&stream));
  }

 private:
  mutable std::mutex mutex_;
  // Guarded by mutex_:
  std::map<Stream, std::shared_ptr<StreamState>> streams_;
  std::uint64_t next_id_ = 1;
};

class EventState {
 public:
  explicit EventState(unsigned flags) : flags_(flags) {}

  unsigned flags() const { return flags_; }
  bool timed() const { return (flags_ & cuda::kEventDisableTiming) == 0; }

  // Behind everything queued so far on `streams`.
  void Record(const std::vector<std::shared_ptr<StreamState>>& streams);
  // What was recorded; empty before the first record.
  std::vector<Point> Points() const;
  bool Done() const;
  void Wait() const;
  // When it was reached (monotonic ns); 0: not recorded, not reached, or not timed.
  std::int64_t reached_ns() const;
  bool recorded() const;

 private:
  const unsigned flags_;
  mutable std::mutex mutex_;
  // Guarded by mutex_:
  std::vector<Point> points_;
  bool recorded_ = false;
  std::shared_ptr<std::atomic<std::int64_t>> reached_;
};

class Events {
 public:
  cuda::Event Create(unsigned flags);
  bool Destroy(cuda::Event handle);
  std::shared_ptr<EventState> Find(cuda::Event handle) const;

 private:
  mutable std::mutex mutex_;
  std::map<cuda::Event, std::shared_ptr<EventState>> events_;  // guarded by mutex_
};

}  // namespace hocket::emulator

#endif  // HOCKET_CSRC_EMULATOR_DRIVER_STREAMS_H_
