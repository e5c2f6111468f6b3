#include "csrc/torch/contexts.h"

#include <cuda_runtime_api.h>

#include <string>

#include "absl/functional/function_ref.h"
#include "csrc/base/redirect.h"
#include "csrc/base/say.h"

namespace hocket {
namespace {

struct Served {
  Devices& devices;
  const std::atomic<bool>& forked;
};
std::atomic<const Served*> served{nullptr};

cudaError_t WithRoom(int device, absl::FunctionRef<cudaError_t()> call) {
  const cudaError_t error = call();
  const Served* const by = served.load();
  if (error != cudaErrorMemoryAllocation || by == nullptr || by->forked) return error;
  const absl::Status used = by->devices.Use(device).status();
  if (!used.ok()) {
    Say(std::string(used.message()));  // CUDA's callers have a number only
    return error;
  }
  (void)cudaGetLastError();
  return call();
}

cudaError_t SetDevice(int device) {
  return WithRoom(device, [&] { return cudaSetDevice(device); });
}

cudaError_t StreamPriorityRange(int* least, int* greatest) {
  const auto call = [&] { return cudaDeviceGetStreamPriorityRange(least, greatest); };
  int device = 0;
  return cudaGetDevice(&device) == cudaSuccess ? WithRoom(device, call) : call();
}

}  // namespace

void MakeRoomForContexts(Devices& devices, const std::atomic<bool>& forked) {
  served = new Served{devices, forked};
  constexpr const char* kLibrary = "libc10_cuda.so";
  (void)RedirectCalls(kLibrary, {{"cudaSetDevice", reinterpret_cast<void*>(&SetDevice)}});
  (void)RedirectCalls(kLibrary,
                      {{"cudaDeviceGetStreamPriorityRange", reinterpret_cast<void*>(&StreamPriorityRange)}});
}

}  // namespace hocket
