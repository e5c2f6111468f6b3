// Which operators are computed by the CPU, which stay CUDA's own, and which are refused.
#ifndef HOCKET_CSRC_EMULATOR_OPERATORS_SELECTION_H_
#define HOCKET_CSRC_EMULATOR_OPERATORS_SELECTION_H_

#include <ATen/core/dispatch/Dispatcher.h>

namespace hocket::emulator {

enum class Treatment {
  kOwn,      // CUDA's kernel stays: it makes, shapes or views tensors and touches no bytes itself
  kCompute,  // ComputeOnCpu()
  kRefuse,   // Refuse()
};

// How `op` is treated for CUDA tensors of the functionality that `cuda` names (CUDA, SparseCUDA,
// SparseCsrCUDA, NestedTensorCUDA), whose CPU counterpart is `cpu`.
Treatment TreatmentOf(const c10::OperatorHandle& op, c10::DispatchKey cuda, c10::DispatchKey cpu);

}  // namespace hocket::emulator

#endif  // HOCKET_CSRC_EMULATOR_OPERATORS_SELECTION_H_
