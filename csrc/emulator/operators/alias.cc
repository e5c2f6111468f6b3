#include "csrc/emulator/operators/alias.h"

#include <ATen/NestedTensorImpl.h>
#include <ATen/SparseCsrTensorUtils.h>
#include <ATen/native/SparseTensorUtils.h>
#include <ATen/ops/_sparse_compressed_tensor_unsafe.h>
#include <ATen/ops/_sparse_coo_tensor_unsafe.h>

#include <cstring>

#include "csrc/emulator/operators/fresh.h"
#include "csrc/emulator/operators/span.h"

namespace hocket::emulator {
namespace {

at::Tensor WithStorage(c10::Storage storage, c10::DispatchKey key, const at::Tensor& like) {
  at::Tensor tensor =
      at::detail::make_tensor<c10::TensorImpl>(std::move(storage), c10::DispatchKeySet(key), like.dtype());
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(like.sizes(), like.strides(), like.storage_offset());
  if (like.unsafeGetTensorImpl()->is_wrapped_number()) tensor.unsafeGetTensorImpl()->set_wrapped_number(true);
  tensor._set_conj(like.is_conj());
  tensor._set_neg(like.is_neg());
  return tensor;
}

c10::Storage AliasOf(const c10::Storage& original) {
  void* bytes = OnHost(const_cast<void*>(original.data()));
  // It has an allocator, so that an operator may resize it (out= arguments).
  return c10::Storage(c10::Storage::use_byte_size_t(), original.nbytes(),
                      c10::DataPtr(bytes, c10::Device(c10::kCPU)), c10::GetAllocator(c10::kCPU),
                      /*resizable=*/true);
}

bool SameShape(const at::Tensor& a, const at::Tensor& b) {
  return a.sizes() == b.sizes() && a.strides() == b.strides() && a.storage_offset() == b.storage_offset();
}

// The operator resized `alias`, perhaps beyond its storage: then the bytes are elsewhere on the host.
void CommitDense(const at::Tensor& original, const at::Tensor& alias) {
  const void* expected = OnHost(const_cast<void*>(original.storage().data()));
  const bool moved = alias.storage().data() != expected && alias.numel() > 0;
  if (!moved && SameShape(original, alias)) return;
  // A flat resize makes room for whatever the alias's strides and offset span.
  if (moved)
    original.resize_({alias.storage_offset() + static_cast<int64_t>(SpanBytes(alias) / alias.itemsize())});
  original.unsafeGetTensorImpl()->set_sizes_and_strides(alias.sizes(), alias.strides(),
                                                        alias.storage_offset());
  if (moved) std::memcpy(OnHost(original.mutable_data_ptr()), alias.const_data_ptr(), SpanBytes(alias));
}

void CommitCoo(const at::Tensor& original, const at::Tensor& alias, Aliases& aliases) {
  auto* to = at::sparse::get_sparse_impl(original);
  auto* from = at::sparse::get_sparse_impl(alias);
  const at::Tensor indices = aliases.Original(from->indices(), original.device());
  const at::Tensor values = aliases.Original(from->values(), original.device());
  to->raw_resize_(from->sparse_dim(), from->dense_dim(), alias.sizes());
  to->set_indices_and_values_unsafe(indices, values);
  to->set_coalesced(from->coalesced());
}

void CommitCompressed(const at::Tensor& original, const at::Tensor& alias, Aliases& aliases) {
  auto* from = at::sparse_csr::get_sparse_csr_impl(alias);
  at::sparse_csr::get_sparse_csr_impl(original)->set_member_tensors(
      aliases.Original(from->compressed_indices(), original.device()),
      aliases.Original(from->plain_indices(), original.device()),
      aliases.Original(from->values(), original.device()), alias.sizes());
}

}  // namespace

bool OnDevice(const at::Tensor& tensor) { return tensor.defined() && tensor.device().is_cuda(); }

at::Tensor Aliases::Of(const at::Tensor& tensor, bool written) {
  if (!OnDevice(tensor)) return tensor;
  if (!device_) device_ = tensor.device();
  for (TensorPair& pair : tensors_) {
    if (!pair.original.is_same(tensor)) continue;
    pair.written |= written;
    return pair.alias;
  }
  if (tensor.is_nested()) return Nested(tensor, written);
  if (tensor.layout() == c10::kStrided) return Dense(tensor, written);
  return tensor.layout() == c10::kSparse ? Coo(tensor, written) : Compressed(tensor, written);
}

at::Tensor Aliases::Dense(const at::Tensor& tensor, bool written) {
  at::Tensor alias = WithStorage(StorageOf(tensor.storage()), c10::DispatchKey::CPU, tensor);
  const auto address = reinterpret_cast<uint64_t>(tensor.storage().data());
  if (tensor.numel() > 0 && address != 0) {
    const uint64_t offset = tensor.storage_offset() * tensor.itemsize();
    ranges_.push_back({address + offset, SpanBytes(tensor), written ? 1 : 0});
  }
  tensors_.push_back({tensor, alias, written});
  return alias;
}

at::Tensor Aliases::Coo(const at::Tensor& tensor, bool written) {
  auto* parts = at::sparse::get_sparse_impl(tensor);
  const at::Tensor indices = Of(parts->indices(), written);
  const at::Tensor values = Of(parts->values(), written);
  at::Tensor alias = at::_sparse_coo_tensor_unsafe(indices, values, tensor.sizes(),
                                                   values.options().layout(c10::kSparse), parts->coalesced());
  tensors_.push_back({tensor, alias, written});
  return alias;
}

at::Tensor Aliases::Compressed(const at::Tensor& tensor, bool written) {
  auto* parts = at::sparse_csr::get_sparse_csr_impl(tensor);
  const at::Tensor values = Of(parts->values(), written);
  at::Tensor alias = at::_sparse_compressed_tensor_unsafe(
      Of(parts->compressed_indices(), written), Of(parts->plain_indices(), written), values, tensor.sizes(),
      values.options().layout(tensor.layout()));
  tensors_.push_back({tensor, alias, written});
  return alias;
}

// The parts lie in one dense buffer; their sizes and places are on the host anyway.
at::Tensor Aliases::Nested(const at::Tensor& tensor, bool written) {
  auto* parts = at::native::get_nested_tensor_impl(tensor);
  const at::Tensor buffer = Of(parts->get_unsafe_storage_as_tensor(), written);
  at::Tensor alias = at::detail::make_tensor<at::native::NestedTensorImpl>(
      buffer, parts->get_nested_sizes(), parts->get_nested_strides(), parts->get_storage_offsets());
  tensors_.push_back({tensor, alias, written});
  return alias;
}

const c10::Storage& Aliases::StorageOf(const c10::Storage& original) {
  for (const StoragePair& pair : storages_) {
    if (pair.original.unsafeGetStorageImpl() == original.unsafeGetStorageImpl()) return pair.alias;
  }
  storages_.push_back({original, AliasOf(original)});
  return storages_.back().alias;
}

const Aliases::StoragePair* Aliases::FindAlias(const c10::Storage& alias) const {
  for (const StoragePair& pair : storages_) {
    if (pair.alias.unsafeGetStorageImpl() == alias.unsafeGetStorageImpl()) return &pair;
  }
  return nullptr;
}

void Aliases::CommitWrites() {
  for (size_t i = 0; i < tensors_.size(); ++i) {
    const TensorPair pair = tensors_[i];
    if (!pair.written || pair.original.is_nested()) continue;
    if (pair.original.layout() == c10::kStrided)
      CommitDense(pair.original, pair.alias);
    else if (pair.original.layout() == c10::kSparse)
      CommitCoo(pair.original, pair.alias, *this);
    else
      CommitCompressed(pair.original, pair.alias, *this);
  }
}

at::Tensor Aliases::Original(const at::Tensor& result, c10::Device device) {
  if (!result.defined() || !result.device().is_cpu()) return result;
  for (const TensorPair& pair : tensors_) {
    if (pair.alias.is_same(result)) return pair.original;
  }
  if (result.is_nested() || !result.has_storage()) return FreshOnDevice(result, device);
  const StoragePair* shared = FindAlias(result.storage());
  const bool still_alias =
      shared != nullptr && result.storage().data() == OnHost(const_cast<void*>(shared->original.data()));
  if (!still_alias) return FreshOnDevice(result, device);
  return WithStorage(shared->original, c10::DispatchKey::CUDA, result);
}

}  // namespace hocket::emulator
