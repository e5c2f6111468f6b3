#include "csrc/emulator/runtime/device_properties.h"

#include <cstring>

namespace hocket::emulator {
namespace {

// The driver's attributes, whose numbers the runtime's are too.
struct Limits {
  CUdevice device;

  int Of(cudaDeviceAttr attribute) const {
    int value = 0;
    cuDeviceGetAttribute(&value, static_cast<CUdevice_attribute>(attribute), device);
    return value;
  }
};

void FillLimits(const Limits& limits, cudaDeviceProp* p) {
  p->major = limits.Of(cudaDevAttrComputeCapabilityMajor);
  p->minor = limits.Of(cudaDevAttrComputeCapabilityMinor);
  p->multiProcessorCount = limits.Of(cudaDevAttrMultiProcessorCount);
  p->warpSize = limits.Of(cudaDevAttrWarpSize);
  p->maxThreadsPerBlock = limits.Of(cudaDevAttrMaxThreadsPerBlock);
  p->maxThreadsPerMultiProcessor = limits.Of(cudaDevAttrMaxThreadsPerMultiProcessor);
  p->maxBlocksPerMultiProcessor = limits.Of(cudaDevAttrMaxBlocksPerMultiprocessor);
  p->maxThreadsDim[0] = limits.Of(cudaDevAttrMaxBlockDimX);
  p->maxThreadsDim[1] = limits.Of(cudaDevAttrMaxBlockDimY);
  p->maxThreadsDim[2] = limits.Of(cudaDevAttrMaxBlockDimZ);
  p->maxGridSize[0] = limits.Of(cudaDevAttrMaxGridDimX);
  p->maxGridSize[1] = limits.Of(cudaDevAttrMaxGridDimY);
  p->maxGridSize[2] = limits.Of(cudaDevAttrMaxGridDimZ);
}

void FillMemories(const Limits& limits, cudaDeviceProp* p) {
  p->sharedMemPerBlock = limits.Of(cudaDevAttrMaxSharedMemoryPerBlock);
  p->sharedMemPerBlockOptin = limits.Of(cudaDevAttrMaxSharedMemoryPerBlockOptin);
  p->sharedMemPerMultiprocessor = limits.Of(cudaDevAttrMaxSharedMemoryPerMultiprocessor);
  p->reservedSharedMemPerBlock = limits.Of(cudaDevAttrReservedSharedMemoryPerBlock);
  p->regsPerBlock = limits.Of(cudaDevAttrMaxRegistersPerBlock);
  p->regsPerMultiprocessor = limits.Of(cudaDevAttrMaxRegistersPerMultiprocessor);
  p->totalConstMem = limits.Of(cudaDevAttrTotalConstantMemory);
  p->l2CacheSize = limits.Of(cudaDevAttrL2CacheSize);
  p->memoryBusWidth = limits.Of(cudaDevAttrGlobalMemoryBusWidth);
  p->textureAlignment = limits.Of(cudaDevAttrTextureAlignment);
  p->memPitch = limits.Of(cudaDevAttrMaxPitch);
}

void FillAbilities(const Limits& limits, cudaDeviceProp* p) {
  p->asyncEngineCount = limits.Of(cudaDevAttrAsyncEngineCount);
  p->concurrentKernels = limits.Of(cudaDevAttrConcurrentKernels);
  p->unifiedAddressing = limits.Of(cudaDevAttrUnifiedAddressing);
  p->streamPrioritiesSupported = limits.Of(cudaDevAttrStreamPrioritiesSupported);
  p->cooperativeLaunch = limits.Of(cudaDevAttrCooperativeLaunch);
  p->hostRegisterSupported = limits.Of(cudaDevAttrHostRegisterSupported);
  p->computePreemptionSupported = limits.Of(cudaDevAttrComputePreemptionSupported);
}

}  // namespace

CUresult FillProperties(cudaDeviceProp* properties, int device) {
  std::memset(properties, 0, sizeof *properties);
  CUdevice handle = 0;
  if (CUresult error = cuDeviceGet(&handle, device)) return error;
  FillLimits({handle}, properties);
  FillMemories({handle}, properties);
  FillAbilities({handle}, properties);
  properties->pciBusID = device + 1;
  cuDeviceGetUuid(reinterpret_cast<CUuuid*>(&properties->uuid), handle);
  cuDeviceTotalMem(&properties->totalGlobalMem, handle);
  return cuDeviceGetName(properties->name, sizeof properties->name, handle);
}

}  // namespace hocket::emulator
