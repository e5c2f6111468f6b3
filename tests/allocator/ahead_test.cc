// Spilled bytes that come back before the turn.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/allocator/emulated_gpu.h"
#include "tests/allocator/job.h"

namespace hocket {
namespace {

using testing::EmulatedGpu;
using testing::Job;
using testing::kChunk;
using testing::kEverything;

class RestoreAheadTest : public ::testing::Test {
 protected:
  // A job whose five chunks, all of them filled, are on the host.
  void Spill() {
    block = job.Malloc(5 * kChunk);
    gpu.Fill(block, 5 * kChunk, 0x55);
    job.PassTurn();
    ASSERT_EQ(*job.Spill(kEverything), 5 * kChunk);
  }
  Bytes RestoreAhead(Bytes at_most) {
    const absl::StatusOr<Bytes> back = job.allocator->RestoreAhead(at_most);
    job.allocator->CheckInvariants();
    EXPECT_TRUE(back.ok()) << back.status();
    return back.value_or(0);
  }

  EmulatedGpu& gpu = EmulatedGpu::Get();
  Job job;
  DevicePtr block = 0;
};

TEST_F(RestoreAheadTest, BringsWholeChunksBackAndTheTurnTheRest) {
  Spill();
  const Bytes used = gpu.used();
  EXPECT_EQ(RestoreAhead(3 * kChunk - 1), 2 * kChunk);
  EXPECT_EQ(job.Held().spilled, 3 * kChunk);
  EXPECT_EQ(job.Held().persistent, 2 * kChunk);
  EXPECT_EQ(gpu.used() - used, 2 * kChunk);
  EXPECT_FALSE(job.gate.holds_turn);
  job.TakeTurn();
  EXPECT_EQ(job.Held().spilled, 0u);
  EXPECT_TRUE(gpu.Holds(block, 5 * kChunk, 0x55));
}

TEST_F(RestoreAheadTest, OfMoreThanThereIsAllComesBack) {
  Spill();
  EXPECT_EQ(RestoreAhead(kEverything), 5 * kChunk);
  EXPECT_EQ(RestoreAhead(kEverything), 0u);
  gpu.ForgetCalls();
  job.TakeTurn();
  EXPECT_EQ(gpu.Calls()["MemcpyHtoDAsync"], 0);
  EXPECT_TRUE(gpu.Holds(block, 5 * kChunk, 0x55));
}

TEST_F(RestoreAheadTest, WhatCameBackCanBeSpilledAgain) {
  Spill();
  EXPECT_EQ(RestoreAhead(2 * kChunk), 2 * kChunk);
  EXPECT_EQ(*job.Spill(kChunk), kChunk);
  EXPECT_EQ(job.Held().spilled, 4 * kChunk);
  job.TakeTurn();
  EXPECT_TRUE(gpu.Holds(block, 5 * kChunk, 0x55));
}

TEST_F(RestoreAheadTest, EndsWhereTheDeviceIsFullAndAsksNobody) {
  Spill();
  Job filler;
  const DevicePtr filling = filler.Malloc(gpu.capacity() - gpu.used() - 2 * kChunk);
  job.gate.await_room = [](Bytes) { return absl::InternalError("nobody is to be asked"); };
  EXPECT_EQ(RestoreAhead(kEverything), 2 * kChunk);
  filler.Free(filling);
  filler.allocator->EmptyCache();
  job.TakeTurn();
  EXPECT_TRUE(gpu.Holds(block, 5 * kChunk, 0x55));
}

// The arena is in use by the job that has the turn.
TEST_F(RestoreAheadTest, TakesNothingOfTheArena) {
  const DevicePtr transient = [&] {
    job.allocator->BeginStep();
    const DevicePtr made = job.Malloc(2 * kChunk);
    job.Free(made);
    job.allocator->EndStep();
    return made;
  }();
  ASSERT_NE(transient, 0u);
  Spill();
  const Bytes arena = job.Held().arena;
  Job filler;
  filler.Malloc(gpu.capacity() - gpu.used());
  bool lost = false;
  job.gate.lost = [&](ArenaChunkId) { lost = true; };
  EXPECT_EQ(RestoreAhead(kEverything), 0u);
  EXPECT_EQ(job.Held().arena, arena);
  EXPECT_FALSE(lost);
}

TEST_F(RestoreAheadTest, AFailedCopyLeavesItsChunkOnTheHost) {
  Spill();
  gpu.FailEvery("MemcpyHtoDAsync", cuda::kInvalidValue);
  EXPECT_FALSE(job.allocator->RestoreAhead(kEverything).ok());
  job.allocator->CheckInvariants();
  gpu.FailNoCall();
  EXPECT_EQ(job.Held().spilled, 5 * kChunk);
  job.TakeTurn();
  EXPECT_TRUE(gpu.Holds(block, 5 * kChunk, 0x55));
}

}  // namespace
}  // namespace hocket
