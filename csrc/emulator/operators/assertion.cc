#include "csrc/emulator/operators/assertion.h"

#include <c10/util/Exception.h>
#include <cuda_runtime_api.h>

#include <cstdio>

#include "csrc/emulator/emulator_api.h"
#include "csrc/emulator/operators/fallback.h"

namespace hocket::emulator {

void AssertOnDevice(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const size_t first = stack->size() - op.schema().arguments().size();
  const bool may_fail = (*stack)[first].toTensor().numel() == 1;
  try {
    ComputeOnCpu(op, stack);
  } catch (const c10::Error& error) {
    if (!may_fail || hocket_emulator_lost() != 0) throw;
    std::fprintf(stderr, "hocket: assertion on the emulated device failed: %s\n",
                 error.what_without_backtrace());
    hocket_emulator_lose(cudaErrorAssert);
    stack->resize(first);
  }
}

}  // namespace hocket::emulator
