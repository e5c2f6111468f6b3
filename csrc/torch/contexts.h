// PyTorch's first calls on a device, which make its context there: some hundred MiB, for which other jobs may
// have left no room (docs/decisions/0043).
//
// An allocation waits for room by itself (CachingAllocator::Create). Before it PyTorch may choose a device
// other than the first (cudaSetDevice), or ask for its streams' priorities. Where such a call of
// libc10_cuda's finds no memory, the device is put to use, which waits for the turn and for room, and the
// call is repeated.
#ifndef HOCKET_CSRC_TORCH_CONTEXTS_H_
#define HOCKET_CSRC_TORCH_CONTEXTS_H_

#include <atomic>

#include "csrc/torch/devices.h"

namespace hocket {

// For good. Both are borrowed and live until the process ends. Where libc10_cuda has CUDA's runtime in itself
// its calls stay as they are.
void MakeRoomForContexts(Devices& devices, const std::atomic<bool>& forked);

}  // namespace hocket

#endif  // HOCKET_CSRC_TORCH_CONTEXTS_H_
