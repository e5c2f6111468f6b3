#include "csrc/torch/spilled_use.h"

#include <ATen/EmptyTensor.h>
#include <ATen/core/function_schema.h>
#include <ATen/core/ivalue.h>

#include <algorithm>
#include <utility>

namespace hocket {
namespace {

std::optional<SpilledUse> Find(const Devices& devices, const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.is_cuda() || !tensor.has_storage() || tensor.numel() == 0) return {};
  SpilledUse use;
  use.storage = reinterpret_cast<DevicePtr>(tensor.storage().data());
  use.device = devices.OwnerOf(use.storage);
  if (use.device == nullptr) return {};
  const auto itemsize = static_cast<Bytes>(tensor.element_size());
  use.address = use.storage + static_cast<Bytes>(tensor.storage_offset()) * itemsize;
  use.size = at::detail::computeStorageNbytes(tensor.sizes(), tensor.strides(), itemsize);
  if (!use.OutOfTurn()) return {};
  use.tensor = tensor;
  return use;
}

std::optional<SpilledUse> Find(const Devices& devices, const c10::IValue& value) {
  if (value.isTensor()) return Find(devices, value.toTensor());
  if (!value.isList()) return {};
  for (const c10::IValue& element : value.toListRef()) {
    if (std::optional<SpilledUse> use = Find(devices, element)) return use;
  }
  return {};
}

bool IsView(const c10::FunctionSchema& schema) {
  return !schema.returns().empty() &&
         std::all_of(schema.returns().begin(), schema.returns().end(), [](const c10::Argument& result) {
           return result.alias_info() != nullptr && !result.alias_info()->isWrite();
         });
}

}  // namespace

bool SpilledUse::OutOfTurn() const {
  return device->client && !device->client->HasTurn() && device->allocator->IsSpilled(address, size);
}

std::optional<SpilledUse> FindSpilledUse(const Devices& devices, const at::RecordFunction& function) {
  for (const c10::IValue& input : function.inputs()) {
    std::optional<SpilledUse> use = Find(devices, input);
    if (!use) continue;
    const auto schema = function.operator_schema();
    if (schema && IsView(*schema)) return {};
    return use;
  }
  return {};
}

}  // namespace hocket
