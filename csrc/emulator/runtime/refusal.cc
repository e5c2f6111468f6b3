#include "csrc/emulator/runtime/refusal.h"

#include <algorithm>
#include <cstdio>
#include <mutex>
#include <set>
#include <string>
#include <string_view>

#include "csrc/emulator/emulator_api.h"
#include "csrc/emulator/runtime/blas.h"
#include "csrc/emulator/runtime/call.h"
#include "csrc/emulator/runtime/costs.h"
#include "csrc/emulator/runtime/kernels.h"

namespace hocket::emulator {
namespace {

void SayOnce(const std::string& message) {
  static std::mutex* const mutex = new std::mutex;
  static auto* const said = new std::set<std::string>;
  std::lock_guard<std::mutex> lock(*mutex);
  if (said->insert(message).second) std::fprintf(stderr, "hocket: %s\n", message.c_str());
}

struct Library {
  std::string_view prefix;
  int not_supported;  // its own code for that
};

// The longest prefix comes first.
constexpr Library kLibraries[] = {
    {"cublas", 15},  {"cusolver", 9}, {"cusparse", 10},
    {"cufft", 16},   {"cudnn", 3000}, {"nccl", 5},
    {"curand", 204}, {"cupti", 27},   {"cuda", cudaErrorNotSupported},
};

int NotSupported(std::string_view function) {
  function.remove_prefix(std::min(function.find_first_not_of('_'), function.size()));
  for (const Library& library : kLibraries) {
    if (function.substr(0, library.prefix.size()) == library.prefix) return library.not_supported;
  }
  return cudaErrorNotSupported;
}

}  // namespace

cudaError_t RefuseKernel(const void* host_function) {
  const std::string message = "the emulated GPU has no CPU twin for the kernel " +
                              ReadableKernelName(host_function) + "; nothing was computed";
  SayOnce(message);
  return FinishWith(cudaErrorNotSupported, message.c_str());
}

}  // namespace hocket::emulator

extern "C" int hocket_emulator_refuse(const char* function, const void* handle) {
  if (hocket_emulator_is_timing() && std::string_view(function).substr(0, 6) == "cublas") {
    hocket::emulator::TakeTime(handle, function, hocket::emulator::ProductMicroseconds(0, 4));
    return 0;
  }
  const std::string message = std::string("the emulated GPU has no ") + function + "(); nothing was done";
  hocket::emulator::SayOnce(message);
  hocket::emulator::FinishWith(cudaErrorNotSupported, message.c_str());
  return hocket::emulator::NotSupported(function);
}
