// Our declarations of the driver's interface against the vendor's header, where there is one.
#include "allocator/cuda_abi.h"

#include <gtest/gtest.h>

#include <cstddef>

#if __has_include(<cuda.h>)
#include <cuda.h>

namespace hocket::cuda {
namespace {

TEST(CudaAbiTest, LayoutsAndNumbersAreTheVendors) {
  EXPECT_EQ(sizeof(AllocationProperties), sizeof(CUmemAllocationProp));
  EXPECT_EQ(offsetof(AllocationProperties, location), offsetof(CUmemAllocationProp, location));
  EXPECT_EQ(offsetof(AllocationProperties, flags), offsetof(CUmemAllocationProp, allocFlags));
  EXPECT_EQ(sizeof(AccessDescription), sizeof(CUmemAccessDesc));
  EXPECT_EQ(offsetof(AccessDescription, flags), offsetof(CUmemAccessDesc, flags));
  EXPECT_EQ(sizeof(Uuid), sizeof(CUuuid));
  EXPECT_EQ(sizeof(MemoryHandle), sizeof(CUmemGenericAllocationHandle));
  EXPECT_EQ(sizeof(DevicePtr), sizeof(CUdeviceptr));

  EXPECT_EQ(kOutOfMemory, CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(kNoDevice, CUDA_ERROR_NO_DEVICE);
  EXPECT_EQ(kNotReady, CUDA_ERROR_NOT_READY);
#if CUDA_VERSION >= 13000  // older headers do not have them
  EXPECT_EQ(kContained, CUDA_ERROR_CONTAINED);
  EXPECT_EQ(kTensorMemoryLeak, CUDA_ERROR_TENSOR_MEMORY_LEAK);
#endif
  EXPECT_EQ(kIllegalAddress, CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_EQ(kLaunchTimeout, CUDA_ERROR_LAUNCH_TIMEOUT);
  EXPECT_EQ(kAssert, CUDA_ERROR_ASSERT);
  EXPECT_EQ(kHardwareStackError, CUDA_ERROR_HARDWARE_STACK_ERROR);
  EXPECT_EQ(kIllegalInstruction, CUDA_ERROR_ILLEGAL_INSTRUCTION);
  EXPECT_EQ(kMisalignedAddress, CUDA_ERROR_MISALIGNED_ADDRESS);
  EXPECT_EQ(kInvalidAddressSpace, CUDA_ERROR_INVALID_ADDRESS_SPACE);
  EXPECT_EQ(kInvalidPc, CUDA_ERROR_INVALID_PC);
  EXPECT_EQ(kLaunchFailed, CUDA_ERROR_LAUNCH_FAILED);
  EXPECT_EQ(kDeviceUnavailable, CUDA_ERROR_DEVICE_UNAVAILABLE);
  EXPECT_EQ(kCaptureNone, CU_STREAM_CAPTURE_STATUS_NONE);
  EXPECT_EQ(kCaptureActive, CU_STREAM_CAPTURE_STATUS_ACTIVE);
  EXPECT_EQ(kAttributeComputeMode, CU_DEVICE_ATTRIBUTE_COMPUTE_MODE);
  EXPECT_EQ(kComputeModeProhibited, CU_COMPUTEMODE_PROHIBITED);
  EXPECT_EQ(kComputeModeExclusiveProcess, CU_COMPUTEMODE_EXCLUSIVE_PROCESS);
  EXPECT_EQ(kAttributeVirtualMemory, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED);
  EXPECT_EQ(kAttributePosixHandles, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED);
  EXPECT_EQ(kAttributeHostNode, CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID);
#if CUDA_VERSION >= 13000
  EXPECT_EQ(kAttributeHostMapping, CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED);
#endif
  EXPECT_EQ(kStreamNonBlocking, unsigned{CU_STREAM_NON_BLOCKING});
  EXPECT_EQ(kEventBlockingSync, unsigned{CU_EVENT_BLOCKING_SYNC});
  EXPECT_EQ(kEventDisableTiming, unsigned{CU_EVENT_DISABLE_TIMING});
  EXPECT_EQ(kHostRegisterPortable, unsigned{CU_MEMHOSTREGISTER_PORTABLE});
  EXPECT_EQ(kAllocationPinned, CU_MEM_ALLOCATION_TYPE_PINNED);
  EXPECT_EQ(kHandlePosixFd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
  EXPECT_EQ(kLocationDevice, CU_MEM_LOCATION_TYPE_DEVICE);
  EXPECT_EQ(kLocationHostNode, CU_MEM_LOCATION_TYPE_HOST_NUMA);
  EXPECT_EQ(kAccessReadWrite, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  EXPECT_EQ(kCaptureRelaxed, CU_STREAM_CAPTURE_MODE_RELAXED);
}

}  // namespace
}  // namespace hocket::cuda
#else
// The vendor's header is no part of what Hocket needs to build; where torch's wheels brought it, it is
// compared.
TEST(CudaAbiTest, LayoutsAndNumbersAreTheVendors) { GTEST_SKIP() << "no cuda.h on this machine"; }
#endif
