// The driver's functions as the emulator's tests call them.
#ifndef HOCKET_TESTS_EMULATOR_DRIVER_FUNCTIONS_H_
#define HOCKET_TESTS_EMULATOR_DRIVER_FUNCTIONS_H_

#include <unistd.h>

#include <cstdlib>
#include <string>

#include "csrc/base/bytes.h"
#include "csrc/emulator/driver/abi.h"
#include "csrc/emulator/emulator_api.h"

namespace hocket::cuda {
extern "C" {
Result cuInit(unsigned);
Result cuDriverGetVersion(int*);
Result cuGetErrorName(Result, const char**);
Result cuGetErrorString(Result, const char**);
Result cuGetProcAddress_v2(const char*, void**, int, std::uint64_t, int*);
Result cuDeviceGet(Device*, int);
Result cuDeviceGetCount(int*);
Result cuDeviceGetName(char*, int, Device);
Result cuDeviceGetUuid_v2(Uuid*, Device);
Result cuDeviceTotalMem_v2(std::size_t*, Device);
Result cuDeviceGetAttribute(int*, int, Device);
Result cuDevicePrimaryCtxRetain(Context*, Device);
Result cuDevicePrimaryCtxGetState(Device, unsigned*, int*);
Result cuCtxSetCurrent(Context);
Result cuCtxGetCurrent(Context*);
Result cuCtxPushCurrent_v2(Context);
Result cuCtxPopCurrent_v2(Context*);
Result cuCtxGetDevice(Device*);
Result cuCtxSynchronize();
Result cuCtxRecordEvent(Context, Event);
Result cuCtxWaitEvent(Context, Event);
Result cuMemGetInfo_v2(std::size_t*, std::size_t*);
Result cuMemAlloc_v2(DevicePtr*, std::size_t);
Result cuMemFree_v2(DevicePtr);
Result cuMemAddressReserve(DevicePtr*, std::size_t, std::size_t, DevicePtr, unsigned long long);
Result cuMemAddressFree(DevicePtr, std::size_t);
Result cuMemCreate(MemoryHandle*, std::size_t, const AllocationProperties*, unsigned long long);
Result cuMemRelease(MemoryHandle);
Result cuMemMap(DevicePtr, std::size_t, std::size_t, MemoryHandle, unsigned long long);
Result cuMemUnmap(DevicePtr, std::size_t);
Result cuMemSetAccess(DevicePtr, std::size_t, const AccessDescription*, std::size_t);
Result cuMemGetAccess(unsigned long long*, const MemoryLocation*, DevicePtr);
Result cuMemExportToShareableHandle(void*, MemoryHandle, int, unsigned long long);
Result cuMemImportFromShareableHandle(MemoryHandle*, void*, int);
Result cuMemRetainAllocationHandle(MemoryHandle*, void*);
Result cuMemGetAllocationGranularity(std::size_t*, const AllocationProperties*, int);
Result cuMemGetAllocationPropertiesFromHandle(AllocationProperties*, MemoryHandle);
Result cuMemHostAlloc(void**, std::size_t, unsigned);
Result cuMemFreeHost(void*);
Result cuMemHostRegister_v2(void*, std::size_t, unsigned);
Result cuMemHostUnregister(void*);
Result cuPointerGetAttribute(void*, int, DevicePtr);
Result cuMemcpy(DevicePtr, DevicePtr, std::size_t);
Result cuMemcpyHtoD_v2(DevicePtr, const void*, std::size_t);
Result cuMemcpyDtoH_v2(void*, DevicePtr, std::size_t);
Result cuMemcpyHtoDAsync_v2(DevicePtr, const void*, std::size_t, Stream);
Result cuMemcpyDtoHAsync_v2(void*, DevicePtr, std::size_t, Stream);
Result cuMemcpyDtoDAsync_v2(DevicePtr, DevicePtr, std::size_t, Stream);
Result cuMemsetD8Async(DevicePtr, unsigned char, std::size_t, Stream);
Result cuMemsetD32_v2(DevicePtr, unsigned, std::size_t);
Result cuStreamCreate(Stream*, unsigned);
Result cuStreamCreateWithPriority(Stream*, unsigned, int);
Result cuStreamDestroy_v2(Stream);
Result cuStreamSynchronize(Stream);
Result cuStreamQuery(Stream);
Result cuStreamWaitEvent(Stream, Event, unsigned);
Result cuStreamBeginCapture_v2(Stream, int);
Result cuStreamEndCapture(Stream, Graph*);
Result cuStreamIsCapturing(Stream, int*);
Result cuThreadExchangeStreamCaptureMode(int*);
Result cuGraphInstantiateWithFlags(GraphExec*, Graph, unsigned long long);
Result cuGraphLaunch(GraphExec, Stream);
Result cuGraphDestroy(Graph);
Result cuGraphExecDestroy(GraphExec);
Result cuEventCreate(Event*, unsigned);
Result cuEventDestroy_v2(Event);
Result cuEventRecord(Event, Stream);
Result cuEventQuery(Event);
Result cuEventSynchronize(Event);
Result cuEventElapsedTime_v2(float*, Event, Event);
Result cuIpcGetEventHandle(IpcHandle*, Event);
Result cuIpcOpenEventHandle(Event*, IpcHandle);
Result cuIpcGetMemHandle(IpcHandle*, DevicePtr);
Result cuIpcOpenMemHandle_v2(DevicePtr*, IpcHandle, unsigned);
Result cuIpcCloseMemHandle(DevicePtr);
Result cuLaunchHostFunc(Stream, HostFunction, void*);
Result cuLinkComplete();
}  // extern "C"
}  // namespace hocket::cuda

namespace hocket {

// What every allocation here asks for: memory on device 0, exportable.
inline cuda::AllocationProperties OnDevice(int device = 0) {
  cuda::AllocationProperties properties = {};
  properties.type = cuda::kAllocationPinned;
  properties.requested_handle_types = cuda::kHandlePosixFd;
  properties.location = {cuda::kLocationDevice, device};
  return properties;
}

inline cuda::AccessDescription ReadWrite(int device = 0) {
  return {{cuda::kLocationDevice, device}, cuda::kAccessReadWrite};
}

// Makes device 0's primary context current on the calling thread.
inline cuda::Result UseDevice(int device = 0) {
  if (const cuda::Result result = cuda::cuInit(0)) return result;
  cuda::Context context;
  if (const cuda::Result result = cuda::cuDevicePrimaryCtxRetain(&context, device)) return result;
  return cuda::cuCtxSetCurrent(context);
}

}  // namespace hocket

#endif  // HOCKET_TESTS_EMULATOR_DRIVER_FUNCTIONS_H_
