// Registers the emulated device's kernels over torch's CUDA ones.
#include <ATen/Context.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/native/transformers/sdp_utils_cpp.h>
#include <c10/util/Exception.h>
#include <torch/library.h>

#include <memory>
#include <vector>

#include "csrc/emulator/emulator_api.h"
#include "csrc/emulator/operators/assertion.h"
#include "csrc/emulator/operators/attention.h"
#include "csrc/emulator/operators/copy.h"
#include "csrc/emulator/operators/dropout.h"
#include "csrc/emulator/operators/fallback.h"
#include "csrc/emulator/operators/selection.h"
#include "csrc/emulator/operators/timed.h"
#include "csrc/emulator/operators/whole.h"

namespace hocket::emulator {
namespace {

using c10::DispatchKey;

// Replacing a kernel makes torch warn; here it is the purpose.
class Quiet : public c10::WarningHandler {
 public:
  void process(const c10::Warning&) override {}
};

// Registrations live as long as the process.
torch::Library& ForKey(DispatchKey key) {
  static auto* const libraries = new std::vector<std::unique_ptr<torch::Library>>;
  libraries->push_back(
      std::make_unique<torch::Library>(torch::Library::IMPL, "aten", key, __FILE__, __LINE__));
  return *libraries->back();
}

std::string NameWithoutNamespace(const c10::OperatorHandle& op) {
  const std::string name = toString(op.operator_name());
  return name.substr(name.find("::") + 2);
}

void InstallFallbacks(torch::Library& library, DispatchKey cuda, DispatchKey cpu) {
  for (const c10::OperatorName& name : c10::Dispatcher::singleton().getAllOpNames()) {
    const auto op = c10::Dispatcher::singleton().findOp(name);
    if (!op || !op->hasSchema()) continue;
    const Treatment treatment = TreatmentOf(*op, cuda, cpu);
    if (treatment == Treatment::kOwn) continue;
    library.impl(NameWithoutNamespace(*op).c_str(),
                 treatment == Treatment::kCompute ? torch::CppFunction::makeFromBoxedFunction<&ComputeOnCpu>()
                                                  : torch::CppFunction::makeFromBoxedFunction<&Refuse>());
  }
}

int64_t ChooseMath(const at::Tensor&, const at::Tensor&, const at::Tensor&, const std::optional<at::Tensor>&,
                   double, bool, std::optional<double>, bool) {
  return static_cast<int64_t>(sdp::SDPBackend::math);
}

bool NotAcceptable(const at::Tensor&) { return false; }

void InstallOwn(torch::Library& cuda) {
  cuda.impl("copy_", TORCH_FN(Copy));
  cuda.impl("native_dropout", TORCH_FN(Dropout));
  for (const char* assertion : {"_assert_async", "_assert_async.msg"})
    cuda.impl(assertion, torch::CppFunction::makeFromBoxedFunction<&AssertOnDevice>());
  cuda.impl("_fused_sdp_choice", TORCH_FN(ChooseMath));
  cuda.impl("cudnn_is_acceptable", TORCH_FN(NotAcceptable));
}

void Install() {
  Quiet quiet;
  const c10::WarningUtils::WarningHandlerGuard guard(&quiet);
  at::globalContext().setUserEnabledCuDNN(false);
  at::globalContext().setSDPUseCuDNN(false);
  if (hocket_emulator_is_timing()) {
    InstallTimed(ForKey(DispatchKey::BackendSelect));
    return;
  }
  torch::Library& cuda = ForKey(DispatchKey::CUDA);
  InstallFallbacks(cuda, DispatchKey::CUDA, DispatchKey::CPU);
  InstallFallbacks(ForKey(DispatchKey::SparseCUDA), DispatchKey::SparseCUDA, DispatchKey::SparseCPU);
  InstallFallbacks(ForKey(DispatchKey::SparseCsrCUDA), DispatchKey::SparseCsrCUDA, DispatchKey::SparseCsrCPU);
  InstallFallbacks(ForKey(DispatchKey::NestedTensorCUDA), DispatchKey::NestedTensorCUDA,
                   DispatchKey::NestedTensorCPU);
  InstallOwn(cuda);
  torch::Library& autograd_cuda = ForKey(DispatchKey::AutogradCUDA);
  InstallAttention(autograd_cuda, cuda);
  InstallWhole(autograd_cuda, cuda);
}

}  // namespace
}  // namespace hocket::emulator

// Called once by the emulated runtime (csrc/emulator/runtime/operators_loader.h).
extern "C" __attribute__((visibility("default"))) void hocket_emulator_install_operators() {
  hocket::emulator::Install();
}
