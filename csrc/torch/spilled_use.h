// Which operators of PyTorch's use memory that lies on the host because its job is out of turn.
#ifndef HOCKET_CSRC_TORCH_SPILLED_USE_H_
#define HOCKET_CSRC_TORCH_SPILLED_USE_H_

#include <ATen/core/Tensor.h>
#include <ATen/record_function.h>

#include <optional>

#include "allocator/cuda_abi.h"
#include "csrc/torch/devices.h"

namespace hocket {

struct SpilledUse {
  const Devices::Device* device = nullptr;
  at::Tensor tensor;
  DevicePtr storage = 0;
  DevicePtr address = 0;  // of the tensor's first element
  Bytes size = 0;         // from there to behind its last one

  // Now. Thread-safe.
  bool OutOfTurn() const;
};

// The first of the operator's tensors whose memory is spilled while its job has not the turn. A view uses
// none. REQUIRES: the operator's inputs are recorded.
std::optional<SpilledUse> FindSpilledUse(const Devices& devices, const at::RecordFunction& function);

}  // namespace hocket

#endif  // HOCKET_CSRC_TORCH_SPILLED_USE_H_
