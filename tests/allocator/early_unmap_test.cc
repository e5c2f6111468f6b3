// A mistake that the allocator must not make, seeded and found by check mode: a spill that does not see to it
// that the device is done takes memory away that a kernel may still use. That the other tests pass in check
// mode says something only because this is found.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/allocator/job.h"

namespace hocket {
namespace {

using ::testing::AllOf;
using testing::EmulatedGpu;
using ::testing::HasSubstr;
using testing::Job;
using testing::kChunk;
using testing::kEverything;

class EarlyUnmapTest : public ::testing::Test {
 protected:
  // Each mistake ends a process of its own, started anew: the driver's threads would not live on in a fork.
  EarlyUnmapTest() { ::testing::FLAGS_gtest_death_test_style = "threadsafe"; }

  // A job whose block is read by a kernel, and is freed or not, is spilled.
  void SpillUnderAKernel(bool freed) {
    Job job;
    const Stream stream = gpu.driver().CreateStream().value();
    const DevicePtr block = job.Malloc(kChunk, stream);
    gpu.ReadInKernel("reader", stream, block, kChunk);
    if (freed) job.Free(block);
    EXPECT_EQ(job.Spill(kEverything).value(), kChunk);
    EXPECT_EQ(job.Held().spilled, freed ? 0 : kChunk);
    if (!freed) job.Free(block);
    EXPECT_TRUE(gpu.driver().DestroyStream(stream).ok());
  }
  void SpillWithoutItsLook(bool freed) {
    gpu.SkipEvery("CtxRecordEvent");  // what it asks and waits for is then long done
    SpillUnderAKernel(freed);
  }

  EmulatedGpu& gpu = EmulatedGpu::Get();
};

const auto kFound = AllOf(HasSubstr("uses without order"), HasSubstr("\"unmap\" on the host"),
                          HasSubstr("\"reader\" on stream"));

TEST_F(EarlyUnmapTest, ABlockSpilledUnderAKernelIsFound) {
  EXPECT_DEATH(SpillWithoutItsLook(/*freed=*/false), kFound);
}

TEST_F(EarlyUnmapTest, AChunkGivenBackUnderTheLastKernelOfItsFreedBlockIsFound) {
  EXPECT_DEATH(SpillWithoutItsLook(/*freed=*/true), kFound);
}

TEST_F(EarlyUnmapTest, ASpillThatLooksIsLetPass) {
  SpillUnderAKernel(/*freed=*/false);
  SpillUnderAKernel(/*freed=*/true);
}

}  // namespace
}  // namespace hocket
