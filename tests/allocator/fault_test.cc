// Fails the first driver call, then the second, and so on. Whichever it is: no byte is lost, nothing leaks on
// the device or the host, the error names the call, and the allocator goes on working.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "tests/allocator/job.h"

namespace hocket {
namespace {

using testing::AllAre;
using testing::Announced;
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
#elif defined(__SANITIZE_THREAD__)
constexpr int kEach = 8;  // what would race does so whichever call fails
#else
constexpr int kEach = 1;
#endif

EmulatedGpu& Gpu() { return EmulatedGpu::Get(); }

Stream Other() {
  static const Stream other = *Gpu().driver().CreateStream();
  return other;
}

// A program with one job: what it does, and what every byte of its blocks must be. Failures of single calls
// are part of what it does, and each error that it gets names the call that failed.
class Program {
 public:
  explicit Program(const AllocatorOptions& options) : job(options), host_left_(job.Held().host_left) {}

  // A bit of everything that a program without graphs does.
  void Live() {
    Malloc(3 * kChunk / 2, 1);
    Malloc(1_KiB, 2);
    Malloc(3 * kChunk / 2, 5);
    DeclareLast();
    FollowAllButFirst();
    job.allocator->BeginStep();
    Malloc(5 * kChunk / 2, 3);
    Malloc(1_KiB, 4);
    if (!held_.empty()) job.allocator->RecordStream(held_.rbegin()->first, Other());
    FreeFirst();
    job.allocator->EndStep();
    job.allocator->EmptyCache();
    job.allocator->CheckInvariants();
    for (int i = 0; i < 2; ++i) HandOver();
    WriteToConstant();
    HandOver();
  }

  // A graph's memory is freed, goes to the host with its bytes, and is in use again as at the capture.
  void LiveWithGraph() {
    CachingAllocator& allocator = *job.allocator;
    MallocInGraph(3 * kChunk / 2, 1);
    MallocInGraph(1_KiB, 2);
    const PoolCheckpoint captured = *allocator.CheckpointPool(kGraph);
    const std::map<DevicePtr, Content> then = held_;
    MallocInGraph(5 * kChunk / 2, 3);
    if (!then.empty()) {
      allocator.RecordStream(then.begin()->first, Other());
      Free(then.begin()->first);
    }
    HandOver();
    if (job.gate.holds_turn && Succeeds(allocator.ReturnToCheckpoint(captured).status())) held_ = then;
    allocator.CheckInvariants();
    HandOver();
  }

  // In a step: memory of the lane's, and 1 KiB that stays.
  void Step(Bytes transient, unsigned char value) {
    if (!job.gate.holds_turn) return;
    job.allocator->BeginStep();
    const auto block = job.TryMalloc(transient);
    if (Succeeds(block.status())) std::memset(Gpu().Host(*block), 0xFF, transient);
    Malloc(1_KiB, value);
    if (block.ok()) job.Free(*block);
    job.allocator->EndStep();
  }
  void PassTurn() {
    (void)Succeeds(job.allocator->Drain());
    job.allocator->Lock();
    job.allocator->PassTurn();
    job.gate.holds_turn = false;
    job.allocator->Unlock();
    job.allocator->CheckInvariants();
  }
  void Spill() { (void)Succeeds(job.Spill(kEverything, {.size = kChunk}).status()); }
  void TakeTurn() {
    Bytes missing = 0;
    (void)Succeeds(job.TakeTurn(/*for_step=*/true, &missing));
    if (job.gate.holds_turn) (void)Succeeds(job.allocator->AwaitStage(1, nullptr));
    job.allocator->CheckInvariants();
  }
  void HandOver() {
    PassTurn();
    Spill();
    Nears();
    (void)Succeeds(job.allocator->RestoreAhead(2 * kChunk).status());
    job.allocator->CheckInvariants();
    TakeTurn();
  }
  // False, and the user reads it: which call of the driver's was it?
  static bool Succeeds(const absl::Status& status) {
    EXPECT_TRUE(status.ok() || absl::StrContains(status.message(), Gpu().FailedCall()))
        << "it was " << Gpu().FailedCall() << ", but is told as: " << status;
    return status.ok();
  }

  void Verify() const {
    for (const auto& [block, content] : held_)
      EXPECT_TRUE(AllAre(content.value, Gpu().Host(block), content.size));
  }
  void FreeAll() {
    while (!held_.empty()) FreeFirst();
  }
  // Nothing fails any more: it works on with all of its bytes, and in the end the host has none of them.
  void Ends() {
    if (!job.gate.holds_turn) job.TakeTurn();
    ASSERT_TRUE(job.allocator->AwaitStage(kLastStage, nullptr).ok());
    Verify();
    EXPECT_TRUE(job.TryMalloc(5 * kChunk).ok());
    FreeAll();
    job.allocator->ReleasePool(kGraph);
    job.allocator->CheckInvariants();
    EXPECT_EQ(job.Held().host_left, host_left_);
    EXPECT_EQ(job.Held().strays, 0u) << "a call that fails is nobody's work";
  }

  Job job;

 private:
  static constexpr CachingAllocator::PoolId kGraph = {0, 7};
  struct Content {
    Bytes size = 0;
    unsigned char value = 0;
  };

  void Malloc(Bytes size, unsigned char value) {
    const auto block = job.TryMalloc(size);
    if (!Succeeds(block.status())) return;
    std::memset(Gpu().Host(*block), value, size);
    held_[*block] = {size, value};
  }
  void MallocInGraph(Bytes size, unsigned char value) {
    job.allocator->BeginAllocateToPool(
        kGraph, [](Stream) { return true; }, /*captures=*/true);
    Malloc(size, value);
    job.allocator->EndAllocateToPool(kGraph);
  }
  void Free(DevicePtr block) {
    job.Free(block);
    held_.erase(block);
  }
  void FreeFirst() {
    if (!held_.empty()) Free(held_.begin()->first);
  }
  // The block with the highest address does not change: with others in its first chunk, alone in its last.
  void DeclareLast() {
    if (held_.empty()) return;
    const auto promise = std::make_shared<Promise>(Promise{.name = "weights"});
    (void)job.allocator->DeclareConstant(constant_ = held_.rbegin()->first, promise);
  }
  void FollowAllButFirst() {
    for (auto block = held_.begin(); block != held_.end(); ++block) {
      if (block != held_.begin())
        (void)job.allocator->SetStage(block->first, block->second.size > kChunk ? 1 : 2);
    }
  }
  // The promise is taken back.
  void WriteToConstant() {
    const auto block = held_.find(std::exchange(constant_, 0));
    if (block == held_.end() || !job.gate.holds_turn) return;
    job.allocator->EndConstant(block->first);
    block->second.value = 6;
    std::memset(Gpu().Host(block->first), 6, block->second.size);
  }
  // The turn is expected in vain, and then once more.
  void Nears() {
    while (job.allocator->UnmapSpilled()) job.allocator->CheckInvariants();
    while (job.allocator->MapSpilled()) job.allocator->CheckInvariants();
    (void)job.allocator->UnmapSpilled();
    job.allocator->CheckInvariants();
  }

  const Bytes host_left_;
  std::map<DevicePtr, Content> held_;
  DevicePtr constant_ = 0;
};

// Two jobs of a lane have turns one after the other. One makes the arena's chunks, the other joins late; what
// stays of a step takes its chunk out of the arena, also one that the other has made.
void LiveInOneLane(Program& first, Program& late) {
  late.job.gate.holds_turn = false;
  first.Step(5 * kChunk / 2, 1);
  first.PassTurn();
  Announced from_first(first.job), from_late(late.job);
  first.job.allocator->ExportArena(
      {}, /*descriptors=*/true, [&](ArenaChunkId id, Bytes size, UniqueFd descriptor) {
        if (descriptor)
          (void)Program::Succeeds(late.job.allocator->AddArenaChunk(id, size, std::move(descriptor)));
      });
  first.Spill();
  for (Program* program : {&late, &first, &late}) {
    program->TakeTurn();
    program->Step(5 * kChunk / 2, 2);
    program->PassTurn();
    (void)Program::Succeeds(from_first.TryDeliverTo(late.job));
    (void)Program::Succeeds(from_late.TryDeliverTo(first.job));
    program->Spill();
  }
}

class FaultTest : public ::testing::TestWithParam<cuda::Result> {
 protected:
  ~FaultTest() override { Gpu().FailNoCall(); }

  // Each scene has programs of its own, that many.
  template <typename Scene>
  void FailEachCallOnce(const AllocatorOptions& options, int programs, Scene scene);

  bool maps_host_memory = true;
};
class FullDeviceTest : public ::testing::Test {};

template <typename Scene>
void FaultTest::FailEachCallOnce(const AllocatorOptions& options, int programs, Scene scene) {
  (void)Other();
  const Bytes used = Gpu().used();
  const std::map<std::string, int> given = Gpu().Given();
  int call = GetParam() == kUnknown ? 1 : kEach;
  for (bool failed = true; failed; call += kEach) {
    SCOPED_TRACE("failing driver call " + std::to_string(call));
    {
      if (!maps_host_memory) Gpu().SetMapsHostMemory(false);
      std::deque<Program> playing;
      for (int i = 0; i < programs; ++i) playing.emplace_back(options);
      Gpu().FailNoCall();
      Gpu().FailCall(call, GetParam());
      scene(playing);
      failed = Gpu().Failed();
      Gpu().FailNoCall();
      for (Program& program : playing) {
        program.Ends();
        program.PassTurn();
      }
    }
    ASSERT_EQ(Gpu().used(), used);
    ASSERT_EQ(Gpu().Given(), given);
  }
  EXPECT_GT(call, 30) << "the scene makes fewer calls than it should";
}

TEST_P(FaultTest, NoSingleFailureOfTheDriverLosesAnything) {
  FailEachCallOnce({.chunk_size = kChunk}, 1, [](auto& programs) { programs[0].Live(); });
}

TEST_P(FaultTest, NorWhereSpilledMemoryIsNotMapped) {
  maps_host_memory = false;
  FailEachCallOnce({.chunk_size = kChunk}, 1, [](auto& programs) { programs[0].Live(); });
}

TEST_P(FaultTest, NoSingleFailureOfTheDriverLosesASegment) {
  FailEachCallOnce({.chunk_size = kChunk, .serves_segments = true}, 1,
                   [](auto& programs) { programs[0].Live(); });
}

TEST_P(FaultTest, NoSingleFailureOfTheDriverLosesAGraphsMemory) {
  FailEachCallOnce({.chunk_size = kChunk}, 1, [](auto& programs) { programs[0].LiveWithGraph(); });
}

TEST_P(FaultTest, NoSingleFailureOfTheDriverLosesWhatALaneShares) {
  FailEachCallOnce({.chunk_size = kChunk}, 2,
                   [](auto& programs) { LiveInOneLane(programs[0], programs[1]); });
}

TEST_P(FaultTest, AnAllocatorThatCannotBeMadeLeavesNothing) {
  const Bytes used = Gpu().used();
  const std::map<std::string, int> given = Gpu().Given();
  int call = 1, refused = 0;
  for (bool failed = true; failed; ++call) {
    Gpu().FailCall(call, GetParam());
    testing::ScriptedGate gate;
    const auto made = CachingAllocator::Create(Gpu().driver(), {.chunk_size = kChunk}, &gate);
    failed = Gpu().Failed();
    EXPECT_TRUE(made.ok() || failed) << "call " << call << ": " << made.status();
    refused += Program::Succeeds(made.status()) ? 0 : 1;
    Gpu().FailNoCall();
  }
  EXPECT_GT(refused, 5) << "it does without much";
  EXPECT_EQ(Gpu().used(), used);
  EXPECT_EQ(Gpu().Given(), given);
}

// For hand-overs on a device that is full at any point: room for a different number of chunks each time.
TEST_F(FullDeviceTest, LosesNothingAtWhateverPointItIsFull) {
  for (Bytes room = 0; room <= 10 * kChunk; room += kChunk) {
    SCOPED_TRACE("room for " + std::to_string(room / kChunk) + " chunks");
    Job filler({.chunk_size = kChunk});
    Program program({.chunk_size = kChunk});
    const DevicePtr filling = filler.Malloc(Gpu().capacity() - Gpu().used() - room);
    program.Live();
    ASSERT_TRUE(program.job.gate.holds_turn) << "what was spilled cannot come back";
    program.Verify();
    filler.Free(filling);
    filler.allocator->EmptyCache();
    program.FreeAll();
  }
}

INSTANTIATE_TEST_SUITE_P(Errors, FaultTest, ::testing::Values(cuda::kOutOfMemory, kUnknown));

}  // namespace
}  // namespace hocket
