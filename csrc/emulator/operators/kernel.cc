#include "csrc/emulator/operators/kernel.h"

#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>

namespace hocket::emulator {

namespace {

// The current stream of `device`, whose context is current on this thread then (autograd's threads may come
// here before they have called CUDA at all; freeing nothing is the customary first call).
HocketEmulatorStream StreamOf(c10::Device device) {
  cudaFree(nullptr);
  return c10::cuda::getCurrentCUDAStream(device.index()).stream();
}

}  // namespace

Kernel::Kernel(const char* name, c10::Device device, const HocketEmulatorRange* ranges, size_t count)
    : stream_(StreamOf(device)), ranges_(ranges), count_(count) {
  hocket_emulator_begin_kernel(stream_, name, ranges_, count_);
}

Kernel::~Kernel() { hocket_emulator_end_kernel(stream_, ranges_, count_); }

}  // namespace hocket::emulator
