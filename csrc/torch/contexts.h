// PyTorch's choice of a device (cudaSetDevice), which makes its context there: some hundred MiB, for which
// other jobs may have left no room (docs/decisions/0043).
//
// An allocation waits for room by itself (Devices::Use). Where the choice finds no memory the device is put
// to use, too, which waits for the turn and for room, and the call is repeated. Not so where a program's
// first use of a full device is a stream: PyTorch asks for those inside a std::call_once, where nobody may
// wait. Where the device is another process's alone (its compute mode), it is said how that can be changed.
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
