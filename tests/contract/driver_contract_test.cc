// What Hocket relies on in a CUDA driver. Each test is a promise; a library that breaks one cannot carry
// Hocket.
//
// Runs over the emulated driver, or over the library that HOCKET_CONTRACT_DRIVER names (libcuda.so.1 on a
// GPU).
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "allocator/driver.h"
#include "csrc/base/check.h"

namespace hocket {
namespace {

// The library under test, once for the process.
class Library {
 public:
  static Library& Get() {
    static Library* const library = new Library();
    return *library;
  }
  const Driver& driver() const { return *driver_; }
  ContextHandle context() const { return context_; }
  // A copy of the functions, for promises about calls that Hocket must never make.
  const DriverTable& table() const { return table_; }
  // A function that Hocket does not call.
  template <typename Function>
  Function* Find(const char* function) const {
    void* const loaded = dlopen(name_.c_str(), RTLD_NOW | RTLD_LOCAL);
    auto* const found = reinterpret_cast<Function*>(dlsym(loaded, function));
    HOCKET_CHECK(found != nullptr) << "no " << function;
    return found;
  }

 private:
  Library() {
    const char* const named = std::getenv("HOCKET_CONTRACT_DRIVER");
    if (named == nullptr) {
      setenv("HOCKET_EMULATOR_NAME", ("contract-test-" + std::to_string(getpid())).c_str(), /*overwrite=*/0);
      setenv("HOCKET_EMULATOR_MEMORY", "64MiB", /*overwrite=*/0);
      setenv("HOCKET_EMULATOR_CHECK", "1", /*overwrite=*/0);
    }
    name_ = named == nullptr ? HOCKET_DEFAULT_DRIVER : named;
    absl::StatusOr<DriverTable> table = DriverTable::Load(name_.c_str());
    HOCKET_CHECK(table.ok()) << table.status().message();
    table_ = *table;
    auto driver = Driver::Open(table_);
    HOCKET_CHECK(driver.ok()) << driver.status().message();
    driver_ = *std::move(driver);
    context_ = *driver_->PrimaryContext(0);
  }

  std::string name_;
  DriverTable table_;
  std::unique_ptr<Driver> driver_;
  ContextHandle context_ = nullptr;
};

class DriverContract : public ::testing::Test {
 protected:
  DriverContract() {
    HOCKET_CHECK(driver.UseContext(library.context()).ok()) << "no context";
    unit = *driver.Granularity(0);
    stream = *driver.CreateStream();
  }
  ~DriverContract() override { EXPECT_TRUE(driver.DestroyStream(stream).ok()); }

  void Write(DevicePtr address, const std::vector<unsigned char>& bytes) {
    ASSERT_TRUE(driver.CopyToDevice(address, bytes.data(), bytes.size(), stream).ok());
    ASSERT_TRUE(driver.SynchronizeStream(stream).ok());
  }
  std::vector<unsigned char> Read(DevicePtr address, Bytes size) {
    std::vector<unsigned char> bytes(size);
    EXPECT_TRUE(driver.CopyToHost(bytes.data(), address, size, stream).ok());
    EXPECT_TRUE(driver.SynchronizeStream(stream).ok());
    return bytes;
  }

  Library& library = Library::Get();
  const Driver& driver = library.driver();
  Bytes unit = 0;
  Stream stream = nullptr;
};

TEST_F(DriverContract, TheUnitOfMappingIsAPowerOfTwo) { EXPECT_EQ(unit & (unit - 1), 0u); }

TEST_F(DriverContract, ReservedAddressesAreAlignedAsAsked) {
  const DevicePtr range = *driver.Reserve(8 * unit, 8 * unit);
  EXPECT_EQ(range % (8 * unit), 0u);
  EXPECT_TRUE(driver.FreeAddresses(range, 8 * unit).ok());
}

TEST_F(DriverContract, AddressesFarBeyondTheDevicesMemoryCanBeReserved) {
  const Bytes size = RoundUp(4 * *driver.DeviceCapacity(0), unit);
  const DevicePtr range = *driver.Reserve(size, unit);
  EXPECT_TRUE(driver.FreeAddresses(range, size).ok());
}

TEST_F(DriverContract, MemoryCountsFromItsCreationToItsLastBond) {
  const Bytes before = driver.MemoryInfo()->free;
  const DevicePtr range = *driver.Reserve(unit, unit);
  const MemoryHandle memory = *driver.CreateMemory(0, unit);
  EXPECT_EQ(driver.MemoryInfo()->free, before - unit);
  ASSERT_TRUE(driver.Map(range, unit, memory, 0).ok());
  ASSERT_TRUE(driver.ReleaseMemory(memory).ok());
  EXPECT_EQ(driver.MemoryInfo()->free, before - unit) << "it is mapped still";
  ASSERT_TRUE(driver.Unmap(range, unit).ok());
  EXPECT_EQ(driver.MemoryInfo()->free, before);
  EXPECT_TRUE(driver.FreeAddresses(range, unit).ok());
}

TEST_F(DriverContract, AFullDeviceSaysSoAndStaysAsItWas) {
  const Bytes before = driver.MemoryInfo()->free;
  const Bytes too_much = RoundUp(driver.MemoryInfo()->total, unit) + unit;
  EXPECT_EQ(driver.CreateMemory(0, too_much).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(driver.MemoryInfo()->free, before);
}

TEST_F(DriverContract, BytesStayWithTheMemoryNotWithTheAddress) {
  const DevicePtr range = *driver.Reserve(2 * unit, unit);
  const MemoryHandle memory = *driver.CreateMemory(0, unit);
  ASSERT_TRUE(driver.Map(range, unit, memory, 0).ok());
  Write(range + 100, {1, 2, 3});
  ASSERT_TRUE(driver.Unmap(range, unit).ok());
  ASSERT_TRUE(driver.Map(range + unit, unit, memory, 0).ok());
  EXPECT_EQ(Read(range + unit + 100, 3), (std::vector<unsigned char>{1, 2, 3}));
  ASSERT_TRUE(driver.Unmap(range + unit, unit).ok());
  ASSERT_TRUE(driver.ReleaseMemory(memory).ok());
  EXPECT_TRUE(driver.FreeAddresses(range, 2 * unit).ok());
}

TEST_F(DriverContract, AnAddressCanBeBackedAgainByOtherMemory) {
  const DevicePtr range = *driver.Reserve(unit, unit);
  for (const unsigned char value : {1, 2}) {
    const MemoryHandle memory = *driver.CreateMemory(0, unit);
    ASSERT_TRUE(driver.Map(range, unit, memory, 0).ok());
    Write(range, {value});
    EXPECT_EQ(Read(range, 1), std::vector<unsigned char>{value});
    ASSERT_TRUE(driver.Unmap(range, unit).ok());
    ASSERT_TRUE(driver.ReleaseMemory(memory).ok());
  }
  EXPECT_TRUE(driver.FreeAddresses(range, unit).ok());
}

TEST_F(DriverContract, ADescriptorIsTheSameMemory) {
  const DevicePtr range = *driver.Reserve(2 * unit, unit);
  const Bytes before = driver.MemoryInfo()->free;
  const MemoryHandle memory = *driver.CreateMemory(0, unit);
  const MemoryHandle same = *driver.Import(*driver.Export(memory));
  EXPECT_EQ(driver.MemoryInfo()->free, before - unit);
  ASSERT_TRUE(driver.Map(range, unit, memory, 0).ok());
  ASSERT_TRUE(driver.Map(range + unit, unit, same, 0).ok());
  Write(range, {42});
  EXPECT_EQ(Read(range + unit, 1), std::vector<unsigned char>{42});
  for (const DevicePtr address : {range, range + unit}) ASSERT_TRUE(driver.Unmap(address, unit).ok());
  for (const MemoryHandle handle : {memory, same}) ASSERT_TRUE(driver.ReleaseMemory(handle).ok());
  EXPECT_EQ(driver.MemoryInfo()->free, before);
  EXPECT_TRUE(driver.FreeAddresses(range, 2 * unit).ok());
}

TEST_F(DriverContract, PartOfAMappingCannotBeUnmapped) {
  const DevicePtr range = *driver.Reserve(2 * unit, unit);
  const MemoryHandle memory = *driver.CreateMemory(0, 2 * unit);
  ASSERT_TRUE(driver.Map(range, 2 * unit, memory, 0).ok());
  EXPECT_EQ(driver.Unmap(range, unit).code(), absl::StatusCode::kInvalidArgument);
  ASSERT_TRUE(driver.Unmap(range, 2 * unit).ok());
  ASSERT_TRUE(driver.ReleaseMemory(memory).ok());
  EXPECT_TRUE(driver.FreeAddresses(range, 2 * unit).ok());
}

TEST_F(DriverContract, NeighboursAreMadeReachableByOneCallAndUnmappedByOne) {
  constexpr Bytes kMany = 4;
  const Bytes before = driver.MemoryInfo()->free;
  const DevicePtr range = *driver.Reserve(kMany * unit, unit);
  std::vector<MemoryHandle> memory;
  for (Bytes i = 0; i < kMany; ++i) memory.push_back(*driver.CreateMemory(0, unit));
  ASSERT_TRUE(driver.MapRun(range, unit, memory, 0).ok());
  Write(range + unit - 1, {1, 2});
  Write(range + kMany * unit - 1, {3});
  ASSERT_TRUE(driver.Unmap(range, kMany * unit).ok());
  for (Bytes i = 0; i < kMany; ++i) {
    ASSERT_TRUE(driver.Map(range + i * unit, unit, memory[i], 0).ok()) << "after one unmapping of all";
    ASSERT_TRUE(driver.ReleaseMemory(memory[i]).ok());
  }
  EXPECT_EQ(Read(range + unit - 1, 2), (std::vector<unsigned char>{1, 2}));
  EXPECT_EQ(Read(range + kMany * unit - 1, 1), std::vector<unsigned char>{3});
  ASSERT_TRUE(driver.Unmap(range + unit, unit).ok()) << "one of them";
  ASSERT_TRUE(driver.Unmap(range, unit).ok());
  ASSERT_TRUE(driver.Unmap(range + 2 * unit, 2 * unit).ok());
  EXPECT_EQ(driver.MemoryInfo()->free, before);
  EXPECT_TRUE(driver.FreeAddresses(range, kMany * unit).ok());
}

TEST_F(DriverContract, UnmappingTakesWhatIsThereEvenNothing) {
  const Bytes before = driver.MemoryInfo()->free;
  const DevicePtr range = *driver.Reserve(3 * unit, unit);
  for (const DevicePtr address : {range, range + 2 * unit}) {
    const MemoryHandle memory = *driver.CreateMemory(0, unit);
    ASSERT_TRUE(driver.Map(address, unit, memory, 0).ok());
    ASSERT_TRUE(driver.ReleaseMemory(memory).ok());
  }
  EXPECT_TRUE(driver.Unmap(range, 3 * unit).ok()) << "with a gap";
  EXPECT_EQ(driver.MemoryInfo()->free, before);
  EXPECT_TRUE(driver.Unmap(range, 3 * unit).ok()) << "nothing but a gap";
  EXPECT_TRUE(driver.FreeAddresses(range, 3 * unit).ok());
}

// As a chunk that moves does until the device has passed (docs/decisions/0038).
TEST_F(DriverContract, MemoryCanBeAtTwoAddressesAndLivesAsLongAsEither) {
  const Bytes before = driver.MemoryInfo()->free;
  const DevicePtr range = *driver.Reserve(2 * unit, unit);
  const MemoryHandle memory = *driver.CreateMemory(0, unit);
  ASSERT_TRUE(driver.Map(range, unit, memory, 0).ok());
  ASSERT_TRUE(driver.Map(range + unit, unit, memory, 0).ok());
  ASSERT_TRUE(driver.ReleaseMemory(memory).ok());
  Write(range + 7, {1, 2});
  EXPECT_EQ(Read(range + unit + 7, 2), (std::vector<unsigned char>{1, 2}));
  ASSERT_TRUE(driver.Unmap(range, unit).ok());
  EXPECT_EQ(Read(range + unit + 7, 2), (std::vector<unsigned char>{1, 2}));
  EXPECT_EQ(driver.MemoryInfo()->free, before - unit);
  ASSERT_TRUE(driver.Unmap(range + unit, unit).ok());
  EXPECT_EQ(driver.MemoryInfo()->free, before);
  EXPECT_TRUE(driver.FreeAddresses(range, 2 * unit).ok());
}

TEST_F(DriverContract, AMappedAddressCannotBeMappedOver) {
  const DevicePtr range = *driver.Reserve(unit, unit);
  const MemoryHandle first = *driver.CreateMemory(0, unit), second = *driver.CreateMemory(0, unit);
  ASSERT_TRUE(driver.Map(range, unit, first, 0).ok());
  EXPECT_FALSE(driver.Map(range, unit, second, 0).ok());
  ASSERT_TRUE(driver.Unmap(range, unit).ok());
  for (const MemoryHandle handle : {first, second}) ASSERT_TRUE(driver.ReleaseMemory(handle).ok());
  EXPECT_TRUE(driver.FreeAddresses(range, unit).ok());
}

TEST_F(DriverContract, SizesThatAreNoMultipleOfTheUnitAreRefused) {
  EXPECT_EQ(driver.CreateMemory(0, unit + 512).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(DriverContract, HostMemoryIsPinnedOnceAndUnpinned) {
  constexpr Bytes kSize = 1_MiB;
  void* memory = mmap(nullptr, kSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  ASSERT_TRUE(driver.RegisterHost(memory, kSize).ok());
  EXPECT_FALSE(driver.RegisterHost(memory, kSize).ok());
  ASSERT_TRUE(driver.UnregisterHost(memory).ok());
  EXPECT_FALSE(driver.UnregisterHost(memory).ok());
  munmap(memory, kSize);
}

TEST_F(DriverContract, HostMemoryBehindADeviceAddressIsTheHostsOwn) {
  const absl::StatusOr<int> node = driver.NodeToMap(0, unit);
  if (!node.ok()) {  // Hocket does without
    EXPECT_EQ(node.status().code(), absl::StatusCode::kUnimplemented) << node.status();
    return;
  }
  const DevicePtr range = *driver.Reserve(2 * unit, unit);
  const Bytes before = driver.MemoryInfo()->free;
  const absl::StatusOr<MemoryHandle> memory = driver.CreateHostMemory(*node, unit);
  if (!memory.ok()) {  // a container, perhaps; as above
    EXPECT_TRUE(driver.FreeAddresses(range, 2 * unit).ok());
    return;
  }
  for (const DevicePtr address : {range, range + unit}) {
    ASSERT_TRUE(driver.Map(address, unit, *memory, 0).ok());
  }
  ASSERT_TRUE(driver.LetHostAccess(range, unit, *node).ok());
  EXPECT_EQ(driver.MemoryInfo()->free, before) << "it counts against the device";

  auto* const host = reinterpret_cast<unsigned char*>(range);
  Write(range + unit, {1, 2, 3});
  EXPECT_EQ(host[2], 3);
  host[2] = 4;
  EXPECT_EQ(Read(range + unit, 3), (std::vector<unsigned char>{1, 2, 4}));

  // For reading alone, if the driver can: another mapping of the memory may be written through.
  if (driver.LetWrite(range + unit, unit, 0, /*may_write=*/false).ok()) {
    Write(range, {1, 3});
    EXPECT_EQ(Read(range + unit, 3), (std::vector<unsigned char>{1, 3, 4}));
    ASSERT_TRUE(driver.LetWrite(range + unit, unit, 0, /*may_write=*/true).ok());
  }
  Write(range + unit, {1, 2});

  // As a spill does it, and a restore: the copy behind the address that had the device's memory.
  ASSERT_TRUE(driver.Unmap(range + unit, unit).ok());
  const MemoryHandle of_device = *driver.CreateMemory(0, unit);
  ASSERT_TRUE(driver.Map(range + unit, unit, of_device, 0).ok());
  ASSERT_TRUE(driver.CopyToDevice(range + unit, host, unit, stream).ok());
  ASSERT_TRUE(driver.SynchronizeStream(stream).ok());
  EXPECT_EQ(Read(range + unit, 3), (std::vector<unsigned char>{1, 2, 4}));
  ASSERT_TRUE(driver.CopyToHost(host, range + unit, unit, stream).ok());
  ASSERT_TRUE(driver.SynchronizeStream(stream).ok());
  for (const DevicePtr address : {range, range + unit}) ASSERT_TRUE(driver.Unmap(address, unit).ok());
  for (const MemoryHandle handle : {*memory, of_device}) ASSERT_TRUE(driver.ReleaseMemory(handle).ok());
  EXPECT_TRUE(driver.FreeAddresses(range, 2 * unit).ok());
}

TEST_F(DriverContract, AContextEventPassesBehindTheWorkOfAllStreams) {
  const EventHandle event = *driver.CreateEvent();
  const DevicePtr range = *driver.Reserve(unit, unit);
  const MemoryHandle memory = *driver.CreateMemory(0, unit);
  ASSERT_TRUE(driver.Map(range, unit, memory, 0).ok());
  std::vector<unsigned char> back(unit);
  ASSERT_TRUE(driver.CopyToDevice(range, std::vector<unsigned char>(unit, 9).data(), unit, nullptr).ok());
  ASSERT_TRUE(driver.SynchronizeStream(nullptr).ok());
  ASSERT_TRUE(driver.CopyToHost(back.data(), range, unit, stream).ok());
  const absl::Status recorded = driver.RecordContextEvent(library.context(), event);
  if (recorded.code() == absl::StatusCode::kUnimplemented) {
    ASSERT_TRUE(driver.Synchronize().ok());  // an older driver: what Hocket does then
  } else {
    ASSERT_TRUE(recorded.ok()) << recorded;
    ASSERT_TRUE(driver.WaitForEvent(event).ok());
    EXPECT_TRUE(*driver.EventDone(event));
  }
  EXPECT_EQ(back, std::vector<unsigned char>(unit, 9));
  ASSERT_TRUE(driver.DestroyEvent(event).ok());
  ASSERT_TRUE(driver.Unmap(range, unit).ok());
  ASSERT_TRUE(driver.ReleaseMemory(memory).ok());
  EXPECT_TRUE(driver.FreeAddresses(range, unit).ok());
}

TEST_F(DriverContract, TheCaptureModeIsTheThreadsOwnAndComesBack) {
  const int before = driver.RelaxCaptureMode();
  EXPECT_EQ(driver.RelaxCaptureMode(), cuda::kCaptureRelaxed);
  driver.SetCaptureMode(before);
  EXPECT_EQ(driver.RelaxCaptureMode(), before);
  driver.SetCaptureMode(before);
}

TEST_F(DriverContract, AnyThreadMayAskWhetherAStreamCaptures) {
  const auto begin = library.Find<cuda::Result(Stream, int)>("cuStreamBeginCapture_v2");
  const auto end = library.Find<cuda::Result(Stream, void**)>("cuStreamEndCapture");
  const auto asked_by_another = [&] {
    bool captures = false;
    std::thread([&] {
      ASSERT_TRUE(driver.UseContext(library.context()).ok());
      captures = driver.IsCapturing(stream).value();
    }).join();
    return captures;
  };
  EXPECT_FALSE(driver.IsCapturing(stream).value());
  constexpr int kThreadLocal = 1;
  ASSERT_EQ(begin(stream, kThreadLocal), cuda::kSuccess);
  EXPECT_TRUE(driver.IsCapturing(stream).value());
  EXPECT_TRUE(asked_by_another());
  EXPECT_FALSE(driver.SynchronizeStream(stream).ok()) << "it fails by that";
  EXPECT_FALSE(asked_by_another());
  void* graph = nullptr;
  EXPECT_NE(end(stream, &graph), cuda::kSuccess);
  EXPECT_FALSE(asked_by_another());
}

TEST_F(DriverContract, EveryErrorHasTheVendorsName) {
  const char* name = nullptr;
  ASSERT_EQ(library.table().GetErrorName(cuda::kOutOfMemory, &name), cuda::kSuccess);
  EXPECT_STREQ(name, "CUDA_ERROR_OUT_OF_MEMORY");
  EXPECT_NE(library.table().GetErrorName(-1, &name), cuda::kSuccess);
}

}  // namespace
}  // namespace hocket
