#include "allocator/host_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstring>
#include <fstream>

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

TEST_F(HostMemoryTest, GivesAPieceBackThatWasNotUsedForAWhile) {
  { const HostBlock block = *memory.Allocate(1_MiB); }
  const Clock::time_point start;
  memory.ReturnIdle(start);
  memory.ReturnIdle(start + HostMemory::kIdle / 2);
  EXPECT_GT(memory.taken(), 0u) << "kept for the next spill";
  { const HostBlock block = *memory.Allocate(1_MiB); }
  memory.ReturnIdle(start + HostMemory::kIdle);
  EXPECT_GT(memory.taken(), 0u) << "used since";
  memory.ReturnIdle(start + 2 * HostMemory::kIdle);
  EXPECT_EQ(memory.taken(), 0u);
}

TEST_F(HostMemoryTest, GivesBackOnePieceAtATimeAndNoneInUse) {
  const Bytes piece = 256_MiB;
  HostBlock a = *memory.Allocate(piece), b = *memory.Allocate(piece);
  const HostBlock kept = *memory.Allocate(piece);
  a = HostBlock();
  b = HostBlock();
  const Clock::time_point start;
  memory.ReturnIdle(start);
  for (const Bytes left : {2 * piece, piece, piece}) {
    memory.ReturnIdle(start + HostMemory::kIdle);
    EXPECT_EQ(memory.taken(), left);
  }
}

// Lets this process have so much address space more than it has now, for the length of a test.
class AddressLimit {
 public:
  explicit AddressLimit(Bytes more) {
    getrlimit(RLIMIT_AS, &before_);
    Bytes pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    rlimit limit = before_;
    limit.rlim_cur = pages * static_cast<Bytes>(sysconf(_SC_PAGESIZE)) + more;
    setrlimit(RLIMIT_AS, &limit);
  }
  ~AddressLimit() { setrlimit(RLIMIT_AS, &before_); }

 private:
  rlimit before_;
};

TEST_F(HostMemoryTest, WhatTheSystemRefusesIsSaidWithAdvice) {
  absl::Status status;
  {
    const AddressLimit limit(64_MiB);
    status = memory.Allocate(2_MiB).status();
  }
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(
      std::string(status.message()),
      HasSubstr("cannot take 256.0 MiB of host memory for spilled data: Cannot allocate memory; 0 B of "
                "this job's 1.0 GiB are taken.\n  Raise the limit on this process's addresses"));
  EXPECT_TRUE(memory.Allocate(2_MiB).ok()) << "later it is there";
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
