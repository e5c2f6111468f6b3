// Holders of a turn that do not go on: seen, named, and left alone.
#ifndef HOCKET_COORDINATOR_SERVER_SILENCE_H_
#define HOCKET_COORDINATOR_SERVER_SILENCE_H_

#include <optional>
#include <string>

#include "absl/time/time.h"
#include "coordinator/core/state.h"
#include "csrc/wire/shared_page.h"

namespace hocket::coordinator {

// A step counts as hung after so long, or ten times what the job's steps take, whichever is longer.
inline constexpr absl::Duration kHungStep = absl::Seconds(5);

// What keeps `job`, which has a turn, from going on, since when, and what to do: its process is stopped, or
// its step takes much longer than its steps do. Empty: nothing is seen. Asks the kernel and the job's shared
// page, so it needs no answer from the job. `now` is of CLOCK_MONOTONIC.
std::string WhySilent(const Job& job, const std::optional<wire::PageValues>& page, absl::Time now);

}  // namespace hocket::coordinator

#endif  // HOCKET_COORDINATOR_SERVER_SILENCE_H_
