#include "csrc/emulator/operators/work.h"

#include <ATen/core/Tensor.h>

#include <optional>
#include <unordered_map>

namespace hocket::emulator {
namespace {

using timing::KernelWork;
using timing::OperatorClass;
using Values = std::vector<c10::IValue>;

double BytesOf(const at::Tensor& tensor) {
  return tensor.defined() ? static_cast<double>(tensor.numel()) * static_cast<double>(tensor.element_size())
                          : 0;
}

bool IsIndex(const at::Tensor& tensor) { return tensor.defined() && !tensor.is_floating_point(); }

// Calls `see` with each tensor of the values, lists of tensors included.
template <typename See>
void ForEachTensor(const Values& values, See see) {
  for (const c10::IValue& value : values) {
    if (value.isTensor()) {
      see(value.toTensor());
    } else if (value.isTensorList()) {
      for (const at::Tensor& tensor : value.toTensorVector()) see(tensor);
    } else if (value.isOptionalTensorList()) {
      for (const std::optional<at::Tensor>& tensor : value.toOptionalTensorVector()) {
        if (tensor) see(*tensor);
      }
    }
  }
}

double BytesOf(const Values& values) {
  double bytes = 0;
  ForEachTensor(values, [&](const at::Tensor& tensor) { bytes += BytesOf(tensor); });
  return bytes;
}

int ElementOf(const Values& values) {
  int element = 0;
  ForEachTensor(values, [&](const at::Tensor& tensor) {
    if (element == 0 && tensor.defined() && tensor.is_floating_point())
      element = static_cast<int>(tensor.element_size());
  });
  return element == 0 ? 4 : element;
}

KernelWork EachOnce(const c10::FunctionSchema&, const Values& arguments, const Values& results) {
  return {.bytes = BytesOf(arguments) + BytesOf(results)};
}

// What is taken out of a table is read there and written; the rest of the table is not touched.
KernelWork Taken(const c10::FunctionSchema&, const Values& arguments, const Values& results) {
  double bytes = 2 * BytesOf(results);
  ForEachTensor(arguments, [&](const at::Tensor& tensor) { bytes += IsIndex(tensor) ? BytesOf(tensor) : 0; });
  return {.bytes = bytes};
}

// What is put into a table (the first argument, in place) is read, and its place read and written.
KernelWork Put(const c10::FunctionSchema&, const Values& arguments, const Values&) {
  double bytes = 0;
  ForEachTensor(Values(arguments.begin() + 1, arguments.end()),
                [&](const at::Tensor& tensor) { bytes += (IsIndex(tensor) ? 1 : 3) * BytesOf(tensor); });
  return {.bytes = bytes};
}

// `small`: the side, forward, with an element for each sum over a window of the weight. The weight's first
// dimension is of the channels on that side.
double ConvolutionOperations(const at::Tensor& small, const at::Tensor& weight) {
  const double channels = weight.dim() > 0 ? static_cast<double>(weight.size(0)) : 0;
  if (channels == 0) return 0;
  return 2 * static_cast<double>(small.numel()) * static_cast<double>(weight.numel()) / channels;
}

// (input, weight, bias, stride, padding, dilation, transposed, ...)
KernelWork Convolution(const c10::FunctionSchema&, const Values& arguments, const Values& results) {
  const bool transposed = arguments[6].toBool();
  const at::Tensor& small = (transposed ? arguments : results)[0].toTensor();
  return {.bytes = BytesOf(arguments) + BytesOf(results),
          .operations = ConvolutionOperations(small, arguments[1].toTensor()),
          .element = ElementOf(arguments)};
}

// (grad_output, input, weight, bias_sizes, stride, padding, dilation, transposed, output_padding, groups,
// output_mask): as many operations for the gradient of the input, and for that of the weight, as forward.
KernelWork ConvolutionBackward(const c10::FunctionSchema&, const Values& arguments, const Values& results) {
  const at::Tensor& small = arguments[arguments[7].toBool() ? 1 : 0].toTensor();
  const auto wanted = arguments[10].toBoolList();
  const int gradients = (wanted[0] ? 1 : 0) + (wanted[1] ? 1 : 0);
  return {.bytes = BytesOf(arguments) + BytesOf(results),
          .operations = gradients * ConvolutionOperations(small, arguments[2].toTensor()),
          .element = ElementOf(arguments)};
}

bool IsCausal(const c10::FunctionSchema& schema, const Values& arguments) {
  const std::optional<int> at = schema.argumentIndexWithName("is_causal");
  return at && arguments[static_cast<size_t>(*at)].toBool();
}

// Two products for each pair of a query and a key; tensors are (batch, heads, length, width).
double AttentionOperations(const c10::FunctionSchema& schema, const Values& arguments, size_t query) {
  const at::Tensor& q = arguments[query].toTensor();
  const at::Tensor& k = arguments[query + 1].toTensor();
  const at::Tensor& v = arguments[query + 2].toTensor();
  const double pairs = static_cast<double>(q.size(0)) * static_cast<double>(q.size(1)) *
                       static_cast<double>(q.size(2)) * static_cast<double>(k.size(2));
  const double all = 2 * pairs * static_cast<double>(q.size(3) + v.size(3));
  return IsCausal(schema, arguments) ? all / 2 : all;
}

KernelWork Attention(const c10::FunctionSchema& schema, const Values& arguments, const Values& results) {
  return {.bytes = BytesOf(arguments) + BytesOf(results),
          .operations = AttentionOperations(schema, arguments, 0),
          .element = ElementOf(arguments)};
}

// Five products instead of two: one of the forward ones again, and two for each of both.
KernelWork AttentionBackward(const c10::FunctionSchema& schema, const Values& arguments,
                             const Values& results) {
  return {.bytes = BytesOf(arguments) + BytesOf(results),
          .operations = 2.5 * AttentionOperations(schema, arguments, 1),
          .element = ElementOf(arguments)};
}

constexpr OperatorClass kReduction = OperatorClass::kReduction;
constexpr OperatorClass kNormalisation = OperatorClass::kNormalisation;
constexpr OperatorClass kGather = OperatorClass::kGather;
constexpr OperatorClass kConvolution = OperatorClass::kConvolution;
constexpr OperatorClass kAttention = OperatorClass::kAttention;

constexpr KnownOperator kOperators[] = {
    {"all", kReduction, EachOnce},
    {"amax", kReduction, EachOnce},
    {"amin", kReduction, EachOnce},
    {"any", kReduction, EachOnce},
    {"argmax", kReduction, EachOnce},
    {"argmin", kReduction, EachOnce},
    {"linalg_vector_norm", kReduction, EachOnce},
    {"max", kReduction, EachOnce},
    {"mean", kReduction, EachOnce},
    {"min", kReduction, EachOnce},
    {"norm", kReduction, EachOnce},
    {"prod", kReduction, EachOnce},
    {"std", kReduction, EachOnce},
    {"std_mean", kReduction, EachOnce},
    {"sum", kReduction, EachOnce},
    {"var", kReduction, EachOnce},
    {"var_mean", kReduction, EachOnce},

    {"_batch_norm_with_update", kNormalisation, EachOnce},
    {"_fused_rms_norm", kNormalisation, EachOnce},
    {"_fused_rms_norm_backward", kNormalisation, EachOnce},
    {"_log_softmax", kNormalisation, EachOnce},
    {"_log_softmax_backward_data", kNormalisation, EachOnce},
    {"_native_batch_norm_legit", kNormalisation, EachOnce},
    {"_softmax", kNormalisation, EachOnce},
    {"_softmax_backward_data", kNormalisation, EachOnce},
    {"batch_norm_backward", kNormalisation, EachOnce},
    {"native_batch_norm", kNormalisation, EachOnce},
    {"native_batch_norm_backward", kNormalisation, EachOnce},
    {"native_group_norm", kNormalisation, EachOnce},
    {"native_group_norm_backward", kNormalisation, EachOnce},
    {"native_layer_norm", kNormalisation, EachOnce},
    {"native_layer_norm_backward", kNormalisation, EachOnce},

    {"_index_put_impl_", kGather, Put},
    {"embedding", kGather, Taken},
    {"embedding_dense_backward", kGather, EachOnce},
    {"gather", kGather, Taken},
    {"index", kGather, Taken},
    {"index_add_", kGather, Put},
    {"index_copy_", kGather, Put},
    {"index_put_", kGather, Put},
    {"index_select", kGather, Taken},
    {"scatter_", kGather, Put},
    {"scatter_add_", kGather, Put},

    {"convolution", kConvolution, Convolution},
    {"convolution_backward", kConvolution, ConvolutionBackward},

    {"_scaled_dot_product_efficient_attention", kAttention, Attention},
    {"_scaled_dot_product_efficient_attention_backward", kAttention, AttentionBackward},
    {"_scaled_dot_product_flash_attention", kAttention, Attention},
    {"_scaled_dot_product_flash_attention_backward", kAttention, AttentionBackward},
};

}  // namespace

const KnownOperator* FindOperator(std::string_view name) {
  static const auto& by_name = *new std::unordered_map<std::string_view, const KnownOperator*>([] {
    std::unordered_map<std::string_view, const KnownOperator*> all;
    for (const KnownOperator& known : kOperators) all[known.name] = &known;
    return all;
  }());
  const auto found = by_name.find(name);
  return found != by_name.end() ? found->second : nullptr;
}

}  // namespace hocket::emulator
