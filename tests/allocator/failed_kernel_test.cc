// A kernel of this process has failed (an assertion on the device, say): the driver answers its error to all
// that works on the device, until the process ends. The turn passes all the same, no memory is touched any
// more, and what is asked of it is refused with the driver's words.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>

#include "tests/allocator/job.h"

namespace hocket {
namespace {

using testing::EmulatedGpu;
using ::testing::ExitedWithCode;
using ::testing::HasSubstr;
using testing::Job;
using testing::kChunk;
using testing::kEverything;

constexpr cuda::Result kAssertion = 710;
constexpr cuda::Result kUncorrectable = 214;

// With the calls that need no context working on, and failing, too: what a GPU's driver does is not known.
class FailedKernelTest : public ::testing::TestWithParam<const char*> {
 protected:
  // The process of a scene is started anew, and reads this when it begins to use the device.
  FailedKernelTest() {
    ::testing::FLAGS_gtest_death_test_style = "threadsafe";
    setenv("HOCKET_EMULATOR_LOST_MEMORY_CALLS", GetParam(), 1);
  }
  ~FailedKernelTest() override { unsetenv("HOCKET_EMULATOR_LOST_MEMORY_CALLS"); }

  // In a process of its own, in which every job has been destroyed by its end.
  void InItsProcess(const std::function<void()>& scene) {
    scene();
    std::exit(HasFailure() ? 1 : 0);
  }

  EmulatedGpu& gpu() { return EmulatedGpu::Get(); }
};

INSTANTIATE_TEST_SUITE_P(CallsWithoutAContext, FailedKernelTest, ::testing::Values("0", "1"));

TEST_P(FailedKernelTest, TheTurnPassesAndTheDeviceCountsAsIdle) {
  EXPECT_EXIT(InItsProcess([&] {
                Job job;
                const DevicePtr block = job.Malloc(kChunk);
                EXPECT_EQ(job.allocator->LastingError(), "");
                gpu().FailKernel(kAssertion);
                EXPECT_FALSE(job.allocator->Drain().ok());
                EXPECT_FALSE(absl::IsFailedPrecondition(job.allocator->Drain())) << "that is a capture's";
                EXPECT_TRUE(job.allocator->IsIdle());
                EXPECT_EQ(job.allocator->LastingError(), "CUDA_ERROR_ASSERT (710)");
                job.allocator->Lock();
                job.allocator->PassTurn();
                job.gate.holds_turn = false;
                job.allocator->Unlock();
                job.allocator->CheckInvariants();
                EXPECT_EQ(job.Held().persistent, kChunk);
                job.gate.holds_turn = true;
                job.Free(block);
              }),
              ExitedWithCode(0), "");
}

// An uncorrectable memory error, say: what is answered once may be over, and whoever asks again hears it
// again.
TEST_P(FailedKernelTest, AnErrorOfWhichNobodySaysThatItLastsKeepsNoTurnEither) {
  EXPECT_EXIT(InItsProcess([&] {
                Job job;
                const DevicePtr block = job.Malloc(kChunk);
                job.PassTurn();
                gpu().FailKernel(kUncorrectable);
                EXPECT_TRUE(job.allocator->IsIdle());
                EXPECT_EQ(job.allocator->LastingError(), "");
                EXPECT_THAT(job.Spill(kEverything).status().message(), HasSubstr("214"));
                EXPECT_EQ(job.Held().spilled, 0);
                job.gate.holds_turn = true;
                job.Free(block);
              }),
              ExitedWithCode(0), "");
}

TEST_P(FailedKernelTest, WhatItHoldsIsNotMoved) {
  EXPECT_EXIT(InItsProcess([&] {
                Job job;
                const DevicePtr block = job.Malloc(3 * kChunk);
                job.PassTurn();
                gpu().FailKernel(kAssertion);
                const absl::StatusOr<Bytes> spilled = job.Spill(kEverything);
                EXPECT_THAT(spilled.status().message(), HasSubstr("CUDA_ERROR_ASSERT"));
                EXPECT_EQ(job.Held().spilled, 0);
                EXPECT_EQ(job.Held().persistent, 3 * kChunk);
                job.gate.holds_turn = true;
                job.Free(block);
              }),
              ExitedWithCode(0), "");
}

TEST_P(FailedKernelTest, ATurnThatHasToBringBytesBackFailsWithItsError) {
  EXPECT_EXIT(InItsProcess([&] {
                Job job;
                const DevicePtr block = job.Malloc(3 * kChunk);
                job.PassTurn();
                EXPECT_TRUE(job.Spill(kEverything).ok());
                gpu().FailKernel(kAssertion);
                Bytes missing = 0;
                const absl::Status taken = job.TakeTurn(/*for_step=*/true, &missing);
                EXPECT_THAT(taken.message(), HasSubstr("CUDA_ERROR_ASSERT"));
                EXPECT_FALSE(absl::IsResourceExhausted(taken)) << "others are not to make room for it";
                EXPECT_EQ(job.Held().spilled, 3 * kChunk);
                job.gate.holds_turn = true;
                job.Free(block);
              }),
              ExitedWithCode(0), "");
}

TEST_P(FailedKernelTest, AProgramThatGoesOnGetsBlocksAndErrorsAndNoHarmIsDone) {
  EXPECT_EXIT(InItsProcess([&] {
                Job job;
                std::vector<DevicePtr> blocks;
                for (int i = 0; i < 8; ++i) blocks.push_back(job.Malloc(kChunk / 2));
                gpu().FailKernel(kAssertion);
                for (int step = 0; step < 4; ++step) {
                  job.allocator->BeginStep();
                  const absl::StatusOr<DevicePtr> small = job.TryMalloc(512);
                  const absl::StatusOr<DevicePtr> large = job.TryMalloc(8 * kChunk);
                  if (small.ok()) job.Free(*small);
                  if (large.ok()) job.Free(*large);
                  job.allocator->EndStep();
                  job.allocator->EmptyCache();
                  job.allocator->CheckInvariants();
                }
                for (const DevicePtr block : blocks) job.Free(block);
              }),
              ExitedWithCode(0), "");
}

}  // namespace
}  // namespace hocket
