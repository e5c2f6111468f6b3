// A block that work of another device uses (record_stream with a stream there): its memory is not used again,
// and does not move, before that work is done; and no event is recorded on a device that is not its own.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <string>
#include <thread>

#include "allocator/in_context.h"
#include "tests/allocator/job.h"

namespace hocket {
namespace {

using testing::EmulatedGpu;
using testing::Job;
using testing::kChunk;
using testing::kEverything;

[[maybe_unused]] const bool two_devices = setenv("HOCKET_EMULATOR_DEVICES", "2", /*overwrite=*/1) == 0;

class OtherDeviceTest : public ::testing::Test {
 protected:
  OtherDeviceTest() {
    const InContext there(gpu.driver(), other_context);
    side = *gpu.driver().CreateStream();
  }
  ~OtherDeviceTest() override {
    gpu.FailNoCall();
    Release();
    EXPECT_TRUE(gpu.driver().DestroyStream(side).ok());
  }

  // A block of device 0 that work of device 1 uses until Release().
  DevicePtr InUseThere() {
    const DevicePtr block = job.Malloc(kChunk);
    gpu.Fill(block, kChunk, 0x11);
    Uses(block, side);
    return block;
  }
  void Uses(DevicePtr block, Stream stream) {
    const InContext there(gpu.driver(), other_context);
    gpu.KeepBusy(stream, &go);
    ASSERT_TRUE(job.allocator->RecordStreamOf(1, block, stream).ok());
  }
  void Release() {
    go = true;
    go.notify_all();
    const InContext there(gpu.driver(), other_context);
    EXPECT_TRUE(gpu.driver().Synchronize().ok());
  }
  // Whether the freed block's memory is given out again.
  bool IsGivenOut(DevicePtr freed) {
    const DevicePtr next = job.Malloc(kChunk);
    job.Free(next);
    return next == freed;
  }
  // That work goes on until somebody waits for an event.
  std::thread BusyUntilAwaited() {
    gpu.ForgetCalls();
    return std::thread([this] {
      while (!go && gpu.Calls()["EventSynchronize"] == 0) std::this_thread::yield();
      go = true;
      go.notify_all();
    });
  }

  EmulatedGpu& gpu = EmulatedGpu::Get();
  const ContextHandle other_context = *gpu.driver().PrimaryContext(1);
  std::atomic<bool> go = false;
  Job job;
  Stream side = nullptr;
};

TEST_F(OtherDeviceTest, FreedMemoryIsNotUsedAgainBeforeTheOtherDevicesWorkIsDone) {
  const DevicePtr block = InUseThere();
  job.Free(block);
  EXPECT_FALSE(IsGivenOut(block));
  Release();
  EXPECT_TRUE(IsGivenOut(block));
}

// Every device's is nullptr.
TEST_F(OtherDeviceTest, TheOtherDevicesDefaultStreamIsNotThisOnes) {
  const DevicePtr block = job.Malloc(kChunk);
  Uses(block, nullptr);
  job.Free(block);
  EXPECT_FALSE(IsGivenOut(block));
  Release();
  EXPECT_TRUE(IsGivenOut(block));
}

TEST_F(OtherDeviceTest, OneOfThisDeviceIsRecordedAsEver) {
  const Stream here = *gpu.driver().CreateStream();
  const DevicePtr block = job.Malloc(kChunk);
  gpu.KeepBusy(here, &go);
  ASSERT_TRUE(job.allocator->RecordStreamOf(0, block, here).ok());
  job.Free(block);
  EXPECT_FALSE(IsGivenOut(block));
  Release();
  ASSERT_TRUE(gpu.driver().SynchronizeStream(here).ok());
  EXPECT_TRUE(IsGivenOut(block));
  EXPECT_TRUE(gpu.driver().DestroyStream(here).ok());
}

TEST_F(OtherDeviceTest, TheThreadsDeviceStaysWhatItWas) {
  const DevicePtr block = InUseThere();
  const ContextHandle before = gpu.driver().CurrentContext();
  job.Free(block);
  EXPECT_EQ(gpu.driver().CurrentContext(), before);
  Release();
}

// A drain of this device says nothing of the other one.
TEST_F(OtherDeviceTest, GivingBackTheCacheWaitsForTheOtherDevice) {
  const DevicePtr block = InUseThere();
  job.Free(block);
  gpu.TakeContextEventsAway();  // so that this device is not waited for by an event
  std::thread releases = BusyUntilAwaited();
  int given_back = 0;
  gpu.OnNext("MemUnmap", [&] { given_back = go ? 1 : -1; });
  job.allocator->EmptyCache();
  Release();
  releases.join();
  EXPECT_EQ(given_back, 1) << "after the work was done";
  EXPECT_EQ(job.Held().persistent, 0u);
}

// Whoever orders the spill is answered soon, whatever the other device does.
TEST_F(OtherDeviceTest, MemoryThatIsInUseThereDoesNotMoveToTheHost) {
  const DevicePtr block = InUseThere();
  job.PassTurn();
  const auto refused = job.Spill(kEverything);
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kFailedPrecondition) << refused.status();
  EXPECT_EQ(job.Held().spilled, 0u);
  Release();
  EXPECT_EQ(*job.Spill(kEverything), kChunk);
  job.TakeTurn();
  EXPECT_TRUE(gpu.Holds(block, kChunk, 0x11));
  job.Free(block);
}

TEST_F(OtherDeviceTest, NorDoesMemoryOfWhichThatCannotBeKnown) {
  const DevicePtr block = InUseThere();
  for (const char* call : {"EventCreate", "EventRecord"}) {
    SCOPED_TRACE(call);
    job.PassTurn();
    gpu.FailNext(call, call == std::string("EventCreate") ? 999 : cuda::kOutOfMemory);
    EXPECT_FALSE(job.Spill(kEverything).ok());
    EXPECT_EQ(job.Held().spilled, 0u);
    job.TakeTurn();
  }
  Release();
  job.Free(block);
}

// It is in no turn any more, and no drain of this device says that the work there is done.
TEST_F(OtherDeviceTest, FreedMemoryThatIsInUseThereSurvivesTheTurnAndDoesNotMove) {
  const DevicePtr block = InUseThere();
  gpu.FailEvery("EventRecord", cuda::kOutOfMemory);
  job.Free(block);
  job.PassTurn();
  EXPECT_FALSE(job.Spill(kEverything).ok());
  gpu.FailNoCall();
  EXPECT_FALSE(job.Spill(kEverything).ok()) << "the work goes on";
  EXPECT_EQ(job.Held().persistent, kChunk);
  Release();
  EXPECT_EQ(*job.Spill(kEverything), kChunk);
  EXPECT_EQ(job.Held().spilled, 0u) << "nobody uses it";
  job.TakeTurn();
}

// What was queued on it may be under way still.
TEST_F(OtherDeviceTest, WhereTheStreamIsGoneAllWorkOfItsDeviceIsWaitedFor) {
  const DevicePtr block = InUseThere();
  constexpr cuda::Result kInvalidHandle = 400;
  job.PassTurn();
  gpu.FailNext("EventRecord", kInvalidHandle);
  EXPECT_FALSE(job.Spill(kEverything).ok());
  Release();
  gpu.FailNext("EventRecord", kInvalidHandle);
  EXPECT_EQ(*job.Spill(kEverything), kChunk);
  job.TakeTurn();
  job.Free(block);
}

TEST_F(OtherDeviceTest, AStreamThatIsGoneKeepsNothingForEver) {
  for (const bool old_driver : {false, true}) {
    SCOPED_TRACE(old_driver);
    if (old_driver) gpu.TakeContextEventsAway();
    const DevicePtr used = job.Malloc(kChunk), freed = job.Malloc(kChunk);
    gpu.Fill(used, kChunk, 0x22);
    {
      const InContext there(gpu.driver(), other_context);
      const Stream gone = *gpu.driver().CreateStream();
      for (const DevicePtr block : {used, freed})
        ASSERT_TRUE(job.allocator->RecordStreamOf(1, block, gone).ok());
      ASSERT_TRUE(gpu.driver().DestroyStream(gone).ok());
    }
    job.Free(freed);
    EXPECT_TRUE(IsGivenOut(freed));
    job.PassTurn();
    EXPECT_EQ(*job.Spill(kEverything), kChunk);
    job.TakeTurn();
    EXPECT_TRUE(gpu.Holds(used, kChunk, 0x22));
    job.Free(used);
    gpu.FailNoCall();
  }
}

TEST_F(OtherDeviceTest, WhatWasFreedInACaptureWaitsToo) {
  job.allocator->BeginAllocateToPool(
      {0, 1}, [](Stream) { return false; }, /*captures=*/true);
  const DevicePtr block = InUseThere();
  job.Free(block);
  EXPECT_FALSE(IsGivenOut(block));
  job.allocator->EndAllocateToPool({0, 1});
  job.allocator->ReleasePool({0, 1});
  EXPECT_FALSE(IsGivenOut(block));
  Release();
  EXPECT_TRUE(IsGivenOut(block));
}

TEST_F(OtherDeviceTest, WhereNoEventCanBeRecordedTheBlockWaits) {
  for (const char* call : {"EventCreate", "EventRecord"}) {
    SCOPED_TRACE(call);
    go = false;
    const DevicePtr block = InUseThere();
    gpu.FailNext(call, cuda::kOutOfMemory);
    job.Free(block);
    EXPECT_FALSE(IsGivenOut(block));
    Release();
    (void)IsGivenOut(block);
    EXPECT_TRUE(IsGivenOut(block));
  }
}

TEST_F(OtherDeviceTest, WhatCannotBeWaitedForIsNotGivenBack) {
  const DevicePtr block = InUseThere();
  job.Free(block);
  gpu.OnNext("EventSynchronize", [this] {  // for this device
    gpu.OnNext("EventSynchronize", [this] { gpu.FailNext("EventSynchronize", 999); });
  });
  job.allocator->EmptyCache();
  job.allocator->CheckInvariants();
  EXPECT_FALSE(IsGivenOut(block));
  Release();
  (void)IsGivenOut(block);
  EXPECT_TRUE(IsGivenOut(block));
}

TEST_F(OtherDeviceTest, ADeviceThatIsNotThereIsAnError) {
  const DevicePtr block = job.Malloc(kChunk);
  EXPECT_FALSE(job.allocator->RecordStreamOf(7, block, side).ok());
  job.Free(block);
  EXPECT_TRUE(IsGivenOut(block));
}

}  // namespace
}  // namespace hocket
