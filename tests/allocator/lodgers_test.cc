// A loop that keeps its gradients until the next step begins, placed by plan: activations lie in the homes of
// the gradients (homes.h), in good steps and in others.
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "tests/allocator/job.h"

namespace hocket {
namespace {

using testing::EmulatedGpu;
using testing::Job;
using testing::kChunk;

class LodgersTest : public ::testing::Test {
 protected:
  void TearDown() override {
    for (auto& [address, contents] : marks) Check(address);
    while (!marks.empty()) Free(marks.begin()->first);
  }

  // What may happen otherwise in a step.
  struct Otherwise {
    std::function<void()> after_forward = [] {};
    std::function<void()> after_backward = [] {};
    bool early_gradient = false;  // the last layer's is born before its time
    bool late_lodger = false;     // the last layer's activation lives on
  };

  void Step() { Step({}); }
  void Step(const Otherwise& otherwise) {
    job.allocator->BeginStep();
    for (const DevicePtr block : std::exchange(gradients, {})) Free(block);
    std::vector<DevicePtr> activations;
    for (std::size_t layer = 0; layer < layers; ++layer) {
      if (layer == 1 && otherwise.early_gradient) gradients.push_back(Malloc(gradient));
      activations.push_back(
          Malloc(layer + 1 == layers && last_activation != 0 ? last_activation : activation));
    }
    otherwise.after_forward();
    for (std::size_t layer = 0; layer < layers; ++layer) {
      if (layer == 0 && otherwise.late_lodger) {
        kept.push_back(activations.back());
      } else {
        Free(activations.back());
      }
      activations.pop_back();
      if (layer > 0 || !otherwise.early_gradient) gradients.push_back(Malloc(gradient));
    }
    otherwise.after_backward();
    job.allocator->EndStep();
    job.allocator->CheckInvariants();
  }
  // Until homes are known, and what the arena does not need then has been given back.
  void Settle() {
    for (int i = 0; i < 40; ++i) Step();
    ASSERT_GT(LodgedInAStep(), 0u);
    settled = gpu.used();
  }
  std::uint64_t Lodgers() const { return layers * gradient / activation; }
  std::uint64_t LodgedInAStep() {
    const std::uint64_t before = job.Held().lodged_allocations;
    Step();
    return job.Held().lodged_allocations - before;
  }

  DevicePtr Malloc(Bytes size) {
    const DevicePtr block = job.Malloc(size);
    std::memset(gpu.Host(block), ++mark, size);
    EXPECT_TRUE(marks.emplace(block, std::pair(size, mark)).second) << "given out twice";
    return block;
  }
  void Check(DevicePtr block) {
    const auto [size, value] = marks.at(block);
    const unsigned char* bytes = gpu.Host(block);
    EXPECT_TRUE(bytes[0] == value && bytes[size / 2] == value && bytes[size - 1] == value)
        << "the bytes of " << block << " have changed";
  }
  void Free(DevicePtr block) {
    Check(block);
    marks.erase(block);
    job.Free(block);
  }

  std::size_t layers = 6;
  // Of a layer. Their sums are whole chunks: what is held is what is counted.
  Bytes activation = 4_MiB, gradient = 2_MiB;
  Bytes last_activation = 0;  // 0: as the others

  EmulatedGpu& gpu = EmulatedGpu::Get();
  Job job;
  std::vector<DevicePtr> gradients, kept;
  std::map<DevicePtr, std::pair<Bytes, unsigned char>> marks;
  unsigned char mark = 0;
  Bytes settled = 0;
};

// The largest sum alive at once is that of the activations; no gradient is there then.
TEST_F(LodgersTest, ALoopThatKeepsItsGradientsNeedsNoMoreThanIsAlive) {
  const Bytes before = gpu.used();
  for (int i = 0; i < 3; ++i) Step();
  EXPECT_GE(gpu.used() - before, layers * (activation + gradient));
  Settle();
  EXPECT_EQ(settled - before, layers * activation);
  EXPECT_EQ(LodgedInAStep(), Lodgers());
  gpu.ForgetCalls();
  for (int i = 0; i < 20; ++i) Step();
  EXPECT_EQ(gpu.Calls()["MemCreate"] + gpu.Calls()["MemMap"] + gpu.Calls()["MemUnmap"], 0);
  EXPECT_EQ(gpu.Calls()["EventRecord"] + gpu.Calls()["CtxRecordEvent"], 0) << "nothing to wait for";
}

// It would not be worth a wait for the device in every sixteenth step.
TEST_F(LodgersTest, WhatTheySaveIsGivenBackOnceThoughItIsLittle) {
  layers = 2, activation = 2_MiB, gradient = 1_MiB;
  Malloc(192_MiB);
  const Bytes before = gpu.used();
  Settle();
  EXPECT_EQ(settled - before, layers * activation);
}

TEST_F(LodgersTest, TheSameWithAHandOverAfterEachStep) {
  const Bytes before = gpu.used();
  for (int i = 0; i < 40; ++i) {
    Step();
    job.PassTurn();
    job.TakeTurn();
  }
  EXPECT_EQ(gpu.used() - before, layers * activation);
  gpu.ForgetCalls();
  Step();
  job.PassTurn();
  EXPECT_EQ(gpu.Calls()["MemCreate"] + gpu.Calls()["MemMap"] + gpu.Calls()["MemUnmap"], 0);
  job.TakeTurn();
}

// As an output is that a variable holds: when the next one is assigned, both are alive.
TEST_F(LodgersTest, WhatIsKeptUntilTheNextOneIsThereLiesInTwoPlacesInTurn) {
  DevicePtr output = 0;
  const auto assign = [&] {
    const DevicePtr next = Malloc(gradient + 512);
    if (output != 0) Free(output);
    output = next;
  };
  const Otherwise otherwise = {.after_forward = assign};
  for (int i = 0; i < 40; ++i) Step(otherwise);
  const Holdings before = job.Held();
  std::vector<DevicePtr> places;
  for (int i = 0; i < 4; ++i) {
    Step(otherwise);
    places.push_back(output);
    job.allocator->BeginStep();  // an empty one is none
    job.allocator->EndStep();
  }
  const Holdings after = job.Held();
  EXPECT_GE(after.lodged_allocations, before.lodged_allocations + 4);
  EXPECT_EQ(after.planned_allocations - before.planned_allocations,
            after.step_allocations - before.step_allocations)
      << "nobody has missed a place";
  EXPECT_NE(places[0], places[1]);
  EXPECT_EQ(places[0], places[2]);
  EXPECT_EQ(places[1], places[3]);
}

TEST_F(LodgersTest, ASurvivorThatComesTooEarlySendsTheLodgerElsewhere) {
  Settle();
  Step({.early_gradient = true});
  Step();
  EXPECT_EQ(LodgedInAStep(), Lodgers());
}

TEST_F(LodgersTest, ALodgerThatLivesOnKeepsItsPlaceAndItsHostLiesElsewhere) {
  Settle();
  Step({.late_lodger = true});
  ASSERT_EQ(kept.size(), 1u);
  Step();
  Free(kept.back());
  Step();
  EXPECT_EQ(LodgedInAStep(), Lodgers());
}

// Its homes are found anew beside it.
TEST_F(LodgersTest, ALodgerThatStaysForGoodIsLivedWith) {
  Settle();
  Step({.late_lodger = true});
  for (int i = 0; i < 40; ++i) Step();
  EXPECT_GT(LodgedInAStep(), 0u);
  EXPECT_LE(gpu.used(), settled + activation + kChunk);
}

// Deviations of which there are so many that the plan is left.
TEST_F(LodgersTest, ALodgerThatLivesOnInTheHomesOfManyIsNoDanger) {
  layers = 120, activation = 32_KiB, gradient = 32_KiB, last_activation = 3_MiB;
  Settle();
  Step({.late_lodger = true});
  ASSERT_EQ(kept.size(), 1u);
  for (int i = 0; i < 2; ++i) Step();
  Free(kept.back());
  for (int i = 0; i < 8; ++i) Step();
  EXPECT_GT(LodgedInAStep(), 0u);
}

TEST_F(LodgersTest, AnotherStepInBetweenChangesNothing) {
  Settle();
  for (int i = 0; i < 6; ++i) {
    job.allocator->BeginStep();  // an evaluation: the gradients stay
    const DevicePtr one = Malloc(3_MiB), two = Malloc(5_MiB);
    Free(one), Free(two);
    job.allocator->EndStep();
    Step();
  }
  EXPECT_EQ(LodgedInAStep(), Lodgers());
}

TEST_F(LodgersTest, AHandOverInMidStepSpillsLodgersWithTheirChunks) {
  Settle();
  const Bytes adopted = job.Held().adopted_total;
  Step({.after_forward = [&] {
    job.PassTurn();
    EXPECT_GE(job.Held().adopted_total, adopted + activation) << "what lies in the arena";
    EXPECT_LT(job.Held().adopted_total, adopted + layers * activation) << "lodgers do not";
    ASSERT_TRUE(job.Spill(testing::kEverything).ok());
    job.TakeTurn();
  }});
  for (int i = 0; i < 3; ++i) Step();
  EXPECT_EQ(LodgedInAStep(), Lodgers());
}

TEST_F(LodgersTest, AHandOverAtTheBeginOfEachStepIsNoReasonToGrow) {
  Settle();
  for (int i = 0; i < 20; ++i) {
    job.allocator->BeginStep();
    for (const DevicePtr block : std::exchange(gradients, {})) Free(block);
    job.PassTurn();  // their homes are empty chunks, which are given back
    job.TakeTurn();
    Step();
  }
  EXPECT_LE(gpu.used(), settled + layers * gradient);
}

TEST_F(LodgersTest, ASpillBetweenStepsBringsTheHomesBack) {
  Settle();
  for (int i = 0; i < 4; ++i) {
    job.PassTurn();
    ASSERT_TRUE(job.Spill(testing::kEverything).ok());
    job.TakeTurn();
    EXPECT_EQ(LodgedInAStep(), Lodgers());
  }
  EXPECT_LE(gpu.used(), settled);
}

// Freed on the host they never come back: their homes have no memory, and get some.
TEST_F(LodgersTest, HomesThatWereGivenBackAreBackedWhenSomebodyLodgesThere) {
  Settle();
  job.PassTurn();
  ASSERT_TRUE(job.Spill(testing::kEverything).ok());
  for (const DevicePtr block : std::exchange(gradients, {})) {
    marks.erase(block);
    job.Free(block);
  }
  job.TakeTurn();
  EXPECT_EQ(job.Held().persistent, 0u);
  EXPECT_EQ(LodgedInAStep(), Lodgers());
  EXPECT_LE(gpu.used(), settled);
}

TEST_F(LodgersTest, AnEmptiedCacheInMidStepLosesNothing) {
  Settle();
  Step({.after_forward = [&] { job.allocator->EmptyCache(); }});
  Step({.after_backward = [&] { job.allocator->EmptyCache(); }});
  Step();
  EXPECT_EQ(LodgedInAStep(), Lodgers());
}

TEST_F(LodgersTest, ALodgerThatAnotherStreamUsesIsWaitedFor) {
  Settle();
  const Stream other = reinterpret_cast<Stream>(0x2);
  Step({.after_forward = [&] {
    for (const auto& [address, contents] : marks) job.allocator->RecordStream(address, other);
  }});
  for (int i = 0; i < 3; ++i) Step();
  EXPECT_EQ(LodgedInAStep(), Lodgers());
}

}  // namespace
}  // namespace hocket
