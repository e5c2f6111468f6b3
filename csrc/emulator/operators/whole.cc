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
#include "csrc/emulator/operators/recording.h"
#include "csrc/emulator/operators/selection.h"

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
  // What a CUDA graph in which both forward and backward were captured shares between its launches.
  struct Tape {
    variable_list inputs;  // aliases of those arguments that want a gradient, leaves of the CPU graph
    variable_list outputs;
  };

  variable_list kept;           // every CUDA argument: the CPU graph works on their bytes
  variable_list device_inputs;  // those that want a gradient
  std::shared_ptr<Tape> tape = std::make_shared<Tape>();
  c10::Device device{c10::kCUDA, 0};

  std::string name() const override { return "HocketCpuGraph"; }

  void release_variables() override {
    kept.clear();
    device_inputs.clear();
    tape.reset();
  }

  variable_list apply(variable_list&& gradients) override {
    TORCH_CHECK(tape != nullptr, "Trying to backward through the graph a second time");
    TORCH_CHECK(!c10::GradMode::is_enabled() || !AnyRequiresGrad(gradients),
                "the emulated GPU has no gradient of this operator's gradient (create_graph=True)");
    Recording recording(device);
    Aliases aliases;
    variable_list seeds;
    for (const at::Tensor& gradient : gradients) {
      seeds.push_back(gradient.defined() ? aliases.Of(gradient, false) : gradient);
    }
    variable_list results;
    {
      const Kernel kernel("backward of a whole operator", device, aliases.ranges(), aliases.range_count(),
                          Results::kFresh);
      results = Differentiate(*tape, seeds);
    }
    RecordedResults recorded;
    for (at::Tensor& result : results) {
      const at::Tensor on_host = result;
      result = aliases.Original(on_host, device);
      if (recording.active()) recorded.Add(on_host, result);
    }
    if (recording.active()) {
      recording.Keep("backward of a whole operator", recorded.Touched(aliases),
                     [tape = tape, seeds, recorded] {
                       const variable_list again = Differentiate(*tape, seeds);
                       torch::jit::Stack stack(again.begin(), again.end());
                       recorded.Write(stack);
                     });
    }
    return results;
  }

 private:
  static bool AnyRequiresGrad(const variable_list& tensors) {
    for (const at::Tensor& tensor : tensors) {
      if (tensor.defined() && tensor.requires_grad()) return true;
    }
    return false;
  }

  static variable_list Differentiate(const Tape& tape, const variable_list& gradients) {
    variable_list from, seeds;
    for (size_t i = 0; i < tape.outputs.size(); ++i) {
      if (!gradients[i].defined() || !tape.outputs[i].requires_grad()) continue;
      from.push_back(tape.outputs[i]);
      seeds.push_back(gradients[i]);
    }
    if (from.empty()) return variable_list(tape.inputs.size());
    return torch::autograd::grad(from, tape.inputs, seeds, /*retain_graph=*/true, /*create_graph=*/false,
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

// Runs the operator on aliases in the place of the current stream, drawing from the device's generator.
void Run(const c10::OperatorHandle& op, torch::jit::Stack* stack, c10::Device device, const Aliases& aliases,
         std::optional<CapturedDraws>& draws) {
  const Kernel kernel(op.schema().name().c_str(), device, aliases.ranges(), aliases.range_count(),
                      Results::kFresh);
  GeneratorTwin twin(std::nullopt, device);
  {
    const AsDefaultGenerator drawing(twin.cpu());
    op.callBoxed(stack);
  }
  draws = twin.Finish();
}

// The tensors among an operator's results.
variable_list ResultsOf(torch::jit::Stack& stack) {
  variable_list results;
  for (c10::IValue& value : stack) {
    ForEachTensor(value, [&](const at::Tensor& result) {
      results.push_back(result);
      return result;
    });
  }
  return results;
}

variable_list WantingGradient(const variable_list& tensors) {
  variable_list wanting;
  for (const at::Tensor& tensor : tensors) {
    if (tensor.requires_grad()) wanting.push_back(tensor);
  }
  return wanting;
}

// A launch of the graph: forward again, on a new tape for the backward that follows.
void RunAgain(const c10::OperatorHandle& op, const torch::jit::Stack& arguments, const CapturedDraws& draws,
              CpuGraph::Tape& tape, const RecordedResults& recorded) {
  torch::jit::Stack stack = arguments;
  {
    const c10::AutoGradMode taped(true);
    const LaunchedTwin twin(draws);
    const AsDefaultGenerator drawing(twin.cpu());
    op.callBoxed(&stack);
  }
  tape.outputs = WantingGradient(ResultsOf(stack));
  recorded.Write(stack);
}

void RecordAndRun(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const auto node = MakeNode<CpuGraph>();
  Aliases aliases;
  SameDevice devices;
  const size_t first = stack->size() - op.schema().arguments().size();
  for (size_t i = first; i < stack->size(); ++i) {
    ForEachTensor((*stack)[i], [&](const at::Tensor& tensor) {
      devices.See(tensor);
      const at::Tensor alias = aliases.Of(tensor, false);
      node->kept.push_back(tensor);
      if (!WantsGradient(tensor)) return alias;
      node->device_inputs.push_back(tensor);
      node->tape->inputs.push_back(alias.requires_grad_());
      return alias;
    });
  }
  devices.Check(op);
  node->device = aliases.device().value_or(node->device);
  node->set_next_edges(torch::autograd::collect_next_edges(node->device_inputs));
  Recording recording(node->device);
  const torch::jit::Stack arguments(stack->begin() + first, stack->end());
  std::optional<CapturedDraws> draws;
  Run(op, stack, node->device, aliases, draws);
  RecordedResults recorded;
  for (size_t i = stack->size() - op.schema().returns().size(); i < stack->size(); ++i) {
    ForEachTensor((*stack)[i], [&](const at::Tensor& result) {
      at::Tensor on_device = aliases.Original(result.detach(), node->device);
      if (recording.active()) recorded.Add(result, on_device);
      if (!result.requires_grad()) return on_device;
      node->tape->outputs.push_back(result);
      torch::autograd::create_gradient_edge(on_device, node);
      return on_device;
    });
  }
  if (!recording.active()) return;
  recording.Keep(op.schema().name().c_str(), recorded.Touched(aliases),
                 [op, arguments, draws = draws.value_or(CapturedDraws()), tape = node->tape, recorded] {
                   RunAgain(op, arguments, draws, *tape, recorded);
                 });
}

void RunWhole(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  const Wanted wanted = Look(*stack, op.schema().arguments().size());
  if (wanted.stand_in) {
    op.redispatchBoxed(
        keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, c10::DispatchKey::AutogradCUDA), stack);
  } else if (wanted.gradient) {
    RecordAndRun(op, stack);
  } else {
    ComputeDrawing(op, stack);
  }
}

}  // namespace

void InstallWhole(torch::Library& autograd_cuda, torch::Library& cuda) {
  for (const char* name : kWhole) {
    autograd_cuda.impl(name, torch::CppFunction::makeFromBoxedFunction<&RunWhole>());
    cuda.impl(name, torch::CppFunction::makeFromBoxedFunction<&ComputeDrawing>());
  }
}

}  // namespace hocket::emulator
