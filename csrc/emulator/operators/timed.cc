#include "csrc/emulator/operators/timed.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include <optional>
#include <string>
#include <vector>

#include "csrc/emulator/emulator_api.h"
#include "csrc/emulator/operators/kernel.h"
#include "csrc/emulator/operators/work.h"

namespace hocket::emulator {
namespace {

using c10::DispatchKey;
using c10::DispatchKeySet;

std::string_view WithoutNamespace(const std::string& name) {
  return std::string_view(name).substr(name.find("::") + 2);
}

// Of the first tensor; none: there is none, it is on another device, or it is sparse or nested and its sizes
// do not tell the work.
std::optional<c10::Device> DeviceOf(const torch::jit::Stack& arguments) {
  for (const c10::IValue& value : arguments) {
    if (!value.isTensor() || !value.toTensor().defined()) continue;
    const at::Tensor& tensor = value.toTensor();
    const bool plain = tensor.is_cuda() && tensor.layout() == c10::kStrided && !tensor.is_nested();
    return plain ? std::optional(tensor.device()) : std::nullopt;
  }
  return std::nullopt;
}

// From construction to destruction the kernels that this thread launches take no time, and then all of them
// together take what was said to it. An operator that throws did nothing.
class OnePiece {
 public:
  explicit OnePiece(c10::Device device) : stream_(CurrentStream(device)) { hocket_emulator_begin_operator(); }
  ~OnePiece() {
    hocket_emulator_end_operator(stream_, name_, static_cast<int>(work_.of), work_.element, work_.operations,
                                 work_.bytes);
  }
  OnePiece(const OnePiece&) = delete;
  OnePiece& operator=(const OnePiece&) = delete;

  void Is(const char* name, const timing::KernelWork& work) {
    name_ = name;
    work_ = work;
  }

 private:
  const HocketEmulatorStream stream_;
  const char* name_ = "";
  timing::KernelWork work_;
};

void TakeTime(const c10::OperatorHandle& op, DispatchKeySet keys, torch::jit::Stack* stack) {
  const DispatchKeySet below = keys & DispatchKeySet(DispatchKeySet::FULL_AFTER, DispatchKey::BackendSelect);
  const c10::FunctionSchema& schema = op.schema();
  const size_t count = schema.arguments().size();
  const torch::jit::Stack arguments(stack->end() - static_cast<std::ptrdiff_t>(count), stack->end());
  const std::optional<c10::Device> device = DeviceOf(arguments);
  if (!device) {
    op.redispatchBoxed(below, stack);
    return;
  }
  OnePiece piece(*device);
  op.redispatchBoxed(below, stack);
  const torch::jit::Stack results(stack->end() - static_cast<std::ptrdiff_t>(schema.returns().size()),
                                  stack->end());
  const KnownOperator& known = *FindOperator(WithoutNamespace(schema.name()));
  timing::KernelWork work = known.count(schema, arguments, results);
  work.of = known.of;
  piece.Is(schema.name().c_str(), work);
}

// One that torch composes of others is counted by those.
bool IsComposed(const c10::OperatorHandle& op) {
  return op.hasKernelForDispatchKey(DispatchKey::CompositeImplicitAutograd);
}

}  // namespace

void InstallTimed(torch::Library& library) {
  for (const c10::OperatorName& name : c10::Dispatcher::singleton().getAllOpNames()) {
    if (name.name.rfind("aten::", 0) != 0 || FindOperator(WithoutNamespace(name.name)) == nullptr) continue;
    const auto op = c10::Dispatcher::singleton().findOp(name);
    if (!op || !op->hasSchema() || IsComposed(*op)) continue;
    const std::string overload = name.overload_name.empty() ? "" : "." + name.overload_name;
    library.impl((std::string(WithoutNamespace(name.name)) + overload).c_str(),
                 torch::CppFunction::makeFromBoxedFunction<&TakeTime>());
  }
}

}  // namespace hocket::emulator
