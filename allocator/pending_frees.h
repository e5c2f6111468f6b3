// Blocks that PyTorch has freed while streams they were recorded on may still use them.
//
//   Free() of a block with recorded streams:  an event behind each of these streams
//   later calls:                              the block is free when all its events have passed
//
// Where no event can be recorded (a stream captures, the stream is gone), the block waits for the next drain.
//
// A stream of another device has its events there, and no drain of this device says anything of it: the block
// is free when the event has passed, or the stream was waited for, and not before. Where that stream is gone,
// it is when everything queued on that device has passed.
//
// Not thread-safe: the allocator's lock guards it.
#ifndef HOCKET_ALLOCATOR_PENDING_FREES_H_
#define HOCKET_ALLOCATOR_PENDING_FREES_H_

#include <deque>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "allocator/driver.h"
#include "csrc/base/mutex.h"  // Clock

namespace hocket {

inline constexpr Clock::duration kAsLongAsItTakes = Clock::duration::max();
// Of a patience that began then.
Clock::duration LeftOf(Clock::duration patience, Clock::time_point begin);

// A stream of another device.
struct StreamElsewhere {
  ContextHandle context = nullptr;
  Stream stream = nullptr;

  bool operator==(const StreamElsewhere&) const = default;
};

// Waits for what is queued there now, at most for `patience`. False: it is not done by then. An error: that
// cannot be known.
absl::StatusOr<bool> AwaitElsewhere(const Driver& driver, const StreamElsewhere& used,
                                    Clock::duration patience);

class PendingFrees {
 public:
  using Done = absl::FunctionRef<void(DevicePtr block)>;

  // `driver` is borrowed and must outlive this.
  explicit PendingFrees(const Driver& driver) : driver_(driver) {}
  ~PendingFrees();
  PendingFrees(const PendingFrees&) = delete;
  PendingFrees& operator=(const PendingFrees&) = delete;

  bool empty() const { return outstanding_.empty(); }

  // `block` is free once every one of `streams` has passed this point. Needs the context on the thread.
  void Add(DevicePtr block, const std::vector<Stream>& streams);
  // As above, but no event may be recorded now: it waits for Finish().
  void Hold(DevicePtr block);
  // And once these have; not `now`: the point is one behind this one, at the next Poll() or Finish().
  void AddElsewhere(DevicePtr block, const std::vector<StreamElsewhere>& streams, bool now);
  bool AnyElsewhere() const { return !elsewhere_.empty(); }
  // Calls `done` for the blocks whose streams have passed.
  void Poll(Done done);
  // Everything queued on this device is done: waits for other devices' streams, at most for `patience`, and
  // calls `done` for all, but for those blocks of which it cannot be known, or that are in use still.
  void Finish(Done done, Clock::duration patience);

 private:
  struct Entry {
    EventHandle event;
    DevicePtr block;
  };

  struct Elsewhere {
    DevicePtr block;
    StreamElsewhere used;
    EventHandle event;  // of that device; nullptr: not recorded yet
  };

  // nullptr: none can be recorded.
  EventHandle Record(Stream stream);
  bool HasPassed(Elsewhere& entry, Clock::duration patience);
  void Passed(DevicePtr block, Done done);

  const Driver& driver_;
  absl::flat_hash_map<Stream, std::deque<Entry>> queues_;  // in the order of the stream
  absl::flat_hash_map<DevicePtr, int> outstanding_;        // events not yet passed, of each block
  std::vector<EventHandle> spare_;
  std::vector<Elsewhere> elsewhere_;
};

}  // namespace hocket

#endif  // HOCKET_ALLOCATOR_PENDING_FREES_H_
