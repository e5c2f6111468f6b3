// Empty chunks of the transient region are used where memory is needed, before further ones are taken, and
// nothing is waited for: not by the program, and not by the device.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "allocator/handles.h"
#include "tests/allocator/job.h"

namespace hocket {
namespace {

using testing::EmulatedGpu;
using testing::Job;
using testing::kChunk;

[[maybe_unused]] const bool two_devices = setenv("HOCKET_EMULATOR_DEVICES", "2", /*overwrite=*/1) == 0;

class GatherTest : public ::testing::Test {
 protected:
  explicit GatherTest(AllocatorOptions options = {}) : job(options) { job.allocator->BeginStep(); }
  ~GatherTest() override {
    gpu.FailNoCall();
    Done();
    for (const DevicePtr block : held) job.Free(block);
    for (const Stream each : {stream, other}) (void)gpu.driver().DestroyStream(each);
  }

  // Four blocks of a chunk each, of which the first and the third are freed: no two empty chunks adjoin.
  void MakeHoles(Stream of) {
    std::vector<DevicePtr> blocks;
    for (int i = 0; i < 4; ++i) blocks.push_back(job.Malloc(kChunk, of));
    holes = {blocks[0], blocks[2]};
    held = {blocks[1], blocks[3]};
    for (const DevicePtr block : held) gpu.Fill(block, kChunk, 0x11);
  }
  void FreeHoles() {
    for (const DevicePtr block : holes) job.Free(block);
    gpu.ForgetCalls();
  }
  // Of two chunks.
  DevicePtr Large(Stream on) {
    held.push_back(job.Malloc(2 * kChunk, on));
    return held.back();
  }
  void NextStep() {
    job.allocator->EndStep();
    job.allocator->BeginStep();
    job.allocator->CheckInvariants();
  }
  // Until Done(), what is queued on it from now on does not begin.
  void KeepBusy(Stream of) { gpu.KeepBusy(of, &go); }
  void Done() {
    go = true;
    go.notify_all();
    ASSERT_TRUE(gpu.driver().Synchronize().ok());
  }
  int Calls(const char* name) { return gpu.Calls()[name]; }

  EmulatedGpu& gpu = EmulatedGpu::Get();
  Job job;
  Stream stream = gpu.driver().CreateStream().value(), other = gpu.driver().CreateStream().value();
  std::vector<DevicePtr> holes, held;
  std::atomic<bool> go{false};
};

TEST_F(GatherTest, TheArenaDoesNotGrowWhereItsEmptyChunksSuffice) {
  MakeHoles(stream);
  FreeHoles();
  const DevicePtr large = Large(stream);
  EXPECT_EQ(Calls("MemCreate"), 0);
  EXPECT_EQ(job.Held().arena, 4 * kChunk);
  EXPECT_EQ(job.allocator->InUse().reserved, 4 * kChunk);
  gpu.Fill(large, 2 * kChunk, 0x22);
  EXPECT_TRUE(gpu.Holds(large, 2 * kChunk, 0x22));
  for (const DevicePtr block : {held[0], held[1]}) EXPECT_TRUE(gpu.Holds(block, kChunk, 0x11));
}

TEST_F(GatherTest, OnlyWhatIsLackingIsCreated) {
  MakeHoles(stream);
  FreeHoles();
  held.push_back(job.Malloc(5 * kChunk, stream));
  EXPECT_EQ(Calls("MemCreate"), 3);
  EXPECT_EQ(job.Held().arena, 7 * kChunk);
}

TEST_F(GatherTest, WhatTheRequestFindsInItsPlaceStaysThere) {
  for (int i = 0; i < 3; ++i) held.push_back(job.Malloc(kChunk, stream));
  const DevicePtr first = held.front(), last = held.back();
  held = {held[1]};
  job.Free(first);
  job.Free(last);
  gpu.ForgetCalls();
  EXPECT_EQ(Large(stream), last) << "one chunk behind it, and the first one is that";
  EXPECT_EQ(Calls("MemCreate"), 0);
  EXPECT_EQ(Calls("MemMap"), 1);
}

// What reads the holes has not begun when their memory is given out again, and what writes at the new
// addresses queues behind it: check mode sees no mistake, and the copies see no other bytes.
TEST_F(GatherTest, WhatIsQueuedMayUseTheOldAddressesAndNobodyWaits) {
  MakeHoles(stream);
  for (const DevicePtr hole : holes) gpu.Fill(hole, kChunk, 0x33);
  const std::vector<unsigned char> coming(2 * kChunk, 0x44);
  std::vector<unsigned char> read(2 * kChunk);
  for (const void* pinned : {coming.data(), std::as_const(read).data()}) {  // their copies do not wait
    ASSERT_TRUE(gpu.driver().RegisterHost(const_cast<void*>(pinned), 2 * kChunk).ok());
  }
  KeepBusy(stream);
  for (const Bytes i : {0, 1}) {
    ASSERT_TRUE(gpu.driver().CopyToHost(read.data() + i * kChunk, holes[i], kChunk, stream).ok());
  }
  FreeHoles();
  const DevicePtr large = Large(stream);
  ASSERT_TRUE(gpu.driver().CopyToDevice(large, coming.data(), 2 * kChunk, stream).ok());
  NextStep();
  NextStep();
  EXPECT_EQ(Calls("MemCreate") + Calls("MemUnmap"), 0) << "the device is not done";
  EXPECT_EQ(Calls("EventSynchronize") + Calls("CtxSynchronize"), 0);
  Done();
  EXPECT_TRUE(testing::AllAre(0x33, read.data(), 2 * kChunk));
  EXPECT_TRUE(gpu.Holds(large, 2 * kChunk, 0x44));
  NextStep();
  EXPECT_EQ(Calls("MemUnmap"), 2);
  for (const void* pinned : {coming.data(), std::as_const(read).data()}) {
    EXPECT_TRUE(gpu.driver().UnregisterHost(const_cast<void*>(pinned)).ok());
  }
}

TEST_F(GatherTest, MemoryInTheOrderOfAnotherStreamStays) {
  MakeHoles(other);
  FreeHoles();
  Large(stream);
  EXPECT_EQ(Calls("MemCreate"), 2);
  Large(other);
  EXPECT_EQ(Calls("MemCreate"), 2);
}

TEST_F(GatherTest, MemoryThatAnotherStreamIsRecordedOnStaysUntilThatHasPassed) {
  MakeHoles(stream);
  for (const DevicePtr hole : holes) job.allocator->RecordStream(hole, other);
  KeepBusy(other);
  FreeHoles();
  Large(stream);
  EXPECT_EQ(Calls("MemCreate"), 2);
  Done();
  Large(stream);
  EXPECT_EQ(Calls("MemCreate"), 2);
}

TEST_F(GatherTest, NothingMovesDuringACapture) {
  MakeHoles(stream);
  job.allocator->BeginAllocateToPool(
      {1, 0}, [&](Stream each) { return each == other; }, /*captures=*/true);
  FreeHoles();
  Large(stream);
  EXPECT_EQ(Calls("MemCreate"), 2);
  EXPECT_EQ(Calls("MemMap"), 2);
  job.allocator->EndAllocateToPool({1, 0});
  job.allocator->ReleasePool({1, 0});
}

TEST_F(GatherTest, AVacatedPlaceIsTakenAgainOnceTheDeviceHasPassed) {
  MakeHoles(stream);
  FreeHoles();
  Large(stream);
  held.push_back(job.Malloc(kChunk, stream));
  EXPECT_NE(held.back(), holes[0]) << "it still reaches the chunk that was there";
  NextStep();
  EXPECT_EQ(Calls("MemUnmap"), 2);
  held.push_back(job.Malloc(kChunk, stream));
  EXPECT_EQ(held.back(), holes[0]);
}

TEST_F(GatherTest, AHandOverLeavesNoChunkAtTwoAddresses) {
  MakeHoles(stream);
  FreeHoles();
  const DevicePtr large = Large(stream);
  held.pop_back();
  job.Free(large);
  job.PassTurn();
  EXPECT_EQ(Calls("MemUnmap"), 2);
  job.TakeTurn();
}

TEST_F(GatherTest, ADroppedChunkIsGoneFromBothItsPlaces) {
  std::vector<ArenaChunkId> grown;
  job.gate.grew = [&](ArenaChunkId id, Bytes, UniqueFd) { grown.push_back(id); };
  job.allocator->EndStep();
  Job shares{AllocatorOptions{.shares_arena = true}};
  shares.gate.grew = job.gate.grew;
  shares.allocator->BeginStep();
  std::vector<DevicePtr> blocks;
  for (int i = 0; i < 3; ++i) blocks.push_back(shares.Malloc(kChunk, stream));
  shares.Free(blocks[0]);
  shares.Free(blocks[2]);
  const DevicePtr large = shares.Malloc(2 * kChunk, stream);
  shares.Free(large);
  ASSERT_EQ(grown.size(), 3u);
  const Bytes before = gpu.used();
  shares.allocator->DropArenaChunk(grown[0]);
  shares.allocator->CheckInvariants();
  EXPECT_EQ(gpu.used(), before - kChunk);
  shares.Free(blocks[1]);
  shares.allocator->EndStep();
  job.allocator->BeginStep();
}

TEST_F(GatherTest, AJobThatWouldGatherForEverTakesMemoryInstead) {
  for (int i = 0; i < 400; ++i) {
    MakeHoles(stream);
    FreeHoles();
    Large(stream);
    for (const DevicePtr block : held) job.Free(block);
    held.clear();
    if (i == 20) {
      EXPECT_EQ(job.Held().arena, 4 * kChunk) << "at first it gathers";
    }
  }
  EXPECT_GT(job.Held().arena, 4 * kChunk);
}

TEST_F(GatherTest, AChunkThatCannotBeMappedAgainIsReplaced) {
  MakeHoles(stream);
  FreeHoles();
  gpu.FailNext("MemMap", /*CUDA_ERROR_UNKNOWN*/ 999);
  Large(stream);
  EXPECT_EQ(Calls("MemCreate"), 1);
}

TEST_F(GatherTest, OutlivesTheFailureOfAnyOneDriverCall) {
  bool failed = true;
  for (int call = 1; failed; ++call) {
    SCOPED_TRACE("failing driver call " + std::to_string(call));
    const Bytes before = gpu.used();
    {
      Job one;
      one.allocator->BeginStep();
      std::vector<DevicePtr> blocks;
      for (int i = 0; i < 3; ++i) blocks.push_back(one.Malloc(kChunk, stream));
      one.Free(blocks[0]);
      one.Free(blocks[2]);
      gpu.FailCall(call, /*CUDA_ERROR_UNKNOWN*/ 999);
      const auto large = one.TryMalloc(2 * kChunk, stream);
      one.allocator->EndStep();
      one.allocator->BeginStep();
      failed = gpu.Failed();
      gpu.FailNoCall();
      if (large.ok()) one.Free(*large);
      one.Free(one.Malloc(4 * kChunk, stream));
      one.Free(blocks[1]);
    }
    EXPECT_EQ(gpu.used(), before);
  }
}

// A step that is placed by plan, whose places have lost their chunks while others stand empty elsewhere.
class GatherForAPlanTest : public GatherTest {
 protected:
  static void Step(Job& of, Stream on) {
    of.allocator->BeginStep();
    const auto block = of.TryMalloc(2 * kChunk, on);
    if (block.ok()) of.Free(*block);
    of.allocator->EndStep();
    of.allocator->CheckInvariants();
  }
  // Four blocks before the places; then two holes among them, and nothing behind the places.
  std::vector<DevicePtr> Prepare(Job& of) {
    std::vector<ArenaChunkId> chunks;
    of.gate.grew = [&](ArenaChunkId id, Bytes, UniqueFd) { chunks.push_back(id); };
    std::vector<DevicePtr> blocks;
    of.allocator->BeginStep();
    for (int i = 0; i < 4; ++i) blocks.push_back(of.Malloc(kChunk, stream));
    of.allocator->EndStep();
    for (int i = 0; i < 4; ++i) Step(of, stream);
    EXPECT_EQ(chunks.size(), 6u);
    for (const int hole : {0, 2}) of.Free(blocks[hole]);
    of.allocator->DropArenaChunk(chunks[4]);
    of.allocator->DropArenaChunk(chunks[5]);
    of.allocator->CheckInvariants();
    of.gate.grew = [](ArenaChunkId, Bytes, UniqueFd) {};
    return {blocks[1], blocks[3]};
  }
};

TEST_F(GatherForAPlanTest, ItsPlacesGetTheEmptyChunks) {
  Job one;
  const std::vector<DevicePtr> blocks = Prepare(one);
  gpu.ForgetCalls();
  Step(one, stream);
  EXPECT_EQ(Calls("MemCreate"), 0);
  EXPECT_EQ(one.Held().arena, 4 * kChunk);
  for (const DevicePtr block : blocks) one.Free(block);
}

TEST_F(GatherForAPlanTest, OutlivesTheFailureOfAnyOneDriverCall) {
  bool failed = true;
  int call = 1;
  for (; failed; ++call) {
    SCOPED_TRACE("failing driver call " + std::to_string(call));
    const Bytes before = gpu.used();
    {
      Job one;
      const std::vector<DevicePtr> blocks = Prepare(one);
      for (const DevicePtr block : blocks) gpu.Fill(block, kChunk, 0x33);
      gpu.FailCall(call, /*CUDA_ERROR_UNKNOWN*/ 999);
      Step(one, stream);
      failed = gpu.Failed();
      gpu.FailNoCall();
      for (int i = 0; i < 3; ++i) Step(one, stream);
      for (const DevicePtr block : blocks) {
        EXPECT_TRUE(gpu.Holds(block, kChunk, 0x33));
        one.Free(block);
      }
      one.PassTurn();
      one.TakeTurn();
    }
    EXPECT_EQ(gpu.used(), before);
  }
  EXPECT_GT(call, 4) << "two chunks are mapped";
}

// Before CUDA 12.5 nothing tells that all streams have passed, without a wait.
TEST_F(GatherTest, WithoutAnEventBehindAllStreamsAVacatedPlaceStaysSoUntilTheDeviceIsWaitedFor) {
  MakeHoles(stream);
  FreeHoles();
  gpu.TakeContextEventsAway();
  const DevicePtr large = Large(stream);
  gpu.Fill(large, 2 * kChunk, 0x44);
  for (int i = 0; i < 3; ++i) NextStep();
  EXPECT_EQ(Calls("MemUnmap"), 0);
  job.allocator->EndStep();
  job.PassTurn();
  EXPECT_EQ(Calls("MemUnmap"), 2);
  job.TakeTurn();
  job.allocator->BeginStep();
  EXPECT_TRUE(gpu.Holds(large, 2 * kChunk, 0x44));
  for (const DevicePtr block : {held[0], held[1]}) EXPECT_TRUE(gpu.Holds(block, kChunk, 0x11));
}

TEST_F(GatherTest, APlaceThatCannotBeClearedAtAHandOverIsClearedWhenTheNextStepBegins) {
  MakeHoles(stream);
  FreeHoles();
  const DevicePtr large = Large(stream);
  gpu.Fill(large, 2 * kChunk, 0x55);
  job.allocator->EndStep();
  gpu.FailEvery("MemUnmap", /*CUDA_ERROR_UNKNOWN*/ 999);
  job.PassTurn();
  gpu.FailNoCall();
  job.TakeTurn();
  gpu.ForgetCalls();
  job.allocator->BeginStep();
  EXPECT_EQ(Calls("MemUnmap"), 2);
  held.push_back(job.Malloc(kChunk, stream));
  EXPECT_EQ(held.back(), holes[0]) << "its addresses can be had again";
  EXPECT_TRUE(gpu.Holds(large, 2 * kChunk, 0x55));
}

TEST_F(GatherTest, ThreadsOnTwoDevicesGatherAtOnceAndKeepTheirBytes) {
  ASSERT_EQ(gpu.driver().DeviceCount().value(), 2);
  AllocatorOptions second{.device = 1};
  Job one, two(second);
  std::vector<std::thread> threads;
  for (Job* const on : {&one, &two}) {
    on->allocator->BeginStep();
    for (unsigned char thread : {1, 2}) {
      threads.emplace_back([this, on, thread] {
        for (int i = 0; i < 50; ++i) {
          std::vector<DevicePtr> blocks;
          for (int k = 0; k < 4; ++k) blocks.push_back(on->Malloc(kChunk));
          std::memset(gpu.Host(blocks[1]), thread, kChunk);
          on->Free(blocks[0]);
          on->Free(blocks[2]);
          const DevicePtr large = on->Malloc(2 * kChunk);
          std::memset(gpu.Host(large), thread + 2, 2 * kChunk);
          EXPECT_TRUE(testing::AllAre(thread, gpu.Host(blocks[1]), kChunk));
          EXPECT_TRUE(testing::AllAre(static_cast<unsigned char>(thread + 2), gpu.Host(large), 2 * kChunk));
          for (const DevicePtr block : {blocks[1], blocks[3], large}) on->Free(block);
        }
      });
    }
  }
  for (std::thread& thread : threads) thread.join();
  for (Job* const on : {&one, &two}) {
    EXPECT_GT(on->Held().gathered_total, 0u);
    on->allocator->EndStep();
  }
}

class GatherAtItsLimitTest : public GatherTest {
 protected:
  GatherAtItsLimitTest() : GatherTest({.memory_limit = 4 * kChunk}) {}
};

TEST_F(GatherAtItsLimitTest, WhatIsHeldAlreadyIsNoObstacle) {
  MakeHoles(stream);
  FreeHoles();
  Large(stream);
  EXPECT_EQ(Calls("EventSynchronize") + Calls("CtxSynchronize"), 0) << "no cache had to be freed";
}

// Then the cache is freed, and there is room below the limit.
TEST_F(GatherAtItsLimitTest, AMoveThatFailsDoesNotPassIt) {
  MakeHoles(stream);
  FreeHoles();
  gpu.FailNext("MemMap", /*CUDA_ERROR_UNKNOWN*/ 999);
  Large(stream);
  EXPECT_EQ(job.allocator->InUse().reserved, 4 * kChunk);
  EXPECT_LE(static_cast<Bytes>(job.allocator->Stats().reserved_bytes[kAggregate].peak), 4 * kChunk);
}

// --- mistakes that it must not make, and check mode finds ------------------------------------------------

class GatherMistakeTest : public GatherTest {
 protected:
  GatherMistakeTest() { ::testing::FLAGS_gtest_death_test_style = "threadsafe"; }

  // Whoever does not ask whether the device has passed takes addresses away that a kernel may still use.
  void ClearUnderAKernel() {
    MakeHoles(stream);
    gpu.SkipEvery("CtxRecordEvent");  // what it asks of is then long done
    gpu.ReadInKernel("reader", stream, holes[0], kChunk);
    FreeHoles();
    Large(stream);
    NextStep();
  }
  // Memory of one stream, given to another at other addresses.
  void UseElsewhereOnAnotherStream() {
    const Range range = *Range::Reserve(gpu.driver(), 2 * kChunk, 0);
    const Chunk chunk = *Chunk::Create(gpu.driver(), 0, kChunk);
    for (const Bytes offset : {Bytes{0}, kChunk}) (void)chunk.MapAt(range.address() + offset);
    gpu.ReadInKernel("reader", stream, range.address() + 512, 512);
    gpu.RunKernel("writer", other, range.address() + kChunk, 2048, /*writes=*/true, [] {});
  }
};

TEST_F(GatherMistakeTest, AnEarlyClearIsFound) {
  EXPECT_DEATH(ClearUnderAKernel(), ::testing::AllOf(::testing::HasSubstr("uses without order"),
                                                     ::testing::HasSubstr("\"unmap\" on the host")));
}

TEST_F(GatherMistakeTest, AUseThroughOtherAddressesIsAUseOfTheSameMemory) {
  EXPECT_DEATH(UseElsewhereOnAnotherStream(),
               ::testing::AllOf(::testing::HasSubstr("uses without order"),
                                ::testing::HasSubstr("\"writer\" on stream"),
                                ::testing::HasSubstr("which \"reader\" on stream")));
}

}  // namespace
}  // namespace hocket
