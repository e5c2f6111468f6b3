#include "csrc/torch/captures.h"

#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <c10/util/Exception.h>

namespace hocket {

std::optional<cudaStream_t> BeginsCapture(c10::DeviceIndex device,
                                          const std::function<bool(cudaStream_t)>& filter) {
  try {
    const cudaStream_t stream = c10::cuda::getCurrentCUDAStream(device);
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    C10_CUDA_CHECK(cudaStreamIsCapturing(stream, &status));
    const bool captures = status != cudaStreamCaptureStatusNone || !filter(stream);
    return captures ? std::optional<cudaStream_t>(stream) : std::nullopt;
  } catch (const c10::Error&) {
    return nullptr;
  }
}

}  // namespace hocket
