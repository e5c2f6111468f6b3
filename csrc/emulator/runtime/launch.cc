// Kernel launches.
//
// Values mode: whatever torch launches here has no CPU twin among the operators (csrc/emulator/operators
// answers the others before a kernel is launched), so the launch fails and names the kernel.
// Timing mode: the kernel computes nothing and takes its modelled time (costs.h) on its stream.
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <string>

#include "csrc/emulator/emulator_api.h"
#include "csrc/emulator/runtime/call.h"
#include "csrc/emulator/runtime/costs.h"
#include "csrc/emulator/runtime/kernels.h"
#include "csrc/emulator/runtime/refusal.h"

using hocket::emulator::Finish;
using hocket::emulator::KernelLaunch;

namespace {

struct Configuration {
  dim3 grid, block;
  size_t shared_bytes;
  cudaStream_t stream;
};

// What <<<...>>> says, between its evaluation and the launch.
thread_local Configuration pushed;

// torch.cuda._sleep() needs no twin: the stream stands still for as long as it asks.
cudaError_t Spin(const KernelLaunch& launch, cudaStream_t stream) {
  auto wait = [](void* microseconds) {
    usleep(static_cast<useconds_t>(reinterpret_cast<uintptr_t>(microseconds)));
  };
  const auto microseconds = static_cast<uintptr_t>(hocket::emulator::SpinMicroseconds(launch));
  return Finish(cuLaunchHostFunc(stream, wait, reinterpret_cast<void*>(microseconds)));
}

cudaError_t Launch(const KernelLaunch& launch, cudaStream_t stream) {
  HOCKET_ENTER();
  const char* name = hocket::emulator::KernelName(launch.host_function);
  if (!hocket_emulator_is_timing()) {
    return hocket::emulator::IsSpin(name) ? Spin(launch, stream)
                                          : hocket::emulator::RefuseKernel(launch.host_function);
  }
  hocket_emulator_launch(stream, name, hocket::emulator::KernelMicroseconds(name, launch));
  return cudaSuccess;
}

}  // namespace

HOCKET_RUNTIME_EXPORT unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared_bytes,
                                                           cudaStream_t stream) {
  pushed = {grid, block, shared_bytes, stream};
  return 0;
}

HOCKET_RUNTIME_EXPORT cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared_bytes,
                                                             void* stream) {
  *grid = pushed.grid;
  *block = pushed.block;
  *shared_bytes = pushed.shared_bytes;
  *static_cast<cudaStream_t*>(stream) = pushed.stream;
  return cudaSuccess;
}

// A kernel's handle is its host function.
HOCKET_RUNTIME_EXPORT cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* host_function) {
  *kernel = static_cast<cudaKernel_t>(const_cast<void*>(host_function));
  return cudaSuccess;
}

HOCKET_RUNTIME_EXPORT cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block,
                                                     void** arguments, size_t, cudaStream_t stream) {
  return Launch({kernel, grid, block, arguments}, stream);
}

HOCKET_RUNTIME_EXPORT cudaError_t cudaLaunchKernel(const void* host_function, dim3 grid, dim3 block,
                                                   void** arguments, size_t, cudaStream_t stream) {
  return Launch({host_function, grid, block, arguments}, stream);
}

HOCKET_RUNTIME_EXPORT cudaError_t cudaLaunchCooperativeKernel(const void* host_function, dim3 grid,
                                                              dim3 block, void** arguments, size_t,
                                                              cudaStream_t stream) {
  return Launch({host_function, grid, block, arguments}, stream);
}

HOCKET_RUNTIME_EXPORT cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config,
                                                      const void* host_function, void** arguments) {
  return Launch({host_function, config->gridDim, config->blockDim, arguments}, config->stream);
}

// Torch's attention kernels insist on code for the device's own architecture.
HOCKET_RUNTIME_EXPORT cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void*) {
  *attributes = {};
  attributes->maxThreadsPerBlock = 1024;
  attributes->numRegs = 32;
  attributes->binaryVersion = attributes->ptxVersion = 90;
  attributes->maxDynamicSharedSizeBytes = 227 << 10;
  return cudaSuccess;
}

HOCKET_RUNTIME_EXPORT cudaError_t cudaFuncSetAttribute(const void*, cudaFuncAttribute, int) {
  return cudaSuccess;
}

HOCKET_RUNTIME_EXPORT cudaError_t cudaKernelSetAttributeForDevice(cudaKernel_t, cudaFuncAttribute, int, int) {
  return cudaSuccess;
}

HOCKET_RUNTIME_EXPORT cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks,
                                                                                         const void*,
                                                                                         int threads, size_t,
                                                                                         unsigned) {
  *blocks = threads > 0 ? std::max(1, 2048 / threads) : 1;
  return cudaSuccess;
}

HOCKET_RUNTIME_EXPORT cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks,
                                                                                const void* host_function,
                                                                                int threads,
                                                                                size_t shared_bytes) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, host_function, threads, shared_bytes,
                                                                0);
}
