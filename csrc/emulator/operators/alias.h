// A CPU tensor over the bytes of a CUDA tensor.
//
// The emulated device's memory is host memory mapped a second time, hocket_emulator_alias_offset() above
// each device address. So a CPU kernel can read and write a CUDA tensor without a copy: it gets a tensor
// with the same sizes and strides whose storage is the alias of the original's storage.
//
// Aliases lives for one call of one operator. Within it, tensors that share a storage have aliases that
// share a storage (so that torch sees the same overlaps) and the same tensor has the same alias (so that
// an operator that returns its argument is seen to do so).
#ifndef HOCKET_CSRC_EMULATOR_OPERATORS_ALIAS_H_
#define HOCKET_CSRC_EMULATOR_OPERATORS_ALIAS_H_

#include <ATen/core/Tensor.h>
#include <c10/util/SmallVector.h>

#include <optional>

#include "csrc/emulator/emulator_api.h"

namespace hocket::emulator {

// True for tensors whose bytes are on the emulated device (dense, sparse or nested).
bool OnDevice(const at::Tensor& tensor);

class Aliases {
 public:
  // The alias of `tensor`; `tensor` itself if it is undefined or not on the device. `written`: the operator
  // may write it, resize it or replace its parts.
  at::Tensor Of(const at::Tensor& tensor, bool written);

  // Brings what the operator did to the aliases of written tensors back to the originals: new sizes and
  // strides, bytes that outgrew the storage, parts of a sparse tensor that were replaced.
  void CommitWrites();

  // The CUDA tensor that stands for `result`, which the operator returned: the original if `result` is an
  // alias, a view of an original's storage if it is a view of its alias, a fresh copy on `device` otherwise.
  at::Tensor Original(const at::Tensor& result, c10::Device device);

  // The device of the first CUDA tensor seen.
  std::optional<c10::Device> device() const { return device_; }

  // What the kernel touches, for the driver.
  const HocketEmulatorRange* ranges() const { return ranges_.data(); }
  size_t range_count() const { return ranges_.size(); }

 private:
  struct TensorPair {
    at::Tensor original, alias;
    bool written;
  };
  struct StoragePair {
    c10::Storage original, alias;
  };

  at::Tensor Dense(const at::Tensor& tensor, bool written);
  at::Tensor Coo(const at::Tensor& tensor, bool written);
  at::Tensor Compressed(const at::Tensor& tensor, bool written);
  at::Tensor Nested(const at::Tensor& tensor, bool written);
  const c10::Storage& StorageOf(const c10::Storage& original);
  const StoragePair* FindAlias(const c10::Storage& alias) const;

  c10::SmallVector<TensorPair, 8> tensors_;
  c10::SmallVector<StoragePair, 8> storages_;
  c10::SmallVector<HocketEmulatorRange, 8> ranges_;
  std::optional<c10::Device> device_;
};

}  // namespace hocket::emulator

#endif  // HOCKET_CSRC_EMULATOR_OPERATORS_ALIAS_H_
