// Hocket's statistics and snapshots in PyTorch's types.
#ifndef HOCKET_CSRC_TORCH_TRANSLATE_H_
#define HOCKET_CSRC_TORCH_TRANSLATE_H_

#include "allocator/stats.h"
#include "csrc/torch/history.h"
#include "csrc/torch/torch_version.h"

namespace hocket {

pytorch::DeviceStats Translate(const DeviceStats& stats);
// With the stacks that `history` has of the living blocks.
pytorch::SegmentInfo Translate(const SegmentSnapshot& segment, c10::DeviceIndex device,
                               const History& history);
// The settings that hold here, of which `native`, PyTorch's own allocator, knows the most: options that steer
// its way to keep memory are at what they are where nobody sets them, since they have no effect.
pytorch::caching::AllocatorConfigInfo SettingsInUse(pytorch::caching::CUDAAllocator& native);

}  // namespace hocket

#endif  // HOCKET_CSRC_TORCH_TRANSLATE_H_
