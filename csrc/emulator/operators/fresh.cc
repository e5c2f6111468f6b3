#include "csrc/emulator/operators/fresh.h"

#include <ATen/NestedTensorImpl.h>
#include <ATen/SparseCsrTensorUtils.h>
#include <ATen/native/SparseTensorUtils.h>
#include <ATen/ops/_sparse_compressed_tensor_unsafe.h>
#include <ATen/ops/_sparse_coo_tensor_unsafe.h>
#include <ATen/ops/empty_strided.h>

#include <cstring>

#include "csrc/emulator/operators/kernel.h"
#include "csrc/emulator/operators/span.h"

namespace hocket::emulator {
namespace {

at::Tensor Dense(const at::Tensor& host, c10::Device device) {
  at::Tensor fresh = at::empty_strided(host.sizes(), host.strides(), host.options().device(device));
  if (const size_t bytes = SpanBytes(host)) {
    const HocketEmulatorRange range = {reinterpret_cast<uint64_t>(fresh.mutable_data_ptr()), bytes, 1};
    const Kernel kernel(LastKernel(), device, &range, 1);  // the operator's own last act
    std::memcpy(OnHost(fresh.mutable_data_ptr()), host.const_data_ptr(), bytes);
  }
  fresh._set_conj(host.is_conj());
  fresh._set_neg(host.is_neg());
  if (host.unsafeGetTensorImpl()->is_wrapped_number()) fresh.unsafeGetTensorImpl()->set_wrapped_number(true);
  return fresh;
}

at::Tensor Coo(const at::Tensor& host, c10::Device device) {
  auto* parts = at::sparse::get_sparse_impl(host);
  const at::Tensor values = FreshOnDevice(parts->values(), device);
  return at::_sparse_coo_tensor_unsafe(FreshOnDevice(parts->indices(), device), values, host.sizes(),
                                       values.options().layout(c10::kSparse), parts->coalesced());
}

at::Tensor Compressed(const at::Tensor& host, c10::Device device) {
  auto* parts = at::sparse_csr::get_sparse_csr_impl(host);
  const at::Tensor values = FreshOnDevice(parts->values(), device);
  return at::_sparse_compressed_tensor_unsafe(FreshOnDevice(parts->compressed_indices(), device),
                                              FreshOnDevice(parts->plain_indices(), device), values,
                                              host.sizes(), values.options().layout(host.layout()));
}

at::Tensor Nested(const at::Tensor& host, c10::Device device) {
  auto* parts = at::native::get_nested_tensor_impl(host);
  return at::detail::make_tensor<at::native::NestedTensorImpl>(
      FreshOnDevice(parts->get_unsafe_storage_as_tensor(), device), parts->get_nested_sizes(),
      parts->get_nested_strides(), parts->get_storage_offsets());
}

}  // namespace

at::Tensor FreshOnDevice(const at::Tensor& host, c10::Device device) {
  if (host.is_nested()) return Nested(host, device);
  if (host.layout() == c10::kStrided) return Dense(host, device);
  return host.layout() == c10::kSparse ? Coo(host, device) : Compressed(host, device);
}

}  // namespace hocket::emulator
