// Finding a function of the driver by name, and the functions that nobody implements.
//
// A function of unsupported.def answers kNotSupported and says its name once on stderr, so that a program
// which needs it fails where it calls it, by name.
#include <dlfcn.h>

#include <atomic>
#include <cstdio>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "csrc/emulator/driver/abi.h"

using hocket::cuda::Result;
namespace cuda = hocket::cuda;

namespace {

Result Unsupported(const char* name, std::atomic<bool>& said) {
  if (!said.exchange(true)) {
    std::fprintf(stderr, "hocket: %s is not supported on the emulated GPU.\n", name);
  }
  return cuda::kNotSupported;
}

// This library, whatever name it was loaded under.
void* Self() {
  static void* const self = [] {
    Dl_info info;
    if (dladdr(reinterpret_cast<void*>(&Unsupported), &info) == 0) return static_cast<void*>(nullptr);
    return dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD);
  }();
  return self;
}

// The newest version that the vendor's header of our driver version would choose.
void* NewestVersion(const char* symbol) {
  if (Self() == nullptr || std::strncmp(symbol, "cu", 2) != 0) return nullptr;
  // Versions whose plain name is the one in use: the suffix is another function.
  if (std::strcmp(symbol, "cuCtxGetDevice") == 0 || std::strcmp(symbol, "cuCtxSynchronize") == 0 ||
      std::strcmp(symbol, "cuStreamGetCtx") == 0) {
    return dlsym(Self(), symbol);
  }
  for (const char* version : {"_v4", "_v3", "_v2", ""}) {
    if (void* found = dlsym(Self(), absl::StrCat(symbol, version).c_str())) return found;
  }
  return nullptr;
}

}  // namespace

#define HOCKET_UNSUPPORTED(name)     \
  HOCKET_DRIVER_API Result name() {  \
    static std::atomic<bool> said;   \
    return Unsupported(#name, said); \
  }
#include "csrc/emulator/driver/unsupported.def"
#undef HOCKET_UNSUPPORTED

HOCKET_DRIVER_API Result cuGetProcAddress_v2(const char* symbol, void** function, int, std::uint64_t,
                                             int* status) {
  if (symbol == nullptr || function == nullptr) return cuda::kInvalidValue;
  *function = NewestVersion(symbol);
  if (status != nullptr) *status = *function == nullptr ? 1 : 0;
  return *function == nullptr ? cuda::kNotFound : cuda::kSuccess;
}

HOCKET_DRIVER_API Result cuGetProcAddress(const char* symbol, void** function, int version,
                                          std::uint64_t flags) {
  return cuGetProcAddress_v2(symbol, function, version, flags, nullptr);
}
