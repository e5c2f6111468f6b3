// Too little memory, wherever: on the device, within a job's limit, on the host. What is tried first, who is
// asked for room, and what an error says.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "allocator/caching_allocator.h"
#include "tests/allocator/allocator_test.h"
#include "tests/allocator/job.h"

namespace hocket {
namespace {

using ::testing::HasSubstr;
using testing::Job;
using testing::kChunk;
using testing::kEverything;
using testing::ScriptedGate;

class ShortageTest : public testing::AllocatorTest {};

TEST_F(ShortageTest, AFullDeviceFirstCostsTheOwnCacheThenAsksForRoom) {
  Job job;
  const DevicePtr cached = job.Malloc(100_MiB);
  job.Free(cached);
  const DevicePtr large = job.Malloc(200_MiB);
  EXPECT_EQ(job.allocator->Stats().num_alloc_retries, 0) << "the cached part was grown, not given back";

  Job other;
  Bytes asked = 0;
  other.gate.await_room = [&](Bytes bytes) {
    asked = bytes;
    job.Free(large);
    job.allocator->EmptyCache();
    return absl::OkStatus();
  };
  const DevicePtr block = other.Malloc(100_MiB);
  EXPECT_GT(asked, 0u);
  EXPECT_LE(asked, 100_MiB);
  other.Free(block);
}

TEST_F(ShortageTest, AnInterruptedWaitForRoomIsTheAllocationsError) {
  Job job, other;
  job.gate.await_room = [](Bytes) { return absl::CancelledError("interrupted"); };
  const DevicePtr theirs = other.Malloc(200_MiB);
  EXPECT_EQ(job.TryMalloc(100_MiB).status().code(), absl::StatusCode::kCancelled);
  other.Free(theirs);
}

TEST_F(ShortageTest, OutOfMemorySaysWhatWasTriedAndWhoHoldsWhat) {
  Job job, other;
  job.gate.await_room = [](Bytes) { return absl::ResourceExhaustedError("job bert-b holds 61.4 GiB"); };
  const DevicePtr block = job.Malloc(100_MiB), theirs = other.Malloc(100_MiB);
  const absl::Status status = job.TryMalloc(100_MiB).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  for (const char* part :
       {"CUDA out of memory. Tried to allocate 100.00 MiB. GPU 0 has a total capacity of 256.00 MiB",
        "100.0 MiB is allocated by PyTorch", "job bert-b holds 61.4 GiB"}) {
    EXPECT_THAT(std::string(status.message()), HasSubstr(part));
  }
  EXPECT_EQ(job.allocator->Stats().num_ooms, 1);
  other.Free(theirs);
  other.allocator->EmptyCache();
  job.Free(job.Malloc(100_MiB));
  job.Free(block);
}

TEST_F(ShortageTest, WhatCanNeverFitIsRefusedWithoutAskingForRoom) {
  Job job;
  job.gate.await_room = [](Bytes) {
    ADD_FAILURE() << "asked for room";
    return absl::OkStatus();
  };
  const absl::Status status = job.TryMalloc(300_MiB).status();
  EXPECT_THAT(std::string(status.message()), HasSubstr("the whole device has 256.0 MiB"));
}

TEST_F(ShortageTest, NoSizeIsTooAbsurdToBeRefused) {
  Job job;
  for (int bits = 30; bits < 64; ++bits) {
    for (const Bytes size : {(Bytes{1} << bits) - 1, Bytes{1} << bits, (Bytes{1} << bits) + kChunk}) {
      EXPECT_TRUE(absl::IsResourceExhausted(job.TryMalloc(size).status())) << size;
    }
  }
  EXPECT_TRUE(absl::IsResourceExhausted(job.TryMalloc(~Bytes{0}).status()));
  job.Free(job.Malloc(kChunk));
}

TEST_F(ShortageTest, ItsOwnLimitHoldsAndNobodyIsAskedForRoom) {
  Job job(AllocatorOptions{.memory_limit = 20_MiB});
  job.gate.await_room = [](Bytes) {
    ADD_FAILURE() << "asked for room";
    return absl::OkStatus();
  };
  const DevicePtr block = job.Malloc(15_MiB);
  const absl::Status status = job.TryMalloc(10_MiB).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("limit is 20.0 MiB"));
  job.Free(block);
}

TEST_F(ShortageTest, WhatACapOfSeveralJobsLeavesHoldsAndTheErrorSaysWhose) {
  Job job;
  const DevicePtr block = job.Malloc(15_MiB);
  job.allocator->SetMemoryLimit(
      20_MiB, "the jobs of group vision may hold 50.0 MiB together, of which b has 30.0 MiB");
  const std::string error(job.TryMalloc(10_MiB).status().message());
  EXPECT_THAT(error,
              HasSubstr("group vision may hold 50.0 MiB together, of which b has 30.0 MiB: that leaves "
                        "this one 20.0 MiB"));
  EXPECT_THAT(error, HasSubstr("Raise that cap, end one of these jobs, or make its model"));
  job.allocator->SetMemoryLimit(20_MiB);
  EXPECT_THAT(std::string(job.TryMalloc(10_MiB).status().message()),
              HasSubstr("this job's limit is 20.0 MiB"));
  job.Free(block);
}

// A program that calls torch.cuda.set_per_process_memory_fraction(1.0) at its start had its cap lifted.
TEST_F(ShortageTest, WhatAProgramAllowsItselfLiftsNoOtherLimit) {
  Job job;
  const auto error = [&] { return std::string(job.TryMalloc(30_MiB).status().message()); };
  job.allocator->SetMemoryLimit(20_MiB, "the jobs of group vision may hold 20.0 MiB together");
  job.allocator->SetOwnLimit(~Bytes{0});
  EXPECT_EQ(job.allocator->MemoryLimit(), 20_MiB);
  EXPECT_THAT(error(), HasSubstr("group vision may hold 20.0 MiB together"));

  job.allocator->SetOwnLimit(10_MiB);
  EXPECT_EQ(job.allocator->MemoryLimit(), 10_MiB);
  EXPECT_THAT(error(),
              HasSubstr("that this program has set itself (per_process_memory_fraction) is 10.0 MiB"));
  EXPECT_THAT(error(), HasSubstr("Raise that fraction"));

  job.allocator->SetMemoryLimit(40_MiB);
  EXPECT_EQ(job.allocator->MemoryLimit(), 10_MiB) << "nor is its own lifted by others";
}

TEST_F(ShortageTest, ALimitAboveTheDeviceIsRefusedWithBothNumbers) {
  ScriptedGate gate;
  const auto made = CachingAllocator::Create(gpu.driver(), {.memory_limit = 1_GiB}, &gate);
  EXPECT_EQ(made.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(made.status().message()), HasSubstr("limit of 1.0 GiB: device 0 has 256.0 MiB"));
}

TEST_F(ShortageTest, AnExhaustedHostBudgetLosesNothingAndSaysSo) {
  Job job(AllocatorOptions{.host_budget = 3_MiB});
  const DevicePtr a = job.Malloc(kChunk), b = job.Malloc(kChunk);
  gpu.Fill(a, kChunk, 1);
  gpu.Fill(b, kChunk, 2);
  job.PassTurn();
  const absl::Status status = job.Spill(kEverything).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("of this job's 3.0 MiB for spilled data"));
  EXPECT_EQ(job.Held().spilled, kChunk);
  EXPECT_EQ(job.Held().persistent, kChunk);
  job.TakeTurn();
  EXPECT_TRUE(gpu.Holds(a, kChunk, 1));
  EXPECT_TRUE(gpu.Holds(b, kChunk, 2));
  job.Free(a);
  job.Free(b);
}

TEST_F(ShortageTest, ARestoreWithoutRoomSaysHowMuchIsMissingAndGoesOnLater) {
  Job job, other;
  const DevicePtr block = job.Malloc(100_MiB);
  gpu.Fill(block, 100_MiB, 9);
  job.PassTurn();
  ASSERT_TRUE(job.Spill(kEverything).ok());
  const DevicePtr theirs = other.Malloc(200_MiB);

  Bytes missing = 0;
  EXPECT_EQ(job.TakeTurn(/*for_step=*/false, &missing).code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(missing, 100_MiB - (gpu.capacity() - 200_MiB));
  other.Free(theirs);
  other.allocator->EmptyCache();
  job.TakeTurn();
  EXPECT_TRUE(gpu.Holds(block, 100_MiB, 9));
  job.Free(block);
}

TEST_F(ShortageTest, AFullDeviceAtAHandOverIsNoObstacle) {
  Job job;
  const DevicePtr persistent = job.Malloc(150_MiB);
  job.allocator->BeginStep();
  const DevicePtr survivor = job.Malloc(gpu.capacity() - 150_MiB);
  job.allocator->EndStep();
  job.PassTurn();
  EXPECT_EQ(job.Held().arena, 0u);
  EXPECT_EQ(job.Held().persistent, gpu.capacity());
  job.TakeTurn();
  job.Free(persistent);
  job.Free(survivor);
}

}  // namespace
}  // namespace hocket
