// Chunks that lie one behind the other are moved in runs: few calls of the driver, and every chunk in a state
// that is true when one of them fails.
#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "tests/allocator/job.h"

namespace hocket {
namespace {

using testing::EmulatedGpu;
using testing::Job;
using testing::kEverything;

constexpr Bytes kChunk = 64_KiB;
constexpr int kMany = 40;
[[maybe_unused]] const bool small_device = [] {
  setenv("HOCKET_EMULATOR_MEMORY", "16MiB", /*overwrite=*/1);
  setenv("HOCKET_EMULATOR_GRANULARITY", "64KiB", /*overwrite=*/1);
  return true;
}();

// A job with forty chunks, each with a block of its own; the later half of them may follow. Every block has a
// byte of its own, too.
class RunsTest : public ::testing::Test {
 protected:
  ~RunsTest() override {
    gpu.FailNoCall();
    for (const DevicePtr block : blocks) job.Free(block);
  }

  void Make(Stage later = 0) {
    for (int i = 0; i < kMany; ++i) {
      blocks.push_back(job.Malloc(kChunk));
      gpu.Fill(blocks.back(), kChunk, static_cast<unsigned char>(i + 1));
      if (i >= kMany / 2) (void)job.allocator->SetStage(blocks.back(), later);
    }
  }
  void ExpectAllThere() {
    for (int i = 0; i < kMany; ++i)
      EXPECT_TRUE(gpu.Holds(blocks[i], kChunk, static_cast<unsigned char>(i + 1))) << i;
  }
  void SpillAll() {
    job.PassTurn();
    const auto freed = job.Spill(kEverything);
    ASSERT_TRUE(freed.ok()) << freed.status();
    ASSERT_EQ(*freed, kMany * kChunk);
  }
  void BeginStep() { job.TakeTurn(/*for_step=*/true); }

  EmulatedGpu& gpu = EmulatedGpu::Get();
  Job job{AllocatorOptions{.chunk_size = kChunk}};
  std::vector<DevicePtr> blocks;
};

TEST_F(RunsTest, SpillingTakesFewerCallsThanChunks) {
  Make();
  SpillAll();
  job.TakeTurn();
  job.PassTurn();
  gpu.ForgetCalls();
  ASSERT_TRUE(job.allocator->Spill(kEverything).ok());
  EXPECT_LE(gpu.Calls()["MemUnmap"], kMany / 16 + 1);
  EXPECT_EQ(gpu.Calls()["MemSetAccess"], 0) << "the copies are mapped later";
  while (job.allocator->MapSpilled()) job.allocator->CheckInvariants();
  EXPECT_LE(gpu.Calls()["MemSetAccess"], kMany / 4 + 1);
  job.TakeTurn();
  ExpectAllThere();
}

// What may only be read while it is on its way was mapped so: as many calls as where no host copy is mapped.
TEST_F(RunsTest, WhatFollowsItsTurnNeedsNoCallForItsHostCopyBeforeTheStep) {
  const auto calls = [&](bool maps) {
    gpu.SetMapsHostMemory(maps);
    Job one{AllocatorOptions{.chunk_size = kChunk}};
    const DevicePtr block = one.Malloc(8 * kChunk);
    EXPECT_TRUE(one.allocator->SetStage(block, 1).ok());
    one.PassTurn();
    EXPECT_TRUE(one.Spill(kEverything).ok());
    gpu.ForgetCalls();
    one.TakeTurn(/*for_step=*/true);
    EXPECT_EQ(one.Held().following, 8 * kChunk);
    const std::map<std::string, int> made = gpu.Calls();
    EXPECT_TRUE(one.allocator->AwaitStage(1, nullptr).ok());
    one.Free(block);
    return made;
  };
  std::map<std::string, int> with = calls(true), without = calls(false);
  gpu.SetMapsHostMemory(true);
  for (const char* name : {"MemSetAccess", "MemMap", "MemUnmap"})
    EXPECT_EQ(with[name], without[name]) << name;
}

TEST_F(RunsTest, RestoringTakesFewerCallsThanChunksAndTheFirstCopyWaitsForOne) {
  Make();
  SpillAll();
  gpu.ForgetCalls();
  int mapped = 0;
  gpu.OnNext("MemcpyHtoDAsync", [&] { mapped = gpu.Calls()["MemMap"]; });
  job.TakeTurn();
  EXPECT_EQ(mapped, 1);
  EXPECT_LE(gpu.Calls()["MemSetAccess"], kMany / 2);
  EXPECT_LE(gpu.Calls()["MemUnmap"], kMany / 2);
  ExpectAllThere();
}

// All is spilled, and another job leaves room for half of it.
class FullDeviceTest : public RunsTest {
 protected:
  FullDeviceTest() {
    Make();
    SpillAll();
    stays = other.Malloc(gpu.capacity() - gpu.used() - kMany * kChunk);
    goes = other.Malloc(kMany / 2 * kChunk);
    gpu.ForgetCalls();
  }
  ~FullDeviceTest() override { other.Free(stays); }

  void GiveBack() {
    other.Free(goes);
    other.allocator->EmptyCache();
  }

  Job other{AllocatorOptions{.chunk_size = kChunk}};
  DevicePtr stays = 0, goes = 0;
};

TEST_F(FullDeviceTest, RestoringGoesOnIntoWhatOthersGiveBackBeforeAllHasArrived) {
  int recorded = 0, waited = 0;
  gpu.OnNext("EventSynchronize", [&] {
    GiveBack();
    gpu.OnNext("MemcpyHtoDAsync", [&] {
      recorded = gpu.Calls()["EventRecord"];
      waited = gpu.Calls()["EventSynchronize"];
    });
  });
  job.TakeTurn();
  EXPECT_GT(waited, 0);
  EXPECT_LT(waited, recorded) << "the first half was still on its way";
  ExpectAllThere();
}

TEST_F(FullDeviceTest, RestoringTriesOnceMoreWhenAllHasArrived) {
  gpu.OnNext("EventSynchronize", [&] {
    gpu.OnNext("MemCreate", [&] {  // in vain
      gpu.OnNext("EventSynchronize", [&] { GiveBack(); });
    });
  });
  job.TakeTurn();
  ExpectAllThere();
}

TEST_F(FullDeviceTest, WhereNothingIsKnownToHaveArrivedAllStaysSpilled) {
  gpu.FailNext("EventSynchronize", 999);
  gpu.FailEvery("StreamSynchronize", 999);
  Bytes missing = 0;
  EXPECT_FALSE(job.TakeTurn(/*for_step=*/false, &missing).ok());
  EXPECT_EQ(job.Held().spilled, kMany * kChunk);
  gpu.FailNoCall();
  GiveBack();
  job.TakeTurn();
  ExpectAllThere();
}

TEST_F(RunsTest, WhatFollowsTakesFewerCallsThanChunks) {
  Make(/*later=*/1);
  SpillAll();
  BeginStep();
  gpu.ForgetCalls();
  ASSERT_TRUE(job.allocator->AwaitStage(1, nullptr).ok());
  EXPECT_LE(gpu.Calls()["MemUnmap"], 2 * (kMany / 2 / 16 + 1)) << "where they arrive, and the host's copies";
  EXPECT_LE(gpu.Calls()["MemSetAccess"], kMany / 2 / 16 + 1);
  ExpectAllThere();
}

TEST_F(RunsTest, WhatHasArrivedIsInItsPlaceBeforeTheRestIsWaitedFor) {
  Make(/*later=*/1);
  SpillAll();
  BeginStep();
  gpu.ForgetCalls();
  int waited = 0;
  gpu.OnNext("MemUnmap", [&] { waited = gpu.Calls()["EventSynchronize"]; });
  ASSERT_TRUE(job.allocator->AwaitStage(1, nullptr).ok());
  EXPECT_EQ(waited, 1);
  EXPECT_EQ(gpu.Calls()["EventSynchronize"], 2) << "twenty chunks are two runs";
  ExpectAllThere();
}

// The arena has what the device lacks: nobody asks the driver for each chunk.
TEST_F(RunsTest, ADriverThatIsFullIsNotAskedForEachChunk) {
  Make();
  SpillAll();
  job.gate.holds_turn = true;
  job.allocator->BeginStep();
  job.Free(job.Malloc(gpu.capacity() - kMany * kChunk));
  job.allocator->EndStep();
  job.PassTurn();
  Job other(AllocatorOptions{.chunk_size = kChunk});
  const DevicePtr rest = other.Malloc(kMany * kChunk);
  ASSERT_EQ(gpu.used(), gpu.capacity()) << "the arena keeps the rest";
  gpu.ForgetCalls();
  job.TakeTurn();
  EXPECT_EQ(gpu.Calls()["MemCreate"], 1);
  ExpectAllThere();
  other.Free(rest);
}

// What is to be undone after a failure cannot be, either, until FailNoCall().
class UndoingFailsTest : public RunsTest {
 protected:
  // The copy to the device behind so many fails.
  void FailCopy(int behind) {
    left = behind;
    count = [this] {
      if (left-- > 0) return gpu.OnNext("MemcpyHtoDAsync", count);
      gpu.FailEvery("MemUnmap", 999);
      gpu.FailNext("MemcpyHtoDAsync", 999);
    };
    gpu.OnNext("MemcpyHtoDAsync", count);
  }
  // However often it is tried.
  void ExpectNoTurn() {
    Bytes missing = 0;
    for (int tries = 0; tries < 3; ++tries)
      EXPECT_FALSE(job.TakeTurn(/*for_step=*/true, &missing).ok()) << "not all of it is there";
    gpu.FailNoCall();
  }

  int left = 0;
  std::function<void()> count;
};

TEST_F(UndoingFailsTest, WhatStaysHalfWayBackIsSpilledStill) {
  Make();
  SpillAll();
  FailCopy(0);
  ExpectNoTurn();
  EXPECT_EQ(job.Held().spilled, kMany * kChunk);
  job.TakeTurn();
  ExpectAllThere();
}

TEST_F(UndoingFailsTest, WhatStaysHalfWayBackIsGivenToOthers) {
  Make();
  SpillAll();
  FailCopy(0);
  ExpectNoTurn();
  EXPECT_EQ(job.Held().persistent, kChunk);
  EXPECT_EQ(*job.Spill(kEverything), kChunk);
  EXPECT_EQ(gpu.used(), 0u);
  job.TakeTurn();
  ExpectAllThere();
}

TEST_F(UndoingFailsTest, WhatStaysHalfWayBackCanBeFreed) {
  const DevicePtr block = job.Malloc(kChunk);
  Make();
  job.PassTurn();
  ASSERT_TRUE(job.Spill(kEverything).ok());
  FailCopy(0);
  Bytes missing = 0;
  EXPECT_FALSE(job.TakeTurn(/*for_step=*/false, &missing).ok());
  job.Free(block);
  gpu.FailNoCall();
  job.TakeTurn();
  ExpectAllThere();
  EXPECT_EQ(gpu.used(), kMany * kChunk);
}

TEST_F(UndoingFailsTest, WhatStaysOnItsWayIsNotTakenForWhatHasArrived) {
  Make(/*later=*/1);
  SpillAll();
  FailCopy(kMany / 2);  // the first that follows
  ExpectNoTurn();
  BeginStep();
  ASSERT_TRUE(job.allocator->AwaitStage(1, nullptr).ok());
  ExpectAllThere();
}

TEST_F(UndoingFailsTest, WhatCannotTakeItsPlaceNorBeAbandonedIsAnErrorAndTriedAgain) {
  Make(/*later=*/1);
  SpillAll();
  BeginStep();
  gpu.OnNext("MemUnmap", [&] {    // from where it has arrived
    gpu.OnNext("MemUnmap", [&] {  // the host's copy
      gpu.FailEvery("MemUnmap", 999);
      gpu.FailNext("MemSetAccess", 999);
    });
  });
  EXPECT_FALSE(job.allocator->AwaitStage(1, nullptr).ok());
  job.allocator->CheckInvariants();
  gpu.FailNoCall();
  ASSERT_TRUE(job.allocator->AwaitStage(1, nullptr).ok());
  job.allocator->CheckInvariants();
  ExpectAllThere();
}

// Each call of the named function in turn, in the midst of runs of several chunks.
class FailingRunsTest : public RunsTest,
                        public ::testing::WithParamInterface<std::tuple<const char*, cuda::Result>> {};

TEST_P(FailingRunsTest, LeaveEveryChunkInAStateThatIsTrue) {
  const auto [name, error] = GetParam();
  Make(/*later=*/1);
  SpillAll();
  BeginStep();
  ASSERT_TRUE(job.allocator->AwaitStage(1, nullptr).ok());
  bool failed = true;
  for (int call = 0; failed; call += call < 8 ? 1 : 5) {
    SCOPED_TRACE("call " + std::to_string(call));
    failed = false;
    int left = call;
    std::function<void()> count = [&] {
      if (left-- > 0) return gpu.OnNext(name, count);
      failed = true;
      gpu.FailNext(name, error);
    };
    job.PassTurn();
    gpu.OnNext(name, count);
    (void)job.Spill(kEverything);
    (void)job.allocator->UnmapSpilled();
    Bytes missing = 0;
    (void)job.TakeTurn(/*for_step=*/true, &missing);
    if (job.gate.holds_turn) (void)job.allocator->AwaitStage(1, nullptr);
    job.allocator->CheckInvariants();
    gpu.FailNoCall();
    if (!job.gate.holds_turn || missing > 0) BeginStep();
    ASSERT_TRUE(job.allocator->AwaitStage(1, nullptr).ok());
    job.allocator->CheckInvariants();
    ExpectAllThere();
  }
}

INSTANTIATE_TEST_SUITE_P(
    Calls, FailingRunsTest,
    ::testing::Combine(::testing::Values("MemMap", "MemSetAccess", "MemUnmap", "MemCreate", "MemcpyHtoDAsync",
                                         "MemcpyDtoHAsync", "EventRecord", "EventSynchronize"),
                       ::testing::Values(cuda::kOutOfMemory, 999)));

}  // namespace
}  // namespace hocket
