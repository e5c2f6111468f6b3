// Device memory, pinned host memory, copies and fills. Bytes and capacity are the driver's.
#include <cstring>
#include <utility>

#include "csrc/emulator/emulator_api.h"
#include "csrc/emulator/runtime/call.h"

using hocket::emulator::Finish;
using hocket::emulator::FinishWith;

namespace {

CUdeviceptr Address(const void* pointer) { return reinterpret_cast<CUdeviceptr>(pointer); }

// In timing mode no kernel has computed what a program reads back, so it reads zeros.
void CUDA_CB Zero(void* request) {
  auto* range = static_cast<std::pair<void*, size_t>*>(request);
  std::memset(range->first, 0, range->second);
  delete range;
}

// cudaHostAlloc() or cudaHostRegister() gave it: copies there come later than the call.
bool IsPinned(const void* host) {
  unsigned type = 0;
  return cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, Address(host)) == CUDA_SUCCESS;
}

bool Captures(cudaStream_t stream) {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  return cuStreamIsCapturing(stream, &status) == CUDA_SUCCESS && status != CU_STREAM_CAPTURE_STATUS_NONE;
}

bool ReadsBack(const void* to, const void* from) {
  return hocket_emulator_is_timing() && hocket_emulator_is_device_address(Address(from)) &&
         !hocket_emulator_is_device_address(Address(to));
}

CUresult CopyAsync(void* to, const void* from, size_t bytes, cudaStream_t stream) {
  if (CUresult error = cuMemcpyAsync(Address(to), Address(from), bytes, stream)) return error;
  if (!ReadsBack(to, from)) return CUDA_SUCCESS;
  if (!IsPinned(to) && !Captures(stream)) {
    std::memset(to, 0, bytes);  // the copy was waited for, and the memory is the program's again
    return CUDA_SUCCESS;
  }
  return cuLaunchHostFunc(stream, Zero, new std::pair<void*, size_t>(to, bytes));
}

CUDA_MEMCPY2D Rectangle(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
                        size_t height) {
  CUDA_MEMCPY2D copy = {};
  copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
  copy.srcDevice = Address(from);
  copy.dstDevice = Address(to);
  copy.srcPitch = from_pitch;
  copy.dstPitch = to_pitch;
  copy.WidthInBytes = width;
  copy.Height = height;
  return copy;
}

}  // namespace

HOCKET_RUNTIME_EXPORT cudaError_t cudaMalloc(void** pointer, size_t bytes) {
  HOCKET_ENTER();
  *pointer = nullptr;
  if (bytes == 0) return cudaSuccess;
  return Finish(cuMemAlloc(reinterpret_cast<CUdeviceptr*>(pointer), bytes));
}

HOCKET_RUNTIME_EXPORT cudaError_t cudaFree(void* pointer) {
  HOCKET_ENTER();
  return pointer == nullptr ? cudaSuccess : Finish(cuMemFree(Address(pointer)));
}

// The stream-ordered allocator (PYTORCH_ALLOC_CONF=backend:cudaMallocAsync) is served by the plain one:
// memory is had at once, and freed once the stream has come to it.
HOCKET_RUNTIME_EXPORT cudaError_t cudaMallocAsync(void** pointer, size_t bytes, cudaStream_t) {
  return cudaMalloc(pointer, bytes);
}

HOCKET_RUNTIME_EXPORT cudaError_t cudaFreeAsync(void* pointer, cudaStream_t stream) {
  HOCKET_ENTER();
  if (CUresult error = cuStreamSynchronize(stream)) return Finish(error);
  return cudaFree(pointer);
}

HOCKET_RUNTIME_EXPORT cudaError_t cudaMallocManaged(void**, size_t, unsigned) {
  return FinishWith(cudaErrorNotSupported, "the emulated GPU has no managed (unified) memory");
}

HOCKET_RUNTIME_EXPORT cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  HOCKET_ENTER();
  return Finish(cuMemGetInfo(free, total));
}

HOCKET_RUNTIME_EXPORT cudaError_t cudaHostAlloc(void** pointer, size_t bytes, unsigned flags) {
  HOCKET_ENTER();
  return Finish(cuMemHostAlloc(pointer, bytes, flags));
}

HOCKET_RUNTIME_EXPORT cudaError_t cudaMallocHost(void** pointer, size_t bytes) {
  return cudaHostAlloc(pointer, bytes, cudaHostAllocDefault);
}

HOCKET_RUNTIME_EXPORT cudaError_t cudaFreeHost(void* pointer) {
  HOCKET_ENTER();
  return pointer == nullptr ? cudaSuccess : Finish(cuMemFreeHost(pointer));
}

HOCKET_RUNTIME_EXPORT cudaError_t cudaHostRegister(void* pointer, size_t bytes, unsigned flags) {
  HOCKET_ENTER();
  return Finish(cuMemHostRegister(pointer, bytes, flags));
}

HOCKET_RUNTIME_EXPORT cudaError_t cudaHostUnregister(void* pointer) {
  HOCKET_ENTER();
  return Finish(cuMemHostUnregister(pointer));
}

HOCKET_RUNTIME_EXPORT cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind,
                                                  cudaStream_t stream) {
  HOCKET_ENTER();
  return bytes == 0 ? cudaSuccess : Finish(CopyAsync(to, from, bytes, stream));
}

HOCKET_RUNTIME_EXPORT cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind) {
  HOCKET_ENTER();
  if (bytes == 0) return cudaSuccess;
  if (CUresult error = cuMemcpy(Address(to), Address(from), bytes)) return Finish(error);
  if (ReadsBack(to, from)) std::memset(to, 0, bytes);
  return cudaSuccess;
}

HOCKET_RUNTIME_EXPORT cudaError_t cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from,
                                                    size_t from_pitch, size_t width, size_t height,
                                                    cudaMemcpyKind, cudaStream_t stream) {
  HOCKET_ENTER();
  if (width == 0 || height == 0) return cudaSuccess;
  const CUDA_MEMCPY2D copy = Rectangle(to, to_pitch, from, from_pitch, width, height);
  return Finish(cuMemcpy2DAsync(&copy, stream));
}

HOCKET_RUNTIME_EXPORT cudaError_t cudaMemcpyPeerAsync(void* to, int, const void* from, int, size_t bytes,
                                                      cudaStream_t stream) {
  HOCKET_ENTER();
  return bytes == 0 ? cudaSuccess : Finish(cuMemcpyAsync(Address(to), Address(from), bytes, stream));
}

HOCKET_RUNTIME_EXPORT cudaError_t cudaMemset(void* to, int value, size_t bytes) {
  HOCKET_ENTER();
  return bytes == 0 ? cudaSuccess : Finish(cuMemsetD8(Address(to), static_cast<unsigned char>(value), bytes));
}

HOCKET_RUNTIME_EXPORT cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t stream) {
  HOCKET_ENTER();
  if (bytes == 0) return cudaSuccess;
  return Finish(cuMemsetD8Async(Address(to), static_cast<unsigned char>(value), bytes, stream));
}

HOCKET_RUNTIME_EXPORT cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes,
                                                           const void* pointer) {
  HOCKET_ENTER();
  *attributes = {};
  attributes->type = cudaMemoryTypeUnregistered;
  unsigned type = 0;
  if (cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, Address(pointer)) != CUDA_SUCCESS) {
    return cudaSuccess;  // plain host memory
  }
  const bool device = type == CU_MEMORYTYPE_DEVICE;
  attributes->type = device ? cudaMemoryTypeDevice : cudaMemoryTypeHost;
  if (device) attributes->devicePointer = const_cast<void*>(pointer);
  if (!device) attributes->hostPointer = attributes->devicePointer = const_cast<void*>(pointer);
  int ordinal = 0;
  if (cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, Address(pointer)) ==
      CUDA_SUCCESS) {
    attributes->device = ordinal;
  }
  return cudaSuccess;
}
