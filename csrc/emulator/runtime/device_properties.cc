#include "csrc/emulator/runtime/device_properties.h"

#include <cstring>

namespace hocket::emulator {
namespace {

struct Limit {
  cudaDeviceAttr attribute;
  int value;
};

constexpr Limit kLimits[] = {
    {cudaDevAttrComputeCapabilityMajor, 9},
    {cudaDevAttrComputeCapabilityMinor, 0},
    {cudaDevAttrMultiProcessorCount, 132},
    {cudaDevAttrWarpSize, 32},
    {cudaDevAttrMaxThreadsPerBlock, 1024},
    {cudaDevAttrMaxThreadsPerMultiProcessor, 2048},
    {cudaDevAttrMaxBlocksPerMultiprocessor, 32},
    {cudaDevAttrMaxBlockDimX, 1024},
    {cudaDevAttrMaxBlockDimY, 1024},
    {cudaDevAttrMaxBlockDimZ, 64},
    {cudaDevAttrMaxGridDimX, 2147483647},
    {cudaDevAttrMaxGridDimY, 65535},
    {cudaDevAttrMaxGridDimZ, 65535},
    {cudaDevAttrMaxSharedMemoryPerBlock, 48 << 10},
    {cudaDevAttrMaxSharedMemoryPerBlockOptin, 227 << 10},
    {cudaDevAttrMaxSharedMemoryPerMultiprocessor, 228 << 10},
    {cudaDevAttrReservedSharedMemoryPerBlock, 1 << 10},
    {cudaDevAttrMaxRegistersPerBlock, 65536},
    {cudaDevAttrMaxRegistersPerMultiprocessor, 65536},
    {cudaDevAttrTotalConstantMemory, 64 << 10},
    {cudaDevAttrL2CacheSize, 50 << 20},
    {cudaDevAttrClockRate, 1980000},
    {cudaDevAttrMemoryClockRate, 2619000},
    {cudaDevAttrGlobalMemoryBusWidth, 5120},
    {cudaDevAttrTextureAlignment, 512},
    {cudaDevAttrMaxPitch, 2147483647},
    {cudaDevAttrAsyncEngineCount, 3},
    {cudaDevAttrConcurrentKernels, 1},
    {cudaDevAttrUnifiedAddressing, 1},
    {cudaDevAttrStreamPrioritiesSupported, 1},
    {cudaDevAttrCooperativeLaunch, 1},
    {cudaDevAttrMemoryPoolsSupported, 0},
    {cudaDevAttrManagedMemory, 0},
    {cudaDevAttrHostRegisterSupported, 1},
    {cudaDevAttrComputePreemptionSupported, 1},
};

int LimitOf(cudaDeviceAttr attribute) {
  int value = 0;
  ModelledAttribute(attribute, &value);
  return value;
}

void FillLimits(cudaDeviceProp* p) {
  p->major = LimitOf(cudaDevAttrComputeCapabilityMajor);
  p->minor = LimitOf(cudaDevAttrComputeCapabilityMinor);
  p->multiProcessorCount = LimitOf(cudaDevAttrMultiProcessorCount);
  p->warpSize = LimitOf(cudaDevAttrWarpSize);
  p->maxThreadsPerBlock = LimitOf(cudaDevAttrMaxThreadsPerBlock);
  p->maxThreadsPerMultiProcessor = LimitOf(cudaDevAttrMaxThreadsPerMultiProcessor);
  p->maxBlocksPerMultiProcessor = LimitOf(cudaDevAttrMaxBlocksPerMultiprocessor);
  p->maxThreadsDim[0] = LimitOf(cudaDevAttrMaxBlockDimX);
  p->maxThreadsDim[1] = LimitOf(cudaDevAttrMaxBlockDimY);
  p->maxThreadsDim[2] = LimitOf(cudaDevAttrMaxBlockDimZ);
  p->maxGridSize[0] = LimitOf(cudaDevAttrMaxGridDimX);
  p->maxGridSize[1] = LimitOf(cudaDevAttrMaxGridDimY);
  p->maxGridSize[2] = LimitOf(cudaDevAttrMaxGridDimZ);
}

void FillMemories(cudaDeviceProp* p) {
  p->sharedMemPerBlock = LimitOf(cudaDevAttrMaxSharedMemoryPerBlock);
  p->sharedMemPerBlockOptin = LimitOf(cudaDevAttrMaxSharedMemoryPerBlockOptin);
  p->sharedMemPerMultiprocessor = LimitOf(cudaDevAttrMaxSharedMemoryPerMultiprocessor);
  p->reservedSharedMemPerBlock = LimitOf(cudaDevAttrReservedSharedMemoryPerBlock);
  p->regsPerBlock = LimitOf(cudaDevAttrMaxRegistersPerBlock);
  p->regsPerMultiprocessor = LimitOf(cudaDevAttrMaxRegistersPerMultiprocessor);
  p->totalConstMem = LimitOf(cudaDevAttrTotalConstantMemory);
  p->l2CacheSize = LimitOf(cudaDevAttrL2CacheSize);
  p->memoryBusWidth = LimitOf(cudaDevAttrGlobalMemoryBusWidth);
  p->textureAlignment = LimitOf(cudaDevAttrTextureAlignment);
  p->memPitch = LimitOf(cudaDevAttrMaxPitch);
}

void FillAbilities(cudaDeviceProp* p) {
  p->asyncEngineCount = LimitOf(cudaDevAttrAsyncEngineCount);
  p->concurrentKernels = LimitOf(cudaDevAttrConcurrentKernels);
  p->unifiedAddressing = LimitOf(cudaDevAttrUnifiedAddressing);
  p->streamPrioritiesSupported = LimitOf(cudaDevAttrStreamPrioritiesSupported);
  p->cooperativeLaunch = LimitOf(cudaDevAttrCooperativeLaunch);
  p->hostRegisterSupported = LimitOf(cudaDevAttrHostRegisterSupported);
  p->computePreemptionSupported = LimitOf(cudaDevAttrComputePreemptionSupported);
}

}  // namespace

bool ModelledAttribute(cudaDeviceAttr attribute, int* value) {
  for (const Limit& limit : kLimits) {
    if (limit.attribute != attribute) continue;
    *value = limit.value;
    return true;
  }
  return false;
}

CUresult FillProperties(cudaDeviceProp* properties, int device) {
  std::memset(properties, 0, sizeof *properties);
  CUdevice handle = 0;
  if (CUresult error = cuDeviceGet(&handle, device)) return error;
  FillLimits(properties);
  FillMemories(properties);
  FillAbilities(properties);
  properties->pciBusID = device + 1;
  cuDeviceGetUuid(reinterpret_cast<CUuuid*>(&properties->uuid), handle);
  cuDeviceTotalMem(&properties->totalGlobalMem, handle);
  return cuDeviceGetName(properties->name, sizeof properties->name, handle);
}

}  // namespace hocket::emulator
