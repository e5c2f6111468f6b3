// Results that a CPU kernel allocated on the host, moved into device memory.
#ifndef HOCKET_CSRC_EMULATOR_OPERATORS_FRESH_H_
#define HOCKET_CSRC_EMULATOR_OPERATORS_FRESH_H_

#include <ATen/core/Tensor.h>

namespace hocket::emulator {

// A tensor on `device` with the values, sizes and strides of `host` (dense, sparse or nested), allocated by
// whatever allocator torch uses for CUDA.
at::Tensor FreshOnDevice(const at::Tensor& host, c10::Device device);

}  // namespace hocket::emulator

#endif  // HOCKET_CSRC_EMULATOR_OPERATORS_FRESH_H_
