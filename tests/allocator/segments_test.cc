// The second customer of the chunks: an allocator that asks for segments and caches them (serves_segments).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/allocator/allocator_test.h"
#include "tests/allocator/job.h"

namespace hocket {
namespace {

using testing::Job;
using testing::kChunk;
using testing::kEverything;

AllocatorOptions Segments(std::function<void()> shed_cache = nullptr) {
  AllocatorOptions options;
  options.serves_segments = true;
  options.shed_cache = std::move(shed_cache);
  return options;
}

class SegmentsTest : public testing::AllocatorTest {};

TEST_F(SegmentsTest, AFreedSegmentIsTheDriversAgain) {
  Job job(Segments());
  const Bytes before = gpu.used();
  const DevicePtr segment = job.Malloc(20_MiB);
  ASSERT_EQ(gpu.used(), before + 20_MiB);
  job.Free(segment);
  EXPECT_EQ(gpu.used(), before);
  EXPECT_EQ(job.Held().persistent, 0u);
}

TEST_F(SegmentsTest, ASegmentIsFreedWhenTheDeviceIsDone) {
  Job job(Segments());
  const Stream stream = gpu.driver().CreateStream().value();
  const DevicePtr segment = job.Malloc(kChunk);
  gpu.ReadInKernel("reader", stream, segment, kChunk);
  job.Free(segment);  // check mode would end the process if it were unmapped under the kernel
  EXPECT_EQ(job.Held().persistent, 0u);
  ASSERT_TRUE(gpu.driver().DestroyStream(stream).ok());
}

// Whoever caches segments holds them over any boundary, and knows no transient ones.
TEST_F(SegmentsTest, NoSegmentLiesInTheArena) {
  Job job(Segments());
  job.allocator->BeginStep();
  const DevicePtr segment = job.Malloc(2 * kChunk);
  job.allocator->EndStep();
  EXPECT_EQ(job.Held().arena, 0u);
  EXPECT_EQ(job.Held().persistent, 2 * kChunk);
  job.Free(segment);
}

TEST_F(SegmentsTest, SpillThenRestoreKeepsAddressAndBytes) {
  Job job(Segments());
  const DevicePtr segment = job.Malloc(3 * kChunk);
  gpu.Fill(segment, 3 * kChunk, 0x5A);
  job.PassTurn();
  ASSERT_EQ(*job.Spill(kEverything), 3 * kChunk);
  job.TakeTurn();
  EXPECT_TRUE(gpu.Holds(segment, 3 * kChunk, 0x5A));
  job.Free(segment);
}

TEST_F(SegmentsTest, ASegmentFreedWhileItIsSpilledIsNeverCopiedBack) {
  Job job(Segments());
  const DevicePtr segment = job.Malloc(3 * kChunk);
  job.PassTurn();
  ASSERT_TRUE(job.Spill(kEverything).ok());
  job.Free(segment);
  EXPECT_EQ(job.Held().spilled, 0u);
  job.TakeTurn();
  EXPECT_EQ(job.Held().restored_total, 0u);
}

// A wait for the device would spoil the capture.
TEST_F(SegmentsTest, ASegmentFreedWhileAGraphIsCapturedIsFreedLater) {
  Job job(Segments());
  const CachingAllocator::PoolId pool{0, 7};
  const DevicePtr segment = job.Malloc(kChunk);
  job.allocator->BeginAllocateToPool(
      pool, [](Stream) { return false; }, /*captures=*/true);
  gpu.ForgetCalls();
  job.Free(segment);
  EXPECT_TRUE(gpu.Calls().empty());
  EXPECT_EQ(job.Held().persistent, kChunk);
  job.allocator->EndAllocateToPool(pool);
  job.PassTurn();
  EXPECT_EQ(job.Held().persistent, 0u);
}

TEST_F(SegmentsTest, WhatTheCacheGivesBackBeforeTheTurnPassesIsNotSpilled) {
  DevicePtr cached = 0;
  Job* owner = nullptr;
  Job job(Segments([&] { owner->Free(cached); }));
  owner = &job;
  cached = job.Malloc(2 * kChunk);
  const DevicePtr live = job.Malloc(kChunk);
  job.allocator->ShedCache();
  job.PassTurn();
  EXPECT_EQ(*job.Spill(kEverything), kChunk);
  job.TakeTurn();
  job.Free(live);
}

// Otherwise another job would be moved for what nothing here uses.
TEST_F(SegmentsTest, TheCacheIsGivenBackBeforeAnotherJobIsAskedForRoom) {
  std::vector<std::string> told;
  DevicePtr cached = 0;
  Job* owner = nullptr;
  Job other;
  Job job(Segments([&] {
    told.push_back("shed");
    if (cached != 0) owner->Free(std::exchange(cached, DevicePtr{0}));
  }));
  owner = &job;
  job.gate.await_room = [&](Bytes) {
    told.push_back("asked");
    return absl::ResourceExhaustedError("nobody makes room");
  };
  const Bytes quarter = (gpu.capacity() - gpu.used()) / 4 / kChunk * kChunk;
  const DevicePtr elsewhere = other.Malloc(quarter);
  cached = job.Malloc(2 * quarter);
  const DevicePtr block = job.Malloc(2 * quarter);
  EXPECT_EQ(told, std::vector<std::string>{"shed"});
  EXPECT_FALSE(job.TryMalloc(2 * quarter).ok());
  EXPECT_EQ(told, (std::vector<std::string>{"shed", "shed", "asked"}));
  job.Free(block);
  other.Free(elsewhere);
}

}  // namespace
}  // namespace hocket
