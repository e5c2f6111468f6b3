// Memory that may follow when the turn begins with a step: in its place when it is awaited, and until then
// read slowly or not at all, but never wrong.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <thread>
#include <tuple>

#include "tests/allocator/job.h"

namespace hocket {
namespace {

using testing::EmulatedGpu;
using ::testing::HasSubstr;
using testing::Job;
using testing::kEverything;

// A device in small: bytes that move only take time, most of all under a sanitizer.
constexpr Bytes kChunk = 64_KiB;
[[maybe_unused]] const bool small_device = [] {
  setenv("HOCKET_EMULATOR_MEMORY", "16MiB", /*overwrite=*/1);
  setenv("HOCKET_EMULATOR_GRANULARITY", "64KiB", /*overwrite=*/1);
  return true;
}();

// Where the driver maps host memory for reading, where only for writing too, and where not at all.
enum class Maps { kForReading, kForWritingOnly, kNothing };

// A job with a model, which is needed at once, and what is needed later: two chunks each.
class StageTest : public ::testing::TestWithParam<std::tuple<Maps, bool>> {
 protected:
  StageTest() {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    if (Mapped() == Maps::kNothing) gpu.SetMapsHostMemory(false);
    if (Mapped() == Maps::kForWritingOnly) gpu.ForbidReadOnly();
    job = std::make_unique<Job>(AllocatorOptions{.chunk_size = kChunk, .verify = std::get<bool>(GetParam())});
    model = Make(2 * kChunk, 0x11);
    middle = Make(2 * kChunk, 0x22, 1);
    state = Make(2 * kChunk, 0x33, 2);
  }
  ~StageTest() override { gpu.FailNoCall(); }

  static Maps Mapped() { return std::get<Maps>(GetParam()); }
  bool ReadsEarly() const { return Mapped() == Maps::kForReading; }

  DevicePtr Make(Bytes size, unsigned char value, Stage stage = 0) {
    const DevicePtr block = job->Malloc(size);
    gpu.Fill(block, size, value);
    EXPECT_EQ(job->allocator->SetStage(block, stage).value_or(0), size);
    return block;
  }
  void SpillAll() {
    job->PassTurn();
    const auto freed = job->Spill(kEverything);
    ASSERT_TRUE(freed.ok()) << freed.status();
    ASSERT_EQ(gpu.used(), 0u);
  }
  void BeginStep() { job->TakeTurn(/*for_step=*/true); }
  void Await(Stage stage) {
    const absl::Status there = job->allocator->AwaitStage(stage, nullptr);
    ASSERT_TRUE(there.ok()) << there;
    job->allocator->CheckInvariants();
  }
  // Reads it and writes it.
  void Use(DevicePtr block, unsigned char value) {
    EXPECT_TRUE(gpu.Holds(block, 2 * kChunk, value));
    gpu.Fill(block, 2 * kChunk, value + 1);
  }
  void FreeAll() {
    for (const DevicePtr block : {model, middle, state}) job->Free(block);
  }

  EmulatedGpu& gpu = EmulatedGpu::Get();
  std::unique_ptr<Job> job;
  DevicePtr model = 0, middle = 0, state = 0;
};

INSTANTIATE_TEST_SUITE_P(All, StageTest,
                         ::testing::Combine(::testing::Values(Maps::kForReading, Maps::kForWritingOnly,
                                                              Maps::kNothing),
                                            ::testing::Bool()));

TEST_P(StageTest, EachStageIsThereWhenItIsAwaited) {
  for (unsigned char round = 0; round < 4; ++round) {
    SpillAll();
    BeginStep();
    EXPECT_EQ(job->Held().spilled, 0u);
    EXPECT_EQ(job->Held().persistent, 6 * kChunk) << "all of it has its device memory";
    EXPECT_EQ(job->Held().following, 4 * kChunk);
    Use(model, 0x11 + round);
    Await(1);
    Use(middle, 0x22 + round);
    Await(2);
    Use(state, 0x33 + round);
  }
  EXPECT_EQ(job->Held().restored_total, 4 * 6 * kChunk);
  FreeAll();
}

TEST_P(StageTest, TheTurnDoesNotWaitForWhatFollows) {
  SpillAll();
  gpu.ForgetCalls();
  BeginStep();
  auto before = gpu.Calls();
  const int reads_back = std::get<bool>(GetParam()) ? 2 : 0;
  EXPECT_EQ(before["StreamSynchronize"], reads_back);
  EXPECT_EQ(before["EventSynchronize"], 2) << "for strays, and for the model";
  Await(1);
  EXPECT_EQ(gpu.Calls()["EventSynchronize"], before["EventSynchronize"] + 1);
  Await(2), Await(kLastStage);
  EXPECT_EQ(gpu.Calls()["EventSynchronize"], before["EventSynchronize"] + 2) << "nothing is left to wait for";
  FreeAll();
}

TEST_P(StageTest, ALaterStageComesWithAllBeforeIt) {
  SpillAll();
  BeginStep();
  Await(2);
  Use(middle, 0x22);
  Use(state, 0x33);
  FreeAll();
}

TEST_P(StageTest, AnEarlierReadIsRightOrAFault) {
  SpillAll();
  BeginStep();
  const auto read = [&] { gpu.ReadInKernel("metrics", nullptr, state, 2 * kChunk); };
  if (ReadsEarly()) {
    read();
    EXPECT_TRUE(gpu.Holds(state, 2 * kChunk, 0x33));
  } else {
    EXPECT_DEATH(read(), "kernel metrics touched unmapped device memory");
  }
  Await(2);
  EXPECT_TRUE(gpu.Holds(state, 2 * kChunk, 0x33));
  FreeAll();
}

TEST_P(StageTest, AnEarlierReadOnAnotherStreamIsWaitedForToo) {
  const Stream side = *gpu.driver().CreateStream();
  job->allocator->RecordStream(state, side);
  SpillAll();
  BeginStep();
  if (ReadsEarly()) gpu.ReadInKernel("metrics", side, state, 2 * kChunk);
  Await(2);  // check mode finds memory that is taken away from under a kernel
  Use(state, 0x33);
  FreeAll();
  job->PassTurn();
  EXPECT_TRUE(gpu.driver().DestroyStream(side).ok());
  job->TakeTurn();
}

TEST_P(StageTest, AnEarlierWriteIsAFault) {
  SpillAll();
  BeginStep();
  const auto write = [&] { gpu.RunKernel("init", nullptr, state, 1_KiB, /*writes=*/true, [] {}); };
  EXPECT_DEATH(write(),
               ReadsEarly() ? "kernel init writes 1024 bytes at .* mapped for reading only" : "unmapped");
  Await(2);
  write();
  FreeAll();
}

TEST_P(StageTest, WhatNobodyAwaitsIsInItsPlaceWhenTheTurnPasses) {
  for (int round = 0; round < 2; ++round) {
    SpillAll();
    BeginStep();
    job->PassTurn();
    EXPECT_EQ(job->Held().persistent, 6 * kChunk);
    EXPECT_EQ(gpu.used(), 6 * kChunk);
    EXPECT_TRUE(gpu.Holds(state, 2 * kChunk, 0x33));
    job->gate.holds_turn = true;
  }
  FreeAll();
}

TEST_P(StageTest, MemoryThatIsFreedOnItsWayIsGone) {
  SpillAll();
  BeginStep();
  job->Free(state);
  const DevicePtr other = job->Malloc(2 * kChunk);
  gpu.Fill(other, 2 * kChunk, 0x44);
  Await(2);
  Use(middle, 0x22);
  job->Free(model), job->Free(middle);
  EXPECT_TRUE(gpu.Holds(other, 2 * kChunk, 0x44));
  SpillAll();  // and nothing of it is left behind
  EXPECT_EQ(job->Held().spilled, 2 * kChunk);
  job->TakeTurn();
  job->Free(other);
}

// Some of it lies in the one region, some in the other, of each stage.
TEST_P(StageTest, TheRegionsStagesComeInOneOrder) {
  for (int step = 0; step < 3; ++step) {  // until what survives is known to
    job->allocator->BeginStep();
    job->Free(state);
    state = Make(2 * kChunk, 0x33, 1);
    job->allocator->EndStep();
  }
  ASSERT_TRUE(job->allocator->SetStage(middle, 2).ok());
  for (unsigned char round = 0; round < 3; ++round) {
    SpillAll();
    BeginStep();
    Await(1);
    Use(state, 0x33 + round);
    Await(2);
    Use(middle, 0x22 + round);
  }
  FreeAll();
}

TEST_P(StageTest, AChunkComesWithTheEarliestOfItsBlocks) {
  FreeAll();
  job->PassTurn(), job->TakeTurn();
  const DevicePtr weights = job->Malloc(kChunk / 2), moments = job->Malloc(kChunk / 4);
  ASSERT_EQ(weights / kChunk, moments / kChunk) << "they lie in one chunk";
  gpu.Fill(moments, kChunk / 4, 0x55);
  ASSERT_TRUE(job->allocator->SetStage(moments, 1).ok());
  SpillAll();
  BeginStep();
  EXPECT_TRUE(gpu.Holds(moments, kChunk / 4, 0x55));
  gpu.Fill(moments, kChunk / 4, 0x56);
  job->Free(weights), job->Free(moments);
}

TEST_P(StageTest, FreedMemoryForgetsItsStage) {
  job->Free(state);
  state = job->Malloc(2 * kChunk);
  gpu.Fill(state, 2 * kChunk, 0x66);
  SpillAll();
  BeginStep();
  Use(state, 0x66);
  FreeAll();
}

TEST_P(StageTest, WithoutAStepEverythingIsThereAtOnce) {
  SpillAll();
  job->TakeTurn(/*for_step=*/false);
  Use(state, 0x33);
  FreeAll();
}

TEST_P(StageTest, AGraphsMemoryOrAnybodysBesideItDoesNotFollow) {
  job->allocator->BeginAllocateToPool(
      {0, 1}, [](Stream) { return true; }, /*captures=*/true);
  const DevicePtr in_graph = job->Malloc(kChunk);
  job->allocator->EndAllocateToPool({0, 1});
  SpillAll();
  BeginStep();
  Use(state, 0x33);
  job->Free(in_graph);
  job->allocator->ReleasePool({0, 1});
  FreeAll();
}

TEST_P(StageTest, NothingIsOnItsWayWhenACaptureBegins) {
  SpillAll();
  BeginStep();
  job->allocator->BeginAllocateToPool(
      {0, 1}, [](Stream) { return false; }, /*captures=*/true);
  job->allocator->CheckInvariants();
  Use(state, 0x33);
  EXPECT_TRUE(job->allocator->AwaitStage(2, nullptr).ok());
  job->allocator->EndAllocateToPool({0, 1});
  job->allocator->ReleasePool({0, 1});
  FreeAll();
}

TEST_P(StageTest, ATurnThatLacksRoomGoesOnWhereItWas) {
  SpillAll();
  const Bytes others = gpu.capacity() - 3 * kChunk;
  Job beside({.chunk_size = kChunk});
  const DevicePtr much = beside.Malloc(others);
  if (Mapped() == Maps::kForWritingOnly) gpu.ForbidReadOnly();
  Bytes missing = 0;
  const absl::Status lacks = job->TakeTurn(/*for_step=*/true, &missing);
  EXPECT_EQ(lacks.code(), absl::StatusCode::kResourceExhausted) << lacks;
  EXPECT_EQ(missing, 3 * kChunk);
  beside.Free(much);
  beside.allocator->EmptyCache();
  BeginStep();
  Await(2);
  Use(model, 0x11), Use(middle, 0x22), Use(state, 0x33);
  FreeAll();
}

// Others fill the device but for three chunks: the model comes back, and one chunk of what is next.
class LacksRoomTest : public StageTest {
 protected:
  LacksRoomTest() {
    SpillAll();
    job->gate.holds_turn = false;
    much = beside.Malloc(gpu.capacity() - 3 * kChunk);
    if (Mapped() == Maps::kForWritingOnly) gpu.ForbidReadOnly();
    Bytes missing = 0;
    const absl::Status lacks = job->TakeTurn(/*for_step=*/true, &missing);
    EXPECT_EQ(lacks.code(), absl::StatusCode::kResourceExhausted) << lacks;
    EXPECT_EQ(missing, 3 * kChunk);
    EXPECT_EQ(job->Held().following, kChunk);
    gpu.ForgetCalls();
  }
  // They leave, and nothing was lost.
  void TakesItsTurnInTheEnd() {
    beside.Free(much);
    beside.allocator->EmptyCache();
    BeginStep();
    Await(2);
    Use(model, 0x11), Use(middle, 0x22), Use(state, 0x33);
    FreeAll();
  }

  Job beside{{.chunk_size = kChunk}};
  DevicePtr much = 0;
};
INSTANTIATE_TEST_SUITE_P(All, LacksRoomTest,
                         ::testing::Combine(::testing::Values(Maps::kForReading, Maps::kForWritingOnly,
                                                              Maps::kNothing),
                                            ::testing::Bool()));

TEST_P(LacksRoomTest, WhatIsOnItsWayIsGivenBackFirstAndIsNotCopied) {
  EXPECT_EQ(*job->Spill(1), kChunk);
  EXPECT_EQ(gpu.Calls()["MemcpyDtoHAsync"], 0);
  EXPECT_EQ(gpu.Calls()["StreamSynchronize"], 1) << "nothing may be copied into it any more";
  EXPECT_EQ(job->Held().spilled, 4 * kChunk);
  EXPECT_EQ(job->Held().following, 0u);
  EXPECT_EQ(gpu.used(), gpu.capacity() - kChunk);
  if (Mapped() != Maps::kNothing) {
    EXPECT_TRUE(gpu.Holds(middle, 2 * kChunk, 0x22)) << "strays see it";
  }
  TakesItsTurnInTheEnd();
}

TEST_P(LacksRoomTest, OthersCanHaveAllThatItHolds) {
  EXPECT_EQ(*job->Spill(kEverything), 3 * kChunk);
  EXPECT_EQ(job->Held().spilled, 6 * kChunk);
  EXPECT_EQ(job->Held().persistent, 0u);
  EXPECT_EQ(gpu.used(), gpu.capacity() - 3 * kChunk);
  TakesItsTurnInTheEnd();
}

TEST_P(LacksRoomTest, WhatIsFreedOnItsWayIsGivenBackWithTheNextSpill) {
  job->Free(model), job->Free(middle);
  EXPECT_EQ(*job->Spill(1), 3 * kChunk) << "two would do: nobody needs the third";
  EXPECT_EQ(job->Held().spilled, 2 * kChunk);
  beside.Free(much);
  beside.allocator->EmptyCache();
  BeginStep();
  Await(2);
  Use(state, 0x33);
  job->Free(state);
}

TEST_P(LacksRoomTest, WhatCannotBeWaitedForIsNotGivenAway) {
  gpu.FailEvery("StreamSynchronize", 999);
  gpu.OnNext("CtxSynchronize", [&] { gpu.FailNext("CtxSynchronize", 999); });
  EXPECT_FALSE(job->Spill(kEverything).ok());
  gpu.FailNoCall();
  EXPECT_EQ(job->Held().following, kChunk);
  EXPECT_EQ(*job->Spill(kEverything), 3 * kChunk);
  TakesItsTurnInTheEnd();
}

// Its own copies may be under way.
TEST_P(LacksRoomTest, NoStrayIsLookedFor) {
  const Stream copies = *gpu.driver().CreateStream();
  std::atomic<bool> go = false;
  gpu.KeepBusy(copies, &go);
  EXPECT_FALSE(job->allocator->UnmapSpilled());
  EXPECT_EQ(job->Held().strays, 0u);
  go = true;
  go.notify_all();
  ASSERT_TRUE(gpu.driver().SynchronizeStream(copies).ok());
  ASSERT_TRUE(gpu.driver().DestroyStream(copies).ok());
  TakesItsTurnInTheEnd();
}

TEST_P(LacksRoomTest, WhatHasArrivedIsInItsPlaceWhenMoreIsBroughtBack) {
  EXPECT_EQ(*job->allocator->RestoreAhead(kEverything), 0u);
  job->allocator->CheckInvariants();
  EXPECT_EQ(job->Held().following, 0u);
  EXPECT_EQ(job->Held().persistent, 3 * kChunk);
  TakesItsTurnInTheEnd();
}

TEST_P(StageTest, ConstantMemoryMayFollowToo) {
  const auto promise = std::make_shared<Promise>(Promise{.name = "weights"});
  ASSERT_TRUE(job->allocator->DeclareConstant(state, promise).ok());
  for (int round = 0; round < 3; ++round) {
    SpillAll();
    BeginStep();
    Await(2);
    EXPECT_TRUE(gpu.Holds(state, 2 * kChunk, 0x33));
  }
  EXPECT_EQ(job->Held().spared_total, 2 * 2 * kChunk);
  FreeAll();
}

TEST_P(StageTest, ThreadsAwaitAndAllocateAtOnce) {
  for (unsigned char round = 0; round < 5; ++round) {
    SpillAll();
    BeginStep();
    std::vector<std::thread> threads;
    for (const Stage stage : {1, 2, 2}) {
      threads.emplace_back([&, stage] { EXPECT_TRUE(job->allocator->AwaitStage(stage, nullptr).ok()); });
    }
    threads.emplace_back([&] {
      for (int i = 0; i < 50; ++i) job->allocator->Free(*job->allocator->Malloc(1_KiB, nullptr));
    });
    for (std::thread& thread : threads) thread.join();
    Use(middle, 0x22 + round), Use(state, 0x33 + round);
  }
  FreeAll();
}

// --- what cannot be ---

TEST_P(StageTest, WhatIsNotOursIsNotFound) {
  EXPECT_EQ(job->allocator->SetStage(0x1000, 1).status().code(), absl::StatusCode::kNotFound);
  FreeAll();
}

TEST(SegmentsOfAnotherAllocatorTest, CannotFollow) {
  Job job({.chunk_size = kChunk, .serves_segments = true});
  const DevicePtr segment = job.Malloc(kChunk);
  const absl::Status refused = job.allocator->SetStage(segment, 1).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("unset HOCKET_ALLOCATOR"));
  job.Free(segment);
}

// An arrival that cannot take its place is copied once more, in one go.
TEST_P(StageTest, WhatCannotTakeItsPlaceComesBackAnotherWay) {
  for (const char* call : {"MemUnmap", "MemMap", "EventSynchronize", "StreamSynchronize"}) {
    SCOPED_TRACE(call);
    SpillAll();
    BeginStep();
    gpu.FailNext(call, cuda::kOutOfMemory);
    Await(2);
    EXPECT_TRUE(gpu.Holds(middle, 2 * kChunk, 0x22));
    EXPECT_TRUE(gpu.Holds(state, 2 * kChunk, 0x33));
    gpu.FailNoCall();
  }
  FreeAll();
}

// What is mapped there may be read by work on any stream, which faults where it is taken away.
TEST_P(StageTest, BeforeItComesBackAnotherWayTheDeviceIsWaitedFor) {
  const Stream side = *gpu.driver().CreateStream();
  SpillAll();
  BeginStep();
  Await(1);
  std::atomic<bool> go = false;
  gpu.KeepBusy(side, &go);
  gpu.ForgetCalls();
  std::thread works([&] {  // until somebody waits for more than the bytes
    while (!go && gpu.Calls()["EventSynchronize"] < 2) std::this_thread::yield();
    go = true;
    go.notify_all();
  });
  gpu.FailNext("MemUnmap", cuda::kOutOfMemory);
  int comes_back = 0;
  gpu.OnNext("MemCreate", [&] { comes_back = go ? 1 : -1; });
  Await(2);
  go = true;
  works.join();
  EXPECT_EQ(comes_back, 1) << "after the work was done";
  Use(state, 0x33);
  ASSERT_TRUE(gpu.driver().SynchronizeStream(side).ok());
  EXPECT_TRUE(gpu.driver().DestroyStream(side).ok());
  FreeAll();
}

TEST_P(StageTest, AnEventThatCannotBeRecordedIsDoneWithout) {
  for (const char* call : {"EventRecord", "EventCreate", "EventSynchronize"}) {
    SCOPED_TRACE(call);
    SpillAll();
    gpu.FailNext(call, cuda::kOutOfMemory);
    BeginStep();
    EXPECT_EQ(job->Held().spilled, 0u);
    Await(2);
    EXPECT_TRUE(gpu.Holds(model, 2 * kChunk, 0x11));
    EXPECT_TRUE(gpu.Holds(state, 2 * kChunk, 0x33));
    gpu.FailNoCall();
  }
  FreeAll();
}

}  // namespace
}  // namespace hocket
