// Addresses, chunks and their bond, in one process.
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/emulator/driver_functions.h"
#include "tests/emulator/own_device.h"

namespace hocket {
namespace {

using namespace hocket::cuda;  // NOLINT: the driver's functions

class MemoryTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(UseDevice(), kSuccess);
    ASSERT_EQ(Used(), 0u);
  }

  static Bytes Used() {
    std::size_t free = 0, total = 0;
    EXPECT_EQ(cuMemGetInfo_v2(&free, &total), kSuccess);
    return total - free;
  }
  static DevicePtr Reserve(Bytes size) {
    DevicePtr address = 0;
    EXPECT_EQ(cuMemAddressReserve(&address, size, 0, 0, 0), kSuccess);
    return address;
  }
  static MemoryHandle Create(Bytes size) {
    MemoryHandle handle = 0;
    const AllocationProperties properties = OnDevice();
    EXPECT_EQ(cuMemCreate(&handle, size, &properties, 0), kSuccess);
    return handle;
  }
  static void MapWithAccess(DevicePtr address, Bytes size, MemoryHandle handle) {
    const AccessDescription access = ReadWrite();
    ASSERT_EQ(cuMemMap(address, size, 0, handle, 0), kSuccess);
    ASSERT_EQ(cuMemSetAccess(address, size, &access, 1), kSuccess);
  }
  static unsigned Read(DevicePtr address) {
    unsigned value = 0;
    EXPECT_EQ(cuMemcpyDtoH_v2(&value, address, sizeof(value)), kSuccess);
    return value;
  }
};

TEST_F(MemoryTest, AChunkKeepsItsBytesWhenItMoves) {
  const DevicePtr range = Reserve(4_MiB);
  const MemoryHandle chunk = Create(2_MiB);
  MapWithAccess(range, 2_MiB, chunk);
  ASSERT_EQ(cuMemsetD32_v2(range, 0xC0FFEE, 2_MiB / 4), kSuccess);
  ASSERT_EQ(cuCtxSynchronize(), kSuccess);
  ASSERT_EQ(cuMemUnmap(range, 2_MiB), kSuccess);

  MapWithAccess(range + 2_MiB, 2_MiB, chunk);
  EXPECT_EQ(Read(range + 4_MiB - 4), 0xC0FFEEu);

  EXPECT_EQ(cuMemUnmap(range + 2_MiB, 2_MiB), kSuccess);
  EXPECT_EQ(cuMemRelease(chunk), kSuccess);
  EXPECT_EQ(cuMemAddressFree(range, 4_MiB), kSuccess);
}

TEST_F(MemoryTest, AReleasedChunkCountsUntilItIsUnmapped) {
  const DevicePtr range = Reserve(2_MiB);
  const MemoryHandle chunk = Create(2_MiB);
  EXPECT_EQ(Used(), 2_MiB);
  MapWithAccess(range, 2_MiB, chunk);
  ASSERT_EQ(cuMemRelease(chunk), kSuccess);
  EXPECT_EQ(Used(), 2_MiB);
  ASSERT_EQ(cuMemUnmap(range, 2_MiB), kSuccess);
  EXPECT_EQ(Used(), 0u);
  EXPECT_EQ(cuMemAddressFree(range, 2_MiB), kSuccess);
}

TEST_F(MemoryTest, MemoryOfANewChunkIsZero) {
  const DevicePtr range = Reserve(2_MiB);
  const MemoryHandle chunk = Create(2_MiB);
  MapWithAccess(range, 2_MiB, chunk);
  EXPECT_EQ(Read(range), 0u);
  EXPECT_EQ(cuMemUnmap(range, 2_MiB), kSuccess);
  EXPECT_EQ(cuMemRelease(chunk), kSuccess);
  EXPECT_EQ(cuMemAddressFree(range, 2_MiB), kSuccess);
}

TEST_F(MemoryTest, ADeviceThatIsFullSaysSoAndStaysAsItWas) {
  const AllocationProperties properties = OnDevice();
  const MemoryHandle chunk = Create(62_MiB);
  MemoryHandle more = 0;
  EXPECT_EQ(cuMemCreate(&more, 4_MiB, &properties, 0), kOutOfMemory);
  EXPECT_EQ(Used(), 62_MiB);
  EXPECT_EQ(cuMemCreate(&more, 2_MiB, &properties, 0), kSuccess);
  EXPECT_EQ(cuMemRelease(more), kSuccess);
  EXPECT_EQ(cuMemRelease(chunk), kSuccess);
}

TEST_F(MemoryTest, MappingOverMappedMemoryIsRefused) {
  const DevicePtr range = Reserve(4_MiB);
  const MemoryHandle chunk = Create(4_MiB);
  ASSERT_EQ(cuMemMap(range, 4_MiB, 0, chunk, 0), kSuccess);
  EXPECT_EQ(cuMemMap(range, 2_MiB, 0, chunk, 0), kInvalidValue);
  EXPECT_EQ(cuMemMap(range + 2_MiB, 2_MiB, 0, chunk, 0), kInvalidValue);
  EXPECT_EQ(cuMemUnmap(range, 4_MiB), kSuccess);
  EXPECT_EQ(cuMemRelease(chunk), kSuccess);
  EXPECT_EQ(cuMemAddressFree(range, 4_MiB), kSuccess);
}

TEST_F(MemoryTest, PartOfAMappingCannotBeUnmapped) {
  const DevicePtr range = Reserve(4_MiB);
  const MemoryHandle chunk = Create(4_MiB);
  ASSERT_EQ(cuMemMap(range, 4_MiB, 0, chunk, 0), kSuccess);
  EXPECT_EQ(cuMemUnmap(range, 2_MiB), kInvalidValue);
  EXPECT_EQ(cuMemUnmap(range + 2_MiB, 2_MiB), kInvalidValue);
  EXPECT_EQ(cuMemUnmap(range, 4_MiB), kSuccess);
  EXPECT_EQ(cuMemRelease(chunk), kSuccess);
  EXPECT_EQ(cuMemAddressFree(range, 4_MiB), kSuccess);
}

TEST_F(MemoryTest, UnmappingTakesWhatIsThereOrChangesNothing) {
  const DevicePtr range = Reserve(8_MiB);
  const MemoryHandle small = Create(2_MiB), large = Create(4_MiB);
  ASSERT_EQ(cuMemMap(range, 2_MiB, 0, small, 0), kSuccess);
  ASSERT_EQ(cuMemMap(range + 4_MiB, 4_MiB, 0, large, 0), kSuccess);
  ASSERT_EQ(cuMemRelease(small), kSuccess);
  ASSERT_EQ(cuMemRelease(large), kSuccess);
  EXPECT_EQ(cuMemUnmap(range, 6_MiB), kInvalidValue) << "half of the large one";
  EXPECT_EQ(Used(), 6_MiB);
  EXPECT_EQ(cuMemUnmap(range, 8_MiB), kSuccess) << "with a gap";
  EXPECT_EQ(Used(), 0u);
  EXPECT_EQ(cuMemUnmap(range, 8_MiB), kSuccess) << "nothing but a gap";
  EXPECT_EQ(cuMemUnmap(range, 1_MiB), kInvalidValue) << "no multiple of the unit";
  EXPECT_EQ(cuMemAddressFree(range, 8_MiB), kSuccess);
  EXPECT_EQ(cuMemUnmap(range, 8_MiB), kInvalidValue) << "of no range";
}

TEST_F(MemoryTest, AllocatedMemoryIsFreedAndNotUnmapped) {
  DevicePtr address = 0;
  ASSERT_EQ(cuMemAlloc_v2(&address, 2_MiB), kSuccess);
  EXPECT_EQ(cuMemUnmap(address, 2_MiB), kInvalidValue);
  EXPECT_EQ(cuMemFree_v2(address), kSuccess);
}

TEST_F(MemoryTest, AdjacentMappingsAreUnmappedTogether) {
  const DevicePtr range = Reserve(4_MiB);
  const MemoryHandle low = Create(2_MiB), high = Create(2_MiB);
  ASSERT_EQ(cuMemMap(range, 2_MiB, 0, low, 0), kSuccess);
  ASSERT_EQ(cuMemMap(range + 2_MiB, 2_MiB, 0, high, 0), kSuccess);
  EXPECT_EQ(cuMemUnmap(range, 4_MiB), kSuccess);
  EXPECT_EQ(cuMemRelease(low), kSuccess);
  EXPECT_EQ(cuMemRelease(high), kSuccess);
  EXPECT_EQ(cuMemAddressFree(range, 4_MiB), kSuccess);
}

TEST_F(MemoryTest, AHandleIsOfNoUseAfterItsRelease) {
  const DevicePtr range = Reserve(2_MiB);
  const MemoryHandle chunk = Create(2_MiB);
  ASSERT_EQ(cuMemRelease(chunk), kSuccess);
  int fd = -1;
  EXPECT_EQ(cuMemRelease(chunk), kInvalidValue);
  EXPECT_EQ(cuMemMap(range, 2_MiB, 0, chunk, 0), kInvalidValue);
  EXPECT_EQ(cuMemExportToShareableHandle(&fd, chunk, kHandlePosixFd, 0), kInvalidValue);
  EXPECT_EQ(cuMemAddressFree(range, 2_MiB), kSuccess);
}

TEST_F(MemoryTest, AddressesAreFreedWholeAndEmpty) {
  const DevicePtr range = Reserve(4_MiB);
  const MemoryHandle chunk = Create(2_MiB);
  ASSERT_EQ(cuMemMap(range, 2_MiB, 0, chunk, 0), kSuccess);
  EXPECT_EQ(cuMemAddressFree(range, 4_MiB), kInvalidValue);
  ASSERT_EQ(cuMemUnmap(range, 2_MiB), kSuccess);
  EXPECT_EQ(cuMemAddressFree(range, 2_MiB), kInvalidValue);
  EXPECT_EQ(cuMemAddressFree(range, 4_MiB), kSuccess);
  EXPECT_EQ(cuMemAddressFree(range, 4_MiB), kInvalidValue);
  EXPECT_EQ(cuMemRelease(chunk), kSuccess);
}

TEST_F(MemoryTest, SizesAndPlacesMustBeWholeUnits) {
  const AllocationProperties properties = OnDevice();
  DevicePtr address = 0;
  MemoryHandle handle = 0;
  EXPECT_EQ(cuMemAddressReserve(&address, 1_MiB, 0, 0, 0), kInvalidValue);
  EXPECT_EQ(cuMemCreate(&handle, 1_MiB, &properties, 0), kInvalidValue);
  EXPECT_EQ(cuMemCreate(&handle, 0, &properties, 0), kInvalidValue);
  std::size_t granularity = 0;
  ASSERT_EQ(cuMemGetAllocationGranularity(&granularity, &properties, 0), kSuccess);
  EXPECT_EQ(granularity, 2_MiB);
}

TEST_F(MemoryTest, ReservedAddressesAreAlignedAsAsked) {
  DevicePtr address = 0;
  ASSERT_EQ(cuMemAddressReserve(&address, 2_MiB, 64_MiB, 0, 0), kSuccess);
  EXPECT_EQ(address % 64_MiB, 0u);
  EXPECT_EQ(cuMemAddressFree(address, 2_MiB), kSuccess);
}

TEST_F(MemoryTest, AHintIsFollowedWhereItsAddressesAreFree) {
  const DevicePtr range = Reserve(8_MiB);
  DevicePtr other = 0;
  ASSERT_EQ(cuMemAddressReserve(&other, 2_MiB, 0, range + 64_MiB, 0), kSuccess);
  EXPECT_EQ(other, range + 64_MiB);
  DevicePtr third = 0;
  ASSERT_EQ(cuMemAddressReserve(&third, 2_MiB, 0, range + 2_MiB, 0), kSuccess);
  EXPECT_TRUE(third + 2_MiB <= range || third >= range + 8_MiB);
  EXPECT_EQ(cuMemAddressFree(third, 2_MiB), kSuccess);
  EXPECT_EQ(cuMemAddressFree(other, 2_MiB), kSuccess);
  EXPECT_EQ(cuMemAddressFree(range, 8_MiB), kSuccess);
}

TEST_F(MemoryTest, MemoryWithoutAccessCannotBeCopiedTo) {
  const DevicePtr range = Reserve(2_MiB);
  const MemoryHandle chunk = Create(2_MiB);
  ASSERT_EQ(cuMemMap(range, 2_MiB, 0, chunk, 0), kSuccess);
  const int value = 7;
  EXPECT_EQ(cuMemcpyHtoD_v2(range, &value, sizeof(value)), kInvalidValue);
  const AccessDescription access = ReadWrite();
  ASSERT_EQ(cuMemSetAccess(range, 2_MiB, &access, 1), kSuccess);
  EXPECT_EQ(cuMemcpyHtoD_v2(range, &value, sizeof(value)), kSuccess);
  EXPECT_EQ(cuMemcpyHtoD_v2(range + 2_MiB - 2, &value, sizeof(value)), kInvalidValue);
  EXPECT_EQ(cuMemUnmap(range, 2_MiB), kSuccess);
  EXPECT_EQ(cuMemRelease(chunk), kSuccess);
  EXPECT_EQ(cuMemAddressFree(range, 2_MiB), kSuccess);
}

TEST_F(MemoryTest, ARetainedHandleKeepsTheChunk) {
  const DevicePtr range = Reserve(2_MiB);
  const MemoryHandle chunk = Create(2_MiB);
  MapWithAccess(range, 2_MiB, chunk);
  MemoryHandle again = 0;
  ASSERT_EQ(cuMemRetainAllocationHandle(&again, reinterpret_cast<void*>(range + 4096)), kSuccess);
  AllocationProperties properties = {};
  EXPECT_EQ(cuMemGetAllocationPropertiesFromHandle(&properties, again), kSuccess);
  EXPECT_EQ(properties.location.id, 0);
  ASSERT_EQ(cuMemUnmap(range, 2_MiB), kSuccess);
  ASSERT_EQ(cuMemRelease(chunk), kSuccess);
  EXPECT_EQ(Used(), 2_MiB);
  ASSERT_EQ(cuMemRelease(again), kSuccess);
  EXPECT_EQ(Used(), 0u);
  EXPECT_EQ(cuMemAddressFree(range, 2_MiB), kSuccess);
}

TEST_F(MemoryTest, AnExportedChunkImportedHereIsTheSameMemory) {
  const DevicePtr range = Reserve(4_MiB);
  const MemoryHandle chunk = Create(2_MiB);
  int fd = -1;
  ASSERT_EQ(cuMemExportToShareableHandle(&fd, chunk, kHandlePosixFd, 0), kSuccess);
  EXPECT_GT(fd, 2);
  MemoryHandle imported = 0;
  ASSERT_EQ(cuMemImportFromShareableHandle(&imported, reinterpret_cast<void*>(static_cast<std::intptr_t>(fd)),
                                           kHandlePosixFd),
            kSuccess);
  close(fd);
  EXPECT_EQ(Used(), 2_MiB);
  MapWithAccess(range, 2_MiB, chunk);
  MapWithAccess(range + 2_MiB, 2_MiB, imported);
  ASSERT_EQ(cuMemsetD32_v2(range, 42, 1), kSuccess);
  EXPECT_EQ(Read(range + 2_MiB), 42u);
  EXPECT_EQ(cuMemUnmap(range, 4_MiB), kSuccess);
  EXPECT_EQ(cuMemRelease(chunk), kSuccess);
  EXPECT_EQ(cuMemRelease(imported), kSuccess);
  EXPECT_EQ(cuMemAddressFree(range, 4_MiB), kSuccess);
}

TEST_F(MemoryTest, ADescriptorOfAnythingElseIsNoChunk) {
  MemoryHandle handle = 0;
  for (std::intptr_t fd : {0, -1, 9999}) {
    EXPECT_EQ(cuMemImportFromShareableHandle(&handle, reinterpret_cast<void*>(fd), kHandlePosixFd),
              kInvalidValue);
  }
}

TEST_F(MemoryTest, AnAllocationIsFreedByItsAddressOnly) {
  DevicePtr address = 0;
  ASSERT_EQ(cuMemAlloc_v2(&address, 100), kSuccess);
  EXPECT_EQ(Used(), 64_KiB);
  EXPECT_EQ(cuMemFree_v2(address + 64), kInvalidValue);
  EXPECT_EQ(cuMemFree_v2(address), kSuccess);
  EXPECT_EQ(cuMemFree_v2(address), kInvalidValue);
  EXPECT_EQ(cuMemFree_v2(0), kSuccess);
}

TEST_F(MemoryTest, PointersSayWhatTheyPointTo) {
  constexpr int kType = 2, kStart = 11;
  DevicePtr address = 0;
  void* pinned = nullptr;
  ASSERT_EQ(cuMemAlloc_v2(&address, 4096), kSuccess);
  ASSERT_EQ(cuMemHostAlloc(&pinned, 4096, 0), kSuccess);
  unsigned type = 0;
  DevicePtr start = 0;
  ASSERT_EQ(cuPointerGetAttribute(&type, kType, address + 100), kSuccess);
  EXPECT_EQ(type, 2u);
  ASSERT_EQ(cuPointerGetAttribute(&start, kStart, address + 100), kSuccess);
  EXPECT_EQ(start, address);
  ASSERT_EQ(cuPointerGetAttribute(&type, kType, reinterpret_cast<DevicePtr>(pinned)), kSuccess);
  EXPECT_EQ(type, 1u);
  EXPECT_EQ(cuPointerGetAttribute(&type, kType, reinterpret_cast<DevicePtr>(&type)), kInvalidValue);
  EXPECT_EQ(cuMemFreeHost(pinned), kSuccess);
  EXPECT_EQ(cuMemFree_v2(address), kSuccess);
}

// --- memory of the host at device addresses ---

AllocationProperties OnHost(int type = kLocationHostNode, int node = 0) {
  AllocationProperties properties = OnDevice();
  properties.requested_handle_types = 0;
  properties.location = {type, node};
  return properties;
}

class HostChunkTest : public MemoryTest {
 protected:
  void SetUp() override {
    MemoryTest::SetUp();
    const AllocationProperties properties = OnHost();
    ASSERT_EQ(cuMemCreate(&chunk, 2_MiB, &properties, 0), kSuccess);
    range = Reserve(4_MiB);
    ASSERT_EQ(cuMemMap(range, 2_MiB, 0, chunk, 0), kSuccess);
  }
  void TearDown() override {
    EXPECT_EQ(cuMemUnmap(range, 2_MiB), kSuccess);
    EXPECT_EQ(cuMemRelease(chunk), kSuccess);
    EXPECT_EQ(cuMemAddressFree(range, 4_MiB), kSuccess);
  }
  Result Allow(DevicePtr address, MemoryLocation location) {
    const AccessDescription access{location, kAccessReadWrite};
    return cuMemSetAccess(address, 2_MiB, &access, 1);
  }
  unsigned long long AccessOf(const MemoryLocation& location) {
    unsigned long long flags = 99;
    EXPECT_EQ(cuMemGetAccess(&flags, &location, range), kSuccess);
    return flags;
  }

  static constexpr MemoryLocation kDevice0{kLocationDevice, 0}, kHost{kLocationHostNode, 0};
  MemoryHandle chunk = 0;
  DevicePtr range = 0;
};

TEST_F(HostChunkTest, ItIsNoMemoryOfTheDevice) {
  EXPECT_EQ(Used(), 0u);
  const AllocationProperties properties = OnHost();
  MemoryHandle large = 0;
  ASSERT_EQ(cuMemCreate(&large, 128_MiB, &properties, 0), kSuccess) << "twice the device's";
  EXPECT_EQ(cuMemRelease(large), kSuccess);
  AllocationProperties found = {};
  ASSERT_EQ(cuMemGetAllocationPropertiesFromHandle(&found, chunk), kSuccess);
  EXPECT_EQ(found.location.type, kLocationHostNode);
}

TEST_F(HostChunkTest, NobodyReachesItBeforeHeIsAllowedTo) {
  const int value = 7;
  EXPECT_EQ(AccessOf(kDevice0), 0u);
  EXPECT_EQ(AccessOf(kHost), 0u);
  EXPECT_EQ(cuMemcpyHtoD_v2(range, &value, sizeof(value)), kInvalidValue);
  ASSERT_EQ(Allow(range, kHost), kSuccess);
  EXPECT_EQ(AccessOf(kHost), unsigned{kAccessReadWrite});
  EXPECT_EQ(AccessOf(kDevice0), 0u);
  EXPECT_EQ(cuMemcpyHtoD_v2(range, &value, sizeof(value)), kInvalidValue) << "the host alone may";
  ASSERT_EQ(Allow(range, kDevice0), kSuccess);
  EXPECT_EQ(cuMemcpyHtoD_v2(range, &value, sizeof(value)), kSuccess);
}

TEST_F(HostChunkTest, DeviceAndHostSeeTheSameBytesAtEveryAddress) {
  ASSERT_EQ(Allow(range, kDevice0), kSuccess);
  ASSERT_EQ(Allow(range, kHost), kSuccess);
  ASSERT_EQ(cuMemMap(range + 2_MiB, 2_MiB, 0, chunk, 0), kSuccess);
  ASSERT_EQ(Allow(range + 2_MiB, kDevice0), kSuccess);
  ASSERT_EQ(cuMemsetD32_v2(range + 2_MiB, 42, 1), kSuccess);
  ASSERT_EQ(cuCtxSynchronize(), kSuccess);
  auto* const host = reinterpret_cast<unsigned*>(range);
  EXPECT_EQ(*host, 42u);
  *host = 43;
  EXPECT_EQ(Read(range + 2_MiB), 43u);
  unsigned type = 0;
  ASSERT_EQ(cuPointerGetAttribute(&type, /*CU_POINTER_ATTRIBUTE_MEMORY_TYPE*/ 2, range), kSuccess);
  EXPECT_EQ(type, unsigned{kMemoryTypeHost});
  EXPECT_EQ(cuMemUnmap(range + 2_MiB, 2_MiB), kSuccess);
}

TEST_F(HostChunkTest, WhatTheDriverDoesNotMakeIsRefused) {
  constexpr int kCurrentNode = 4;
  MemoryHandle handle = 0;
  AllocationProperties properties = OnHost(kCurrentNode);
  EXPECT_EQ(cuMemCreate(&handle, 2_MiB, &properties, 0), kInvalidValue);
  properties = OnHost(kLocationHostNode, /*node=*/7);
  EXPECT_EQ(cuMemCreate(&handle, 2_MiB, &properties, 0), kInvalidDevice);
  properties = OnHost(kLocationHost);
  ASSERT_EQ(cuMemCreate(&handle, 2_MiB, &properties, 0), kSuccess);
  EXPECT_EQ(cuMemRelease(handle), kSuccess);
  properties.requested_handle_types = kHandlePosixFd;
  EXPECT_EQ(cuMemCreate(&handle, 2_MiB, &properties, 0), kInvalidValue) << "for this process only";
}

TEST_F(MemoryTest, TheHostIsNotLetToMemoryOfTheDevice) {
  const DevicePtr range = Reserve(2_MiB);
  const MemoryHandle chunk = Create(2_MiB);
  MapWithAccess(range, 2_MiB, chunk);
  const AccessDescription host{{kLocationHostNode, 0}, kAccessReadWrite};
  EXPECT_EQ(cuMemSetAccess(range, 2_MiB, &host, 1), kInvalidValue);
  EXPECT_EQ(cuMemUnmap(range, 2_MiB), kSuccess);
  EXPECT_EQ(cuMemRelease(chunk), kSuccess);
  EXPECT_EQ(cuMemAddressFree(range, 2_MiB), kSuccess);
}

TEST_F(MemoryTest, HostMemoryIsRegisteredOnce) {
  std::vector<char> memory(8192);
  ASSERT_EQ(cuMemHostRegister_v2(memory.data(), 8192, 0), kSuccess);
  EXPECT_EQ(cuMemHostRegister_v2(memory.data() + 4096, 100, 0), kHostAlreadyRegistered);
  EXPECT_EQ(cuMemHostUnregister(memory.data()), kSuccess);
  EXPECT_EQ(cuMemHostUnregister(memory.data()), kHostNotRegistered);
}

// Two pages of a new file in `folder`, mapped and pinned.
Result PinAFileOf(const std::string& folder, int sharing) {
  std::string name = folder + "/hocket-pinned-XXXXXX";
  const int file = mkstemp(name.data());
  EXPECT_EQ(ftruncate(file, 8192), 0);
  void* memory = mmap(nullptr, 8192, PROT_READ | PROT_WRITE, sharing, file, 0);
  const Result result = cuMemHostRegister_v2(memory, 8192, 0);
  EXPECT_EQ(cuMemHostUnregister(memory), result == kSuccess ? kSuccess : kHostNotRegistered);
  munmap(memory, 8192);
  close(file);
  unlink(name.c_str());
  return result;
}

TEST_F(MemoryTest, AFileOnADiskIsNotPinnedWhereWritingWouldChangeIt) {
  EXPECT_EQ(PinAFileOf("/dev/shm", MAP_SHARED), kSuccess);
  const std::string folder = testing::TempDir();
  EXPECT_EQ(PinAFileOf(folder, MAP_PRIVATE), kSuccess);
  struct statfs info;
  ASSERT_EQ(statfs(folder.c_str(), &info), 0);
  if (info.f_type == TMPFS_MAGIC) GTEST_SKIP() << folder << " is no disk";
  EXPECT_EQ(PinAFileOf(folder, MAP_SHARED), kInvalidValue);
}

}  // namespace
}  // namespace hocket
