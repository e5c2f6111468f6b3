#include "allocator/host_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "tests/allocator/emulated_gpu.h"

namespace hocket {
namespace {

using testing::EmulatedGpu;
using ::testing::HasSubstr;

class HostMemoryTest : public ::testing::Test {
 protected:
  ~HostMemoryTest() override { memory.CheckInvariants(); }

  HostMemory memory{EmulatedGpu::Get().driver(), 1_GiB};
};

TEST_F(HostMemoryTest, GivesBlocksThatDoNotOverlap) {
  HostBlock a = *memory.Allocate(1_MiB), b = *memory.Allocate(1_MiB);
  std::memset(a.data(), 1, a.size());
  std::memset(b.data(), 2, b.size());
  EXPECT_EQ(static_cast<int>(a.data()[1_MiB - 1]), 1);
  EXPECT_EQ(memory.used(), 2_MiB);
}

TEST_F(HostMemoryTest, ABlockOfNothingHoldsNothing) { EXPECT_FALSE(*memory.Allocate(0)); }

TEST_F(HostMemoryTest, UsesFreedBytesAgainAndJoinsThem) {
  HostBlock a = *memory.Allocate(1_MiB), b = *memory.Allocate(1_MiB), c = *memory.Allocate(1_MiB);
  std::byte* const start = a.data();
  b = HostBlock();
  a = HostBlock();
  EXPECT_EQ((*memory.Allocate(2_MiB)).data(), start);
}

TEST_F(HostMemoryTest, PinsWhatItTakes) {
  const HostBlock block = *memory.Allocate(1_MiB);
  EXPECT_EQ(memory.pinned(), memory.taken());
}

TEST_F(HostMemoryTest, GivesUnusedPiecesBackAfterSomeCycles) {
  { const HostBlock block = *memory.Allocate(1_MiB); }
  EXPECT_GT(memory.taken(), 0u) << "kept for the next spill";
  for (int cycle = 0; cycle < 20; ++cycle) memory.EndCycle();
  EXPECT_EQ(memory.taken(), 0u);
}

TEST_F(HostMemoryTest, ItsBudgetHoldsAndTheMessageHasTheNumbers) {
  HostMemory small(EmulatedGpu::Get().driver(), 3_MiB);
  const HostBlock block = *small.Allocate(2_MiB);
  const absl::Status status = small.Allocate(2_MiB).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(
      std::string(status.message()),
      HasSubstr(
          "cannot spill 2.0 MiB to host memory: 2.0 MiB of this job's 3.0 MiB for spilled data are in use"));
}

}  // namespace
}  // namespace hocket
