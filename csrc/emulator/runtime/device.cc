// Devices: how many, what they are, waiting for one.
#include <cstring>

#include "csrc/emulator/runtime/call.h"
#include "csrc/emulator/runtime/device_properties.h"

using hocket::emulator::CurrentDevice;
using hocket::emulator::EnterDuringLoad;
using hocket::emulator::Finish;

HOCKET_RUNTIME_EXPORT cudaError_t cudaGetDeviceCount(int* count) {
  *count = 0;
  if (cudaError_t error = EnterDuringLoad()) return Finish(error);
  return Finish(cuDeviceGetCount(count));
}

HOCKET_RUNTIME_EXPORT cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  if (cudaError_t error = EnterDuringLoad()) return Finish(error);
  return Finish(hocket::emulator::FillProperties(properties, device));
}

HOCKET_RUNTIME_EXPORT cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  if (cudaError_t error = EnterDuringLoad()) return Finish(error);
  return Finish(cuDeviceGetAttribute(value, static_cast<CUdevice_attribute>(attribute), device));
}

HOCKET_RUNTIME_EXPORT cudaError_t cudaDeviceGetPCIBusId(char* text, int length, int device) {
  if (cudaError_t error = EnterDuringLoad()) return Finish(error);
  return Finish(cuDeviceGetPCIBusId(text, length, device));
}

HOCKET_RUNTIME_EXPORT cudaError_t cudaDriverGetVersion(int* version) {
  return Finish(cuDriverGetVersion(version));
}

HOCKET_RUNTIME_EXPORT cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

HOCKET_RUNTIME_EXPORT cudaError_t cudaDeviceSynchronize() {
  HOCKET_ENTER();
  return Finish(cuCtxSynchronize());
}

HOCKET_RUNTIME_EXPORT cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  HOCKET_ENTER();
  return Finish(cuCtxGetStreamPriorityRange(least, greatest));
}

HOCKET_RUNTIME_EXPORT cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  if (cudaError_t error = EnterDuringLoad()) return Finish(error);
  return Finish(cuDeviceCanAccessPeer(can, device, peer));
}

// Where devices say that they are peers, any kernel reaches all of them anyway.
HOCKET_RUNTIME_EXPORT cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned) {
  HOCKET_ENTER();
  int can = 0;
  const CUresult asked = cuDeviceCanAccessPeer(&can, CurrentDevice(), peer);
  if (asked != CUDA_SUCCESS) return Finish(asked);
  return Finish(can != 0 ? cudaSuccess : cudaErrorPeerAccessUnsupported);
}

HOCKET_RUNTIME_EXPORT cudaError_t cudaProfilerStart() { return cudaSuccess; }
HOCKET_RUNTIME_EXPORT cudaError_t cudaProfilerStop() { return cudaSuccess; }
