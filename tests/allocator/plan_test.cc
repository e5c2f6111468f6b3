// Plans by themselves, and as the allocator uses them.
#include "allocator/plan.h"

#include <gtest/gtest.h>

#include <cstring>
#include <iterator>
#include <random>
#include <utility>
#include <vector>

#include "allocator/plans.h"
#include "tests/allocator/job.h"

namespace hocket {
namespace {

using testing::EmulatedGpu;
using testing::Job;
using testing::kChunk;

constexpr DevicePtr kBase = 0x7000'0000'0000;

// a lives through the step; b dies before c is born; d survives.
const std::vector<StepEntry> kStep = {
    {.size = 4_MiB, .born = 0, .freed = 7}, {.size = 2_MiB, .born = 1, .freed = 2},
    {.size = 3_MiB, .born = 3, .freed = 6}, {.size = 1_MiB, .born = 4},
    {.size = 512, .born = 5, .freed = 8},
};

class PlanTest : public ::testing::Test {
 protected:
  PlanTest() {
    plan.PlaceAround({});
    plan.BeginLease(kBase);
  }
  Block* Next(Bytes size) {
    Block* block = plan.Next(size, nullptr).block;
    plan.CheckInvariants();
    return block;
  }
  void Free(Block* block) {
    plan.Free(block);
    plan.CheckInvariants();
  }

  Plan plan{kStep};
};

TEST_F(PlanTest, ARepeatedStepGetsItsPlacesInTheLivePeak) {
  Block* a = Next(4_MiB);
  Block* b = Next(2_MiB);
  ASSERT_TRUE(a && b);
  const DevicePtr place_of_b = b->address;
  Free(b);
  Block* c = Next(3_MiB);
  EXPECT_EQ(c->address, place_of_b) << "what follows each other shares a place";
  const Plan::Answer d = plan.Next(1_MiB, nullptr);
  EXPECT_TRUE(d.known && d.survives);
  EXPECT_EQ(d.block, nullptr) << "a survivor has no place in the arena";
  EXPECT_NE(Next(512), nullptr);
  EXPECT_TRUE(plan.Finished());
  EXPECT_EQ(plan.footprint(), 7_MiB + 512);
}

TEST_F(PlanTest, ABlockThatLivesTooLongKeepsItsPlace) {
  Next(4_MiB);
  Block* b = Next(2_MiB);
  EXPECT_EQ(Next(3_MiB), nullptr) << "b is in the way";
  EXPECT_EQ(plan.deviations(), 1u);
  Free(b);
  plan.BeginStep();
  EXPECT_EQ(Next(4_MiB), nullptr) << "a is still there from the step before";
  EXPECT_NE(Next(2_MiB), nullptr);
}

TEST_F(PlanTest, AnInsertionTakenForALaterAllocationIsNoDanger) {
  Next(4_MiB);
  Block* early = Next(3_MiB);  // c, before its time
  ASSERT_NE(early, nullptr);
  EXPECT_EQ(Next(2_MiB), nullptr) << "b is back in its place, where c lies";
  Free(early);
}

TEST_F(PlanTest, AfterAMistakeBlocksThatLiveTooLongAreStillNoticed) {
  Next(4_MiB);
  Free(Next(3_MiB));  // c, before its time: b's planned end has been passed
  EXPECT_NE(Next(2_MiB), nullptr) << "b";
  EXPECT_EQ(Next(3_MiB), nullptr) << "b is still in the way";
}

// The mistake has no place, so no end was passed for it; b's was to come.
TEST_F(PlanTest, AMistakeThatHasNoPlaceHidesNoBlockThatLivesTooLong) {
  Next(4_MiB);
  ASSERT_NE(Next(2_MiB), nullptr) << "b";
  EXPECT_TRUE(plan.Next(1_MiB, nullptr).survives) << "d, before its time";
  EXPECT_EQ(Next(3_MiB), nullptr) << "back to c, in whose place b still lies";
}

TEST_F(PlanTest, ABlockIsFoundByItsAddress) {
  Block* a = Next(4_MiB);
  EXPECT_EQ(plan.Find(a->address), a);
  EXPECT_EQ(plan.Find(a->address + 512), nullptr);
  EXPECT_EQ(plan.Around(a->address + 512), a);
  EXPECT_EQ(plan.Find(kBase - 512), nullptr);
  const DevicePtr address = a->address;
  Free(a);
  EXPECT_EQ(plan.Find(address), nullptr);
}

TEST_F(PlanTest, TheEndOfALeaseNamesWhatLives) {
  Next(4_MiB);
  Free(Next(2_MiB));
  Next(3_MiB);
  const std::vector<Block> live = plan.EndLease();
  ASSERT_EQ(live.size(), 2u);
  EXPECT_EQ(live[0].size + live[1].size, 7_MiB);
  EXPECT_LT(live[0].address, live[1].address);
}

TEST_F(PlanTest, TheNextLeaseMayLieElsewhere) {
  const DevicePtr a = Next(4_MiB)->address;
  (void)plan.EndLease();
  plan.BeginLease(kBase + 1_GiB);
  Block* moved = Next(4_MiB);
  EXPECT_EQ(moved->address, a + 1_GiB);
  EXPECT_EQ(plan.Find(a + 1_GiB), moved);
  EXPECT_EQ(plan.Find(a), nullptr);
}

TEST_F(PlanTest, WhatWasUsedIsSaidOfThePresentLease) {
  const auto used = [&] {
    std::vector<Extent> extents;
    plan.ForEachUsed([&](DevicePtr address, Bytes size) { extents.push_back({address - kBase, size}); });
    return Merged(extents);
  };
  Next(4_MiB);
  Free(Next(2_MiB));
  Next(3_MiB);
  (void)plan.Next(1_MiB, nullptr);
  Next(512);
  EXPECT_EQ(used(), plan.covered()) << "every place";
  EXPECT_EQ(plan.covered(), (std::vector<Extent>{{0, 7_MiB + 512}}));
  (void)plan.EndLease();
  plan.BeginLease(kBase);
  EXPECT_EQ(used(), (std::vector<Extent>{}));
  Next(4_MiB);
  Block* b = Next(2_MiB);
  EXPECT_EQ(used(), (std::vector<Extent>{{0, b->end() - kBase}}))
      << "c is a MiB longer than b, in the same place";
}

TEST_F(PlanTest, WhoStoodInTheWayInTheLeaseBeforeIsForgotten) {
  Next(4_MiB);
  Next(2_MiB);
  ASSERT_EQ(Next(3_MiB), nullptr) << "b is in the way";
  EXPECT_EQ(plan.EndLease().size(), 2u);
  plan.BeginLease(kBase);
  Next(4_MiB);
  Block* b = Next(2_MiB);
  ASSERT_NE(b, nullptr);
  EXPECT_EQ(Next(3_MiB), nullptr) << "b is in the way again, and is found to be";
  Free(b);
}

TEST_F(PlanTest, PlacesThatAreTakenAreNotGivenOut) {
  (void)plan.EndLease();
  plan.PlaceAround({{0, 5_MiB}}, /*may_move=*/false);
  plan.BeginLease(kBase);
  EXPECT_EQ(Next(4_MiB), nullptr);
  (void)plan.EndLease();
  plan.PlaceAround({{0, 5_MiB}});
  plan.BeginLease(kBase);
  EXPECT_GE(Next(4_MiB)->address, kBase + 5_MiB) << "moved out of the way";
}

// A step of few sizes, written down, and then again with allocations left out, put in and exchanged, and with
// frees that come early, late, or in a later step: no two blocks overlap (CheckInvariants()).
class PlanFuzz : public ::testing::TestWithParam<unsigned> {
 protected:
  int Below(int n) { return std::uniform_int_distribution<int>(0, n - 1)(random); }

  std::vector<StepEntry> RandomStep() {
    std::vector<StepEntry> step;
    std::vector<std::size_t> live;
    std::uint32_t now = 0;
    const int length = 5 + Below(60);
    while (std::ssize(step) < length) {
      if (!live.empty() && Below(5) < 2) {
        const auto which = live.begin() + Below(static_cast<int>(live.size()));
        if (Below(8) > 0) step[*which].freed = now++;  // else: a survivor
        live.erase(which);
      } else {
        live.push_back(step.size());
        step.push_back(
            {.size = 512u << Below(4), .stream = Below(4) == 0 ? other_stream : nullptr, .born = now++});
      }
    }
    for (const std::size_t which : live) step[which].freed = now++;
    return step;
  }

  void Replay(Plan& plan, int disorder) {
    const std::vector<StepEntry>& step = plan.step();
    std::vector<std::size_t> order;
    for (std::size_t i = 0; i < step.size(); ++i) {
      if (Below(100) < disorder) continue;
      order.push_back(i);
      if (Below(100) < disorder)
        order.push_back(static_cast<std::size_t>(Below(static_cast<int>(step.size()))));
      if (Below(100) < disorder && order.size() > 1) std::swap(order.back(), order[order.size() - 2]);
    }
    for (const std::size_t i : order) {
      FreeSome(plan, step[i].born, disorder);
      const Plan::Answer answer = plan.Next(step[i].size, step[i].stream);
      plan.CheckInvariants();
      if (answer.block != nullptr) live.emplace_back(step[i].freed, answer.block);
    }
    FreeSome(plan, StepEntry::kAlive, disorder);
  }

  // Those whose time has come, but for some; and some others.
  void FreeSome(Plan& plan, std::uint32_t now, int disorder) {
    std::erase_if(live, [&](const auto& block) {
      const bool due = block.first < now;
      const bool frees = Below(100) < disorder ? !due : due;
      if (frees) plan.Free(block.second);
      return frees;
    });
    plan.CheckInvariants();
  }

  std::mt19937 random{GetParam()};
  const Stream other_stream = reinterpret_cast<Stream>(8);
  std::vector<std::pair<std::uint32_t, Block*>> live;
};

TEST_P(PlanFuzz, NoTwoBlocksOverlap) {
  for (int plans = 0; plans < 100; ++plans) {
    Plan plan(RandomStep());
    plan.PlaceAround({});
    plan.BeginLease(kBase);
    for (int steps = 0; steps < 6; ++steps) {
      Replay(plan, steps % 3 * 10);
      plan.BeginStep();
    }
    live.clear();
    (void)plan.EndLease();
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, PlanFuzz, ::testing::Range(0u, 8u));

TEST(PlansTest, AStepSeenTwiceBecomesAPlan) {
  Plans plans;
  plans.Learn(kStep, nullptr);
  EXPECT_EQ(plans.Expected(), nullptr);
  plans.Learn(kStep, nullptr);
  ASSERT_NE(plans.Expected(), nullptr);
  EXPECT_EQ(plans.Expected()->step().size(), kStep.size());
}

TEST(PlansTest, TrainingAndEvaluationHaveAPlanEachAndAreExpectedInTurn) {
  const std::vector<StepEntry> evaluation = {{.size = 6_MiB, .born = 0, .freed = 1}};
  Plans plans;
  for (const auto& step : {kStep, kStep, evaluation, evaluation}) plans.Learn(step, nullptr);
  EXPECT_EQ(plans.size(), 2u);
  Plan* evaluate = plans.Expected();
  Plan* train = plans.BeginningLike(kStep, evaluate);
  ASSERT_NE(train, nullptr);
  plans.Learn(kStep, train);
  plans.Learn(evaluation, evaluate);
  EXPECT_EQ(plans.Expected(), train) << "it followed evaluation the last time";
}

// Nine steps of training, an evaluation of two steps; the training is interrupted by other steps once.
TEST(PlansTest, WhatComesEverySoManyStepsIsForeseen) {
  const std::vector<StepEntry> evaluation = {{.size = 6_MiB, .born = 0, .freed = 1}};
  const std::vector<StepEntry> report = {{.size = 5_MiB, .born = 0, .freed = 1}};
  Plans plans;
  int wrong = 0;
  const auto step = [&](const std::vector<StepEntry>& allocations) {
    Plan* const expected = plans.Expected();
    const bool right = expected != nullptr && expected->step() == allocations;
    wrong += !right;
    plans.Learn(allocations, right ? expected : nullptr);
  };
  const auto round = [&](int training) {
    for (int i = 0; i < training; ++i) step(kStep);
    for (int i = 0; i < 2; ++i) step(evaluation);
  };
  for (int i = 0; i < 3; ++i) round(9);
  wrong = 0;
  for (int i = 0; i < 5; ++i) round(9);
  EXPECT_EQ(wrong, 0);
  for (int i = 0; i < 4; ++i) step(kStep);
  step(report);
  for (int i = 0; i < 2; ++i) round(9);
  wrong = 0;
  for (int i = 0; i < 5; ++i) round(9);
  EXPECT_EQ(wrong, 0) << "once is not a habit";
}

TEST(PlansTest, WhatAStepComesAfterTellsWhichFollowsIt) {
  const auto shape = [](Bytes size) { return std::vector<StepEntry>{{.size = size, .born = 0, .freed = 1}}; };
  Plans plans;
  int wrong = 0;
  for (int round = 0; round < 6; ++round) {
    if (round == 3) wrong = 0;
    for (const Bytes size : {1_MiB, 2_MiB, 3_MiB, 1_MiB, 2_MiB, 4_MiB}) {
      Plan* const expected = plans.Expected();
      const bool right = expected != nullptr && expected->step() == shape(size);
      wrong += !right;
      plans.Learn(shape(size), right ? expected : nullptr);
    }
  }
  EXPECT_EQ(wrong, 0);
}

TEST(PlansTest, AStepThatIsTheBeginningOfALongerOneHasOnePlan) {
  std::vector<StepEntry> longer = kStep;
  longer.push_back({.size = 8_MiB, .born = 9, .freed = 10});
  Plans plans;
  for (int i = 0; i < 2; ++i) plans.Learn(longer, nullptr);
  for (int i = 0; i < 10; ++i) plans.Learn(kStep, nullptr);  // the longer one was expected
  EXPECT_EQ(plans.size(), 2u);
}

TEST(PlansTest, OnlySoManyPlansAreKept) {
  Plans plans;
  for (Bytes size = 512; size < 512 * 100; size += 512) {
    for (int i = 0; i < 2; ++i) plans.Learn({{.size = size, .born = 0, .freed = 1}}, nullptr);
  }
  EXPECT_EQ(plans.size(), 64u);
}

TEST(PlansTest, OfLongStepsFewerPlansAreKept) {
  constexpr std::uint32_t kLength = 30'000;
  Plans plans;
  for (Bytes size = 512; size < 512 * 13; size += 512) {
    std::vector<StepEntry> step(kLength, {.size = size});
    for (std::uint32_t i = 0; i < kLength; ++i) step[i].born = i;
    for (int i = 0; i < 2; ++i) plans.Learn(step, nullptr);
  }
  EXPECT_EQ(plans.size(), 8u);
}

// --- in the allocator -----------------------------------------------------------------------------------

class PlannedJobTest : public ::testing::Test {
 protected:
  // Overlapping lives that best fit, in the order of time, cannot pack: small blocks between large ones.
  void Step(
      int large = 6, const std::function<void()>& after_the_first = [] {}) {
    job.allocator->BeginStep();
    std::vector<DevicePtr> blocks;
    for (int i = 0; i < large; ++i) {
      blocks.push_back(Malloc(3_MiB + 512 * static_cast<Bytes>(i)));
      if (i == 0) after_the_first();
    }
    for (std::size_t i = 0; i < blocks.size(); i += 2) Free(blocks[i]);
    const DevicePtr late = Malloc(6_MiB);
    for (std::size_t i = 1; i < blocks.size(); i += 2) Free(blocks[i]);
    Free(late);
    job.allocator->EndStep();
    job.allocator->CheckInvariants();
  }
  DevicePtr Malloc(Bytes size) {
    const DevicePtr block = job.Malloc(size);
    std::memset(gpu.Host(block), ++mark, size);
    marks[block] = {size, mark};
    return block;
  }
  void Free(DevicePtr block) {
    const auto [size, value] = marks[block];
    EXPECT_TRUE(gpu.Host(block)[0] == value && gpu.Host(block)[size - 1] == value);
    job.Free(block);
  }
  std::uint64_t Planned() { return job.Held().planned_allocations; }

  EmulatedGpu& gpu = EmulatedGpu::Get();
  Job job;
  std::map<DevicePtr, std::pair<Bytes, unsigned char>> marks;
  unsigned char mark = 0;
};

TEST_F(PlannedJobTest, FromTheThirdStepOnEveryAllocationIsPlanned) {
  for (int i = 0; i < 3; ++i) Step();
  const std::uint64_t before = Planned();
  Step();
  EXPECT_EQ(Planned(), before + 7);
}

TEST_F(PlannedJobTest, WhatIsLikeNothingInThePlanThatIsFollowedHasDeviated) {
  for (int i = 0; i < 4; ++i) Step();
  EXPECT_EQ(job.Held().deviating_allocations, 0u) << "steps without a plan deviate from none";
  const std::uint64_t planned = Planned();
  Step(6, [&] { Free(Malloc(512)); });
  EXPECT_EQ(job.Held().deviating_allocations, 1u);
  EXPECT_EQ(Planned(), planned + 7);
}

TEST_F(PlannedJobTest, ALoopOfManyShapesIsPlannedAllTheWayRound) {
  constexpr int kShapes = 20;
  const auto round = [this] {
    for (int shape = 1; shape <= kShapes; ++shape) Step(shape);
  };
  for (int i = 0; i < 4; ++i) round();
  const std::uint64_t before = Planned();
  round();
  EXPECT_EQ(Planned(), before + kShapes * (kShapes + 1) / 2 + kShapes);
}

TEST_F(PlannedJobTest, APlanGoesOnAfterAnEmptyStep) {
  for (int i = 0; i < 3; ++i) Step();
  job.allocator->BeginStep();
  job.allocator->EndStep();
  const std::uint64_t before = Planned();
  Step();
  EXPECT_EQ(Planned(), before + 7);
}

TEST_F(PlannedJobTest, APlanGoesOnAfterAHandOver) {
  for (int i = 0; i < 3; ++i) Step();
  job.PassTurn();
  job.TakeTurn();
  gpu.ForgetCalls();
  const std::uint64_t before = Planned();
  Step();
  EXPECT_EQ(Planned(), before + 7);
  EXPECT_EQ(gpu.Calls()["MemMap"], 0) << "a settled arena needs no driver call";
}

TEST_F(PlannedJobTest, AStepThatDeviatesKeepsItsBytes) {
  for (int i = 0; i < 3; ++i) Step();
  for (const int large : {6, 5, 6, 9, 2, 6}) Step(large);
}

TEST_F(PlannedJobTest, ATurnLostInMidStepTakesThePlannedBlocksAlong) {
  for (int i = 0; i < 3; ++i) Step();
  job.allocator->BeginStep();
  const DevicePtr block = Malloc(3_MiB);
  job.PassTurn();
  ASSERT_TRUE(job.Spill(testing::kEverything).ok());
  job.TakeTurn();
  Free(Malloc(3_MiB + 512));
  Free(block);
  job.allocator->EndStep();
  Step();
}

TEST_F(PlannedJobTest, AStepWhosePlanHadToGiveItsMemoryBackIsServedByBestFitToItsEnd) {
  for (int i = 0; i < 3; ++i) Step();
  job.allocator->BeginStep();
  const DevicePtr first = Malloc(3_MiB);
  const std::uint64_t before = Planned();
  EXPECT_GT(before, 0u);
  job.allocator->EmptyCache();
  const Bytes used = gpu.used();
  const DevicePtr second = Malloc(3_MiB + 512);
  EXPECT_EQ(Planned(), before) << "placed as the first allocation of a step that began anew";
  EXPECT_LE(gpu.used(), used + 2 * kChunk) << "memory was put behind the whole plan again";
  Free(first), Free(second);
  job.allocator->EndStep();
  Step();
  const std::uint64_t later = Planned();
  Step();
  EXPECT_EQ(Planned(), later + 7) << "the next step like it is planned again";
}

TEST_F(PlannedJobTest, AGraphsMemoryIsNotTakenForUnused) {
  const CachingAllocator::PoolId pool{0, 1};
  job.allocator->BeginAllocateToPool(
      pool, [](Stream) { return true; }, /*captures=*/true);
  const DevicePtr in_graph = job.Malloc(16 * kChunk);
  job.allocator->EndAllocateToPool(pool);
  job.Free(in_graph);
  for (int i = 0; i < 40; ++i) Step();
  gpu.ForgetCalls();
  for (int i = 0; i < 40; ++i) Step();
  EXPECT_EQ(gpu.Calls()["EventRecord"] + gpu.Calls()["CtxRecordEvent"], 0) << "nothing to give back: no wait";
  job.allocator->ReleasePool(pool);
}

TEST_F(PlannedJobTest, AJobAloneGivesBackWhatItNoLongerUses) {
  Step(40);
  const Bytes large = job.Held().arena;
  for (int i = 0; i < 40; ++i) Step();
  EXPECT_LT(job.Held().arena, large / 2);
  const Bytes settled = job.Held().arena;
  gpu.ForgetCalls();
  for (int i = 0; i < 40; ++i) Step();
  EXPECT_EQ(job.Held().arena, settled);
  EXPECT_EQ(gpu.Calls()["EventRecord"] + gpu.Calls()["CtxRecordEvent"], 0) << "nothing to give back: no wait";
}

// The state is known by its size: the optimizer's is that of the parameters.
TEST_F(PlannedJobTest, WhatTheFirstStepLeavesBehindTakesTheMemoryOfWhatItNoLongerUses) {
  const DevicePtr parameters = Malloc(8_MiB);
  job.allocator->BeginStep();
  const DevicePtr activations = Malloc(32_MiB);
  const Bytes peak = gpu.used();
  Free(activations);
  const DevicePtr state = Malloc(8_MiB);
  EXPECT_EQ(gpu.used(), peak);
  EXPECT_EQ(job.Held().persistent, 16_MiB);
  job.allocator->EndStep();
  job.allocator->CheckInvariants();
  Free(state);
  Free(parameters);
}

// The third step is planned.
TEST_F(PlannedJobTest, NothingIsTakenFromUnderAPlan) {
  for (int i = 0; i < 2; ++i) Step();
  const CachingAllocator::PoolId pool{0, 1};
  DevicePtr in_pool = 0;
  Step(6, [&] {
    job.allocator->BeginAllocateToPool(
        pool, [](Stream) { return true; }, /*captures=*/false);
    in_pool = Malloc(2_MiB);
    job.allocator->EndAllocateToPool(pool);
  });
  EXPECT_GT(Planned(), 0u);
  Free(in_pool);
  job.allocator->ReleasePool(pool);
}

// In the first step a gradient is taken for what stays.
TEST_F(PlannedJobTest, TheSecondStepBeginsWithoutWhatOnlyTheFirstHasUsed) {
  const DevicePtr parameters = Malloc(8_MiB);
  job.allocator->BeginStep();
  const DevicePtr gradient = Malloc(8_MiB);
  EXPECT_EQ(job.Held().persistent, 16_MiB);
  Free(gradient);
  job.allocator->EndStep();
  job.allocator->BeginStep();
  EXPECT_EQ(job.Held().persistent, 8_MiB);
  job.allocator->EndStep();
  Free(parameters);
}

TEST_F(PlannedJobTest, AnotherStepUsesThePlansMemoryBeforeItTakesMore) {
  for (int i = 0; i < 3; ++i) Step();
  const Bytes before = gpu.used();
  job.allocator->BeginStep();
  const DevicePtr one = Malloc(5_MiB), two = Malloc(7_MiB);
  EXPECT_EQ(gpu.used(), before);
  Free(one), Free(two);
  job.allocator->EndStep();
}

TEST_F(PlannedJobTest, TheWholeRegionServesWhenMemoryIsShort) {
  for (int i = 0; i < 3; ++i) Step();
  job.allocator->BeginStep();
  const DevicePtr block = Malloc(3_MiB);
  const auto large = job.TryMalloc(gpu.capacity() - gpu.used() + 8_MiB);
  EXPECT_TRUE(large.ok()) << "the plan's own memory is needed: " << large.status();
  Free(block);
  job.Free(*large);
  job.allocator->EndStep();
  Step();
}

TEST_F(PlannedJobTest, TheSnapshotShowsPlannedBlocks) {
  for (int i = 0; i < 3; ++i) Step();
  job.allocator->BeginStep();
  const DevicePtr block = Malloc(3_MiB);
  Bytes allocated = 0;
  for (const SegmentSnapshot& segment : job.allocator->Snapshot()) {
    Bytes covered = 0;
    for (const auto& shown : segment.blocks) covered += shown.size;
    EXPECT_EQ(covered, segment.total_size);
    allocated += segment.allocated_size;
  }
  EXPECT_EQ(allocated, 3_MiB);
  EXPECT_EQ(job.allocator->BlockOf(block + 5)->first, block);
  Free(block);
  job.allocator->EndStep();
}

}  // namespace
}  // namespace hocket
