#include "csrc/torch/captures.h"

#include <c10/cuda/CUDAStream.h>
#include <c10/util/Exception.h>

namespace hocket {

bool BeginsCapture(c10::DeviceIndex device, const std::function<bool(cudaStream_t)>& filter) {
  try {
    return !filter(c10::cuda::getCurrentCUDAStream(device));
  } catch (const c10::Error&) {
    return true;
  }
}

}  // namespace hocket
