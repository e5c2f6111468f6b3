// The headroom: room for device memory that no allocator sees.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/allocator/emulated_gpu.h"
#include "tests/allocator/job.h"

namespace hocket {
namespace {

using ::testing::ElementsAre;
using testing::EmulatedGpu;
using ::testing::IsEmpty;
using testing::Job;
using testing::kChunk;
using testing::kEverything;

class HeadroomOfJobTest : public ::testing::Test {
 protected:
  // Leaves so much of the device free.
  void Leave(Bytes free) { ballast = other.Malloc(gpu.capacity() - gpu.used() - free); }

  EmulatedGpu& gpu = EmulatedGpu::Get();
  Job other;
  Job job{AllocatorOptions{.headroom = 4 * kChunk}};
  DevicePtr ballast = 0;
};

TEST_F(HeadroomOfJobTest, WhoUsesItUpSaysSoAndHasTheMemory) {
  Leave(7 * kChunk);
  (void)job.Malloc(3 * kChunk);
  EXPECT_THAT(job.gate.lacking, IsEmpty());
  (void)job.Malloc(2 * kChunk);
  EXPECT_THAT(job.gate.lacking, ElementsAre(kChunk, 2 * kChunk));
  (void)job.Malloc(2 * kChunk);
  EXPECT_THAT(job.gate.lacking, ElementsAre(kChunk, 2 * kChunk, 3 * kChunk, 4 * kChunk));
  EXPECT_EQ(gpu.used(), gpu.capacity());
}

TEST_F(HeadroomOfJobTest, TransientMemoryUsesItUpToo) {
  Leave(5 * kChunk);
  job.allocator->BeginStep();
  job.Free(job.Malloc(3 * kChunk));
  job.allocator->EndStep();
  ASSERT_FALSE(job.gate.lacking.empty());
  EXPECT_EQ(job.gate.lacking.front(), kChunk);
}

TEST_F(HeadroomOfJobTest, OnceRoomWasMadeItIsSaidAnew) {
  Leave(4 * kChunk);
  (void)job.Malloc(4 * kChunk);
  ASSERT_EQ(job.gate.lacking.back(), 4 * kChunk);
  job.gate.lacking.clear();
  job.gate.await_room = [&](Bytes) {
    other.Free(ballast);
    other.allocator->EmptyCache();
    Leave(2 * kChunk);
    return absl::OkStatus();
  };
  (void)job.Malloc(kChunk);
  EXPECT_THAT(job.gate.lacking, ElementsAre(3 * kChunk));
}

TEST_F(HeadroomOfJobTest, BytesThatComeBackLeaveIt) {
  (void)job.Malloc(5 * kChunk);
  job.PassTurn();
  ASSERT_EQ(*job.Spill(kEverything), 5 * kChunk);
  Leave(6 * kChunk);
  Bytes missing = 0;
  EXPECT_TRUE(absl::IsResourceExhausted(job.TakeTurn(/*for_step=*/false, &missing)));
  EXPECT_EQ(missing, 3 * kChunk);
  other.Free(ballast);
  other.allocator->EmptyCache();
  Leave(7 * kChunk);
  job.TakeTurn();
  EXPECT_EQ(gpu.used(), gpu.capacity() - 4 * kChunk);
  EXPECT_THAT(job.gate.lacking, IsEmpty());
}

TEST_F(HeadroomOfJobTest, WhereNobodyMakesRoomForBothTheyComeBackIntoItForSomeTurns) {
  const DevicePtr block = job.Malloc(5 * kChunk);
  gpu.Fill(block, 5 * kChunk, 0x37);
  job.PassTurn();
  ASSERT_EQ(*job.Spill(kEverything), 5 * kChunk);
  Leave(5 * kChunk);
  Bytes missing = 0;
  for (int attempt = 0; attempt < 2; ++attempt) {  // with the first one chunk comes, with the second nothing
    EXPECT_TRUE(absl::IsResourceExhausted(job.TakeTurn(/*for_step=*/false, &missing)));
    EXPECT_EQ(missing, 4 * kChunk);
  }
  job.TakeTurn();
  EXPECT_TRUE(gpu.Holds(block, 5 * kChunk, 0x37));
  EXPECT_EQ(gpu.used(), gpu.capacity());
  for (int turn = 1; turn < 64; ++turn) {
    job.PassTurn();
    ASSERT_EQ(*job.Spill(kEverything), 5 * kChunk);
    job.TakeTurn();
  }
  job.PassTurn();
  ASSERT_EQ(*job.Spill(kEverything), 5 * kChunk);
  EXPECT_TRUE(absl::IsResourceExhausted(job.TakeTurn(/*for_step=*/false, &missing))) << "tried anew";
}

TEST_F(HeadroomOfJobTest, WhatComesBackTakesTheArenaOnlyWhenOthersWereAskedInVain) {
  job.allocator->BeginStep();
  job.Free(job.Malloc(2 * kChunk));
  job.allocator->EndStep();
  (void)job.Malloc(3 * kChunk);
  job.PassTurn();
  ASSERT_EQ(*job.Spill(kEverything), 3 * kChunk);
  Leave(4 * kChunk);
  Bytes missing = 0;
  EXPECT_TRUE(absl::IsResourceExhausted(job.TakeTurn(/*for_step=*/false, &missing)));
  EXPECT_EQ(missing, 3 * kChunk);
  EXPECT_EQ(job.Held().arena, 2 * kChunk);
  job.TakeTurn();
  EXPECT_EQ(gpu.used(), gpu.capacity() - kChunk);
}

TEST_F(HeadroomOfJobTest, BytesThatComeBackBeforeTheTurnLeaveIt) {
  (void)job.Malloc(5 * kChunk);
  job.PassTurn();
  ASSERT_EQ(*job.Spill(kEverything), 5 * kChunk);
  Leave(6 * kChunk);
  EXPECT_EQ(*job.allocator->RestoreAhead(kEverything), 2 * kChunk);
  EXPECT_THAT(job.gate.lacking, IsEmpty());
}

}  // namespace
}  // namespace hocket
