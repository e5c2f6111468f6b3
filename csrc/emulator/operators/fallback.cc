#include "csrc/emulator/operators/fallback.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/DeviceGuard.h>

#include <algorithm>

#include "csrc/emulator/operators/alias.h"
#include "csrc/emulator/operators/generators.h"
#include "csrc/emulator/operators/kernel.h"
#include "csrc/emulator/operators/recording.h"
#include "csrc/emulator/operators/selection.h"

namespace hocket::emulator {
namespace {

using c10::IValue;

bool IsGenerator(const c10::Argument& argument) {
  const c10::Type* type = argument.real_type().get();
  if (const auto* optional = type->castRaw<c10::OptionalType>()) type = optional->getElementType().get();
  return type->kind() == c10::TypeKind::GeneratorType;
}

bool ReturnsFresh(const c10::FunctionSchema& schema) {
  return std::any_of(schema.returns().begin(), schema.returns().end(), [](const c10::Argument& result) {
    const c10::TypeKind kind = result.type()->kind();
    return result.alias_info() == nullptr &&
           (kind == c10::TypeKind::TensorType || kind == c10::TypeKind::ListType);
  });
}

// One call: its arguments replaced, run, its results replaced.
class Call {
 public:
  Call(const c10::OperatorHandle& op, torch::jit::Stack* stack, bool draws_by_default)
      : op_(op),
        schema_(op.schema()),
        stack_(*stack),
        first_(stack->size() - schema_.arguments().size()),
        draws_by_default_(draws_by_default) {}

  void Run() {
    if (hocket_emulator_any_capture()) given_.assign(stack_.begin() + first_, stack_.end());
    ReplaceArguments();
    const c10::OptionalDeviceGuard guard(Device());
    Recording recording(Device());
    if (generator_argument_) TwinGenerator(stack_[*generator_argument_]);
    if (draws_by_default_) twin_.emplace(std::nullopt, Device());
    Compute();
    aliases_.CommitWrites();
    ReplaceResults();
    if (recording.active()) Record(recording);
  }

 private:
  c10::Device Device() const {
    if (aliases_.device()) return *aliases_.device();
    return asked_device_ ? *asked_device_ : c10::Device(c10::kCUDA, 0);
  }

  void ReplaceArguments() {
    for (size_t i = 0; i < schema_.arguments().size(); ++i) {
      const c10::Argument& argument = schema_.arguments()[i];
      const bool written = argument.alias_info() != nullptr && argument.alias_info()->isWrite();
      Replace(stack_[first_ + i], written);
      if (IsGenerator(argument)) generator_argument_ = first_ + i;
    }
    devices_.Check(op_);
  }

  void Replace(IValue& value, bool written) {
    if (value.isTensor()) {
      devices_.See(value.toTensor());
      value = aliases_.Of(value.toTensor(), written);
    } else if (value.isTensorList()) {
      c10::List<at::Tensor> list;
      for (const at::Tensor& tensor : value.toTensorVector()) {
        devices_.See(tensor);
        list.push_back(aliases_.Of(tensor, written));
      }
      value = list;
    } else if (value.isOptionalTensorList()) {
      c10::List<std::optional<at::Tensor>> list;
      for (const std::optional<at::Tensor>& tensor : value.toOptionalTensorVector()) {
        if (tensor) devices_.See(*tensor);
        list.push_back(tensor ? std::optional(aliases_.Of(*tensor, written)) : std::nullopt);
      }
      value = list;
    } else if (value.isDevice() && value.toDevice().is_cuda()) {
      asked_device_ =
          c10::Device(c10::kCUDA, value.toDevice().has_index() ? value.toDevice().index() : CurrentIndex());
      value = c10::Device(c10::kCPU);
    }
  }

  static c10::DeviceIndex CurrentIndex() {
    return c10::impl::getDeviceGuardImpl(c10::kCUDA)->getDevice().index();
  }

  // An operator that takes a generator draws from one, whether or not the caller names it.
  void TwinGenerator(IValue& value) {
    const std::optional<at::Generator> asked =
        value.isNone() ? std::nullopt : std::optional<at::Generator>(value.toGenerator());
    if (asked && asked->device().is_cpu()) return;
    twin_.emplace(asked, Device());
    value = twin_->cpu();
  }

  void Compute() {
    const Kernel kernel(schema_.name().c_str(), Device(), aliases_.ranges(), aliases_.range_count(),
                        ReturnsFresh(schema_) ? Results::kFresh : Results::kGiven);
    const at::AutoDispatchBelowADInplaceOrView below;
    std::optional<AsDefaultGenerator> drawing;
    if (draws_by_default_) drawing.emplace(twin_->cpu());
    op_.callBoxed(&stack_);
    drawing.reset();
    if (twin_) draws_ = twin_->Finish();
    twin_.reset();
  }

  void ReplaceResults() {
    const size_t results = schema_.returns().size();
    for (size_t i = stack_.size() - results; i < stack_.size(); ++i) ReplaceResult(stack_[i]);
  }

  void ReplaceResult(IValue& value) {
    if (value.isTensor()) {
      value = OnDevice(value.toTensor());
    } else if (value.isTensorList()) {
      c10::List<at::Tensor> list;
      for (const at::Tensor& tensor : value.toTensorVector()) list.push_back(OnDevice(tensor));
      value = list;
    }
  }

  at::Tensor OnDevice(const at::Tensor& result) {
    at::Tensor original = aliases_.Original(result, Device());
    if (!given_.empty()) results_.Add(result, original);
    return original;
  }

  // The same again at each launch of the graph: on new aliases, because the operator may have resized its
  // arguments.
  void Record(Recording& recording) {
    Aliases aliases;
    torch::jit::Stack arguments = std::move(given_);
    for (size_t i = 0; i < arguments.size(); ++i) {
      const c10::Argument& argument = schema_.arguments()[i];
      const bool written = argument.alias_info() != nullptr && argument.alias_info()->isWrite();
      ForEachTensor(arguments[i], [&](const at::Tensor& tensor) {
        if (written && (tensor.layout() != c10::kStrided || tensor.is_nested())) results_.CannotBeLaunched();
        return tensor.is_cuda() ? aliases.Of(tensor, written) : tensor.clone();
      });
      if (arguments[i].isDevice()) arguments[i] = c10::Device(c10::kCPU);
    }
    std::optional<size_t> generator;
    if (draws_ && !draws_by_default_) generator = *generator_argument_ - first_;
    recording.Keep(schema_.name().c_str(), results_.Touched(aliases),
                   [op = op_, arguments = std::move(arguments), results = std::move(results_), generator,
                    draws = draws_, by_default = draws_by_default_] {
                     torch::jit::Stack stack = arguments;
                     std::optional<LaunchedTwin> twin;
                     std::optional<AsDefaultGenerator> drawing;
                     if (draws) twin.emplace(*draws);
                     if (generator) stack[*generator] = twin->cpu();
                     if (draws && by_default) drawing.emplace(twin->cpu());
                     const at::AutoDispatchBelowADInplaceOrView below;
                     op.callBoxed(&stack);
                     results.Write(stack);
                   });
  }

  const c10::OperatorHandle& op_;
  const c10::FunctionSchema& schema_;
  torch::jit::Stack& stack_;
  const size_t first_;
  const bool draws_by_default_;
  Aliases aliases_;
  SameDevice devices_;
  std::optional<c10::Device> asked_device_;
  std::optional<size_t> generator_argument_;
  std::optional<GeneratorTwin> twin_;
  // In a capture:
  torch::jit::Stack given_;
  RecordedResults results_;
  std::optional<CapturedDraws> draws_;
};

}  // namespace

void ComputeOnCpu(const c10::OperatorHandle& op, torch::jit::Stack* stack) { Call(op, stack, false).Run(); }

void ComputeDrawing(const c10::OperatorHandle& op, torch::jit::Stack* stack) { Call(op, stack, true).Run(); }

void Refuse(const c10::OperatorHandle& op, torch::jit::Stack*) {
  TORCH_CHECK_NOT_IMPLEMENTED(false, "the emulated GPU cannot compute ", toString(op.operator_name()),
                              ": PyTorch has no CPU kernel for it");
}

}  // namespace hocket::emulator
