// How many bytes PyTorch's kernels for lists of tensors move: torch._foreach_*, foreach and fused optimizers,
// clipping of gradients, a GradScaler's unscale_.
//
// Such a kernel has a block of 512 threads for every 65,536 elements of its tensors (kChunkSize in
// ATen/native/cuda/MultiTensorApply.cuh), and its mangled name says how many lists it takes, of which type
// their elements are and how many of them it reads:
//
//   multi_tensor_apply_kernel<TensorListMetadata<3>, TernaryOpListFunctor<float, 3, 3, 0>, ...>
//                                                lists               element  |  lists read
//
// Not seen: how full a tensor's last block is. It counts as full, so many small tensors cost too much.
#ifndef HOCKET_CSRC_EMULATOR_RUNTIME_MULTI_TENSOR_H_
#define HOCKET_CSRC_EMULATOR_RUNTIME_MULTI_TENSOR_H_

#include <optional>

namespace hocket::emulator {

// Bytes that a block of the kernel with that mangled name reads and writes; none: it is another kernel.
std::optional<double> MultiTensorBytesPerBlock(const char* name);

}  // namespace hocket::emulator

#endif  // HOCKET_CSRC_EMULATOR_RUNTIME_MULTI_TENSOR_H_
