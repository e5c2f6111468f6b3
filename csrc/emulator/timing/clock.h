// Where "now" comes from and how one sleeps until then: the machine's clock, or a test's.
#ifndef HOCKET_CSRC_EMULATOR_TIMING_CLOCK_H_
#define HOCKET_CSRC_EMULATOR_TIMING_CLOCK_H_

#include <condition_variable>
#include <mutex>

#include "csrc/emulator/timing/round_robin.h"

namespace hocket::emulator::timing {

class Clock {
 public:
  virtual ~Clock() = default;
  // Nanoseconds; the same in all processes; never goes back.
  virtual Nanos Now() = 0;
  // Sleeps until `deadline` (kNever: without end) or until `changed` is notified. It may return early.
  virtual void Wait(std::unique_lock<std::mutex>& lock, std::condition_variable& changed, Nanos deadline) = 0;

  // The machine's monotonic clock. Sleeps to a few microseconds: the kernel's timer slack (50 us by default)
  // is put aside for the time of the sleep.
  static Clock& Monotonic();
};

// Returns when the machine's clock says `deadline`, to a few microseconds: sleeps, and looks at the clock for
// the last 50 of them.
void SleepUntil(Nanos deadline);

}  // namespace hocket::emulator::timing

#endif  // HOCKET_CSRC_EMULATOR_TIMING_CLOCK_H_
