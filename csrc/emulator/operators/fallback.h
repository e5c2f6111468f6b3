// An ATen operator on CUDA tensors, computed by the same operator on CPU tensors over the same bytes.
#ifndef HOCKET_CSRC_EMULATOR_OPERATORS_FALLBACK_H_
#define HOCKET_CSRC_EMULATOR_OPERATORS_FALLBACK_H_

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

namespace hocket::emulator {

// A boxed kernel. Every CUDA tensor among the arguments becomes its alias, a CUDA generator its CPU twin and
// a CUDA device the CPU; the operator runs; written arguments and results go back to the device.
void ComputeOnCpu(const c10::OperatorHandle& op, torch::jit::Stack* stack);

// The same for operators that draw from the default generator without being given one.
void ComputeDrawing(const c10::OperatorHandle& op, torch::jit::Stack* stack);

// A boxed kernel for operators that only the GPU has: an error that names the operator.
void Refuse(const c10::OperatorHandle& op, torch::jit::Stack* stack);

}  // namespace hocket::emulator

#endif  // HOCKET_CSRC_EMULATOR_OPERATORS_FALLBACK_H_
