#include "csrc/torch/refusals.h"

#include <c10/util/Exception.h>

#include <cstdlib>

namespace hocket {

void RefuseToRegister() {
  TORCH_CHECK_NOT_IMPLEMENTED(
      false,
      "hocket's memory moves between device and host, so it cannot be registered with a "
      "communication library. Unset TORCH_NCCL_USE_TENSOR_REGISTER_ALLOCATOR_HOOK, ",
      kWithoutHocket);
  std::abort();  // not reached
}

void RefuseToShare() {
  TORCH_CHECK_NOT_IMPLEMENTED(
      false,
      "hocket's memory moves between device and host, so a CUDA tensor cannot be shared with "
      "another process. Send a copy on the host (tensor.cpu()), ",
      kWithoutHocket);
  std::abort();  // not reached
}

void RefusePeerAccess(c10::DeviceIndex device, c10::DeviceIndex peer) {
  TORCH_CHECK_NOT_IMPLEMENTED(false, "hocket's memory on device ", static_cast<int>(peer),
                              " cannot be reached from kernels of device ", static_cast<int>(device),
                              ". Copy by way of the host (tensor.cpu()), use one device per process, ",
                              kWithoutHocket);
  std::abort();  // not reached
}

}  // namespace hocket
