// The driver's functions, found by name in libcuda.so.1 at run time.
//
// Nothing links libcuda. A process on the emulated GPU finds another library under the same name; tests
// copy a table and replace some of its pointers to fail or count calls.
#ifndef HOCKET_ALLOCATOR_DRIVER_TABLE_H_
#define HOCKET_ALLOCATOR_DRIVER_TABLE_H_

#include "absl/status/statusor.h"
#include "allocator/cuda_abi.h"

namespace hocket {

// X(member, exported name, parameters). The exported name is the version that the vendor's header maps the
// plain name to (cuMemGetInfo is cuMemGetInfo_v2). cuEventElapsedTime is the exception: its second version is
// younger than the oldest drivers served here, and asks for the same. All return cuda::Result.
#define HOCKET_DRIVER_FUNCTIONS(X)                                                                         \
  X(Init, "cuInit", (unsigned flags))                                                                      \
  X(GetErrorName, "cuGetErrorName", (cuda::Result error, const char** name))                               \
  X(DeviceGetCount, "cuDeviceGetCount", (int* count))                                                      \
  X(DeviceGetName, "cuDeviceGetName", (char* name, int length, cuda::Device device))                       \
  X(DeviceGetUuid, "cuDeviceGetUuid_v2", (cuda::Uuid * uuid, cuda::Device device))                         \
  X(DeviceTotalMem, "cuDeviceTotalMem_v2", (std::size_t * bytes, cuda::Device device))                     \
  X(DeviceGetAttribute, "cuDeviceGetAttribute", (int* value, int attribute, cuda::Device device))          \
  X(PrimaryCtxRetain, "cuDevicePrimaryCtxRetain", (cuda::Context * context, cuda::Device device))          \
  X(CtxSetCurrent, "cuCtxSetCurrent", (cuda::Context context))                                             \
  X(CtxGetCurrent, "cuCtxGetCurrent", (cuda::Context * context))                                           \
  X(CtxSynchronize, "cuCtxSynchronize", ())                                                                \
  X(ThreadExchangeStreamCaptureMode, "cuThreadExchangeStreamCaptureMode", (int* mode))                     \
  X(MemGetInfo, "cuMemGetInfo_v2", (std::size_t * free, std::size_t * total))                              \
  X(MemGetAllocationGranularity, "cuMemGetAllocationGranularity",                                          \
    (std::size_t * granularity, const cuda::AllocationProperties* properties, int option))                 \
  X(MemAddressReserve, "cuMemAddressReserve",                                                              \
    (DevicePtr * address, std::size_t size, std::size_t alignment, DevicePtr hint,                         \
     unsigned long long flags))                                                                            \
  X(MemAddressFree, "cuMemAddressFree", (DevicePtr address, std::size_t size))                             \
  X(MemCreate, "cuMemCreate",                                                                              \
    (cuda::MemoryHandle * handle, std::size_t size, const cuda::AllocationProperties* properties,          \
     unsigned long long flags))                                                                            \
  X(MemRelease, "cuMemRelease", (cuda::MemoryHandle handle))                                               \
  X(MemMap, "cuMemMap",                                                                                    \
    (DevicePtr address, std::size_t size, std::size_t offset, cuda::MemoryHandle handle,                   \
     unsigned long long flags))                                                                            \
  X(MemUnmap, "cuMemUnmap", (DevicePtr address, std::size_t size))                                         \
  X(MemSetAccess, "cuMemSetAccess",                                                                        \
    (DevicePtr address, std::size_t size, const cuda::AccessDescription* access, std::size_t count))       \
  X(MemExport, "cuMemExportToShareableHandle",                                                             \
    (void* shareable, cuda::MemoryHandle handle, int type, unsigned long long flags))                      \
  X(MemImport, "cuMemImportFromShareableHandle", (cuda::MemoryHandle * handle, void* shareable, int type)) \
  X(MemHostRegister, "cuMemHostRegister_v2", (void* address, std::size_t size, unsigned flags))            \
  X(MemHostUnregister, "cuMemHostUnregister", (void* address))                                             \
  X(MemcpyDtoHAsync, "cuMemcpyDtoHAsync_v2", (void* to, DevicePtr from, std::size_t size, Stream stream))  \
  X(MemcpyHtoDAsync, "cuMemcpyHtoDAsync_v2",                                                               \
    (DevicePtr to, const void* from, std::size_t size, Stream stream))                                     \
  X(StreamCreate, "cuStreamCreate", (Stream * stream, unsigned flags))                                     \
  X(StreamDestroy, "cuStreamDestroy_v2", (Stream stream))                                                  \
  X(StreamSynchronize, "cuStreamSynchronize", (Stream stream))                                             \
  X(EventCreate, "cuEventCreate", (cuda::Event * event, unsigned flags))                                   \
  X(EventDestroy, "cuEventDestroy_v2", (cuda::Event event))                                                \
  X(EventRecord, "cuEventRecord", (cuda::Event event, Stream stream))                                      \
  X(EventQuery, "cuEventQuery", (cuda::Event event))                                                       \
  X(EventSynchronize, "cuEventSynchronize", (cuda::Event event))                                           \
  X(EventElapsedTime, "cuEventElapsedTime", (float* milliseconds, cuda::Event from, cuda::Event to))

// A function of newer drivers that may be absent (nullptr then): records an event behind all streams.
#define HOCKET_DRIVER_OPTIONAL_FUNCTIONS(X)                                 \
  X(StreamIsCapturing, "cuStreamIsCapturing", (Stream stream, int* status)) \
  X(CtxRecordEvent, "cuCtxRecordEvent", (cuda::Context context, cuda::Event event))

struct DriverTable {
#define HOCKET_DRIVER_MEMBER(member, name, parameters) cuda::Result(*member) parameters = nullptr;
  HOCKET_DRIVER_FUNCTIONS(HOCKET_DRIVER_MEMBER)
  HOCKET_DRIVER_OPTIONAL_FUNCTIONS(HOCKET_DRIVER_MEMBER)
#undef HOCKET_DRIVER_MEMBER

  // Loads `library` (kept for the life of the process) and finds every function. kUnavailable: the
  // library or a function is missing; the message names it and says what to do.
  static absl::StatusOr<DriverTable> Load(const char* library = "libcuda.so.1");
};

// The newest CUDA that the driver supports, as cuDriverGetVersion says it: 13020 is CUDA 13.2. It answers for
// a driver that does not start, or lacks functions that Hocket calls, too. kUnavailable: there is no driver.
absl::StatusOr<int> DriverVersion(const char* library = "libcuda.so.1");

}  // namespace hocket

#endif  // HOCKET_ALLOCATOR_DRIVER_TABLE_H_
