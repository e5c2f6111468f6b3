#include "csrc/emulator/operators/kernel.h"

#include <ATen/ops/empty.h>
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

Kernel::Kernel(const char* name, c10::Device device, const HocketEmulatorRange* ranges, size_t count,
               Results results)
    : stream_(CurrentStream(device)), ranges_(ranges), count_(count) {
  last_kernel = name;
  if (results == Results::kFresh) {
    if (hocket_emulator_begin_resident_kernel(stream_, name, ranges_, count_) != 0) return;
    // Its results are allocated when their sizes are known: after it has run.
    (void)at::empty({1}, at::TensorOptions().device(device).dtype(c10::kByte));
  }
  hocket_emulator_begin_kernel(stream_, name, ranges_, count_);
}

Kernel::~Kernel() { hocket_emulator_end_kernel(stream_, ranges_, count_); }

}  // namespace hocket::emulator
