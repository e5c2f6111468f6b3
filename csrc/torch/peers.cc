#include "csrc/torch/peers.h"

#include <cuda_runtime_api.h>

#include <cstdlib>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "csrc/base/redirect.h"
#include "csrc/base/say.h"

namespace hocket {
namespace {

cudaError_t CannotAccessPeer(int* can, int device, int peer) {
  const cudaError_t error = cudaDeviceCanAccessPeer(can, device, peer);
  if (error == cudaSuccess) *can = 0;
  return error;
}

void Redirect(const char* library) {
  (void)RedirectCalls(library, {{"cudaDeviceCanAccessPeer", reinterpret_cast<void*>(&CannotAccessPeer)}});
}

}  // namespace

void DenyPeerAccess() {
  setenv("NCCL_P2P_DIRECT_DISABLE", "1", /*overwrite=*/0);
  const char* const registers = std::getenv("NCCL_GRAPH_REGISTER");
  if (registers != nullptr && std::strcmp(registers, "0") != 0)
    Say(absl::StrCat("NCCL_GRAPH_REGISTER=", registers,
                     " is set to 0: NCCL would keep the pages that a captured graph's collectives used, and "
                     "memory that moves has others when the graph is replayed."));
  setenv("NCCL_GRAPH_REGISTER", "0", /*overwrite=*/1);
  // Which of the two asks depends on the version; the other one answers torch.cuda.can_device_access_peer().
  Redirect("libc10_cuda.so");
  Redirect("libtorch_cuda.so");
}

bool ArePeers() {
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
