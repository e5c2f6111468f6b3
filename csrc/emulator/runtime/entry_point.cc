// The driver's functions by name, as libc10_cuda asks for them.
#include <cstring>

#include "csrc/emulator/runtime/call.h"

using hocket::emulator::EnterDuringLoad;
using hocket::emulator::Finish;

namespace {

// What torch does without if it is not there, and calls at once if it is.
bool IsAbsent(const char* symbol) { return std::strncmp(symbol, "cuLogs", 6) == 0; }

void* FindInDriver(const char* symbol) {
  void* function = nullptr;
  if (!IsAbsent(symbol))
    cuGetProcAddress(symbol, &function, CUDA_VERSION, CU_GET_PROC_ADDRESS_DEFAULT, nullptr);
  return function;
}

}  // namespace

HOCKET_RUNTIME_EXPORT cudaError_t cudaGetDriverEntryPointByVersion(const char* symbol, void** function,
                                                                   unsigned, unsigned long long,
                                                                   cudaDriverEntryPointQueryResult* result) {
  if (cudaError_t error = EnterDuringLoad()) return Finish(error);
  *function = FindInDriver(symbol);
  const bool found = *function != nullptr;
  if (result != nullptr) *result = found ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
  return cudaSuccess;
}
