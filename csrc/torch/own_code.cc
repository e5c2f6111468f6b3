#include "csrc/torch/own_code.h"

#include <ATen/record_function.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <utility>

#include "csrc/torch/interruption.h"
#include "csrc/torch/process.h"
#include "csrc/torch/spilled_use.h"

namespace hocket {
namespace {

std::atomic<const Devices*> all_devices{nullptr};

std::unique_ptr<at::ObserverContext> OperatorBegins(const at::RecordFunction& function);
void OperatorEnds(const at::RecordFunction& function, at::ObserverContext* context);

// Of this thread: why its operators are watched, and that they are.
struct Watch {
  int handlers = 0;  // that run, one in another's wait
  bool raised = false;
  bool away = false;
  bool gave_up = false;  // in an operator, of which others may be part
  std::optional<at::CallbackHandle> callback;

  void Update() {
    const bool needed = handlers > 0 || raised || away;
    if (needed == callback.has_value() || all_devices.load() == nullptr) return;
    if (!needed) return at::removeCallback(*std::exchange(callback, std::nullopt));
    callback = at::addThreadLocalCallback(at::RecordFunctionCallback(&OperatorBegins, &OperatorEnds)
                                              .needsInputs(true)
                                              .scopes({at::RecordScope::FUNCTION}));
  }
};
thread_local Watch watch;

// An operator cannot be kept from running: where its wait is ended, it goes on without, and what ended it is
// raised behind it.
struct GaveUp final : at::ObserverContext {};

bool Waited(const absl::Status& status) {
  if (status.ok()) return true;
  watch.gave_up = true;
  RaiseSoon(status);
  return false;
}

bool UsesDevice(const at::RecordFunction& function) {
  const auto is_there = [](const c10::IValue& value) {
    const auto on_device = [](const at::Tensor& tensor) { return tensor.defined() && tensor.is_cuda(); };
    if (value.isTensor()) return on_device(value.toTensor());
    if (!value.isTensorList()) return false;
    const auto tensors = value.toTensorVector();
    return std::any_of(tensors.begin(), tensors.end(), on_device);
  };
  return std::any_of(function.inputs().begin(), function.inputs().end(), is_there);
}

bool HasEveryTurn(const Devices& devices) {
  const auto& all = devices.table().participants;
  return std::all_of(all.begin(), all.end(), [](const Client* client) { return client->HoldsTurn(); });
}

std::unique_ptr<at::ObserverContext> OperatorBegins(const at::RecordFunction& function) {
  if (watch.gave_up) return nullptr;
  const Devices& devices = *all_devices.load();
  if (watch.away && UsesDevice(function)) (void)Waited(Process::Get().EndAway());
  while (!watch.gave_up) {
    const std::optional<SpilledUse> use = FindSpilledUse(devices, function);
    if (!use || !Waited(use->device->client->AwaitTurn())) break;
  }
  if (watch.gave_up) return std::make_unique<GaveUp>();
  if (watch.raised && HasEveryTurn(devices)) watch.raised = false;
  watch.Update();
  return nullptr;
}

void OperatorEnds(const at::RecordFunction& function, at::ObserverContext* context) {
  if (context != nullptr) watch.gave_up = false;
}

}  // namespace

void BringBackForOwnCode(const Devices& devices) { all_devices = &devices; }

bool RunOwnCode(absl::FunctionRef<bool()> handlers) {
  ++watch.handlers;
  watch.Update();
  const bool raised = handlers();
  if (watch.handlers > 0) --watch.handlers;  // none in a child that a handler has forked
  watch.raised |= raised;
  watch.Update();
  return raised;
}

void ForgetOwnCode() {
  watch.handlers = 0;
  watch.raised = watch.away = watch.gave_up = false;
  watch.Update();
}

void SetAway(bool away) {
  watch.away = away;
  watch.Update();
}

}  // namespace hocket
