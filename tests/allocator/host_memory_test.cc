#include "allocator/host_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <memory>
#include <vector>

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

TEST_F(HostMemoryTest, CountsTheTimeOfTakingItButNotOfUsingItAgain) {
  (void)*memory.Allocate(1_MiB);
  const Clock::duration first = memory.taking();
  EXPECT_GT(first, Clock::duration::zero());
  (void)*memory.Allocate(1_MiB);
  EXPECT_EQ(memory.taking(), first);
  (void)*memory.Allocate(512_MiB);
  EXPECT_GT(memory.taking(), first);
}

// A machine, and jobs that take of it.
class SharedMachineTest : public ::testing::Test {
 protected:
  Bytes Free() const {
    Bytes free = machine;
    for (const auto& job : jobs) free -= std::min(free, job->taken());
    return free;
  }
  HostMemory& Job() {
    jobs.push_back(
        std::make_unique<HostMemory>(EmulatedGpu::Get().driver(), 0, [this] { return Free() - others; }));
    return *jobs.back();
  }
  // False: it may take no more.
  bool Grows(HostMemory& job) {
    absl::StatusOr<HostBlock> block = job.Allocate(kPiece);
    if (block.ok()) blocks.push_back(*std::move(block));
    job.CheckInvariants();
    return block.ok();
  }

  static constexpr Bytes kPiece = 256_MiB;
  const Bytes machine = 48 * kPiece;
  Bytes others = 0;  // of programs that are no jobs
  std::vector<std::unique_ptr<HostMemory>> jobs;
  std::vector<HostBlock> blocks;  // gone before the jobs they are of
};

TEST_F(SharedMachineTest, OneAloneTakesHalfOfWhatIsFree) {
  HostMemory& job = Job();
  while (Grows(job)) {
  }
  EXPECT_EQ(job.taken(), machine / 2);
}

TEST_F(SharedMachineTest, JobsThatGrowBesideEachOtherHaveEqualPartsAndLeaveOne) {
  HostMemory &a = Job(), &b = Job(), &c = Job();
  for (bool grows = true; grows;) {
    grows = false;
    for (HostMemory* job : {&a, &b, &c}) grows |= Grows(*job);
  }
  for (const HostMemory* job : {&a, &b, &c}) EXPECT_EQ(job->taken(), machine / 4);
  EXPECT_EQ(Free(), machine / 4);
}

TEST_F(SharedMachineTest, WhoComesLaterFindsRoomAndHoweverManyComeTheMachineIsNotFull) {
  for (int i = 0; i < 4; ++i) {
    HostMemory& job = Job();
    const Bytes before = Free();
    while (Grows(job)) {
    }
    EXPECT_EQ(job.taken(), RoundDown(before / 2, kPiece));
  }
  EXPECT_GE(Free(), kPiece);
}

TEST_F(SharedMachineTest, WhatOtherProgramsTakeMeanwhileIsNotTaken) {
  HostMemory& job = Job();
  ASSERT_TRUE(Grows(job));
  others = machine - 2 * kPiece;
  const absl::StatusOr<HostBlock> refused = job.Allocate(kPiece);
  EXPECT_THAT(refused.status().message(), HasSubstr("(as many as are left free for others)"));
  others = 0;
  EXPECT_TRUE(Grows(job)) << "there is room again";
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

class HostChunkTest : public HostMemoryTest {
 protected:
  HostChunkTest() { memory.MapChunks(0, kSize); }
  ~HostChunkTest() override { EmulatedGpu::Get().FailNoCall(); }
  static constexpr Bytes kSize = 2_MiB;
};

TEST_F(HostChunkTest, IsUsedAgainAndCounted) {
  ASSERT_TRUE(memory.maps_chunks());
  std::byte* where = nullptr;
  {
    const HostChunk chunk = *memory.AllocateChunk();
    where = chunk.data();
    std::memset(where, 1, chunk.size());
    EXPECT_EQ(memory.used(), kSize);
    EXPECT_EQ(memory.pinned(), kSize);
  }
  EXPECT_EQ(memory.used(), 0u);
  EXPECT_EQ(memory.taken(), kSize) << "kept for the next spill";
  EXPECT_EQ((*memory.AllocateChunk()).data(), where);
}

TEST_F(HostChunkTest, TheBudgetIsOneWithThatOfBlocks) {
  HostMemory small(EmulatedGpu::Get().driver(), kSize + 1_MiB);
  small.MapChunks(0, kSize);
  { const HostBlock block = *small.Allocate(2_MiB); }
  {
    const HostChunk chunk = *small.AllocateChunk();  // the unused piece goes
    EXPECT_EQ(small.taken(), kSize);
    const absl::Status status = small.AllocateChunk().status();
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("cannot spill 2.0 MiB to host memory: 2.0 MiB of this job's 3.0 MiB"));
    EXPECT_TRUE(small.maps_chunks());
  }
  EXPECT_TRUE(small.Allocate(3_MiB).ok()) << "the unused chunk goes";
  small.CheckInvariants();
}

TEST_F(HostChunkTest, IsGivenBackWhenItWasNotUsedForAWhile) {
  { const HostChunk a = *memory.AllocateChunk(), b = *memory.AllocateChunk(); }
  const Clock::time_point start;
  memory.ReturnIdle(start);
  { const HostChunk b = *memory.AllocateChunk(); }
  memory.ReturnIdle(start + HostMemory::kIdle);
  EXPECT_EQ(memory.taken(), kSize) << "one was used since";
  memory.ReturnIdle(start + 2 * HostMemory::kIdle);
  EXPECT_EQ(memory.taken(), 0u);
}

TEST_F(HostChunkTest, IsKeptWhereItCannotBeUnmappedAndGivenBackLater) {
  { const HostChunk chunk = *memory.AllocateChunk(); }
  const Clock::time_point start;
  memory.ReturnIdle(start);
  EmulatedGpu::Get().FailNext("MemUnmap", 999);
  memory.ReturnIdle(start + HostMemory::kIdle);
  EXPECT_EQ(memory.taken(), kSize);
  EXPECT_TRUE(memory.AllocateChunk().ok()) << "it can be used";
  memory.ReturnIdle(start + 2 * HostMemory::kIdle);
  memory.ReturnIdle(start + 3 * HostMemory::kIdle);
  EXPECT_EQ(memory.taken(), 0u);
}

TEST_F(HostChunkTest, WhereMemoryIsShortAnotherIsAskedFor) {
  EmulatedGpu& gpu = EmulatedGpu::Get();
  HostChunk kept = *memory.AllocateChunk();
  const std::byte* const where = kept.data();
  memory.WhenShort([&] { return static_cast<bool>(std::exchange(kept, HostChunk())); });
  gpu.FailEvery("MemCreate", cuda::kOutOfMemory);
  const HostChunk next = *memory.AllocateChunk();
  EXPECT_EQ(next.data(), where);
  EXPECT_EQ(memory.AllocateChunk().status().code(), absl::StatusCode::kResourceExhausted);
}

TEST_F(HostChunkTest, ADriverThatRefusesTheFirstIsOneThatCannot) {
  constexpr cuda::Result kNotPermitted = 800;
  EmulatedGpu::Get().FailEvery("MemCreate", kNotPermitted);
  EXPECT_FALSE(memory.AllocateChunk().ok());
  EXPECT_FALSE(memory.maps_chunks());
  EXPECT_EQ(memory.taken(), 0u);
}

TEST_F(HostChunkTest, ADriverThatRefusesALaterOneIsOutOfMemory) {
  const HostChunk first = *memory.AllocateChunk();
  EmulatedGpu::Get().FailEvery("MemCreate", cuda::kOutOfMemory);
  EXPECT_FALSE(memory.AllocateChunk().ok());
  EXPECT_TRUE(memory.maps_chunks());
}

TEST_F(HostChunkTest, ARefusalAfterAllWereGivenBackIsNoLastWord) {
  (void)*memory.AllocateChunk();
  const Clock::time_point start = Clock::now();
  for (int i = 0; i < 3; ++i) memory.ReturnIdle(start + i * HostMemory::kIdle);
  ASSERT_EQ(memory.taken(), 0u);
  EmulatedGpu::Get().FailEvery("MemCreate", cuda::kOutOfMemory);
  EXPECT_FALSE(memory.AllocateChunk().ok());
  EXPECT_TRUE(memory.maps_chunks());
}

TEST_F(HostChunkTest, ADeviceThatDoesNotSaySoHasNone) {
  EmulatedGpu::Get().SetMapsHostMemory(false);
  HostMemory other(EmulatedGpu::Get().driver(), 1_GiB);
  other.MapChunks(0, kSize);
  EXPECT_FALSE(other.maps_chunks());
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
