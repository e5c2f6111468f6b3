#include "allocator/driver.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "allocator/handles.h"
#include "tests/allocator/emulated_gpu.h"

namespace hocket {
namespace {

using testing::EmulatedGpu;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;

class DriverTest : public ::testing::Test {
 protected:
  EmulatedGpu& gpu = EmulatedGpu::Get();
  Driver& driver = gpu.driver();
};

TEST_F(DriverTest, WithoutALibrarySaysWhatToDo) {
  const absl::Status status = DriverTable::Load("libno-such-driver.so.1").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("no CUDA driver: libno-such-driver.so.1"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("hocket emulate"));
}

TEST_F(DriverTest, ALibraryThatIsNoDriverIsNamedWithTheMissingFunction) {
  const absl::Status status = DriverTable::Load("libm.so.6").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("libm.so.6 has no function cuInit"));
}

TEST_F(DriverTest, TheVersionIsReadWithoutStartingTheDriver) {
  EXPECT_GE(*DriverVersion(HOCKET_EMULATED_DRIVER), 12000);
  EXPECT_EQ(DriverVersion("libno-such-driver.so.1").status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(DriverVersion("libm.so.6").status().message()),
              HasSubstr("libm.so.6 has no function cuDriverGetVersion"));
}

TEST_F(DriverTest, NamesItsDevices) {
  EXPECT_GE(*driver.DeviceCount(), 1);
  EXPECT_FALSE(driver.DeviceName(0)->empty());
  EXPECT_THAT(*driver.DeviceUuid(0),
              MatchesRegex("GPU-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"));
  EXPECT_TRUE(driver.CheckVirtualMemory(0).ok());
}

TEST_F(DriverTest, AnErrorNamesTheCallItsNumbersAndTheDriversOwnError) {
  const absl::Status status = driver.CreateMemory(0, gpu.capacity() + 2_MiB).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("cuMemCreate(258.0 MiB, device 0): CUDA_ERROR_OUT_OF_MEMORY (2)"));
}

TEST_F(DriverTest, AMapWhoseAccessIsRefusedIsUndone) {
  const Range range = *Range::Reserve(driver, 2_MiB, 0);
  Chunk chunk = *Chunk::Create(driver, 0, 2_MiB);
  gpu.FailEvery("MemSetAccess", 999);
  EXPECT_FALSE(chunk.MapAt(range.address()).ok());
  gpu.FailNoCall();
  EXPECT_TRUE(chunk.MapAt(range.address()).ok());
  EXPECT_TRUE(chunk.UnmapFrom(range.address()).ok());
}

TEST_F(DriverTest, HandlesGiveBackWhatTheyHold) {
  const Bytes before = gpu.used();
  {
    Chunk first = *Chunk::Create(driver, 0, 2_MiB);
    Chunk second = std::move(first);
    EXPECT_FALSE(first);
    EXPECT_TRUE(second);
    const Chunk same = *Chunk::Import(driver, 0, 2_MiB, *second.Export());
    EXPECT_EQ(gpu.used(), before + 2_MiB) << "an import is the same memory";
  }
  EXPECT_EQ(gpu.used(), before);
}

TEST_F(DriverTest, AnEventPassesWhenItsStreamHas) {
  const EventHandle event = *driver.CreateEvent();
  const Stream stream = *driver.CreateStream();
  ASSERT_TRUE(driver.RecordEvent(event, stream).ok());
  ASSERT_TRUE(driver.WaitForEvent(event).ok());
  EXPECT_TRUE(*driver.EventDone(event));
  EXPECT_TRUE(driver.RecordContextEvent(driver.CurrentContext(), event).ok());
  EXPECT_TRUE(driver.DestroyEvent(event).ok());
  EXPECT_TRUE(driver.DestroyStream(stream).ok());
}

TEST_F(DriverTest, TimedEventsSayHowLongTheDeviceTook) {
  const EventHandle before = *driver.CreateTimedEvent();
  const EventHandle after = *driver.CreateTimedEvent();
  const Stream stream = *driver.CreateStream();
  ASSERT_TRUE(driver.RecordEvent(before, stream).ok());
  ASSERT_TRUE(driver.RecordEvent(after, stream).ok());
  ASSERT_TRUE(driver.WaitForEvent(after).ok());
  EXPECT_GE(driver.Elapsed(before, after)->count(), 0);
  EXPECT_EQ(driver.Elapsed(after, before)->count(), -driver.Elapsed(before, after)->count());
  const EventHandle untimed = *driver.CreateEvent();
  ASSERT_TRUE(driver.RecordEvent(untimed, stream).ok());
  ASSERT_TRUE(driver.WaitForEvent(untimed).ok());
  EXPECT_THAT(std::string(driver.Elapsed(before, untimed).status().message()),
              HasSubstr("cuEventElapsedTime"));
  for (const EventHandle event : {before, after, untimed}) EXPECT_TRUE(driver.DestroyEvent(event).ok());
  EXPECT_TRUE(driver.DestroyStream(stream).ok());
}

}  // namespace
}  // namespace hocket
