// Where PyTorch's native allocator gets its segments from: libc10_cuda's calls of cudaMalloc and cudaFree
// lead here once RedirectSegments() has been called, and are answered here from ServeSegments() on.
//
//   native allocator -> cudaMalloc -> CachingAllocator::Malloc (a persistent block, serves_segments)
//                    -> cudaFree   -> CachingAllocator::Free; what was not allocated here: the real cudaFree
//
// Only libc10_cuda's calls: what NCCL, cuDNN or another extension allocates for itself stays as it is.
// A call waits for the turn and for room as any allocation does. An error is returned as CUDA returns it, and
// never becomes what cudaGetLastError() says: nothing was asked of the CUDA runtime.
#ifndef HOCKET_CSRC_TORCH_SEGMENTS_H_
#define HOCKET_CSRC_TORCH_SEGMENTS_H_

#include <atomic>
#include <exception>
#include <string>

#include "absl/status/status.h"
#include "csrc/torch/devices.h"

namespace hocket {

// For good. kNotFound: this libc10_cuda does not import the two from another library; nothing has changed.
absl::Status RedirectSegments();
// Both are borrowed and live until the process ends.
void ServeSegments(Devices& devices, const std::atomic<bool>& forked);

// Why this thread's last cudaMalloc failed, with who holds what; "" if it did not. Forgets it.
std::string TakeRefusal();
// What a signal's handler raised in it, if it failed for that (interruption.h). Forgets it.
std::exception_ptr TakeRaisedInMalloc();

}  // namespace hocket

#endif  // HOCKET_CSRC_TORCH_SEGMENTS_H_
