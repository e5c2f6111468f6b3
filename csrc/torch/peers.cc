#include "csrc/torch/peers.h"

#include <cuda_runtime_api.h>

#include <cstdlib>

#include "csrc/base/redirect.h"

namespace hocket {
namespace {

cudaError_t CannotAccessPeer(int* can, int device, int peer) {
  const cudaError_t error = cudaDeviceCanAccessPeer(can, device, peer);
  if (error == cudaSuccess) *can = 0;
  return error;
}

absl::Status Redirect(const char* library) {
  return RedirectCalls(library, {{"cudaDeviceCanAccessPeer", reinterpret_cast<void*>(&CannotAccessPeer)}});
}

}  // namespace

absl::Status DenyPeerAccess() {
  setenv("NCCL_P2P_DIRECT_DISABLE", "1", /*overwrite=*/0);
  // Which of the two asks depends on the version; the other one answers torch.cuda.can_device_access_peer().
  const absl::Status asks = Redirect("libc10_cuda.so");
  const absl::Status answers = Redirect("libtorch_cuda.so");
  return asks.ok() ? asks : answers;
}

bool MayHaveAccess() {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess) return false;
  for (int device = 0; device < count; ++device) {
    for (int peer = 0; peer < count; ++peer) {
      int can = 0;
      if (device != peer && cudaDeviceCanAccessPeer(&can, device, peer) == cudaSuccess && can != 0)
        return true;
    }
  }
  return false;
}

}  // namespace hocket
