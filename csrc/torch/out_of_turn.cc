#include "csrc/torch/out_of_turn.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/function_schema.h>
#include <ATen/record_function.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/synchronization/mutex.h"
#include "csrc/base/bytes.h"
#include "csrc/base/say.h"
#include "csrc/torch/own_code.h"
#include "csrc/torch/process.h"
#include "csrc/torch/spilled_use.h"

namespace hocket {
namespace {

// Of the blocks that live, where the native allocator's are not known to have been freed: of each address.
class Allocations {
 public:
  void Add(DevicePtr address, std::string stack) {
    absl::MutexLock lock(&mutex_);
    entries_[address] = {std::move(stack), false};
  }
  void Remove(DevicePtr address) {
    absl::MutexLock lock(&mutex_);
    entries_.erase(address);
  }
  // Its stack, and that it has been said. None: it was before.
  std::optional<std::string> Say(DevicePtr address) {
    absl::MutexLock lock(&mutex_);
    Entry& entry = entries_[address];
    if (std::exchange(entry.said, true)) return std::nullopt;
    return entry.stack;
  }

 private:
  struct Entry {
    std::string stack;
    bool said = false;
  };
  absl::Mutex mutex_;
  absl::flat_hash_map<DevicePtr, Entry> entries_ ABSL_GUARDED_BY(mutex_);
};

std::atomic<const Devices*> watched{nullptr};
std::atomic<std::string (*)()> stack_of_caller{nullptr};

Allocations& All() {
  static auto* const allocations = new Allocations;
  return *allocations;
}

std::string StackOfCaller() {
  std::string (*const stack)() = stack_of_caller;
  return stack != nullptr ? stack() : "";
}

std::string ThisThread() {
  std::array<char, 32> name{};
  (void)pthread_getname_np(pthread_self(), name.data(), name.size());
  return absl::StrCat("thread ", gettid(), " (", name.data(), ")");
}

std::string Describe(const SpilledUse& use) {
  const at::Tensor& tensor = use.tensor;
  return absl::StrCat("a tensor of ", FormatBytes(tensor.numel() * tensor.element_size()), " (",
                      c10::toString(tensor.scalar_type()), ", [", absl::StrJoin(tensor.sizes(), ", "),
                      "]) at 0x", absl::Hex(use.address), ", of memory of ",
                      FormatBytes(tensor.storage().nbytes()));
}

// It writes into what it is given, or returns a number: it may allocate nothing.
bool MayAllocateNothing(const c10::FunctionSchema& schema) {
  const auto& results = schema.returns();
  return std::all_of(results.begin(), results.end(), [](const c10::Argument& result) {
    return result.alias_info() != nullptr || result.type()->kind() != c10::TypeKind::TensorType;
  });
}

std::string Shown(const std::string& stack) { return stack.empty() ? "  (no Python call)" : stack; }

void SayUse(const SpilledUse& use, const std::string& tensor, const char* operation, bool maps) {
  const std::optional<std::string> allocated = All().Say(use.storage);
  if (!allocated) return;
  Say(absl::StrCat("HOCKET_VERIFY: memory on the host is used out of turn: ", operation, " in ", ThisThread(),
                   " uses ", tensor, ".\n  ",
                   maps ? "There it is slow, and while memory moves what it writes may be lost."
                        : "This driver has no memory at a spilled address: it is a fault.",
                   " Let the thread run inside hocket.step(), or allocate something on the device first.\n"
                   "  That memory was allocated at:\n",
                   Shown(*allocated), "\n  It is used at:\n", Shown(StackOfCaller())));
}

struct Suspicion final : at::ObserverContext {
  explicit Suspicion(SpilledUse what) : use(std::move(what)), tensor(Describe(use)) {
    use.tensor.reset();  // it may be freed meanwhile
  }
  SpilledUse use;
  const std::string tensor;
};
thread_local bool suspects = false;  // an operator that others are part of

std::unique_ptr<at::ObserverContext> Begins(const at::RecordFunction& function) {
  if (suspects || Process::Get().forked()) return nullptr;
  std::optional<SpilledUse> use = FindSpilledUse(*watched.load(), function);
  if (!use) return nullptr;
  if (!use->device->allocator->Held().maps_spilled) {
    if (WaitsForSpilled()) return nullptr;  // behind this
    const auto schema = function.operator_schema();
    if (!schema || MayAllocateNothing(*schema)) SayUse(*use, Describe(*use), function.name(), /*maps=*/false);
    return nullptr;
  }
  suspects = true;
  return std::make_unique<Suspicion>(*std::move(use));
}

void Ends(const at::RecordFunction& function, at::ObserverContext* context) {
  if (context == nullptr) return;
  suspects = false;
  const auto& [use, tensor] = static_cast<const Suspicion&>(*context);
  if (use.OutOfTurn()) SayUse(use, tensor, function.name(), /*maps=*/true);
}

}  // namespace

void WatchOperators(const Devices& devices) {
  if (!Devices::Verifies()) return;
  watched = &devices;
  at::addGlobalCallback(
      at::RecordFunctionCallback(&Begins, &Ends).needsInputs(true).scopes({at::RecordScope::FUNCTION}));
}

void SetStackOfCaller(std::string (*stack)()) { stack_of_caller = stack; }

void NoteAllocation(DevicePtr address) {
  if (watched.load(std::memory_order_relaxed) == nullptr || address == 0) return;
  All().Add(address, StackOfCaller());
}

void NoteFree(DevicePtr address) {
  if (watched.load(std::memory_order_relaxed) != nullptr) All().Remove(address);
}

}  // namespace hocket
