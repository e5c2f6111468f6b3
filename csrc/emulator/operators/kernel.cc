#include "csrc/emulator/operators/kernel.h"

#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>

namespace hocket::emulator {
namespace {

thread_local const char* last_kernel = "result";

}  // namespace

const char* LastKernel() { return last_kernel; }

// Autograd's threads may come here before they have called CUDA at all; freeing nothing is the customary
// first call.
HocketEmulatorStream CurrentStream(c10::Device device) {
  cudaFree(nullptr);
  return c10::cuda::getCurrentCUDAStream(device.index()).stream();
}

Kernel::Kernel(const char* name, c10::Device device, const HocketEmulatorRange* ranges, size_t count)
    : stream_(CurrentStream(device)), ranges_(ranges), count_(count) {
  last_kernel = name;
  hocket_emulator_begin_kernel(stream_, name, ranges_, count_);
}

Kernel::~Kernel() { hocket_emulator_end_kernel(stream_, ranges_, count_); }

}  // namespace hocket::emulator
