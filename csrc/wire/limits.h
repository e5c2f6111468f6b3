// How long texts in messages may be, in bytes: jobs keep to it and the coordinator refuses what is longer.
#ifndef HOCKET_CSRC_WIRE_LIMITS_H_
#define HOCKET_CSRC_WIRE_LIMITS_H_

#include <cstddef>

namespace hocket::wire {

// Names of jobs and devices, versions.
inline constexpr size_t kMaxName = 128;
// Programs, and names of gangs.
inline constexpr size_t kMaxText = 4096;

}  // namespace hocket::wire

#endif  // HOCKET_CSRC_WIRE_LIMITS_H_
