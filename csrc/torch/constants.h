// A promise that a tensor does not change, watched by what PyTorch counts: every write that goes through
// PyTorch raises the version of the tensor, which all its views share (tensor._version).
//
// Not counted, and so not noticed: writes of kernels that PyTorch does not know, through `.data`, by
// operators over lists of tensors (torch._foreach_*, fused optimizers), by a CUDA graph that is replayed, and
// into a batch norm's running statistics; and any write to a tensor made in inference mode. Noticed too late:
// the write of an operator that writes, then allocates, waits there for the turn while its memory is spilled,
// and writes again (scatter_reduce_ with "mean"): its version is raised when it is done.
#ifndef HOCKET_CSRC_TORCH_CONSTANTS_H_
#define HOCKET_CSRC_TORCH_CONSTANTS_H_

#include <c10/core/TensorImpl.h>

#include <memory>
#include <string>

#include "allocator/promise.h"

namespace hocket {

// About all of the tensor's storage. Keeps the count alive, not the tensor. When it is broken, that is said
// on stderr, with `name`.
std::shared_ptr<const Promise> PromiseFor(const c10::TensorImpl& tensor, std::string name);

}  // namespace hocket

#endif  // HOCKET_CSRC_TORCH_CONSTANTS_H_
