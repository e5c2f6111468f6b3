// A thread that Hocket has not seen uses the device while its job is spilled, about to be or on its way.
// Where the driver can, it sees the host copy; where work is seen in time, nothing moves.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "tests/allocator/job.h"

namespace hocket {
namespace {

using testing::EmulatedGpu;
using ::testing::HasSubstr;
using testing::Job;
using testing::kChunk;
using testing::kEverything;

class StrayTest : public ::testing::Test {
 protected:
  ~StrayTest() override {
    gpu.FailNoCall();
    EXPECT_TRUE(gpu.driver().DestroyStream(stray).ok());
  }

  void SpillAll(Job& job) {
    job.PassTurn();
    const auto freed = job.Spill(kEverything);
    ASSERT_TRUE(freed.ok()) << freed.status();
  }
  // Queued, and not waited for.
  void WriteOnStream(DevicePtr address, unsigned char value) {
    bytes.assign(1_KiB, value);
    ASSERT_TRUE(gpu.driver().CopyToDevice(address, bytes.data(), bytes.size(), stray).ok());
  }

  EmulatedGpu& gpu = EmulatedGpu::Get();
  Stream stray = *gpu.driver().CreateStream();
  std::vector<unsigned char> bytes;
};

// --- while it is spilled ---

class MappedTest : public StrayTest, public ::testing::WithParamInterface<bool> {
 protected:
  void Declare(DevicePtr block) {
    const auto promise = std::make_shared<Promise>(Promise{.name = "weights"});
    ASSERT_TRUE(job.allocator->DeclareConstant(block, promise).ok());
  }
  // The stray's work goes on until somebody waits for it.
  std::thread BusyUntilAwaited() {
    gpu.KeepBusy(stray, &go);
    gpu.ForgetCalls();
    return std::thread([this] {
      while (gpu.Calls()["EventSynchronize"] == 0) std::this_thread::yield();
      go = true;
      go.notify_all();
    });
  }

  Job job{{.verify = GetParam()}};
  std::atomic<bool> go = false;
};

TEST_P(MappedTest, AStrayReadsWhatWasSpilled) {
  const DevicePtr block = job.Malloc(3_MiB);
  gpu.Fill(block, 3_MiB, 0x11);
  SpillAll(job);
  EXPECT_EQ(gpu.used(), 0u) << "it is on the host";
  EXPECT_TRUE(job.allocator->IsSpilled(block + 1_MiB, 1));
  EXPECT_TRUE(gpu.Holds(block, 3_MiB, 0x11));
  gpu.ReadInKernel("metrics", stray, block, 3_MiB);
  job.TakeTurn();
  EXPECT_FALSE(job.allocator->IsSpilled(block, 3_MiB));
  EXPECT_TRUE(gpu.Holds(block, 3_MiB, 0x11));
  job.Free(block);
}

TEST_P(MappedTest, WhatAStrayWritesComesBack) {
  const DevicePtr block = job.Malloc(3_MiB), other = job.Malloc(1_KiB);
  gpu.Fill(block, 3_MiB, 0x11);
  gpu.Fill(other, 1_KiB, 0x22);
  SpillAll(job);
  WriteOnStream(block + 2_MiB, 0x33);  // its second chunk
  EXPECT_TRUE(gpu.Holds(block + 2_MiB - 1_KiB, 1_KiB, 0x11));
  job.TakeTurn();  // waits for it
  EXPECT_TRUE(gpu.Holds(block, 2_MiB, 0x11));
  EXPECT_TRUE(gpu.Holds(block + 2_MiB, 1_KiB, 0x33));
  EXPECT_TRUE(gpu.Holds(block + 2_MiB + 1_KiB, 1_MiB - 1_KiB, 0x11));
  EXPECT_TRUE(gpu.Holds(other, 1_KiB, 0x22));
  job.Free(block), job.Free(other);
}

TEST_P(MappedTest, ItStaysSoOverManySpillsInTheSameHostMemory) {
  const DevicePtr block = job.Malloc(3_MiB);
  for (unsigned char round = 1; round < 5; ++round) {
    gpu.Fill(block, 3_MiB, round);
    SpillAll(job);
    EXPECT_TRUE(gpu.Holds(block, 3_MiB, round));
    WriteOnStream(block, round + 100);
    job.TakeTurn();
    EXPECT_TRUE(gpu.Holds(block, 1_KiB, round + 100));
    EXPECT_TRUE(gpu.Holds(block + 1_KiB, 3_MiB - 1_KiB, round));
  }
  job.Free(block);
}

// What is copied and what the host has kept lie in the same memory.
TEST_P(MappedTest, AStraySeesConstantMemoryThatWasNotCopiedAgainWithTheRest) {
  const DevicePtr weights = job.Malloc(512_KiB), other = job.Malloc(1_KiB);
  gpu.Fill(weights, 512_KiB, 0x11);
  Declare(weights);
  for (unsigned char round = 1; round < 4; ++round) {
    gpu.Fill(other, 1_KiB, round);
    SpillAll(job);
    EXPECT_TRUE(gpu.Holds(weights, 512_KiB, 0x11));
    EXPECT_TRUE(gpu.Holds(other, 1_KiB, round));
    WriteOnStream(other, round + 100);
    job.TakeTurn();
    EXPECT_TRUE(gpu.Holds(weights, 512_KiB, 0x11));
    EXPECT_TRUE(gpu.Holds(other, 1_KiB, round + 100));
  }
  EXPECT_EQ(job.Held().spared_total, 2 * 512_KiB);
  job.Free(weights), job.Free(other);
}

TEST_P(MappedTest, ABrokenPromiseLosesNothingOfWhatAStrayWritesToSpilledMemory) {
  const DevicePtr weights = job.Malloc(kChunk);
  gpu.Fill(weights, kChunk, 0x11);
  Declare(weights);
  SpillAll(job);
  WriteOnStream(weights, 0x22);
  for (int round = 0; round < 2; ++round) {
    job.TakeTurn();
    EXPECT_TRUE(gpu.Holds(weights, 1_KiB, 0x22));
    EXPECT_TRUE(gpu.Holds(weights + 1_KiB, kChunk - 1_KiB, 0x11));
    SpillAll(job);
  }
  EXPECT_EQ(job.Held().spared_total, 2 * kChunk);
  EXPECT_TRUE(gpu.Holds(weights, 1_KiB, 0x22));
  job.TakeTurn();
  job.Free(weights);
}

// PyTorch frees what queued work of the same stream still uses.
TEST_P(MappedTest, ABlockFreedUnderAStrayKeepsItsHostCopyUntilTheDeviceIsDone) {
  const DevicePtr block = job.Malloc(kChunk);
  SpillAll(job);
  gpu.ReadInKernel("metrics", stray, block, kChunk);
  job.Free(block);
  EXPECT_EQ(job.Held().spilled, 0u) << "nothing has to come back";
  gpu.ReadInKernel("metrics", stray, block, kChunk);
  job.TakeTurn();
  EXPECT_EQ(gpu.used(), 0u);
  job.Free(job.Malloc(kChunk));
}

TEST_P(MappedTest, AStrayIsWaitedForAndCountedWhenBytesComeBack) {
  const DevicePtr block = job.Malloc(kChunk);
  gpu.Fill(block, kChunk, 0x11);
  SpillAll(job);
  EXPECT_EQ(job.Held().strays, 0u);
  std::thread releases = BusyUntilAwaited();
  WriteOnStream(block, 0x22);
  job.TakeTurn();
  releases.join();
  EXPECT_EQ(job.Held().strays, 1u);
  EXPECT_TRUE(gpu.Holds(block, 1_KiB, 0x22));
  job.Free(block);
}

TEST_P(MappedTest, AStrayIsWaitedForAndCountedWhenBytesComeBackBeforeTheTurn) {
  const DevicePtr block = job.Malloc(3 * kChunk), freed = job.Malloc(kChunk);
  gpu.Fill(block, 3 * kChunk, 0x11);
  SpillAll(job);
  job.Free(freed);
  std::thread releases = BusyUntilAwaited();
  WriteOnStream(block, 0x22);
  EXPECT_EQ(*job.allocator->RestoreAhead(2 * kChunk), 2 * kChunk);
  releases.join();
  job.allocator->CheckInvariants();
  EXPECT_EQ(job.Held().strays, 1u);
  EXPECT_TRUE(gpu.Holds(block, 1_KiB, 0x22));
  EXPECT_TRUE(gpu.Holds(block + 1_KiB, 3 * kChunk - 1_KiB, 0x11));
  job.TakeTurn();
  EXPECT_TRUE(gpu.Holds(block + 1_KiB, 3 * kChunk - 1_KiB, 0x11));
  job.Free(block);
}

TEST_P(MappedTest, WhoComesWhileBytesComeBackBeforeTheTurnIsCounted) {
  const DevicePtr block = job.Malloc(kChunk);
  SpillAll(job);
  gpu.OnNext("MemcpyHtoDAsync", [this] { gpu.KeepBusy(stray, &go); });
  EXPECT_EQ(*job.allocator->RestoreAhead(kEverything), kChunk);
  EXPECT_EQ(job.Held().strays, 1u);
  go = true;
  go.notify_all();
  job.TakeTurn();
  job.Free(block);
}

INSTANTIATE_TEST_SUITE_P(Verified, MappedTest, ::testing::Bool());

TEST_F(StrayTest, ASpillGivesMemoryBackBeforeTheCopiesAreMapped) {
  Job job;
  const DevicePtr block = job.Malloc(9 * kChunk);
  gpu.Fill(block, 9 * kChunk, 0x11);
  job.PassTurn();
  gpu.ForgetCalls();
  ASSERT_TRUE(job.allocator->Spill(kEverything).ok());
  EXPECT_EQ(gpu.used(), 0u);
  EXPECT_EQ(gpu.Calls()["MemMap"], 9) << "each once, where it is copied to";
  EXPECT_TRUE(job.allocator->MapSpilled());
  EXPECT_TRUE(gpu.Holds(block, kChunk, 0x11));
  job.TakeTurn();  // with some of them mapped
  EXPECT_TRUE(gpu.Holds(block, 9 * kChunk, 0x11));
  EXPECT_FALSE(job.allocator->MapSpilled()) << "nothing is spilled";
  job.PassTurn();
  ASSERT_TRUE(job.allocator->Spill(kEverything).ok());
  while (job.allocator->MapSpilled()) job.allocator->CheckInvariants();
  EXPECT_TRUE(gpu.Holds(block, 9 * kChunk, 0x11));
  job.TakeTurn();
  job.Free(block);
}

TEST_F(StrayTest, WhereStraysAreExpectedACopyIsMappedWithTheSpill) {
  Job job;
  job.allocator->ExpectStrays(true);
  const DevicePtr block = job.Malloc(3_MiB);
  gpu.Fill(block, 3_MiB, 0x11);
  job.PassTurn();
  ASSERT_TRUE(job.allocator->Spill(kEverything).ok());
  EXPECT_TRUE(gpu.Holds(block, 3_MiB, 0x11));
  EXPECT_FALSE(job.allocator->MapSpilled());
  job.TakeTurn();
  job.Free(block);
}

TEST_F(StrayTest, OnceAStrayWasSeenItIsExpected) {
  Job job;
  const DevicePtr block = job.Malloc(3_MiB);
  gpu.Fill(block, 3_MiB, 0x11);
  SpillAll(job);
  std::atomic<bool> go = false;
  gpu.KeepBusy(stray, &go);
  gpu.ForgetCalls();
  std::thread awaited([&] {
    while (gpu.Calls()["EventSynchronize"] == 0) std::this_thread::yield();
    go = true;
    go.notify_all();
  });
  job.TakeTurn();
  awaited.join();
  ASSERT_EQ(job.Held().strays, 1u);
  job.PassTurn();
  ASSERT_TRUE(job.allocator->Spill(kEverything).ok());
  EXPECT_TRUE(gpu.Holds(block, 3_MiB, 0x11)) << "before anything else was called";
  job.TakeTurn();
  job.Free(block);
}

// --- when the turn is near ---

class NearTest : public StrayTest {
 protected:
  // 0x11 in all of it.
  DevicePtr Spilled(Bytes size) {
    const DevicePtr block = job.Malloc(size);
    gpu.Fill(block, size, 0x11);
    SpillAll(job);
    return block;
  }
  void Nears() {
    while (job.allocator->UnmapSpilled()) job.allocator->CheckInvariants();
  }
  void ExpectNothingTakenAway(DevicePtr block, Bytes size) {
    gpu.ForgetCalls();
    EXPECT_FALSE(job.allocator->UnmapSpilled());
    job.allocator->CheckInvariants();
    EXPECT_EQ(gpu.Calls()["MemUnmap"], 0);
    EXPECT_TRUE(gpu.Holds(block, size, 0x11));
  }

  Job job;
};

TEST_F(NearTest, TheTurnHasNothingToTakeAway) {
  const DevicePtr block = Spilled(9 * kChunk);
  Nears();
  gpu.ForgetCalls();
  job.TakeTurn();
  EXPECT_EQ(gpu.Calls()["MemUnmap"], 0);
  EXPECT_TRUE(gpu.Holds(block, 9 * kChunk, 0x11));
  job.Free(block);
}

TEST_F(NearTest, ATurnThatComesMeanwhileTakesTheRestAway) {
  const DevicePtr block = Spilled(9 * kChunk);
  EXPECT_TRUE(job.allocator->UnmapSpilled());
  job.TakeTurn();
  EXPECT_TRUE(gpu.Holds(block, 9 * kChunk, 0x11));
  job.Free(block);
}

TEST_F(NearTest, WhenItDoesNotComeAllIsThereAgainForStrays) {
  const DevicePtr block = Spilled(9 * kChunk);
  for (int times = 0; times < 3; ++times) {
    gpu.ForgetCalls();
    Nears();
    EXPECT_EQ(gpu.Calls()["MemUnmap"], 3) << "four chunks at a time";
    while (job.allocator->MapSpilled()) job.allocator->CheckInvariants();
    EXPECT_TRUE(gpu.Holds(block, 9 * kChunk, 0x11));
  }
  WriteOnStream(block + 5 * kChunk, 0x22);
  job.TakeTurn();
  EXPECT_TRUE(gpu.Holds(block + 5 * kChunk, 1_KiB, 0x22));
  EXPECT_TRUE(gpu.Holds(block + 5 * kChunk + 1_KiB, 4 * kChunk - 1_KiB, 0x11));
  job.Free(block);
}

TEST_F(NearTest, UnderAStrayNothingIsTakenAway) {
  const DevicePtr block = Spilled(3 * kChunk);
  std::atomic<bool> go = false;
  gpu.KeepBusy(stray, &go);
  ExpectNothingTakenAway(block, 3 * kChunk);
  EXPECT_EQ(job.Held().strays, 1u);
  go = true;
  go.notify_all();
  ASSERT_TRUE(gpu.driver().SynchronizeStream(stray).ok());
  ExpectNothingTakenAway(block, 3 * kChunk);  // there may be another one
  job.TakeTurn();
  job.Free(block);
}

TEST_F(NearTest, WhereStraysAreExpectedNothingIsTakenAway) {
  const DevicePtr block = Spilled(3 * kChunk);
  job.allocator->ExpectStrays(true);
  ExpectNothingTakenAway(block, 3 * kChunk);
  job.TakeTurn();
  job.Free(block);
}

TEST_F(NearTest, WhereStraysWouldNotBeSeenNothingIsTakenAway) {
  const DevicePtr block = Spilled(3 * kChunk);
  gpu.TakeContextEventsAway();
  ExpectNothingTakenAway(block, 3 * kChunk);
  gpu.FailNoCall();
  job.TakeTurn();
  job.Free(block);
}

TEST_F(NearTest, WhatFollowsItsTurnStays) {
  const DevicePtr first = job.Malloc(2 * kChunk), later = job.Malloc(2 * kChunk);
  gpu.Fill(later, 2 * kChunk, 0x11);
  ASSERT_TRUE(job.allocator->SetStage(later, 1).ok());
  SpillAll(job);
  gpu.ForgetCalls();
  Nears();
  EXPECT_EQ(gpu.Calls()["MemUnmap"], 1);
  EXPECT_TRUE(gpu.Holds(later, 2 * kChunk, 0x11));
  job.TakeTurn(/*for_step=*/true);
  ASSERT_TRUE(job.allocator->AwaitStage(1, nullptr).ok());
  job.Free(first), job.Free(later);
}

// Whoever looked whether there is a turn may be late; what a turn does would be expected of strays for good.
TEST_F(NearTest, ATurnsWorkIsNoStrays) {
  const DevicePtr block = Spilled(3 * kChunk);
  Bytes missing = 0;
  ASSERT_TRUE(job.allocator->TakeTurn(/*for_step=*/false, &missing).ok());  // nobody has been told yet
  std::atomic<bool> go = false;
  gpu.KeepBusy(stray, &go);
  EXPECT_FALSE(job.allocator->UnmapSpilled());
  EXPECT_EQ(job.Held().strays, 0u);
  go = true;
  go.notify_all();
  SpillAll(job);
  EXPECT_TRUE(job.allocator->UnmapSpilled()) << "it has passed";
  job.TakeTurn();
  EXPECT_TRUE(gpu.Holds(block, 3 * kChunk, 0x11));
  job.Free(block);
}

TEST_F(NearTest, WhatTheDriverRefusesStaysMappedAndIsLeftToTheTurn) {
  const DevicePtr block = Spilled(9 * kChunk);
  gpu.FailEvery("MemUnmap", 999);
  Nears();  // and it ends
  EXPECT_TRUE(gpu.Holds(block, 9 * kChunk, 0x11));
  gpu.FailNoCall();
  job.TakeTurn();
  EXPECT_TRUE(gpu.Holds(block, 9 * kChunk, 0x11));
  job.Free(block);
}

TEST_F(NearTest, ABlockFreedBeforeTheTurnLeavesNothing) {
  const DevicePtr block = Spilled(3 * kChunk);
  Nears();
  job.Free(block);
  EXPECT_FALSE(job.allocator->MapSpilled());
  job.TakeTurn();
  EXPECT_EQ(gpu.used(), 0u);
}

// --- before and after the copies ---

class SeenTest : public StrayTest {
 protected:
  void Release() {
    go = true;
    go.notify_all();
    ASSERT_TRUE(gpu.driver().SynchronizeStream(stray).ok());
  }
  Job job;
  std::atomic<bool> go = false;
};

TEST_F(SeenTest, WorkSeenBeforeTheCopiesKeepsEverythingWhereItIs) {
  const DevicePtr block = job.Malloc(3_MiB);
  job.PassTurn();
  gpu.KeepBusy(stray, &go);
  const auto freed = job.Spill(kEverything);
  EXPECT_EQ(freed.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(freed.status().message()),
              HasSubstr("the device has work of this job, or of a thread that Hocket has not seen before"));
  EXPECT_EQ(job.Held().strays, 0u) << "it may be the job's own";
  EXPECT_EQ(job.Held().spilled, 0u);
  Release();
  EXPECT_EQ(*job.Spill(kEverything), 4_MiB);
  job.TakeTurn();
  job.Free(block);
}

TEST_F(SeenTest, WorkThatBeginsWhileAPartIsCopiedKeepsItAndWhatIsBehindIt) {
  const DevicePtr block = job.Malloc(4 * kChunk);
  gpu.Fill(block, 4 * kChunk, 0x11);
  job.PassTurn();
  gpu.OnNext("MemcpyDtoHAsync", [this] { gpu.KeepBusy(stray, &go); });
  gpu.ForgetCalls();
  const auto freed = job.Spill(kEverything, {.size = kChunk});
  EXPECT_EQ(freed.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(gpu.Calls()["StreamSynchronize"], 1) << "the host memory of what is under way is others' next";
  EXPECT_EQ(job.Held().spilled, 0u);
  EXPECT_EQ(job.Held().strays, 1u);
  Release();
  job.TakeTurn();
  EXPECT_TRUE(gpu.Holds(block, 4 * kChunk, 0x11));
  job.Free(block);
}

// When the first part is given back the second has been copied and looked at, too.
TEST_F(SeenTest, WorkSeenAfterTheCopiesOfAPartRollsThatPartBack) {
  const DevicePtr block = job.Malloc(6 * kChunk);
  gpu.Fill(block, 6 * kChunk, 0x11);
  job.PassTurn();
  int parts = 0;
  const auto freed = job.Spill(kEverything, {.size = kChunk, .told = [&](Bytes, const Holdings&) {
                                               if (++parts == 1) gpu.KeepBusy(stray, &go);
                                             }});
  EXPECT_EQ(freed.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(freed.status().message()), HasSubstr("while memory was copied to the host"));
  EXPECT_EQ(job.Held().spilled, 2 * kChunk) << "what was looked at before had moved";
  EXPECT_EQ(job.Held().persistent, 4 * kChunk);
  EXPECT_EQ(job.Held().strays, 1u);
  Release();
  job.TakeTurn();
  EXPECT_TRUE(gpu.Holds(block, 6 * kChunk, 0x11));
  job.Free(block);
}

// PyTorch's side streams are not ordered with the default stream.
TEST_F(SeenTest, WithoutAnEventForAllStreamsTheDeviceIsWaitedFor) {
  const DevicePtr block = job.Malloc(kChunk);
  gpu.Fill(block, kChunk, 0x11);
  job.PassTurn();
  gpu.TakeContextEventsAway();
  gpu.KeepBusy(stray, &go);
  WriteOnStream(block, 0x22);  // behind that
  gpu.OnNext("CtxSynchronize", [this] {
    go = true;
    go.notify_all();
  });
  const auto freed = job.Spill(kEverything);
  ASSERT_TRUE(freed.ok()) << freed.status();
  job.TakeTurn();
  EXPECT_TRUE(gpu.Holds(block, 1_KiB, 0x22));
  job.Free(block);
}

// --- a driver that cannot ---

TEST_F(StrayTest, ADriverThatCannotSpillsAsBefore) {
  gpu.SetMapsHostMemory(false);
  Job job;
  gpu.FailNoCall();
  EXPECT_FALSE(job.Held().maps_spilled);
  const DevicePtr block = job.Malloc(1_KiB);
  gpu.Fill(block, 1_KiB, 0x11);
  gpu.ForgetCalls();
  SpillAll(job);
  EXPECT_EQ(gpu.Calls()["MemMap"], 0);
  job.TakeTurn();
  EXPECT_TRUE(gpu.Holds(block, 1_KiB, 0x11));
  job.Free(block);
}

TEST_F(StrayTest, ADriverThatDoesNotDoWhatItSaysSpillsAsBefore) {
  constexpr cuda::Result kNotPermitted = 800;
  Job job;
  EXPECT_TRUE(job.Held().maps_spilled);
  const DevicePtr block = job.Malloc(1_KiB);
  gpu.Fill(block, 1_KiB, 0x11);
  gpu.FailEvery("MemCreate", kNotPermitted);
  SpillAll(job);
  gpu.FailNoCall();
  EXPECT_FALSE(job.Held().maps_spilled);
  EXPECT_EQ(job.Held().spilled, kChunk);
  job.TakeTurn();
  EXPECT_TRUE(gpu.Holds(block, 1_KiB, 0x11));
  job.Free(block);
}

}  // namespace
}  // namespace hocket
