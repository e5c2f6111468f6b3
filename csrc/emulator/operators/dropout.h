// aten::native_dropout: the one drawing operator that takes no generator.
#ifndef HOCKET_CSRC_EMULATOR_OPERATORS_DROPOUT_H_
#define HOCKET_CSRC_EMULATOR_OPERATORS_DROPOUT_H_

#include <ATen/core/Tensor.h>

#include <optional>
#include <tuple>

namespace hocket::emulator {

// The result and the mask, drawn from the device's default generator.
std::tuple<at::Tensor, at::Tensor> Dropout(const at::Tensor& input, double probability,
                                           std::optional<bool> train);

}  // namespace hocket::emulator

#endif  // HOCKET_CSRC_EMULATOR_OPERATORS_DROPOUT_H_
