// Operators that torch composes differently on a GPU and on the CPU, taken whole: forward and backward run as
// the CPU composes them.
//
// A recurrent layer on CUDA is made of fused cells that the CPU does not have; on the CPU it is another
// composition, with other rounding. So such an operator is caught above autograd. Its forward runs on CPU
// aliases that record their own CPU graph; what torch's CUDA graph gets is one node whose backward runs that
// graph. What the forward keeps for the backward (activations of the layer) is therefore host memory, not the
// device's. The gradient of its gradient is not available, as with cuDNN's layers.
#ifndef HOCKET_CSRC_EMULATOR_OPERATORS_WHOLE_H_
#define HOCKET_CSRC_EMULATOR_OPERATORS_WHOLE_H_

#include <torch/library.h>

namespace hocket::emulator {

// Registers them at AutogradCUDA and, for tensors of inference mode, at CUDA.
void InstallWhole(torch::Library& autograd_cuda, torch::Library& cuda);

}  // namespace hocket::emulator

#endif  // HOCKET_CSRC_EMULATOR_OPERATORS_WHOLE_H_
