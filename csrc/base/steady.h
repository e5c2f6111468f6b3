// Time that only goes forward, for deadlines: the wall clock (absl::Now) is set by people and by the network,
// and a wait that is counted with it may end at once, or hours late.
#ifndef HOCKET_CSRC_BASE_STEADY_H_
#define HOCKET_CSRC_BASE_STEADY_H_

#include <ctime>

#include "absl/time/time.h"

namespace hocket {

// CLOCK_MONOTONIC as an absl::Time: the same clock as Python's time.monotonic().
inline absl::Time SteadyNow() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return absl::TimeFromTimespec(now);
}

}  // namespace hocket

#endif  // HOCKET_CSRC_BASE_STEADY_H_
