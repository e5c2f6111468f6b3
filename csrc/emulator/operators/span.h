// Addresses and extents of tensors' bytes.
#ifndef HOCKET_CSRC_EMULATOR_OPERATORS_SPAN_H_
#define HOCKET_CSRC_EMULATOR_OPERATORS_SPAN_H_

#include <ATen/core/Tensor.h>

#include "csrc/emulator/emulator_api.h"

namespace hocket::emulator {

// Where this process may touch the bytes that the device knows under `device_address`.
inline void* OnHost(void* device_address) {
  if (device_address == nullptr) return nullptr;
  static const ptrdiff_t offset = hocket_emulator_alias_offset();
  return static_cast<char*>(device_address) + offset;
}

// Bytes from the first to behind the last element of a dense tensor (holes included).
inline size_t SpanBytes(const at::Tensor& tensor) {
  if (tensor.numel() == 0) return 0;
  int64_t last = 0;
  for (int64_t d = 0; d < tensor.dim(); ++d) last += (tensor.size(d) - 1) * tensor.stride(d);
  return static_cast<size_t>(last + 1) * tensor.itemsize();
}

}  // namespace hocket::emulator

#endif  // HOCKET_CSRC_EMULATOR_OPERATORS_SPAN_H_
