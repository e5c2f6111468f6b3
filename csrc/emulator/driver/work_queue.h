// Device work in the order of one stream, done later.
//
// An operation starts when the one before it is done and the operations of other streams that it names are
// too. In values mode each queue that is used has a thread (thread_queue.h); in timing mode all queues
// live on the device's modelled timeline (timeline.h).
#ifndef HOCKET_CSRC_EMULATOR_DRIVER_WORK_QUEUE_H_
#define HOCKET_CSRC_EMULATOR_DRIVER_WORK_QUEUE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "csrc/base/bytes.h"

namespace hocket::emulator {

// Something that gets done in numbered steps, 1, 2, ...
class Progress {
 public:
  virtual ~Progress() = default;
  virtual bool Done(std::uint64_t number) = 0;
  // Returns when step `number` is done. Sleeps, never spins.
  virtual void Wait(std::uint64_t number) = 0;
};

// The step `number` of a queue or an interprocess event, and all before it.
struct Point {
  std::shared_ptr<Progress> progress;
  std::uint64_t number = 0;

  bool Done() const;
  void Wait() const;
};

// Which part of a device an operation keeps busy (timing mode).
enum class Engine { kNone, kCompute, kToDevice, kToHost, kOnDevice };

// Bytes that an operation reads or writes, for check mode.
struct Use {
  std::uint64_t address = 0;
  Bytes bytes = 0;
  bool writes = false;
};

struct Operation {
  const char* name = "";  // a literal, or kept for ever
  Engine engine = Engine::kNone;
  Bytes bytes = 0;               // what a copy moves
  std::int64_t nanoseconds = 0;  // what a kernel takes (timing mode)
  // What it does when its turn comes, told the time (monotonic ns) at which it ended; may be empty.
  std::function<void(std::int64_t)> action = {};
  bool calls_program = false;     // the action is the program's own function: it takes as long as it likes
  bool seen_by_others = false;    // the action must come in time although nobody here asks
  std::vector<Point> after = {};  // what must be done first, besides the operation before it
  std::vector<Use> uses = {};     // check mode
  // A captured operator (values mode): the thread that launches the graph executes it itself. False: failed.
  std::function<bool()> compute = {};
};

class WorkQueue : public Progress {
 public:
  // Queues `operation` and returns its number: 1, 2, ...
  virtual std::uint64_t Submit(Operation operation) = 0;
  // The number of the operation queued last; 0: none was.
  virtual std::uint64_t last() const = 0;
  // Values mode: the calling thread executes an operation of its own in this queue's order. Begin returns
  // when everything before it is done; what is queued after it waits for End, on the same thread. They may be
  // nested.
  virtual void BeginInline() = 0;
  virtual void EndInline() = 0;
  // The process ends: lets the operation under way finish, drops the others; every wait returns.
  virtual void Stop() = 0;
  // No operation will follow.
  virtual void Close() = 0;
};

inline bool Point::Done() const { return progress->Done(number); }
inline void Point::Wait() const { progress->Wait(number); }

// What the calling thread executes for a device now, for messages about faults; nullptr: nothing.
const char* CurrentOperation();
void SetCurrentOperation(const char* name);

}  // namespace hocket::emulator

#endif  // HOCKET_CSRC_EMULATOR_DRIVER_WORK_QUEUE_H_
