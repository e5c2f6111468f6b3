#include "csrc/torch/contexts.h"

#include <cuda_runtime_api.h>

#include <string>

#include "absl/status/status.h"
#include "csrc/base/redirect.h"
#include "csrc/base/say.h"

namespace hocket {
namespace {

struct Served {
  Devices& devices;
  const std::atomic<bool>& forked;
};
std::atomic<const Served*> served{nullptr};

cudaError_t SetDevice(int device) {
  const cudaError_t error = cudaSetDevice(device);
  const Served* const by = served.load();
  const bool may_be_helped = error == cudaErrorMemoryAllocation || error == cudaErrorDevicesUnavailable;
  if (!may_be_helped || by == nullptr || by->forked) return error;
  const absl::Status used = by->devices.Use(device).status();
  if (!used.ok()) {
    Say(std::string(used.message()));  // CUDA's callers have a number only
    return error;
  }
  (void)cudaGetLastError();
  return cudaSetDevice(device);
}

}  // namespace

void MakeRoomForContexts(Devices& devices, const std::atomic<bool>& forked) {
  served = new Served{devices, forked};
  (void)RedirectCalls("libc10_cuda.so", {{"cudaSetDevice", reinterpret_cast<void*>(&SetDevice)}});
}

}  // namespace hocket
