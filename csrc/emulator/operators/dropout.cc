#include "csrc/emulator/operators/dropout.h"

#include <ATen/ops/empty_like.h>

namespace hocket::emulator {

std::tuple<at::Tensor, at::Tensor> Dropout(const at::Tensor& input, double probability,
                                           std::optional<bool> train) {
  at::Tensor mask = at::empty_like(input, input.options().dtype(at::kBool));
  if (!train.value_or(true)) return {input.clone(), mask.fill_(true)};
  const double kept = 1.0 - probability;
  mask.bernoulli_(kept);
  return {input.mul(mask).mul_(kept == 0 ? 0.0 : 1.0 / kept), mask};
}

}  // namespace hocket::emulator
