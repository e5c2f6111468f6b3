#include "csrc/emulator/operators/attention.h"

#include <ATen/Context.h>
#include <ATen/native/transformers/sdp_utils_cpp.h>
#include <ATen/ops/_fused_sdp_choice.h>
#include <ATen/ops/_scaled_dot_product_attention_math.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/scaled_dot_product_attention_native.h>
#include <ATen/ops/where.h>

#include "csrc/emulator/operators/alias.h"

namespace hocket::emulator {
namespace {

using OptionalTensor = std::optional<at::Tensor>;

// A tensor that stands for another (tracing, compiling) has no bytes to look at.
bool IsReal(const at::Tensor& tensor) {
  return tensor.is_cuda() && tensor.layout() == at::kStrided &&
         !tensor.key_set().has(c10::DispatchKey::Python);
}

at::Tensor AliasWithGradient(Aliases& aliases, const at::Tensor& tensor) {
  const at::Tensor alias = aliases.Of(tensor, false);
  return tensor.requires_grad() ? alias.detach().requires_grad_() : alias;
}

// Would the CPU use its flash kernel? With neither flash nor math enabled (a program that asks for a kernel
// that only GPUs have) its answer is an error; math serves then.
bool CpuWouldUseFlash(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                      const OptionalTensor& mask, double dropout, bool causal, std::optional<double> scale,
                      bool gqa) {
  const at::Context& context = at::globalContext();
  if (!context.userEnabledFlashSDP()) return false;
  Aliases aliases;
  const OptionalTensor mask_alias = mask ? OptionalTensor(AliasWithGradient(aliases, *mask)) : mask;
  const bool math = context.userEnabledMathSDP();
  if (!math) at::globalContext().setSDPUseMath(true);
  const int64_t choice =
      at::_fused_sdp_choice(AliasWithGradient(aliases, query), AliasWithGradient(aliases, key),
                            AliasWithGradient(aliases, value), mask_alias, dropout, causal, scale, gqa);
  if (!math) at::globalContext().setSDPUseMath(false);
  return choice == static_cast<int64_t>(sdp::SDPBackend::flash_attention);
}

// As torch does: true means "may look", which as a number to add is 0.
OptionalTensor AdditiveMask(const OptionalTensor& mask, at::ScalarType type) {
  if (!mask || !mask->defined() || mask->scalar_type() != at::kBool) return mask;
  const at::Tensor zero = at::scalar_tensor(0.0, mask->options().dtype(type));
  return at::where(mask->logical_not(),
                   at::scalar_tensor(-std::numeric_limits<double>::infinity(), zero.options()), zero);
}

// The CPU's flash kernel wants four dimensions; where the CPU chooses it for three, it adds one.
at::Tensor Flash(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                 const OptionalTensor& mask, double dropout, bool causal, std::optional<double> scale) {
  if (query.dim() == 3) {
    const OptionalTensor deeper = mask && mask->dim() == 3 ? OptionalTensor(mask->unsqueeze(0)) : mask;
    return Flash(query.unsqueeze(0), key.unsqueeze(0), value.unsqueeze(0), deeper, dropout, causal, scale)
        .squeeze(0);
  }
  return std::get<0>(
      at::_scaled_dot_product_flash_attention_for_cpu(query, key, value, dropout, causal, mask, scale));
}

at::Tensor Attend(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                  const OptionalTensor& mask, double dropout, bool causal, std::optional<double> scale,
                  bool gqa) {
  if (!IsReal(query) || !IsReal(key) || !IsReal(value)) {
    return at::native::scaled_dot_product_attention(query, key, value, mask, dropout, causal, scale, gqa);
  }
  TORCH_CHECK(!(mask && causal),
              "_scaled_dot_product_attention: Explicit attn_mask should not be set when is_causal=True");
  const OptionalTensor additive = AdditiveMask(mask, query.scalar_type());
  const bool nested = query.is_nested() || key.is_nested() || value.is_nested();
  if (!nested && CpuWouldUseFlash(query, key, value, mask, dropout, causal, scale, gqa)) {
    return Flash(query, key, value, additive, dropout, causal, scale);
  }
  return std::get<0>(at::_scaled_dot_product_attention_math(query, key, value, additive, dropout, causal,
                                                            std::nullopt, scale, gqa));
}

}  // namespace

void InstallAttention(torch::Library& autograd_cuda, torch::Library& cuda) {
  cuda.impl("scaled_dot_product_attention", TORCH_FN(Attend));
  autograd_cuda.impl("scaled_dot_product_attention", TORCH_FN(Attend));
}

}  // namespace hocket::emulator
