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
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "csrc/emulator/driver/abi.h"
#include "csrc/emulator/driver/captures.h"
#include "csrc/emulator/driver/order.h"
#include "csrc/emulator/driver/shared_event.h"
#include "csrc/emulator/driver/work_queue.h"

namespace hocket::emulator {

class EventState;
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

  // Queues `operation` behind what this kind of stream waits for; where the stream captures, it becomes a
  // node of the capture.
  void Submit(Operation operation);
  // The calling thread is about to execute an operation itself, in this stream's order (values mode). What
  // check mode knows it by.
  Ticket BeginInline(const char* name, const std::vector<Use>& uses);
  void EndInline() { queue_->EndInline(); }
  // Queues a wait for `event`.
  cuda::Result WaitFor(const EventState& event);
  // The host waits for all work queued so far.
  void Synchronize() const;
  // True, and the host knows it, when all of it is done.
  bool Query() const;

  // What must be done for all work queued so far to be done.
  std::vector<Point> Points() const;
  Point LastPoint() const { return Point{queue_, queue_->last()}; }
  WorkQueue& queue() { return *queue_; }
  // This stream and those whose work a wait for it includes.
  std::vector<std::uint64_t> Covered() const;

 private:
  // The streams whose earlier work this one's next operation waits for, as its kind says.
  std::vector<std::shared_ptr<StreamState>> Before() const;
  Operation Behind(Operation operation) const;

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
  using MakeQueue = std::function<std::shared_ptr<WorkQueue>(int device)>;

  // `order` (check mode) may be nullptr.
  Streams(Order* order, MakeQueue make_queue) : order_(order), make_queue_(std::move(make_queue)) {}

  Captures& captures() { return captures_; }
  Order* order() const { return order_; }

  std::shared_ptr<StreamState> Create(int device, StreamState::Kind kind, int priority);
  // Work queued on it is still done.
  bool Destroy(Stream handle);
  std::shared_ptr<StreamState> Find(Stream handle) const;
  // Those of a device, destroyed ones with work still queued included.
  std::vector<std::shared_ptr<StreamState>> Of(int device) const;
  std::vector<std::shared_ptr<StreamState>> Of(int device, StreamState::Kind kind) const;
  std::vector<std::shared_ptr<StreamState>> All() const;
  // The host waits for all work queued so far on the device.
  void Synchronize(int device) const;
  static Stream Handle(const StreamState& stream) {
    return reinterpret_cast<Stream>(const_cast<StreamState*>(&stream));
  }

 private:
  // Forgets destroyed streams that nobody has to wait for any more. REQUIRES: mutex_ is held.
  void ForgetClosed();

  Order* const order_;
  const MakeQueue make_queue_;
  Captures captures_;
  // Blocking streams that exist or are in closing_; the usual answer, none, costs one load.
  std::atomic<int> blocking_ = 0;
  mutable std::mutex mutex_;
  // Guarded by mutex_:
  std::map<Stream, std::shared_ptr<StreamState>> streams_;
  std::vector<std::shared_ptr<StreamState>> closing_;  // destroyed with work still queued
  std::uint64_t next_id_ = 1;
};

class EventState {
 public:
  // `shared` is set for interprocess events.
  EventState(int device, unsigned flags, Streams& streams, std::shared_ptr<SharedEvent> shared)
      : device_(device), flags_(flags), streams_(streams), shared_(std::move(shared)) {}

  int device() const { return device_; }
  unsigned flags() const { return flags_; }
  bool timed() const { return (flags_ & cuda::kEventDisableTiming) == 0; }
  const std::shared_ptr<SharedEvent>& shared() const { return shared_; }

  // Behind everything queued so far on `streams`.
  void Record(const std::vector<std::shared_ptr<StreamState>>& streams);
  // What was recorded; empty before the first record.
  std::vector<Point> Points() const;
  bool Done() const;
  // The host waits for it.
  void Synchronize() const;
  // True, and the host knows it, when it was reached.
  bool Query() const;
  // When it was reached (monotonic ns); 0: not recorded, not reached, or not timed.
  std::int64_t reached_ns() const;
  bool recorded() const;

  // What it knows of a capture; nullptr where it was recorded outside of one.
  std::shared_ptr<Captures::Captured> captured() const;
  // Check mode.
  Clock clock() const;

 private:
  std::vector<Point> RecordWork(const std::vector<std::shared_ptr<StreamState>>& streams,
                                const std::shared_ptr<std::atomic<std::int64_t>>& reached);
  void HostKnows() const;

  const int device_;
  const unsigned flags_;
  Streams& streams_;
  const std::shared_ptr<SharedEvent> shared_;
  mutable std::mutex mutex_;
  // Guarded by mutex_:
  std::vector<Point> points_;
  bool recorded_ = false;
  std::shared_ptr<std::atomic<std::int64_t>> reached_;
  std::shared_ptr<Captures::Captured> captured_;
  Clock clock_;
};

class Events {
 public:
  cuda::Event Add(std::shared_ptr<EventState> event);
  bool Destroy(cuda::Event handle);
  std::shared_ptr<EventState> Find(cuda::Event handle) const;

 private:
  mutable std::mutex mutex_;
  std::map<cuda::Event, std::shared_ptr<EventState>> events_;  // guarded by mutex_
};

}  // namespace hocket::emulator

#endif  // HOCKET_CSRC_EMULATOR_DRIVER_STREAMS_H_
