#include "csrc/torch/captures.h"

#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <c10/util/Exception.h>

namespace hocket {

bool BeginsCapture(c10::DeviceIndex device, const std::function<bool(cudaStream_t)>& filter) {
  try {
    const cudaStream_t stream = c10::cuda::getCurrentCUDAStream(device);
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    C10_CUDA_CHECK(cudaStreamIsCapturing(stream, &status));
    return status != cudaStreamCaptureStatusNone || !filter(stream);
  } catch (const c10::Error&) {
    return true;
  }
}

}  // namespace hocket
