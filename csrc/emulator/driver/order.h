// Check mode: is every use of memory ordered after those it conflicts with?
//
// Because operators run at once, a missing wait would seldom show in values. So each operation that is
// queued gets a number and a clock: for each stream, the number up to which that stream's operations are
// known to be done before this one starts. Clocks travel along the waits that a program makes:
//
//   queue on a stream      clock of the stream, joined with the host's
//   record an event        the event keeps its stream's clock
//   stream waits for it    the stream's clock is joined with the event's
//   host waits, or a       the host's clock is joined with it
//   query says "done"
//
// Memory that is mapped twice is the same memory: a use at one address must be ordered after those at the
// other, too.
//
// For every byte the last write and the reads since are kept. Two uses by different streams (the host counts
// as one) of which one writes must be ordered by the clocks, else the process ends with a message that names
// both. The clocks follow from the order of calls alone, not from when anything really happened, so a mistake
// is found whether or not it did harm this time. All host threads are one: how threads wait for each other is
// invisible here, and must not be reported as missing.
//
// Memory that another process can see keeps its last user in the shared page as well; using it after a
// process that lives and has not waited for its own use, and that this process has not waited for through an
// interprocess event, is the same mistake.
//
// Thread-safe.
#ifndef HOCKET_CSRC_EMULATOR_DRIVER_ORDER_H_
#define HOCKET_CSRC_EMULATOR_DRIVER_ORDER_H_

#include <array>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "csrc/emulator/driver/device_memory.h"
#include "csrc/emulator/driver/shared_state.h"
#include "csrc/emulator/driver/work_queue.h"

namespace hocket::emulator {

// By stream id; the host is 0.
using Clock = std::vector<std::uint64_t>;

// An operation as it was queued.
struct Ticket {
  std::uint64_t stream = 0;
  std::uint64_t number = 0;
  const char* name = "";
};

class Order {
 public:
  static constexpr std::uint64_t kHost = 0;

  // Both must outlive it.
  Order(SharedState& state, DeviceMemory& memory) : state_(state), memory_(memory) {}

  // An operation is queued on `stream`, which also waits for all that is queued on `behind` (the rule of
  // default and blocking streams). Ends the process where a use is not ordered.
  Ticket Queue(std::uint64_t stream, const std::vector<std::uint64_t>& behind, const char* name,
               const std::vector<Use>& uses);
  // Further uses by an operation already queued.
  void Uses(const Ticket& ticket, const std::vector<Use>& uses);

  // What an event recorded now on these streams stands for, and the last use of the process that it covers.
  Clock Record(const std::vector<std::uint64_t>& streams, std::uint64_t* covered) const;
  void StreamWaits(std::uint64_t stream, const Clock& clock);
  void HostWaits(const Clock& clock);
  // The host has waited for all that was queued on `stream`.
  bool HostKnows(std::uint64_t stream);

  // A kernel has failed: whatever was queued is over, for the host and for other processes.
  void AllIsOver();

  // Memory is about to go from this process's addresses: its own uses of it must be over. Another process may
  // go on using the chunk through its own mapping. `name` is for the message.
  void Goes(const char* name, std::uint64_t address, Bytes size);
  // The memory is gone; what was known of it is forgotten.
  void Forget(std::uint64_t address, Bytes size);

  // This process waited for another one's uses up to `use`.
  void Knows(int process, std::uint64_t use);

 private:
  struct Access {
    std::uint64_t stream;
    std::uint64_t number;
    const char* name;
  };
  // What is known of the bytes from its key up to `end`.
  struct Segment {
    std::uint64_t end;
    Access write;  // number 0: none
    std::vector<Access> reads;
  };
  using Segments = std::map<std::uint64_t, Segment>;

  // REQUIRES: mutex_ is held, for all below.
  Clock& ClockOf(std::uint64_t stream);
  // By this process and by the others.
  void CheckAll(const Access& now, const Clock& clock, const std::vector<Use>& uses);
  void Check(const Access& now, const Clock& clock, const Use& use) const;
  // As `use`, at the other addresses of the memory that it uses.
  void CheckElsewhere(const Access& now, const Clock& clock, const Use& use) const;
  static void CheckOne(const Access& before, const Access& now, const Clock& clock, const Use& use,
                       bool before_writes);
  void Note(const Access& now, const Use& use);
  // Makes a segment start at `address` where one lies across it.
  void SplitAt(std::uint64_t address);
  void CheckSharedChunk(const Access& now, const Use& use);
  void PublishFinished();
  [[noreturn]] static void Report(const Access& before, bool before_wrote, const Access& now, const Use& use);

  SharedState& state_;
  DeviceMemory& memory_;
  mutable std::mutex mutex_;
  // Guarded by mutex_:
  std::vector<Clock> clocks_;  // by stream; clocks_[s][s] is the number of its last operation
  std::uint64_t last_number_ = 0;
  std::uint64_t finished_ = 0;  // every operation up to here is known to be done; never goes down
  Segments segments_;
  std::array<std::uint64_t, kMaxProcesses> known_ = {};  // of other processes' uses
};

}  // namespace hocket::emulator

#endif  // HOCKET_CSRC_EMULATOR_DRIVER_ORDER_H_
