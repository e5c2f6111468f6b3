// Memory that somebody promised not to change is copied to the host once; and whatever ends the promise, no
// byte of an old copy comes back.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <utility>

#include "tests/allocator/job.h"

namespace hocket {
namespace {

using testing::EmulatedGpu;
using ::testing::HasSubstr;
using testing::Job;
using testing::kChunk;
using testing::kEverything;

std::shared_ptr<const Promise> Named(const char* name, std::function<bool()> broken = nullptr) {
  return std::make_shared<Promise>(Promise{.name = name, .broken = std::move(broken)});
}

// Whether host copies are mapped at the spilled addresses: true, or false.
class ConstantTest : public ::testing::TestWithParam<bool> {
 protected:
  ConstantTest() {
    if (!GetParam()) gpu.SetMapsHostMemory(false);
  }
  ~ConstantTest() override { gpu.FailNoCall(); }

  DevicePtr Filled(Job& job, Bytes size, unsigned char value) {
    const DevicePtr block = job.Malloc(size);
    gpu.Fill(block, size, value);
    return block;
  }
  void Declare(Job& job, DevicePtr block) {
    ASSERT_TRUE(job.allocator->DeclareConstant(block, Named("weights")).ok());
    job.allocator->CheckInvariants();
  }
  void End(Job& job, DevicePtr block) {
    job.allocator->EndConstant(block);
    job.allocator->CheckInvariants();
  }
  // Out and back. Returns the bytes that were copied to the host.
  Bytes MoveAll(Job& job) {
    const Bytes before = job.Held().spilled_total;
    job.PassTurn();
    EXPECT_TRUE(job.Spill(kEverything).ok());
    EXPECT_EQ(job.Held().persistent, 0u);
    job.TakeTurn();
    return job.Held().spilled_total - before;
  }

  EmulatedGpu& gpu = EmulatedGpu::Get();
};

INSTANTIATE_TEST_SUITE_P(Mapped, ConstantTest, ::testing::Bool());

TEST_P(ConstantTest, AChunkOfConstantBytesIsCopiedOnceAndThenOnlyUnmapped) {
  Job job;
  const DevicePtr weights = Filled(job, 2 * kChunk, 0x11);
  Declare(job, weights);
  EXPECT_EQ(MoveAll(job), 2 * kChunk);

  job.PassTurn();
  gpu.ForgetCalls();
  ASSERT_EQ(*job.Spill(kEverything), 2 * kChunk);
  EXPECT_EQ(gpu.Calls()["MemcpyDtoHAsync"], 0);
  job.TakeTurn();
  EXPECT_TRUE(gpu.Holds(weights, 2 * kChunk, 0x11));
  EXPECT_EQ(job.Held().spared_total, 2 * kChunk);
  EXPECT_EQ(job.Held().spilled_total, 2 * kChunk);
  job.Free(weights);
}

TEST_P(ConstantTest, OfAMixedChunkOnlyTheOtherBytesAreCopiedAgain) {
  Job job;
  const DevicePtr first = Filled(job, 1_KiB, 1), weights = Filled(job, 512_KiB, 2);
  const DevicePtr last = Filled(job, 2_KiB, 3);
  Declare(job, weights);
  EXPECT_EQ(MoveAll(job), 512_KiB + 3_KiB);
  gpu.Fill(first, 1_KiB, 4), gpu.Fill(last, 2_KiB, 5);
  EXPECT_EQ(MoveAll(job), 3_KiB);
  EXPECT_EQ(MoveAll(job), 3_KiB);
  EXPECT_TRUE(gpu.Holds(first, 1_KiB, 4) && gpu.Holds(last, 2_KiB, 5) && gpu.Holds(weights, 512_KiB, 2));
  EXPECT_EQ(job.Held().spared_total, 2 * 512_KiB);
  for (const DevicePtr block : {first, weights, last}) job.Free(block);
}

TEST_P(ConstantTest, WhatIsDeclaredLaterJoinsWhatIsKept) {
  Job job;
  const DevicePtr a = Filled(job, 64_KiB, 1), b = Filled(job, 64_KiB, 2);
  Declare(job, a);
  MoveAll(job);
  Declare(job, b);
  EXPECT_EQ(MoveAll(job), 128_KiB);
  EXPECT_EQ(MoveAll(job), 0u);
  EXPECT_TRUE(gpu.Holds(a, 64_KiB, 1) && gpu.Holds(b, 64_KiB, 2));
  job.Free(a), job.Free(b);
}

TEST_P(ConstantTest, ASecondDeclarationChangesNothing) {
  Job job;
  const DevicePtr weights = Filled(job, 64_KiB, 1);
  Declare(job, weights);
  MoveAll(job);
  Declare(job, weights);
  EXPECT_EQ(MoveAll(job), 0u);
  job.Free(weights);
}

// --- the end of a promise -------------------------------------------------------------------------------

TEST_P(ConstantTest, WhatMayChangeAgainIsCopiedAgain) {
  Job job;
  const DevicePtr weights = Filled(job, 2 * kChunk, 1);
  Declare(job, weights);
  MoveAll(job);
  End(job, weights);
  gpu.Fill(weights, 2 * kChunk, 9);
  EXPECT_EQ(MoveAll(job), 2 * kChunk);
  EXPECT_TRUE(gpu.Holds(weights, 2 * kChunk, 9));
  job.Free(weights);
}

TEST_P(ConstantTest, APromiseThatIsSeenToBeBrokenEndsBeforeTheNextSpillRelies) {
  Job job;
  bool written = false;
  int asked_when_broken = 0;
  const DevicePtr weights = Filled(job, 2 * kChunk, 1);
  const auto broken = [&] { return written && ++asked_when_broken > 0; };
  ASSERT_TRUE(job.allocator->DeclareConstant(weights, Named("weights", broken)).ok());
  MoveAll(job);
  gpu.Fill(weights, 2 * kChunk, 9);
  written = true;
  EXPECT_EQ(MoveAll(job), 2 * kChunk);
  EXPECT_TRUE(gpu.Holds(weights, 2 * kChunk, 9));
  EXPECT_EQ(MoveAll(job), 2 * kChunk);
  EXPECT_EQ(asked_when_broken, 1);
  job.Free(weights);
}

// As tensors do that have one memory and count their writes apart.
TEST_P(ConstantTest, TwoPromisesForOneBlockAreBothHeldTo) {
  for (const int writer : {0, 1}) {
    Job job;
    std::array<bool, 2> written{};
    const DevicePtr weights = Filled(job, 2 * kChunk, 1);
    for (bool& one : written) {
      const auto promise = std::make_shared<Promise>(
          Promise{.name = "weights", .broken = [&] { return one; }, .watched = &one});
      ASSERT_TRUE(job.allocator->DeclareConstant(weights, promise).ok());
      ASSERT_TRUE(job.allocator->DeclareConstant(weights, promise).ok()) << "adds nothing";
    }
    EXPECT_EQ(MoveAll(job), 2 * kChunk);
    EXPECT_EQ(MoveAll(job), 0u);
    gpu.Fill(weights, 2 * kChunk, 9);
    written[writer] = true;
    EXPECT_EQ(MoveAll(job), 2 * kChunk);
    EXPECT_TRUE(gpu.Holds(weights, 2 * kChunk, 9));
    job.Free(weights);
  }
}

TEST_P(ConstantTest, AnotherPromiseForTheSameBlockStartsWithItsBytesAsTheyAre) {
  Job job;
  const auto watching = [](const void* what) {
    return std::make_shared<Promise>(
        Promise{.name = "weights", .broken = [] { return false; }, .watched = what});
  };
  const DevicePtr weights = Filled(job, 2 * kChunk, 1);
  ASSERT_TRUE(job.allocator->DeclareConstant(weights, watching(&job)).ok());
  MoveAll(job);
  gpu.Fill(weights, 2 * kChunk, 9);  // through the other, of which nothing is known yet
  ASSERT_TRUE(job.allocator->DeclareConstant(weights, watching(&weights)).ok());
  EXPECT_EQ(MoveAll(job), 2 * kChunk);
  EXPECT_TRUE(gpu.Holds(weights, 2 * kChunk, 9));
  job.Free(weights);
}

TEST_P(ConstantTest, MoreThanCanBeWatchedIsNotConstantAnyMore) {
  Job job;
  const DevicePtr weights = Filled(job, 2 * kChunk, 1);
  absl::Status refused;
  std::array<char, 64> watched;
  for (std::size_t i = 0; refused.ok() && i < watched.size(); ++i) {
    refused = job.allocator
                  ->DeclareConstant(weights, std::make_shared<Promise>(Promise{.name = "weights",
                                                                               .broken = [] { return false; },
                                                                               .watched = &watched[i]}))
                  .status();
  }
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("17 tensors"));
  EXPECT_EQ(MoveAll(job), 2 * kChunk);
  EXPECT_EQ(MoveAll(job), 2 * kChunk);
  job.Free(weights);
}

// As a tensor is that was made of a slice of another one's memory by a library.
TEST_P(ConstantTest, APromiseForAPartOfABlockIsRefused) {
  Job job;
  const DevicePtr weights = Filled(job, 3000, 1);
  const auto declare = [&](DevicePtr address, Bytes size) {
    return job.allocator->DeclareConstant(
        address, std::make_shared<Promise>(Promise{.name = "a slice", .size = size}));
  };
  for (const auto& [from, size] : {std::pair<Bytes, Bytes>{0, 1000}, {1024, 1976}, {1024, 3000}}) {
    const absl::Status refused = declare(weights + from, size).status();
    EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(refused.message()), HasSubstr("the tensor that it was made from"));
  }
  EXPECT_EQ(MoveAll(job), 3072u);
  EXPECT_EQ(MoveAll(job), 3072u) << "no promise was kept";
  EXPECT_EQ(*declare(weights, 3000), 3072u);
  job.Free(weights);
}

TEST_P(ConstantTest, APromiseGivenAgainAfterAWriteIsANewOne) {
  Job job;
  bool written = false;
  const DevicePtr weights = Filled(job, 64_KiB, 1);
  ASSERT_TRUE(job.allocator->DeclareConstant(weights, Named("weights", [&] { return written; })).ok());
  MoveAll(job);
  gpu.Fill(weights, 64_KiB, 9);
  written = true;
  Declare(job, weights);
  EXPECT_EQ(MoveAll(job), 64_KiB);
  EXPECT_EQ(MoveAll(job), 0u);
  EXPECT_TRUE(gpu.Holds(weights, 64_KiB, 9));
  job.Free(weights);
}

TEST_P(ConstantTest, FreedMemoryIsNotConstantForItsNextOwner) {
  Job job;
  const DevicePtr weights = Filled(job, 64_KiB, 1), other = Filled(job, 1_KiB, 2);
  Declare(job, weights);
  MoveAll(job);
  job.Free(weights);
  ASSERT_EQ(Filled(job, 64_KiB, 7), weights);
  EXPECT_EQ(MoveAll(job), 65_KiB);
  EXPECT_TRUE(gpu.Holds(weights, 64_KiB, 7) && gpu.Holds(other, 1_KiB, 2));
  job.Free(weights), job.Free(other);
}

TEST_P(ConstantTest, WhatIsFreedWhileSpilledIsNotKept) {
  Job job;
  const DevicePtr freed = Filled(job, 64_KiB, 1), weights = Filled(job, 64_KiB, 2);
  Declare(job, freed), Declare(job, weights);
  MoveAll(job);
  job.PassTurn();
  ASSERT_TRUE(job.Spill(kEverything).ok());
  job.Free(freed);
  job.TakeTurn();
  ASSERT_EQ(Filled(job, 64_KiB, 7), freed);
  Declare(job, freed);
  EXPECT_EQ(MoveAll(job), 128_KiB);
  EXPECT_TRUE(gpu.Holds(freed, 64_KiB, 7) && gpu.Holds(weights, 64_KiB, 2));
  job.Free(freed), job.Free(weights);
}

TEST_P(ConstantTest, TheLastBlockFreedTakesTheHostCopiesWithIt) {
  Job job({.host_budget = 4_MiB});
  const DevicePtr weights = Filled(job, 2_MiB, 1);
  Declare(job, weights);
  MoveAll(job);
  job.PassTurn();
  ASSERT_TRUE(job.Spill(kEverything).ok());
  job.Free(weights);
  job.TakeTurn();
  job.allocator->EmptyCache();
  const DevicePtr others = Filled(job, 4_MiB, 2);
  EXPECT_EQ(MoveAll(job), 4_MiB);
  job.Free(others);
}

// --- host memory ----------------------------------------------------------------------------------------

TEST_P(ConstantTest, WhatIsKeptGivesWayWhereHostMemoryIsShort) {
  Job job({.host_budget = kChunk});
  const DevicePtr first = job.Malloc(kChunk), weights = Filled(job, kChunk, 1);
  job.Free(first);
  Declare(job, weights);
  EXPECT_EQ(MoveAll(job), kChunk);  // and its copy, which is kept, has all of the budget
  ASSERT_EQ(Filled(job, kChunk, 2), first);
  job.PassTurn();
  EXPECT_EQ(*job.Spill(kChunk), kChunk);  // the first
  job.TakeTurn();
  EXPECT_TRUE(gpu.Holds(first, kChunk, 2) && gpu.Holds(weights, kChunk, 1));
  EXPECT_EQ(job.Held().spared_total, 0u);
  job.Free(first), job.Free(weights);
}

TEST_P(ConstantTest, WithTooLittleHostMemoryAsMuchIsSpilledAsWithoutPromises) {
  for (const bool constant : {false, true}) {
    Job job({.host_budget = 5 * kChunk});
    std::vector<DevicePtr> blocks;
    for (unsigned char i = 0; i < 6; ++i) blocks.push_back(Filled(job, kChunk, i));
    if (constant) Declare(job, blocks[1]), Declare(job, blocks[4]), Declare(job, blocks[5]);
    for (int i = 0; i < 3; ++i) {
      job.PassTurn();
      EXPECT_EQ(job.Spill(kEverything).status().code(), absl::StatusCode::kResourceExhausted);
      EXPECT_EQ(job.Held().spilled, 5 * kChunk);
      job.TakeTurn();
    }
    for (unsigned char i = 0; i < 6; ++i) EXPECT_TRUE(gpu.Holds(blocks[i], kChunk, i));
    for (const DevicePtr block : blocks) job.Free(block);
  }
}

// --- where the block lies -------------------------------------------------------------------------------

TEST_P(ConstantTest, ABlockOfAPlanCanBeDeclared) {
  Job job;
  DevicePtr kept = 0;
  for (int step = 0; step < 5; ++step) {
    job.allocator->BeginStep();
    for (int i = 0; i < 4; ++i) {
      const DevicePtr block = job.Malloc(256_KiB);
      if (step == 4 && i == 2) {
        gpu.Fill(kept = block, 256_KiB, 7);
        Declare(job, block);
      } else {
        job.Free(block);
      }
    }
    job.allocator->EndStep();
  }
  ASSERT_GT(job.Held().planned_allocations, 0u);
  MoveAll(job);
  EXPECT_EQ(MoveAll(job), 0u);
  EXPECT_TRUE(gpu.Holds(kept, 256_KiB, 7));
  job.Free(kept);
}

TEST_P(ConstantTest, OfAPoolsChunkAllButTheConstantBytesAreCopied) {
  Job job;
  job.allocator->BeginAllocateToPool(
      {0, 1}, [](Stream) { return true; }, /*captures=*/false);
  const DevicePtr weights = Filled(job, 512_KiB, 1), input = Filled(job, 1_KiB, 2);
  job.allocator->EndAllocateToPool({0, 1});
  Declare(job, weights);
  EXPECT_EQ(MoveAll(job), kChunk);
  EXPECT_EQ(MoveAll(job), kChunk - 512_KiB);
  EXPECT_TRUE(gpu.Holds(weights, 512_KiB, 1) && gpu.Holds(input, 1_KiB, 2));
  const PoolCheckpoint checkpoint = *job.allocator->CheckpointPool({0, 1});
  ASSERT_TRUE(job.allocator->ReturnToCheckpoint(checkpoint).ok());
  EXPECT_EQ(MoveAll(job), kChunk) << "a return to a checkpoint ends promises";
  job.Free(weights), job.Free(input);
  job.allocator->ReleasePool({0, 1});
}

TEST_P(ConstantTest, WhatCannotBeDeclaredIsSaid) {
  Job job;
  EXPECT_EQ(job.allocator->DeclareConstant(12345, Named("weights")).status().code(),
            absl::StatusCode::kNotFound);
  job.allocator->EndConstant(12345);
  Job segments({.serves_segments = true});
  const DevicePtr segment = segments.Malloc(kChunk);
  const absl::Status refused = segments.allocator->DeclareConstant(segment, Named("weights")).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("under PyTorch's own allocator"));
  segments.Free(segment);
}

}  // namespace
}  // namespace hocket
