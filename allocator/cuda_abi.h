// The part of the CUDA driver's C interface that Hocket uses, declared here so that a build needs no CUDA
// headers. Layouts and numbers are those of CUDA 12 and 13 (tests/allocator/cuda_abi_test.cc compares them
// with the vendor's header where one is found).
//
// The opaque structs are declared at global scope under the vendor's names, so a program that includes
// both this and cuda.h has one CUstream, not two.
#ifndef HOCKET_ALLOCATOR_CUDA_ABI_H_
#define HOCKET_ALLOCATOR_CUDA_ABI_H_

#include <cstddef>
#include <cstdint>

struct CUctx_st;
struct CUstream_st;
struct CUevent_st;

namespace hocket {

// An address in device memory (CUdeviceptr).
using DevicePtr = std::uint64_t;
// A queue of device work (CUstream, cudaStream_t). nullptr is the legacy default stream.
using Stream = CUstream_st*;

namespace cuda {

using Result = int;
using Device = int;
using Context = CUctx_st*;
using Event = CUevent_st*;
using MemoryHandle = unsigned long long;

inline constexpr Result kSuccess = 0;
inline constexpr Result kInvalidValue = 1;
inline constexpr Result kOutOfMemory = 2;
inline constexpr Result kDeviceUnavailable = 46;
inline constexpr Result kNoDevice = 100;
inline constexpr Result kNotReady = 600;
// Those of which the vendor's manual says that every call which works on a device answers the same from then
// on, until the process has ended (CUresult).
inline constexpr Result kContained = 226;
inline constexpr Result kIllegalAddress = 700;
inline constexpr Result kLaunchTimeout = 702;
inline constexpr Result kAssert = 710;
inline constexpr Result kHardwareStackError = 714;
inline constexpr Result kIllegalInstruction = 715;
inline constexpr Result kMisalignedAddress = 716;
inline constexpr Result kInvalidAddressSpace = 717;
inline constexpr Result kInvalidPc = 718;
inline constexpr Result kLaunchFailed = 719;
inline constexpr Result kTensorMemoryLeak = 721;
inline constexpr Result kLastingErrors[] = {
    kContained,          kIllegalAddress,     kLaunchTimeout,     kAssert,
    kHardwareStackError, kIllegalInstruction, kMisalignedAddress, kInvalidAddressSpace,
    kInvalidPc,          kLaunchFailed,       kTensorMemoryLeak};
inline constexpr Result kCaptureErrors[] = {900, 908};  // the first and the last of them

inline constexpr int kAttributeComputeMode = 20;
inline constexpr int kAttributeVirtualMemory = 102;
inline constexpr int kAttributePosixHandles = 103;
inline constexpr int kAttributeHostNode = 134;     // the host's NUMA node next to the device; -1: none
inline constexpr int kAttributeHostMapping = 141;  // host memory can lie behind device addresses

inline constexpr int kComputeModeProhibited = 2;
inline constexpr int kComputeModeExclusiveProcess = 3;

inline constexpr unsigned kStreamNonBlocking = 1;
inline constexpr unsigned kEventBlockingSync = 1;
inline constexpr unsigned kEventDisableTiming = 2;
inline constexpr unsigned kHostRegisterPortable = 1;

inline constexpr int kAllocationPinned = 1;
inline constexpr int kHandlePosixFd = 1;
inline constexpr int kLocationDevice = 1;
inline constexpr int kLocationHostNode = 3;  // a NUMA node
inline constexpr int kAccessRead = 1;
inline constexpr int kAccessReadWrite = 3;
inline constexpr int kGranularityMinimum = 0;
inline constexpr int kCaptureRelaxed = 2;  // a mode
inline constexpr int kCaptureNone = 0;     // what a stream is in
inline constexpr int kCaptureActive = 1;

struct Uuid {
  unsigned char bytes[16];
};

struct MemoryLocation {
  int type;
  int id;
};

struct AllocationProperties {
  int type;
  int requested_handle_types;
  MemoryLocation location;
  void* win32_metadata;
  struct {
    unsigned char compression_type;
    unsigned char gpu_direct_rdma_capable;
    unsigned short usage;
    unsigned char reserved[4];
  } flags;
};

struct AccessDescription {
  MemoryLocation location;
  int flags;
};

}  // namespace cuda
}  // namespace hocket

#endif  // HOCKET_ALLOCATOR_CUDA_ABI_H_
