#include "csrc/emulator/runtime/kernels.h"

#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <vector>

#include "csrc/emulator/runtime/call.h"

namespace hocket::emulator {
namespace {

struct Kernel {
  const void* host_function;
  const char* name;  // lies in the library that registered it

  bool operator<(const Kernel& other) const { return host_function < other.host_function; }
};

struct Registry {
  std::mutex mutex;
  std::vector<Kernel> kernels;
  bool sorted = true;
};

// Never destroyed: libraries register before this one's constructors and ask after its destructors.
Registry& TheRegistry() {
  static Registry* const registry = new Registry;
  return *registry;
}

void Register(const void* host_function, const char* name) {
  Registry& registry = TheRegistry();
  std::lock_guard<std::mutex> lock(registry.mutex);
  registry.kernels.push_back({host_function, name});
  registry.sorted = false;
}

// Where the parenthesis opens that the last one closes ("(anonymous namespace)" has one too).
size_t BeginOfParameters(const std::string& name) {
  size_t at = name.rfind(')');
  if (at == std::string::npos) return at;
  for (int depth = 1; depth > 0 && at > 0;) {
    const char c = name[--at];
    depth += c == ')' ? 1 : c == '(' ? -1 : 0;
  }
  return at;
}

}  // namespace

const char* KernelName(const void* host_function) {
  Registry& registry = TheRegistry();
  std::lock_guard<std::mutex> lock(registry.mutex);
  std::vector<Kernel>& kernels = registry.kernels;
  if (!registry.sorted) std::sort(kernels.begin(), kernels.end());
  registry.sorted = true;
  const auto found = std::lower_bound(kernels.begin(), kernels.end(), Kernel{host_function, nullptr});
  return found != kernels.end() && found->host_function == host_function ? found->name
                                                                         : "(unregistered kernel)";
}

std::string ReadableKernelName(const void* host_function) {
  const char* mangled = KernelName(host_function);
  int status = 0;
  char* readable = abi::__cxa_demangle(mangled, nullptr, nullptr, &status);
  std::string name = status == 0 ? readable : mangled;
  std::free(readable);
  if (name.rfind("void ", 0) == 0) name.erase(0, 5);
  return name.substr(0, BeginOfParameters(name));
}

bool IsSpin(const char* name) { return std::strstr(name, "spin_kernel") != nullptr; }

}  // namespace hocket::emulator

// nvcc's start-up code. A fat binary is never read; its handle only has to be an address.
HOCKET_RUNTIME_EXPORT void** __cudaRegisterFatBinary(void*) {
  static void* handle = nullptr;
  return &handle;
}

HOCKET_RUNTIME_EXPORT void __cudaRegisterFatBinaryEnd(void**) {}
HOCKET_RUNTIME_EXPORT void __cudaUnregisterFatBinary(void**) {}
HOCKET_RUNTIME_EXPORT char __cudaInitModule(void**) { return 1; }

HOCKET_RUNTIME_EXPORT void __cudaRegisterFunction(void**, const char* host_function, char*, const char* name,
                                                  int, uint3*, uint3*, dim3*, dim3*, int*) {
  hocket::emulator::Register(host_function, name);
}

HOCKET_RUNTIME_EXPORT void __cudaRegisterVar(void**, char*, char*, const char*, int, size_t, int, int) {}
