// When memory that lies on the host has to be back on the device: 0: before the turn begins. Higher ones are
// moments in the turn, in the order in which the program comes to them (CachingAllocator::SetStage).
#ifndef HOCKET_ALLOCATOR_STAGE_H_
#define HOCKET_ALLOCATOR_STAGE_H_

#include <cstdint>
#include <limits>

namespace hocket {

using Stage = std::uint32_t;
inline constexpr Stage kLastStage = std::numeric_limits<Stage>::max() - 1;

}  // namespace hocket

#endif  // HOCKET_ALLOCATOR_STAGE_H_
