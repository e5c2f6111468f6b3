// The driver's functions by name, as libc10_cuda asks for them.
#include <dlfcn.h>

#include <cstring>
#include <string>

#include "csrc/emulator/runtime/call.h"

using hocket::emulator::EnterDuringLoad;
using hocket::emulator::Finish;

namespace {

// The vendor's header maps some plain names to a versioned one; cuStreamWriteValue32 and the memory functions
// are the ones that torch asks for.
void* FindInDriver(const std::string& name) {
  static void* const driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
  if (driver == nullptr) return nullptr;
  void* versioned = dlsym(driver, (name + "_v2").c_str());
  return versioned != nullptr ? versioned : dlsym(driver, name.c_str());
}

}  // namespace

HOCKET_RUNTIME_EXPORT cudaError_t cudaGetDriverEntryPointByVersion(const char* symbol, void** function, unsigned,
                                                                   unsigned long long,
                                                                   cudaDriverEntryPointQueryResult* result) {
  if (cudaError_t error = EnterDuringLoad()) return Finish(error);
  *function = FindInDriver(symbol);
  const bool found = *function != nullptr;
  if (result != nullptr) *result = found ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
  return cudaSuccess;
}
