// Attention. On a GPU torch chooses among four kernels that the CPU does not have; here the CPU's own choice
// is made, so the values are the CPU's whatever backends the program has enabled.
#ifndef HOCKET_CSRC_EMULATOR_OPERATORS_ATTENTION_H_
#define HOCKET_CSRC_EMULATOR_OPERATORS_ATTENTION_H_

#include <torch/library.h>

namespace hocket::emulator {

// Takes aten::scaled_dot_product_attention whole: above autograd and, for tensors of inference mode, below.
void InstallAttention(torch::Library& autograd_cuda, torch::Library& cuda);

}  // namespace hocket::emulator

#endif  // HOCKET_CSRC_EMULATOR_OPERATORS_ATTENTION_H_
