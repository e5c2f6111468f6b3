#include "csrc/emulator/operators/whole.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>

#include "csrc/emulator/operators/alias.h"
#include "csrc/emulator/operators/fallback.h"
#include "csrc/emulator/operators/generators.h"
#include "csrc/emulator/operators/kernel.h"

namespace hocket::emulator {
namespace {

using torch::autograd::variable_list;

constexpr const char* kWhole[] = {
    "lstm.input",    "lstm.data",      "gru.input",     "gru.data",  "rnn_tanh.input",
    "rnn_tanh.data", "rnn_relu.input", "rnn_relu.data", "lstm_cell", "gru_cell",
    "rnn_tanh_cell", "rnn_relu_cell",  "rms_norm",      "renorm",
};

// The node that stands in torch's CUDA graph for a whole CPU graph.
class CpuGraph : public torch::autograd::Node {
 public:
  variable_list kept;           // every CUDA argument: the CPU graph works on their bytes
  variable_list device_inputs;  // those that want a gradient
  variable_list inputs;         // their aliases, leaves of the CPU graph
  variable_list outputs;
  c10::Device device{c10::kCUDA, 0};

  std::string name() const override { return "HocketCpuGraph"; }

  void release_variables() override {
    kept.clear();
    device_inputs.clear();
    outputs.clear();
  }

  variable_list apply(variable_list&& gradients) override {
    TORCH_CHECK(!outputs.empty(), "Trying to backward through the graph a second time");
    TORCH_CHECK(!c10::GradMode::is_enabled() || !AnyRequiresGrad(gradients),
                "the emulated GPU has no gradient of this operator's gradient (create_graph=True)");
    Aliases aliases;
    variable_list from, seeds;
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (!gradients[i].defined() || !outputs[i].requires_grad()) continue;
      from.push_back(outputs[i]);
      seeds.push_back(aliases.Of(gradients[i], false));
    }
    variable_list results = Run(from, seeds, aliases);
    for (at::Tensor& result : results) result = aliases.Original(result, device);
    return results;
  }

 private:
  static bool AnyRequiresGrad(const variable_list& tensors) {
    for (const at::Tensor& tensor : tensors) {
      if (tensor.defined() && tensor.requires_grad()) return true;
    }
    return false;
  }

  variable_list Run(const variable_list& from, const variable_list& seeds, const Aliases& aliases) {
    if (from.empty()) return variable_list(inputs.size());
    const Kernel kernel("backward of a whole operator", device, aliases.ranges(), aliases.range_count());
    return torch::autograd::grad(from, inputs, seeds, /*retain_graph=*/true, /*create_graph=*/false,
                                 /*allow_unused=*/true);
  }
};

// A node as this version of torch holds it: intrusively counted, or shared.
template <typename T>
auto MakeNode() {
  if constexpr (std::is_base_of_v<c10::intrusive_ptr_target, T>) {
    return c10::make_intrusive<T>();
  } else {
    return std::shared_ptr<T>(new T, [](auto* node) { deleteNode(node); });
  }
}

// Calls `change` for every tensor in `value`, which may be a list, and puts its result in its place.
template <typename Change>
void ForEachTensor(c10::IValue& value, Change change) {
  if (value.isTensor()) {
    if (value.toTensor().defined()) value = change(value.toTensor());
  } else if (value.isTensorList()) {
    c10::List<at::Tensor> list;
    for (const at::Tensor& tensor : value.toTensorVector()) list.push_back(change(tensor));
    value = list;
  }
}

// A tensor that stands for another (tracing, compiling) has no bytes to compute on.
bool StandsForAnother(const at::Tensor& tensor) { return tensor.key_set().has(c10::DispatchKey::Python); }

bool WantsGradient(const at::Tensor& tensor) {
  return tensor.requires_grad() && tensor.is_cuda() && c10::GradMode::is_enabled();
}

struct Wanted {
  bool gradient = false;
  bool stand_in = false;
};

Wanted Look(const torch::jit::Stack& stack, size_t count) {
  Wanted wanted;
  for (size_t i = stack.size() - count; i < stack.size(); ++i) {
    c10::IValue value = stack[i];
    ForEachTensor(value, [&](const at::Tensor& tensor) {
      wanted.gradient |= WantsGradient(tensor);
      wanted.stand_in |= StandsForAnother(tensor);
      return tensor;
    });
  }
  return wanted;
}

void RecordAndRun(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const auto node = MakeNode<CpuGraph>();
  Aliases aliases;
  const size_t arguments = op.schema().arguments().size();
  for (size_t i = stack->size() - arguments; i < stack->size(); ++i) {
    ForEachTensor((*stack)[i], [&](const at::Tensor& tensor) {
      const at::Tensor alias = aliases.Of(tensor, false);
      node->kept.push_back(tensor);
      if (!WantsGradient(tensor)) return alias;
      node->device_inputs.push_back(tensor);
      node->inputs.push_back(alias.requires_grad_());
      return alias;
    });
  }
  node->device = aliases.device().value_or(node->device);
  node->set_next_edges(torch::autograd::collect_next_edges(node->device_inputs));
  {
    const Kernel kernel(op.schema().name().c_str(), node->device, aliases.ranges(), aliases.range_count());
    const DefaultGeneratorTwin twin(node->device);
    op.callBoxed(stack);
  }
  for (size_t i = stack->size() - op.schema().returns().size(); i < stack->size(); ++i) {
    ForEachTensor((*stack)[i], [&](const at::Tensor& result) {
      at::Tensor on_device = aliases.Original(result.detach(), node->device);
      if (!result.requires_grad()) return on_device;
      node->outputs.push_back(result);
      torch::autograd::create_gradient_edge(on_device, node);
      return on_device;
    });
  }
}

void RunWhole(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  const Wanted wanted = Look(*stack, op.schema().arguments().size());
  if (wanted.stand_in) {
    op.redispatchBoxed(
        keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, c10::DispatchKey::AutogradCUDA), stack);
  } else if (wanted.gradient) {
    RecordAndRun(op, stack);
  } else {
    const DefaultGeneratorTwin twin(
        c10::Device(c10::kCUDA, c10::impl::getDeviceGuardImpl(c10::kCUDA)->getDevice().index()));
    ComputeOnCpu(op, stack);
  }
}

}  // namespace

void InstallWhole(torch::Library& autograd_cuda, torch::Library& cuda) {
  for (const char* name : kWhole) {
    autograd_cuda.impl(name, torch::CppFunction::makeFromBoxedFunction<&RunWhole>());
    cuda.impl(name, torch::CppFunction::makeFromBoxedFunction<&ComputeOnCpu>());
  }
}

}  // namespace hocket::emulator
