#include "allocator/caching_allocator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/allocator/allocator_test.h"
#include "tests/allocator/job.h"

namespace hocket {
namespace {

using ::testing::ElementsAre;
using testing::EmulatedGpu;
using testing::Job;
using testing::kChunk;
using testing::kEverything;

class CachingAllocatorTest : public testing::AllocatorTest {};

TEST_F(CachingAllocatorTest, GivesMemoryThatHoldsBytes) {
  Job job;
  const DevicePtr block = job.Malloc(3_MiB);
  gpu.Fill(block, 3_MiB, 0x5A);
  EXPECT_TRUE(gpu.Holds(block, 3_MiB, 0x5A));
  EXPECT_EQ(job.allocator->BlockOf(block + 100)->first, block);
  job.Free(block);
  EXPECT_FALSE(job.allocator->BlockOf(block).ok());
}

TEST_F(CachingAllocatorTest, NothingAskedIsNothingGiven) {
  Job job;
  EXPECT_EQ(job.Malloc(0), 0u);
  job.Free(0);
}

TEST_F(CachingAllocatorTest, FreedMemoryIsUsedAgainWithoutADriverCall) {
  Job job;
  const DevicePtr block = job.Malloc(1_MiB);
  job.Free(block);
  gpu.ForgetCalls();
  EXPECT_EQ(job.Malloc(1_MiB), block);
  EXPECT_TRUE(gpu.Calls().empty());
  job.Free(block);
}

TEST_F(CachingAllocatorTest, ATurnPassedTwiceOverASettledArenaCreatesAndMapsNothing) {
  Job job;
  const auto step = [&] {
    job.allocator->BeginStep();
    for (const Bytes size : {5_MiB, 1_MiB, 3_MiB}) job.Free(job.Malloc(size));
    job.allocator->EndStep();
    job.PassTurn();
    job.TakeTurn();
  };
  step();
  gpu.ForgetCalls();
  step();
  const auto calls = gpu.Calls();
  for (const char* name : {"MemCreate", "MemMap", "MemUnmap", "MemRelease", "MemcpyDtoHAsync"}) {
    EXPECT_EQ(calls.count(name), 0u) << name;
  }
}

TEST_F(CachingAllocatorTest, SpillThenRestoreKeepsAddressAndBytes) {
  Job job;
  const DevicePtr a = job.Malloc(3_MiB), b = job.Malloc(1_KiB);
  gpu.Fill(a, 3_MiB, 0x11);
  gpu.Fill(b, 1_KiB, 0x22);
  const Bytes before = gpu.used();
  job.PassTurn();

  ASSERT_EQ(*job.Spill(kEverything), 4_MiB);
  EXPECT_EQ(gpu.used(), before - 4_MiB);
  EXPECT_EQ(job.Held().spilled, 4_MiB);
  EXPECT_EQ(job.Held().spilled_total, 3_MiB + 1_KiB) << "only live bytes are copied";

  job.TakeTurn();
  EXPECT_EQ(job.Held().spilled, 0u);
  EXPECT_TRUE(gpu.Holds(a, 3_MiB, 0x11));
  EXPECT_TRUE(gpu.Holds(b, 1_KiB, 0x22));
  job.Free(a);
  job.Free(b);
}

TEST_F(CachingAllocatorTest, AJobThatIsSpilledNowAndThenKeepsItsPinnedMemory) {
  Job job;
  const DevicePtr block = job.Malloc(3_MiB);
  const auto turn = [&](Bytes spilled) {
    job.PassTurn();
    ASSERT_TRUE(job.Spill(spilled).ok());
    job.TakeTurn();
    job.allocator->BeginStep();
    job.allocator->EndStep();
  };
  turn(kEverything);
  gpu.ForgetCalls();
  for (int i = 0; i < 20; ++i) turn(0);
  turn(kEverything);
  EXPECT_EQ(gpu.Calls()["MemHostRegister"], 0);
  job.Free(block);
}

TEST_F(CachingAllocatorTest, AThreadsCurrentContextStaysWhatItWas) {
  const ContextHandle before = gpu.driver().CurrentContext();
  ASSERT_TRUE(gpu.driver().UseContext(nullptr).ok());
  {
    Job job;
    EXPECT_EQ(gpu.driver().CurrentContext(), nullptr) << "made";
    const DevicePtr block = job.Malloc(3_MiB);
    EXPECT_EQ(gpu.driver().CurrentContext(), nullptr) << "grown";
    job.PassTurn();
    ASSERT_TRUE(job.Spill(kEverything).ok());
    job.TakeTurn();
    job.Free(block);
  }
  EXPECT_EQ(gpu.driver().CurrentContext(), nullptr) << "gone";
  ASSERT_TRUE(gpu.driver().UseContext(before).ok());
}

TEST_F(CachingAllocatorTest, WhoseAnAddressIsCanBeAskedWhileTheAllocatorIsLocked) {
  Job job, other;
  const DevicePtr persistent = job.Malloc(1_KiB);
  job.allocator->BeginStep();
  const DevicePtr transient = job.Malloc(1_MiB);
  for (Job* each : {&job, &other}) each->allocator->Lock();
  for (const DevicePtr block : {persistent, transient}) {
    EXPECT_TRUE(job.allocator->Owns(block));
    EXPECT_FALSE(other.allocator->Owns(block));
    EXPECT_FALSE(other.allocator->BlockOf(block).ok()) << "without a look at its blocks";
  }
  for (Job* each : {&job, &other}) each->allocator->Unlock();
  job.allocator->EndStep();
  job.Free(persistent), job.Free(transient);
}

TEST_F(CachingAllocatorTest, WhatIsInUseIsWhatTheStatisticsSay) {
  Job job;
  const DevicePtr a = job.Malloc(3_MiB), b = job.Malloc(1_KiB);
  job.Free(a);
  const Usage usage = job.allocator->InUse();
  const DeviceStats stats = job.allocator->Stats();
  EXPECT_EQ(usage.allocated, 1_KiB);
  EXPECT_EQ(usage.allocated, static_cast<Bytes>(stats.allocated_bytes[kAggregate].current));
  EXPECT_EQ(usage.reserved, static_cast<Bytes>(stats.reserved_bytes[kAggregate].current));
  job.Free(b);
}

TEST_F(CachingAllocatorTest, SpillsNoMoreThanIsWanted) {
  Job job;
  const DevicePtr block = job.Malloc(8 * kChunk);
  job.PassTurn();
  EXPECT_EQ(*job.Spill(3 * kChunk - 1), 3 * kChunk);
  EXPECT_EQ(job.Held().persistent, 5 * kChunk);
  job.TakeTurn();
  job.Free(block);
}

TEST_F(CachingAllocatorTest, TheBlocksOfASegmentAddUpToItAlsoOnTheHost) {
  Job job;
  const DevicePtr a = job.Malloc(1_KiB), b = job.Malloc(1_KiB), c = job.Malloc(kChunk + 1_KiB);
  job.Free(b);
  job.PassTurn();
  ASSERT_TRUE(job.Spill(kEverything).ok());
  const std::vector<SegmentSnapshot> segments = job.allocator->Snapshot();
  ASSERT_EQ(segments.size(), 1u);
  EXPECT_TRUE(segments[0].is_spilled);
  DevicePtr address = segments[0].address;
  for (const BlockSnapshot& block : segments[0].blocks) {
    EXPECT_EQ(block.address, address);
    EXPECT_EQ(block.allocated, address == a || address == c);
    address += block.size;
  }
  EXPECT_EQ(address, segments[0].address + segments[0].total_size);
  for (const DevicePtr block : {a, c}) job.Free(block);
}

TEST_F(CachingAllocatorTest, ItTellsWhichMemoryHasComeAndGone) {
  Job job;
  job.Free(job.Malloc(kChunk));
  EXPECT_TRUE(job.allocator->TakeSegmentChanges().empty()) << "nobody wanted to know";
  job.allocator->RecordSegments(true);
  const DevicePtr block = job.Malloc(4 * kChunk);
  const std::vector<SegmentChange> came = job.allocator->TakeSegmentChanges();
  ASSERT_EQ(came.size(), 1u);
  EXPECT_TRUE(came[0].came);
  EXPECT_EQ(came[0].size, 3 * kChunk) << "it had one";
  job.PassTurn();
  ASSERT_TRUE(job.Spill(kEverything).ok());
  job.TakeTurn();
  EXPECT_TRUE(job.allocator->TakeSegmentChanges().empty()) << "the addresses stay";
  job.Free(block);
  job.allocator->EmptyCache();
  const std::vector<SegmentChange> gone = job.allocator->TakeSegmentChanges();
  ASSERT_EQ(gone.size(), 1u);
  EXPECT_FALSE(gone[0].came);
  EXPECT_EQ(gone[0].address, block);
  EXPECT_EQ(gone[0].size, 4 * kChunk);
}

TEST_F(CachingAllocatorTest, SaysWhatTheDriverHasFree) {
  Job job;
  const DevicePtr block = job.Malloc(5 * kChunk);
  EXPECT_EQ(job.allocator->DeviceFree(), gpu.capacity() - gpu.used());
  job.Free(block);
}

TEST_F(CachingAllocatorTest, OnePartBecomesFreeWhileTheNextOnesAreCopied) {
  Job job;
  const DevicePtr block = job.Malloc(10 * kChunk);
  gpu.Fill(block, 10 * kChunk, 0x55);
  job.PassTurn();
  std::vector<Bytes> told;
  std::vector<int> copies;  // that have been queued until then
  gpu.ForgetCalls();
  const auto tell = [&](Bytes given_back, const Holdings& held) {
    told.push_back(given_back);
    copies.push_back(gpu.Calls()["MemcpyDtoHAsync"]);
    EXPECT_EQ(held.spilled, given_back);
    EXPECT_EQ(held.persistent, 10 * kChunk - given_back);
  };
  EXPECT_EQ(*job.Spill(kEverything, {.size = 2 * kChunk, .told = tell}), 10 * kChunk);
  EXPECT_THAT(told, ElementsAre(2 * kChunk, 4 * kChunk, 6 * kChunk, 8 * kChunk, 10 * kChunk));
  EXPECT_THAT(copies, ElementsAre(6, 8, 10, 10, 10)) << "no part is queued behind another";
  job.TakeTurn();
  EXPECT_TRUE(gpu.Holds(block, 10 * kChunk, 0x55));
  job.Free(block);
}

TEST_F(CachingAllocatorTest, PartsBeforeAFailedOneStayMoved) {
  Job job(AllocatorOptions{.host_budget = 2 * kChunk});
  const DevicePtr block = job.Malloc(5 * kChunk);
  gpu.Fill(block, 5 * kChunk, 0x55);
  job.PassTurn();
  std::vector<Bytes> told;
  const auto tell = [&](Bytes given_back, const Holdings&) { told.push_back(given_back); };
  EXPECT_EQ(job.Spill(kEverything, {.size = kChunk, .told = tell}).status().code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(told.back(), 2 * kChunk);
  EXPECT_EQ(job.Held().spilled, 2 * kChunk);
  job.TakeTurn();
  EXPECT_TRUE(gpu.Holds(block, 5 * kChunk, 0x55));
  job.Free(block);
}

TEST_F(CachingAllocatorTest, ABlockFreedWhileSpilledComesBackNeverAndCostsNothing) {
  Job job;
  const DevicePtr a = job.Malloc(kChunk), b = job.Malloc(kChunk);
  gpu.Fill(b, kChunk, 0x33);
  job.PassTurn();
  ASSERT_TRUE(job.Spill(kEverything).ok());
  job.Free(a);
  EXPECT_EQ(job.Held().spilled, kChunk);
  job.TakeTurn();
  EXPECT_EQ(job.Held().restored_total, kChunk);
  EXPECT_TRUE(gpu.Holds(b, kChunk, 0x33));
  job.Free(b);
}

TEST_F(CachingAllocatorTest, ASurvivorIsAdoptedInPlaceWithoutACopy) {
  Job job;
  std::vector<ArenaChunkId> grew, lost;
  job.gate.grew = [&](ArenaChunkId id, Bytes, UniqueFd) { grew.push_back(id); };
  job.gate.lost = [&](ArenaChunkId id) { lost.push_back(id); };
  job.allocator->BeginStep();
  const DevicePtr dead = job.Malloc(kChunk), survivor = job.Malloc(kChunk);
  gpu.Fill(survivor, kChunk, 0x44);
  job.Free(dead);
  job.allocator->EndStep();
  ASSERT_EQ(grew.size(), 2u);
  EXPECT_EQ(job.Held().arena, 2 * kChunk);

  gpu.ForgetCalls();
  job.PassTurn();
  EXPECT_EQ(gpu.Calls()["MemcpyDtoHAsync"] + gpu.Calls()["MemCreate"] + gpu.Calls()["MemMap"], 0);
  EXPECT_EQ(lost, std::vector<ArenaChunkId>{grew[1]});
  EXPECT_EQ(job.Held().arena, kChunk);
  EXPECT_EQ(job.Held().persistent, kChunk);
  EXPECT_TRUE(gpu.Holds(survivor, kChunk, 0x44));

  ASSERT_EQ(*job.Spill(kEverything), kChunk) << "an adopted chunk moves like any private one";
  job.TakeTurn();
  EXPECT_TRUE(gpu.Holds(survivor, kChunk, 0x44));
  job.Free(survivor);
}

// The first step's survivors may be the optimizer's state, which is born once.
TEST_F(CachingAllocatorTest, SurvivorsOfTheSecondStepAreBornPersistentInTheThird) {
  Job job;
  std::vector<DevicePtr> kept;
  const auto step = [&] {
    job.allocator->BeginStep();
    const DevicePtr transient = job.Malloc(kChunk);
    kept.push_back(job.Malloc(kChunk));
    job.Free(transient);
    job.allocator->EndStep();
    job.PassTurn();
    job.TakeTurn();
  };
  step();
  EXPECT_EQ(job.Held().adopted_total, kChunk);
  step();
  EXPECT_EQ(job.Held().adopted_total, 2 * kChunk);
  step();
  step();
  EXPECT_EQ(job.Held().adopted_total, 2 * kChunk);
  for (const DevicePtr block : kept) job.Free(block);
}

TEST_F(CachingAllocatorTest, WhatOutlivesItsStepIsCountedAndWhatOfItWasForeseen) {
  Job job;
  std::vector<DevicePtr> kept;
  const auto step = [&](bool handed_over) {
    job.allocator->BeginStep();
    kept.push_back(job.Malloc(kChunk));
    const DevicePtr transient = job.Malloc(3 * kChunk);
    job.Free(transient);
    job.allocator->EndStep();
    if (!handed_over) return;
    job.PassTurn();
    job.TakeTurn();
  };
  step(/*handed_over=*/false);
  step(/*handed_over=*/true);
  EXPECT_EQ(job.Held().survived_total, 2 * kChunk);
  EXPECT_EQ(job.Held().foreseen_total, 0u);
  EXPECT_EQ(job.Held().adopted_last, 2 * kChunk);
  EXPECT_EQ(job.Held().adopted, 2 * kChunk);
  ASSERT_TRUE(job.Spill(kEverything).ok());
  EXPECT_EQ(job.Held().adopted, 2 * kChunk) << "on the host it is held, too";
  job.TakeTurn();

  step(/*handed_over=*/true);
  EXPECT_EQ(job.Held().survived_total, 3 * kChunk);
  EXPECT_EQ(job.Held().foreseen_total, kChunk) << "born persistent";
  EXPECT_EQ(job.Held().adopted_last, 0u);
  EXPECT_EQ(job.Held().adopted_total, 2 * kChunk);
  for (const DevicePtr block : kept) job.Free(block);
  EXPECT_EQ(job.Held().survived_total, 3 * kChunk) << "what is freed later has survived its step";
  job.PassTurn();
  EXPECT_EQ(job.Held().adopted, 0u);
  job.TakeTurn();
}

TEST_F(CachingAllocatorTest, APositionWhoseAdoptedChunkIsEmptyTakesArenaChunksAgain) {
  Job job;
  job.allocator->BeginStep();
  const DevicePtr survivor = job.Malloc(kChunk);
  job.allocator->EndStep();
  job.PassTurn();
  job.TakeTurn();
  job.Free(survivor);
  job.PassTurn();
  EXPECT_EQ(job.Held().persistent, 0u);
  job.TakeTurn();
  job.allocator->BeginStep();
  job.allocator->BeginStep();
  const DevicePtr next = job.Malloc(2_KiB);
  EXPECT_EQ(next, survivor);
  EXPECT_EQ(job.Held().arena, kChunk);
  job.Free(next);
}

TEST_F(CachingAllocatorTest, AStreamWaitsForNothingOfItsOwnButNeverGetsAnothersMemory) {
  Job job;
  const Stream other = *gpu.driver().CreateStream();
  const DevicePtr block = job.Malloc(kChunk);
  job.Free(block);
  const DevicePtr theirs = job.Malloc(kChunk, other);
  EXPECT_NE(theirs, block);
  EXPECT_EQ(job.Malloc(kChunk), block);
  job.Free(block);
  job.Free(theirs);
  ASSERT_TRUE(gpu.driver().DestroyStream(other).ok());
}

TEST_F(CachingAllocatorTest, ABlockRecordedOnAStreamWaitsForThatStream) {
  Job job;
  const Stream other = *gpu.driver().CreateStream();
  const DevicePtr block = job.Malloc(1_MiB);
  job.allocator->RecordStream(block, other);
  job.Free(block);
  EXPECT_EQ(job.allocator->Stats().active[kAggregate].current, 1) << "still active";
  EXPECT_EQ(job.allocator->Stats().allocation[kAggregate].current, 0);
  ASSERT_TRUE(gpu.driver().SynchronizeStream(other).ok());
  EXPECT_EQ(job.Malloc(1_MiB), block);
  job.Free(block);
  ASSERT_TRUE(gpu.driver().DestroyStream(other).ok());
}

TEST_F(CachingAllocatorTest, EmptyCacheGivesEverythingUnusedBack) {
  Job job;
  const Bytes before = gpu.used();
  const DevicePtr kept = job.Malloc(1_KiB);
  job.Free(job.Malloc(10_MiB));
  job.allocator->EmptyCache();
  job.allocator->CheckInvariants();
  EXPECT_EQ(gpu.used(), before + kChunk);
  job.Free(kept);
}

TEST_F(CachingAllocatorTest, AnAllocationWithoutTheTurnWaitsForIt) {
  Job job;
  job.PassTurn();
  int waits = 0;
  job.gate.await_turn = [&] {
    ++waits;
    job.TakeTurn();
    return absl::OkStatus();
  };
  job.Free(job.Malloc(1_KiB));
  EXPECT_EQ(waits, 1);
}

TEST_F(CachingAllocatorTest, ATurnThatNeverComesIsTheAllocationsError) {
  Job job;
  job.PassTurn();
  job.gate.await_turn = [] { return absl::UnavailableError("the coordinator has left"); };
  EXPECT_EQ(job.TryMalloc(1_KiB).status().message(), "the coordinator has left");
}

TEST_F(CachingAllocatorTest, APeakIsToldInChunksOfTheArena) {
  Job job;
  const DevicePtr persistent = job.Malloc(kChunk);
  job.allocator->BeginStep();
  job.Free(job.Malloc(3 * kChunk - 1));
  job.allocator->EndStep();
  job.PassTurn();
  EXPECT_EQ(job.Held().transient_peak, 3 * kChunk);
  job.TakeTurn();
  job.PassTurn();
  EXPECT_EQ(job.Held().transient_peak, 0u) << "a turn without a step uses none";
  job.Free(persistent);
}

// Between two of its steps unused memory is given back, and what is used is seen anew.
TEST_F(CachingAllocatorTest, APeakInALongTurnIsToldAtItsEnd) {
  Job job;
  for (int step = 0; step < 40; ++step) {
    job.allocator->BeginStep();
    job.Free(job.Malloc((step == 0 ? 3 : 1) * kChunk));
    job.allocator->EndStep();
  }
  job.PassTurn();
  EXPECT_EQ(job.Held().transient_peak, 3 * kChunk);
}

TEST_F(CachingAllocatorTest, TheMostThatStayedAndTheMostAtOneTimeAreKnownAfterwards) {
  Job job;
  const DevicePtr kept = job.Malloc(2 * kChunk);
  job.allocator->BeginStep();
  job.Free(job.Malloc(3 * kChunk));
  job.allocator->EndStep();
  job.Free(kept);
  job.PassTurn();
  job.TakeTurn();
  EXPECT_EQ(job.Held().persistent, 0u);
  EXPECT_EQ(job.Held().most_held, 2 * kChunk) << "what was alive at the step's end";
  EXPECT_EQ(job.Held().most_transient, 3 * kChunk) << "beside it";
}

TEST_F(CachingAllocatorTest, WhatIsSpilledAndComesBackIsCountedOnce) {
  Job job;
  const DevicePtr kept = job.Malloc(2 * kChunk);
  job.allocator->BeginStep();
  job.allocator->EndStep();
  job.PassTurn();
  ASSERT_TRUE(job.Spill(kEverything).ok());
  job.TakeTurn();
  EXPECT_EQ(job.Held().most_held, 2 * kChunk);
  EXPECT_EQ(job.Held().most_transient, 0u);
  job.Free(kept);
}

TEST_F(CachingAllocatorTest, APeakOutsideStepsIsAPeak) {
  Job job;
  job.Free(job.Malloc(5 * kChunk));
  job.allocator->EmptyCache();
  job.allocator->BeginStep();
  job.allocator->EndStep();
  EXPECT_EQ(job.Held().most_held, 0u);
  EXPECT_EQ(job.Held().most_transient, 5 * kChunk);
}

TEST_F(CachingAllocatorTest, ALiveBlockIsFoundByItsStartAlone) {
  Job job;
  const DevicePtr block = job.Malloc(1000);
  ASSERT_TRUE(job.allocator->LiveBlock(block).ok());
  EXPECT_EQ(job.allocator->LiveBlock(block)->requested_size, 1000u);
  EXPECT_FALSE(job.allocator->LiveBlock(block + 512).ok());
  EXPECT_FALSE(job.allocator->LiveBlock(12345).ok());
  job.Free(block);
  EXPECT_FALSE(job.allocator->LiveBlock(block).ok());
}

TEST_F(CachingAllocatorTest, MemoryThatCannotBePinnedIsSpilledAllTheSame) {
  gpu.FailEvery("MemHostRegister", /*CUDA_ERROR_NOT_SUPPORTED*/ 801);
  Job job;
  const DevicePtr block = job.Malloc(kChunk);
  gpu.Fill(block, kChunk, 7);
  job.PassTurn();
  EXPECT_TRUE(job.Spill(kEverything).ok());
  job.TakeTurn();
  gpu.FailNoCall();
  EXPECT_TRUE(gpu.Holds(block, kChunk, 7));
  job.Free(block);
}

TEST_F(CachingAllocatorTest, TheFreeOfAnUnknownAddressStopsTheProcess) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";  // a forked child frees nothing
  Job job;
  const DevicePtr block = job.Malloc(1_KiB);
  EXPECT_DEATH(job.allocator->Free(block + 512), "is not a block in use");
  job.Free(block);
}

// Nobody has asked to have it in parts.
TEST(LargeSpillTest, GivesChunksBackWhileOthersAreCopied) {
  EmulatedGpu& gpu = EmulatedGpu::Get();
  Job job;
  const DevicePtr block = job.Malloc(40_MiB);
  job.PassTurn();
  const Bytes before = gpu.used();
  std::vector<Bytes> given_back;
  const auto told = [&](Bytes, const Holdings&) { given_back.push_back(before - gpu.used()); };
  ASSERT_TRUE(job.Spill(kEverything, {.size = 0, .told = told}).ok());
  EXPECT_EQ(given_back, (std::vector<Bytes>{8_MiB, 16_MiB, 24_MiB, 32_MiB, 40_MiB}));
  job.TakeTurn();
  job.Free(block);
}

// Nobody gains by its parts, and each costs a message.
TEST(LargeSpillTest, ASmallSpillIsOnePart) {
  Job job;
  const DevicePtr block = job.Malloc(32_MiB);
  job.PassTurn();
  std::vector<Bytes> told;
  ASSERT_TRUE(
      job.Spill(kEverything,
                {.size = 0, .told = [&](Bytes given_back, const Holdings&) { told.push_back(given_back); }})
          .ok());
  EXPECT_EQ(told, (std::vector<Bytes>{32_MiB}));
  job.TakeTurn();
  job.Free(block);
}

}  // namespace
}  // namespace hocket
