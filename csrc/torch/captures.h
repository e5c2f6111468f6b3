// Why PyTorch opens a private pool: to capture a CUDA graph into it, or for memory that a program wants apart
// (torch.cuda.use_mem_pool, the warm-up of torch.compile's graph trees).
#ifndef HOCKET_CSRC_TORCH_CAPTURES_H_
#define HOCKET_CSRC_TORCH_CAPTURES_H_

#include <c10/core/Device.h>
#include <cuda_runtime_api.h>

#include <functional>
#include <optional>

namespace hocket {

// The stream that is captured into the pool that this thread opens on `device`, from now on or very soon;
// none: the pool is not for a capture. `filter` is what PyTorch passes to beginAllocateToPool: a graph's pool
// is opened before its capture begins and takes only what is captured, so its filter does not want the
// current stream yet; any other filter does. In the midst of a capture (that of a conditional node opens its
// graph's pool again) all are. Where it cannot be asked: nullptr, a capture on a stream that is not known.
std::optional<cudaStream_t> BeginsCapture(c10::DeviceIndex device,
                                          const std::function<bool(cudaStream_t)>& filter);

}  // namespace hocket

#endif  // HOCKET_CSRC_TORCH_CAPTURES_H_
