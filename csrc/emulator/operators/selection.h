// Which operators are computed by the CPU, which stay CUDA's own, and which are refused.
#ifndef HOCKET_CSRC_EMULATOR_OPERATORS_SELECTION_H_
#define HOCKET_CSRC_EMULATOR_OPERATORS_SELECTION_H_

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <optional>

namespace hocket::emulator {

enum class Treatment {
  kOwn,      // CUDA's kernel stays: it makes, shapes or views tensors and touches no bytes itself
  kCompute,  // ComputeOnCpu()
  kRefuse,   // Refuse()
};

// How `op` is treated for CUDA tensors of the functionality that `cuda` names (CUDA, SparseCUDA,
// SparseCsrCUDA, NestedTensorCUDA), whose CPU counterpart is `cpu`.
Treatment TreatmentOf(const c10::OperatorHandle& op, c10::DispatchKey cuda, c10::DispatchKey cpu);

// Ends the call as torch does on a GPU where the arguments lie on several devices: a CUDA tensor beside one
// of another CUDA device, or beside one of the host that has dimensions. Operators that take such arguments
// on a GPU (indices, lengths) are let pass.
class SameDevice {
 public:
  void See(const at::Tensor& tensor);
  // Throws.
  void Check(const c10::OperatorHandle& op) const;

 private:
  std::optional<c10::Device> first_, other_;  // CUDA devices
  bool host_ = false;
};

}  // namespace hocket::emulator

#endif  // HOCKET_CSRC_EMULATOR_OPERATORS_SELECTION_H_
