// The driver's functions that deal with stream capture.
#include "csrc/emulator/driver/gpu.h"

using hocket::Stream;
using hocket::cuda::Result;
using namespace hocket::emulator;  // NOLINT: one file of forwarding functions
namespace cuda = hocket::cuda;

namespace {

thread_local int capture_mode = cuda::kCaptureGlobal;

}  // namespace

HOCKET_DRIVER_API Result cuThreadExchangeStreamCaptureMode(int* mode) {
  HOCKET_ENTER();
  if (mode == nullptr || *mode < cuda::kCaptureGlobal || *mode > cuda::kCaptureRelaxed)
    return cuda::kInvalidValue;
  std::swap(*mode, capture_mode);
  return cuda::kSuccess;
}

HOCKET_DRIVER_API Result cuStreamIsCapturing(Stream handle, int* status) {
  HOCKET_ENTER();
  if (Gpu::Get().FindStream(handle) == nullptr) return cuda::kInvalidHandle;
  *status = cuda::kCaptureStatusNone;
  return cuda::kSuccess;
}

HOCKET_DRIVER_API Result cuStreamGetCaptureInfo_v3(Stream handle, int* status, std::uint64_t* id,
                                                   cuda::Graph* graph, const void** dependencies,
                                                   const void** edges, std::size_t* count) {
  HOCKET_ENTER();
  if (Gpu::Get().FindStream(handle) == nullptr) return cuda::kInvalidHandle;
  *status = cuda::kCaptureStatusNone;
  return cuda::kSuccess;
}
