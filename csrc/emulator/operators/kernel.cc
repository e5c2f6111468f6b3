#include "csrc/emulator/operators/kernel.h"

#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>

namespace hocket::emulator {
namespace {

thread_local const char* last_kernel = "result";

}  // namespace

const char* LastKernel() { return last_kernel; }

// Autograd's threads may come here before they have called CUDA at all; freeing nothing is the customary
// first call. Where a kernel has failed before, none can be launched.
HocketEmulatorStream CurrentStream(c10::Device device) {
  const cudaError_t first_call = cudaFree(nullptr);
  if (hocket_emulator_lost() != 0) C10_CUDA_CHECK(first_call);
  return c10::cuda::getCurrentCUDAStream(device.index()).stream();
}

Kernel::Kernel(const char* name, c10::Device device, const HocketEmulatorRange* ranges, size_t count)
    : stream_(CurrentStream(device)), ranges_(ranges), count_(count) {
  last_kernel = name;
  hocket_emulator_begin_kernel(stream_, name, ranges_, count_);
}

Kernel::~Kernel() { hocket_emulator_end_kernel(stream_, ranges_, count_); }

}  // namespace hocket::emulator
