#include "csrc/emulator/operators/selection.h"

#include <c10/util/Exception.h>

#include <string>
#include <unordered_set>

namespace hocket::emulator {
namespace {

using Names = std::unordered_set<std::string>;

// CUDA's own kernels that work on the emulated device as they are. The last group is answered by kernels of
// ours (install.cc).
const Names& OwnKernels() {
  static const Names names = {
      "aten::empty.memory_format", "aten::empty_strided", "aten::empty_like", "aten::_efficientzerotensor",
      "aten::resize_", "aten::set_.source_Storage", "aten::set_.source_Storage_storage_offset", "aten::set_",
      "aten::set_.source_Tensor", "aten::is_set_to", "aten::record_stream", "aten::is_pinned",
      "aten::_pin_memory", "aten::_local_scalar_dense", "aten::_empty_affine_quantized",
      "aten::_empty_per_channel_affine_quantized",
      // sparse tensors: their parts, made and looked at
      "aten::_nnz", "aten::_indices", "aten::_values", "aten::indices", "aten::values", "aten::crow_indices",
      "aten::col_indices", "aten::ccol_indices", "aten::row_indices", "aten::sparse_dim", "aten::dense_dim",
      "aten::_dimI", "aten::_dimV", "aten::is_coalesced", "aten::_coalesced_",
      "aten::_sparse_coo_tensor_with_dims", "aten::_sparse_coo_tensor_with_dims_and_tensors",
      "aten::copy_sparse_to_sparse_", "aten::clone", "aten::sparse_resize_", "aten::sparse_resize_and_clear_",
      "aten::resize_as_sparse_",
      // nested tensors: likewise
      "aten::_nested_tensor_size", "aten::_nested_tensor_strides", "aten::_nested_tensor_storage_offsets",
      "aten::is_same_size", "aten::_to_copy",
      // ours
      "aten::copy_", "aten::native_dropout", "aten::_fused_sdp_choice", "aten::cudnn_is_acceptable",
      "aten::_assert_async", "aten::_assert_async.msg", "aten::_use_cudnn_ctc_loss",
      "aten::_use_cudnn_ctc_loss.Tensor", "aten::_use_miopen_ctc_loss", "aten::_use_miopen_ctc_loss.Tensor"};
  return names;
}

// Operators that choose among the GPU's kernels by themselves, or that only the CPU has and that our own
// kernels call: computed whole, so that the choice is the CPU's.
const Names& TakenWhole() {
  static const Names names = {"aten::convolution",
                              "aten::convolution_backward",
                              "aten::ldexp.Tensor",
                              "aten::ldexp_",
                              "aten::ldexp.out",
                              "aten::_scaled_dot_product_flash_attention_for_cpu",
                              "aten::_scaled_dot_product_flash_attention_for_cpu_backward"};
  return names;
}

std::string NameOf(const c10::OperatorHandle& op) { return toString(op.operator_name()); }

bool ReturnsView(const c10::FunctionSchema& schema) {
  for (const c10::Argument& result : schema.returns()) {
    if (result.alias_info() != nullptr && !result.alias_info()->isWrite()) return true;
  }
  return false;
}

// What on a GPU takes tensors of the host, or of several devices, among its arguments; by the beginning of
// the name: indices, lengths, sizes of nested tensors, probabilities, lists that are worked off one by one.
constexpr const char* kTakeHostTensors[] = {"aten::index.",
                                            "aten::index_put",
                                            "aten::_index_put",
                                            "aten::_unsafe_index",
                                            "aten::_unsafe_masked_index",
                                            "aten::_foreach",
                                            "aten::_ctc_loss",
                                            "aten::ctc_loss",
                                            "aten::_nested",
                                            "aten::nested",
                                            "aten::bernoulli",
                                            "aten::lstm.data",
                                            "aten::gru.data",
                                            "aten::rnn_tanh.data",
                                            "aten::rnn_relu.data"};

bool TakesHostTensors(const std::string& name) {
  for (const char* beginning : kTakeHostTensors) {
    if (name.rfind(beginning, 0) == 0) return true;
  }
  return false;
}

}  // namespace

void SameDevice::See(const at::Tensor& tensor) {
  if (!tensor.defined()) return;
  if (tensor.is_cpu()) host_ |= tensor.dim() > 0;
  if (!tensor.is_cuda()) return;
  if (!first_) first_ = tensor.device();
  if (tensor.device() != *first_) other_ = tensor.device();
}

void SameDevice::Check(const c10::OperatorHandle& op) const {
  if (!first_ || (!other_ && (!host_ || TakesHostTensors(NameOf(op))))) return;
  TORCH_CHECK(false, "Expected all tensors to be on the same device, but found at least two devices, ",
              *first_, " and ", other_.value_or(c10::Device(c10::kCPU)), "! (when checking the arguments of ",
              NameOf(op), ")");
}

Treatment TreatmentOf(const c10::OperatorHandle& op, c10::DispatchKey cuda, c10::DispatchKey cpu) {
  const std::string name = NameOf(op);
  if (name.rfind("aten::", 0) != 0 || OwnKernels().count(name) != 0) return Treatment::kOwn;
  if (cuda == c10::DispatchKey::CUDA && TakenWhole().count(name) != 0) return Treatment::kCompute;
  if (!op.hasKernelForDispatchKey(cuda) || ReturnsView(op.schema())) return Treatment::kOwn;
  return op.hasComputedKernelForDispatchKey(cpu) ? Treatment::kCompute : Treatment::kRefuse;
}

}  // namespace hocket::emulator
