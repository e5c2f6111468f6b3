// How long device work takes in timing mode: what a launch tells, handed to the model of
// csrc/emulator/timing/cost.h, which holds every number.
#ifndef HOCKET_CSRC_EMULATOR_RUNTIME_COSTS_H_
#define HOCKET_CSRC_EMULATOR_RUNTIME_COSTS_H_

#include <cuda_runtime_api.h>

namespace hocket::emulator {

// A launch as its host function makes it. `arguments` points to each argument's value.
struct KernelLaunch {
  const void* host_function;
  dim3 grid, block;
  void** arguments;
};

// Microseconds of device time of a kernel by its mangled name and shape.
double KernelMicroseconds(const char* name, const KernelLaunch& launch);

// What torch.cuda._sleep() asks for. REQUIRES: IsSpin() of its name.
double SpinMicroseconds(const KernelLaunch& launch);

// Microseconds of a matrix product of that many floating-point operations on elements of `bytes` bytes.
double ProductMicroseconds(double operations, int bytes);

}  // namespace hocket::emulator

#endif  // HOCKET_CSRC_EMULATOR_RUNTIME_COSTS_H_
