#include "csrc/emulator/runtime/operators_loader.h"

#include <dlfcn.h>

#include <atomic>
#include <string>

#include "csrc/emulator/emulator_api.h"

namespace hocket::emulator {
namespace {

bool IsLoaded(const char* library) {
  void* handle = dlopen(library, RTLD_LAZY | RTLD_NOLOAD);
  if (handle == nullptr) return false;
  dlclose(handle);
  return true;
}

std::string OwnFolder() {
  Dl_info info;
  if (dladdr(reinterpret_cast<void*>(&LoadOperatorsOnce), &info) == 0) return ".";
  const std::string path = info.dli_fname;
  return path.substr(0, path.rfind('/'));
}

}  // namespace

void LoadOperatorsOnce() {
  static std::atomic<bool> begun{false};
  if (begun.load(std::memory_order_relaxed) || !IsLoaded("libtorch_cuda.so")) return;
  if (begun.exchange(true)) return;
  const std::string library = OwnFolder() + "/libhocket_emulator_operators.so";
  void* operators = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  void* install = operators != nullptr ? dlsym(operators, "hocket_emulator_install_operators") : nullptr;
  if (install == nullptr) {
    hocket_emulator_fatal(
        (std::string("the emulated GPU cannot compute torch's operators: ") + dlerror()).c_str());
  }
  reinterpret_cast<void (*)()>(install)();
}

}  // namespace hocket::emulator

extern "C" void hocket_emulator_load_operators() { hocket::emulator::LoadOperatorsOnce(); }
