// Hocket's statistics and snapshots in PyTorch's types.
#ifndef HOCKET_CSRC_TORCH_TRANSLATE_H_
#define HOCKET_CSRC_TORCH_TRANSLATE_H_

#include "allocator/stats.h"
#include "csrc/torch/torch_version.h"

namespace hocket {

pytorch::DeviceStats Translate(const DeviceStats& stats);
pytorch::SegmentInfo Translate(const SegmentSnapshot& segment, c10::DeviceIndex device);

}  // namespace hocket

#endif  // HOCKET_CSRC_TORCH_TRANSLATE_H_
