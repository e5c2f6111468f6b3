#include "csrc/torch/own_code.h"

#include <ATen/record_function.h>

#include <algorithm>
#include <atomic>
#include <bitset>
#include <memory>
#include <optional>
#include <utility>

#include "absl/synchronization/mutex.h"
#include "csrc/client/thread_registry.h"
#include "csrc/torch/interruption.h"
#include "csrc/torch/process.h"
#include "csrc/torch/spilled_use.h"

namespace hocket {
namespace {

using OrdinalSet = std::bitset<128>;  // c10::DeviceIndex is not negative, and a char

std::atomic<const Devices*> all_devices{nullptr};

std::unique_ptr<at::ObserverContext> OperatorBegins(const at::RecordFunction& function);
void OperatorEnds(const at::RecordFunction& function, at::ObserverContext* context);

// Of this thread: why its operators are watched, and that they are.
struct Watch {
  int handlers = 0;  // that run, one in another's wait
  bool raised = false;
  bool away = false;
  bool visits = false;
  bool gave_up = false;  // in an operator, of which others may be part
  OrdinalSet in_use;     // on which an operator is a visit just now
  std::optional<at::CallbackHandle> callback;

  void Update() {
    const bool needed = handlers > 0 || raised || away || visits;
    if (needed == callback.has_value() || all_devices.load() == nullptr) return;
    if (!needed) return at::removeCallback(*std::exchange(callback, std::nullopt));
    callback = at::addThreadLocalCallback(at::RecordFunctionCallback(&OperatorBegins, &OperatorEnds)
                                              .needsInputs(true)
                                              .scopes({at::RecordScope::FUNCTION}));
  }
};
thread_local Watch watch;

// What an operator's end has to see to.
struct Begun final : at::ObserverContext {
  bool gave_up = false;
  OrdinalSet visits;
};

// An operator cannot be kept from running: where its wait is ended, it goes on without, and what ended it is
// raised behind it.
bool Waited(const absl::Status& status) {
  if (status.ok()) return true;
  watch.gave_up = true;
  RaiseSoon(status);
  return false;
}

void AddDevice(const at::Tensor& tensor, OrdinalSet& to) {
  if (tensor.defined() && tensor.is_cuda()) to.set(static_cast<size_t>(tensor.device().index()) % to.size());
}

OrdinalSet DevicesUsed(const at::RecordFunction& function) {
  OrdinalSet used;
  for (const c10::IValue& value : function.inputs()) {
    if (value.isTensor()) AddDevice(value.toTensor(), used);
    if (!value.isTensorList() && !value.isOptionalTensorList()) continue;
    for (const c10::IValue& element : value.toListRef()) {
      if (element.isTensor()) AddDevice(element.toTensor(), used);
    }
  }
  return used;
}

bool HasEveryTurn(const Devices& devices) {
  const auto& all = devices.table().participants;
  return std::all_of(all.begin(), all.end(), [](const Client* client) { return client->HasTurn(); });
}

void Visit(const Devices& devices, OrdinalSet used) {
  for (const Devices::Device* device : devices.table().devices) {
    if (device->client && used[device->ordinal] && Waited(device->client->BeginUse()))
      watch.in_use.set(device->ordinal);
  }
}

void EndVisit(const Devices& devices, OrdinalSet visits) {
  watch.in_use &= ~visits;
  bool known = watch.in_use.none();  // otherwise it is part of another
  for (const Devices::Device* device : devices.table().devices) {
    if (device->client && (watch.in_use.none() || visits[device->ordinal])) known &= device->client->EndUse();
  }
  if (known) VisitorIsKnown();
}

void BringBack(const Devices& devices, const at::RecordFunction& function) {
  while (!watch.gave_up) {
    const std::optional<SpilledUse> use = FindSpilledUse(devices, function);
    if (!use || !Waited(use->device->client->AwaitTurn())) return;
  }
}

// The callback of all threads, while some are parked.
struct ParkedWatch {
  absl::Mutex mutex;
  std::optional<at::CallbackHandle> callback ABSL_GUARDED_BY(mutex);
};

ParkedWatch& TheParkedWatch() {
  static auto* const watch = new ParkedWatch;
  return *watch;
}

bool SomeAreParked(const Devices& devices) {
  const auto& all = devices.table().participants;
  return std::any_of(all.begin(), all.end(), [](const Client* client) { return client->HasParked(); });
}

void UnwatchParked(const Devices& devices) {
  ParkedWatch& all = TheParkedWatch();
  absl::MutexLock lock(&all.mutex);
  if (all.callback && !SomeAreParked(devices)) at::removeCallback(*std::exchange(all.callback, std::nullopt));
}

// What the end of an operator that has begun has to see to; null: nothing.
std::unique_ptr<at::ObserverContext> ForItsEnd(OrdinalSet before) {
  const OrdinalSet visits = watch.in_use & ~before;
  if (!watch.gave_up && visits.none()) return nullptr;
  auto begun = std::make_unique<Begun>();
  begun->gave_up = watch.gave_up;
  begun->visits = visits;
  return begun;
}

// Of all threads. What the operator uses is not recorded, which would cost the others more than all of this.
std::unique_ptr<at::ObserverContext> AnyOperatorBegins(const at::RecordFunction& function) {
  if (watch.gave_up || Process::Get().forked()) return nullptr;
  const Devices& devices = *all_devices.load();
  const OrdinalSet before = watch.in_use;
  for (Client* client : devices.table().participants) (void)Waited(client->EndParked());
  static thread_local const bool is_helper = IsHelper();
  if (is_helper) Visit(devices, ~before);
  if (!SomeAreParked(devices)) UnwatchParked(devices);
  return ForItsEnd(before);
}

// Of a watched thread, and of one of autograd's that works for it: that has its callbacks, not its `watch`.
std::unique_ptr<at::ObserverContext> OperatorBegins(const at::RecordFunction& function) {
  if (watch.gave_up || Process::Get().forked()) return nullptr;
  const OrdinalSet used = DevicesUsed(function);
  if (used.none()) return nullptr;
  const Devices& devices = *all_devices.load();
  const OrdinalSet before = watch.in_use;
  if (watch.away) (void)Waited(Process::Get().EndAway());
  if (watch.visits || !watch.callback) Visit(devices, used & ~before);
  BringBack(devices, function);
  if (watch.raised && HasEveryTurn(devices)) watch.raised = false;
  watch.Update();
  return ForItsEnd(before);
}

void OperatorEnds(const at::RecordFunction& function, at::ObserverContext* context) {
  if (context == nullptr) return;
  const auto& begun = static_cast<const Begun&>(*context);
  if (begun.gave_up) watch.gave_up = false;
  if (begun.visits.any()) EndVisit(*all_devices.load(), begun.visits);
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

void WatchParked() {
  const Devices* const devices = all_devices.load();
  if (devices == nullptr) return;
  ParkedWatch& all = TheParkedWatch();
  absl::MutexLock lock(&all.mutex);
  if (all.callback || !SomeAreParked(*devices)) return;
  all.callback = at::addGlobalCallback(
      at::RecordFunctionCallback(&AnyOperatorBegins, &OperatorEnds).scopes({at::RecordScope::FUNCTION}));
}

bool WaitsForSpilled() { return watch.callback.has_value(); }

void ForgetOwnCode() {
  watch.handlers = 0;
  watch.raised = watch.away = watch.visits = watch.gave_up = false;
  watch.in_use.reset();
  watch.Update();
}

void SetAway(bool away) {
  watch.away = away;
  watch.Update();
}

void WatchVisitor() {
  watch.visits = true;
  watch.Update();
}

void VisitorIsKnown() {
  watch.visits = false;
  watch.Update();
}

}  // namespace hocket
