#include "csrc/emulator/operators/recording.h"

#include <c10/util/Exception.h>

#include <cstdio>
#include <cstring>
#include <exception>
#include <memory>
#include <string>

#include "csrc/emulator/operators/kernel.h"
#include "csrc/emulator/operators/span.h"

namespace hocket::emulator {
namespace {

struct Again {
  std::string name;
  std::function<void()> compute;
};

int Compute(void* data) {
  const auto* again = static_cast<Again*>(data);
  try {
    again->compute();
    return 0;
  } catch (const c10::Error& error) {
    std::fprintf(stderr, "hocket: %s in a CUDA graph: %s\n", again->name.c_str(),
                 error.what_without_backtrace());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "hocket: %s in a CUDA graph: %s\n", again->name.c_str(), error.what());
  }
  return 1;
}

void Drop(void* data) { delete static_cast<Again*>(data); }

}  // namespace

void ForEachTensor(c10::IValue& value, const std::function<at::Tensor(const at::Tensor&)>& change) {
  if (value.isTensor()) {
    if (value.toTensor().defined()) value = change(value.toTensor());
  } else if (value.isTensorList()) {
    c10::List<at::Tensor> list;
    for (const at::Tensor& tensor : value.toTensorVector()) list.push_back(change(tensor));
    value = list;
  } else if (value.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> list;
    for (const std::optional<at::Tensor>& tensor : value.toOptionalTensorVector()) {
      list.push_back(tensor && tensor->defined() ? std::optional(change(*tensor)) : tensor);
    }
    value = list;
  }
}

void RecordedResults::Add(const at::Tensor& result, const at::Tensor& on_device) {
  if (!result.defined()) return;
  const bool dense = result.layout() == c10::kStrided && !result.is_nested();
  dense_ &= dense;
  if (!dense || result.numel() == 0 ||
      result.storage().data() == OnHost(const_cast<void*>(on_device.storage().data()))) {
    places_.push_back({nullptr, 0, {}, {}});
    return;
  }
  places_.push_back({const_cast<void*>(on_device.const_data_ptr()), SpanBytes(on_device),
                     on_device.sizes().vec(), on_device.strides().vec()});
}

void RecordedResults::Write(torch::jit::Stack& stack) const {
  TORCH_CHECK(dense_, "sparse and nested tensors cannot be written by a graph here");
  auto place = places_.begin();
  for (c10::IValue& value : stack) {
    ForEachTensor(value, [&](const at::Tensor& result) {
      TORCH_CHECK(place != places_.end(), "it has more results now than when it was captured");
      if (place->address != nullptr) {
        TORCH_CHECK(result.sizes() == place->sizes && result.strides() == place->strides,
                    "a result has sizes ", result.sizes(), " now and had ", at::IntArrayRef(place->sizes),
                    " when it was captured");
        std::memcpy(OnHost(place->address), result.const_data_ptr(), place->bytes);
      }
      ++place;
      return result;
    });
  }
}

std::vector<HocketEmulatorRange> RecordedResults::Touched(const Aliases& aliases) const {
  std::vector<HocketEmulatorRange> touched(aliases.ranges(), aliases.ranges() + aliases.range_count());
  for (const Place& place : places_) {
    if (place.address != nullptr)
      touched.push_back({reinterpret_cast<uint64_t>(place.address), place.bytes, 1});
  }
  return touched;
}

bool IsCapturing(c10::Device device) {
  return hocket_emulator_any_capture() != 0 && hocket_emulator_is_capturing(CurrentStream(device)) != 0;
}

Recording::Recording(c10::Device device) : device_(device), active_(IsCapturing(device)) {
  if (active_) hocket_emulator_begin_recording();
}

Recording::~Recording() {
  if (active_) hocket_emulator_end_recording(nullptr, "", nullptr, 0, nullptr, nullptr, nullptr);
}

void Recording::Keep(const char* name, const std::vector<HocketEmulatorRange>& touched,
                     std::function<void()> compute) {
  auto again = std::make_unique<Again>(Again{name, std::move(compute)});
  active_ = false;
  hocket_emulator_end_recording(CurrentStream(device_), name, touched.data(), touched.size(), Compute,
                                again.release(), Drop);
}

}  // namespace hocket::emulator
