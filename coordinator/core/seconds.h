// Durations as people are told them.
#ifndef HOCKET_COORDINATOR_CORE_SECONDS_H_
#define HOCKET_COORDINATOR_CORE_SECONDS_H_

#include <string>

#include "absl/strings/str_format.h"
#include "absl/time/time.h"

namespace hocket::coordinator {

// "12.3 s"
inline std::string Seconds(absl::Duration duration) {
  return absl::StrFormat("%.1f s", absl::ToDoubleSeconds(duration));
}

}  // namespace hocket::coordinator

#endif  // HOCKET_COORDINATOR_CORE_SECONDS_H_
