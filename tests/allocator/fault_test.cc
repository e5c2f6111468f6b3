// Fails the first driver call, then the second, and so on. Whichever it is: no byte is lost, nothing
// leaks, and the allocator goes on working.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <utility>

#include "tests/allocator/job.h"

namespace hocket {
namespace {

using testing::AllAre;
using testing::EmulatedGpu;
using testing::Job;
using testing::kEverything;

// A device in small: bytes that move only take time, most of all under a sanitizer.
constexpr Bytes kChunk = 64_KiB;
[[maybe_unused]] const bool small_device = [] {
  setenv("HOCKET_EMULATOR_MEMORY", "16MiB", /*overwrite=*/1);
  setenv("HOCKET_EMULATOR_GRANULARITY", "64KiB", /*overwrite=*/1);
  return true;
}();
constexpr cuda::Result kUnknown = 999;
#if defined(__SANITIZE_ADDRESS__)
constexpr int kEach = 2;  // of the calls fail with the one result, and the others with the other one
#else
constexpr int kEach = 1;
#endif

class FaultFixture : public ::testing::Test {
 protected:
  ~FaultFixture() override { gpu.FailNoCall(); }

  void Malloc(Job& job, Bytes size, unsigned char value) {
    const auto block = job.TryMalloc(size);
    if (!block.ok()) return;
    std::memset(gpu.Host(*block), value, size);
    held[*block] = {size, value};
  }
  void FreeFirst(Job& job) {
    if (held.empty()) return;
    job.Free(held.begin()->first);
    held.erase(held.begin());
  }
  // The block with the highest address does not change: with others in its first chunk, alone in its last.
  void DeclareLast(Job& job) {
    if (held.empty()) return;
    const auto promise = std::make_shared<Promise>(Promise{.name = "weights"});
    (void)job.allocator->DeclareConstant(constant = held.rbegin()->first, promise);
  }
  void FollowAllButFirst(Job& job) {
    for (auto block = held.begin(); block != held.end(); ++block) {
      if (block != held.begin())
        (void)job.allocator->SetStage(block->first, block->second.first > kChunk ? 1 : 2);
    }
  }
  // The promise is taken back.
  void WriteToConstant(Job& job) {
    const auto block = held.find(std::exchange(constant, 0));
    if (block == held.end() || !job.gate.holds_turn) return;
    job.allocator->EndConstant(block->first);
    block->second.second = 6;
    std::memset(gpu.Host(block->first), 6, block->second.first);
  }
  void Verify() {
    for (const auto& [block, content] : held) {
      EXPECT_TRUE(AllAre(content.second, gpu.Host(block), content.first));
    }
  }
  // A bit of everything. Failures of single calls are part of it.
  void Live(Job& job) {
    Malloc(job, 3 * kChunk / 2, 1);
    Malloc(job, 1_KiB, 2);
    Malloc(job, 3 * kChunk / 2, 5);
    DeclareLast(job);
    FollowAllButFirst(job);
    job.allocator->BeginStep();
    Malloc(job, 5 * kChunk / 2, 3);
    Malloc(job, 1_KiB, 4);
    if (!held.empty()) job.allocator->RecordStream(held.rbegin()->first, other);
    FreeFirst(job);
    job.allocator->EndStep();
    job.allocator->EmptyCache();
    job.allocator->CheckInvariants();
    for (int i = 0; i < 2; ++i) HandOver(job);
    WriteToConstant(job);
    HandOver(job);
  }
  void HandOver(Job& job) {
    (void)job.allocator->Drain();
    job.allocator->Lock();
    job.allocator->PassTurn();
    job.gate.holds_turn = false;
    job.allocator->Unlock();
    job.allocator->CheckInvariants();
    (void)job.Spill(kEverything, {.size = kChunk});
    Nears(job);
    (void)job.allocator->RestoreAhead(2 * kChunk);
    job.allocator->CheckInvariants();
    Bytes missing = 0;
    (void)job.TakeTurn(/*for_step=*/true, &missing);
    if (job.gate.holds_turn) (void)job.allocator->AwaitStage(1, nullptr);
    job.allocator->CheckInvariants();
  }

  // The turn is expected in vain, and then once more.
  void Nears(Job& job) {
    while (job.allocator->UnmapSpilled()) job.allocator->CheckInvariants();
    while (job.allocator->MapSpilled()) job.allocator->CheckInvariants();
    (void)job.allocator->UnmapSpilled();
    job.allocator->CheckInvariants();
  }

  EmulatedGpu& gpu = EmulatedGpu::Get();
  Stream other = *gpu.driver().CreateStream();
  std::map<DevicePtr, std::pair<Bytes, unsigned char>> held;
  DevicePtr constant = 0;
};

class FaultTest : public FaultFixture, public ::testing::WithParamInterface<cuda::Result> {
 protected:
  void FailEachCallOnce(const AllocatorOptions& options);

  bool maps_host_memory = true;
};
class FullDeviceTest : public FaultFixture {};

void FaultTest::FailEachCallOnce(const AllocatorOptions& options) {
  const Bytes before = gpu.used();
  int call = GetParam() == kUnknown ? 1 : kEach;
  for (bool failed = true; failed; call += kEach) {
    SCOPED_TRACE("failing driver call " + std::to_string(call));
    {
      if (!maps_host_memory) gpu.SetMapsHostMemory(false);
      Job job(options);
      gpu.FailNoCall();
      held.clear();
      gpu.FailCall(call, GetParam());
      Live(job);
      failed = gpu.Failed();
      gpu.FailNoCall();

      if (!job.gate.holds_turn) job.TakeTurn();
      ASSERT_TRUE(job.allocator->AwaitStage(kLastStage, nullptr).ok());
      Verify();
      EXPECT_TRUE(job.TryMalloc(5 * kChunk).ok());
      while (!held.empty()) FreeFirst(job);
    }
    ASSERT_EQ(gpu.used(), before);
  }
  EXPECT_GT(call, 30) << "the scene makes fewer calls than it should";
}

TEST_P(FaultTest, NoSingleFailureOfTheDriverLosesAnything) { FailEachCallOnce({.chunk_size = kChunk}); }

TEST_P(FaultTest, NorWhereSpilledMemoryIsNotMapped) {
  maps_host_memory = false;
  FailEachCallOnce({.chunk_size = kChunk});
}

TEST_P(FaultTest, NoSingleFailureOfTheDriverLosesASegment) {
  FailEachCallOnce({.chunk_size = kChunk, .serves_segments = true});
}

TEST_P(FaultTest, AnAllocatorThatCannotBeMadeLeavesNothing) {
  const Bytes before = gpu.used();
  int call = 1, refused = 0;
  for (bool failed = true; failed; ++call) {
    gpu.FailCall(call, GetParam());
    testing::ScriptedGate gate;
    const auto made = CachingAllocator::Create(gpu.driver(), {.chunk_size = kChunk}, &gate);
    failed = gpu.Failed();
    gpu.FailNoCall();
    EXPECT_TRUE(made.ok() || failed) << "call " << call << ": " << made.status();
    refused += made.ok() ? 0 : 1;
  }
  EXPECT_GT(refused, 5) << "it does without much";
  EXPECT_EQ(gpu.used(), before);
}

// For hand-overs on a device that is full at any point: room for a different number of chunks each time.
TEST_F(FullDeviceTest, LosesNothingAtWhateverPointItIsFull) {
  for (Bytes room = 0; room <= 10 * kChunk; room += kChunk) {
    SCOPED_TRACE("room for " + std::to_string(room / kChunk) + " chunks");
    Job filler({.chunk_size = kChunk}), job({.chunk_size = kChunk});
    held.clear();
    const DevicePtr filling = filler.Malloc(gpu.capacity() - gpu.used() - room);
    Live(job);
    ASSERT_TRUE(job.gate.holds_turn) << "what was spilled cannot come back";
    Verify();
    filler.Free(filling);
    filler.allocator->EmptyCache();
    while (!held.empty()) FreeFirst(job);
  }
}

INSTANTIATE_TEST_SUITE_P(Errors, FaultTest, ::testing::Values(cuda::kOutOfMemory, kUnknown));

}  // namespace
}  // namespace hocket
