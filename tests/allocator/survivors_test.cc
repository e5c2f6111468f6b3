#include "allocator/survivors.h"

#include <gtest/gtest.h>

namespace hocket {
namespace {

bool Predicted(Survivors& survivors, Bytes size, Birth* birth = nullptr) {
  const Birth made = survivors.Allocated(size, nullptr);
  if (birth != nullptr) *birth = made;
  return survivors.Predict(size, nullptr);
}

// A step of which the allocation of 2 KiB lives on.
void RunStep(Survivors& survivors) {
  survivors.BeginStep();
  for (const Bytes size : {1_KiB, 2_KiB, 3_KiB}) {
    Birth birth;
    Predicted(survivors, size, &birth);
    if (size != 2_KiB) survivors.Freed(birth);
  }
  survivors.EndStep();
}

// The first step is special.
void RunSteps(Survivors& survivors) {
  RunStep(survivors);
  RunStep(survivors);
}

TEST(SurvivorsTest, OutsideStepsEverythingIsExpectedToLive) {
  Survivors survivors;
  EXPECT_TRUE(Predicted(survivors, 1_KiB));
}

TEST(SurvivorsTest, InTheFirstStepNothingIsExpectedToLive) {
  Survivors survivors;
  survivors.BeginStep();
  EXPECT_FALSE(Predicted(survivors, 1_KiB));
}

TEST(SurvivorsTest, WhatTheFirstStepLeavesIsExpectedAgainOnlyIfItHasGone) {
  Survivors survivors;
  Birth state, gradient;
  survivors.BeginStep();
  Predicted(survivors, 1_KiB, &state);
  Predicted(survivors, 2_KiB, &gradient);
  survivors.EndStep();
  survivors.Freed(gradient);
  survivors.BeginStep();
  EXPECT_FALSE(Predicted(survivors, 1_KiB)) << "the optimizer's state is born once";
  EXPECT_TRUE(Predicted(survivors, 2_KiB));
}

TEST(SurvivorsTest, OneStepNamesTheSurvivorsOfTheNext) {
  Survivors survivors;
  RunSteps(survivors);
  survivors.BeginStep();
  EXPECT_FALSE(Predicted(survivors, 1_KiB));
  EXPECT_TRUE(Predicted(survivors, 2_KiB));
  EXPECT_FALSE(Predicted(survivors, 3_KiB));
}

TEST(SurvivorsTest, AnEmptyStepTeachesNothing) {
  Survivors survivors;
  survivors.BeginStep();
  survivors.EndStep();
  RunSteps(survivors);
  survivors.BeginStep();
  survivors.EndStep();
  survivors.BeginStep();
  EXPECT_FALSE(Predicted(survivors, 1_KiB));
  EXPECT_TRUE(Predicted(survivors, 2_KiB));
}

TEST(SurvivorsTest, AStepThatDoesNotEndIsWrittenDownUpToALimit) {
  Survivors survivors;
  survivors.BeginStep();
  Birth last;
  for (std::size_t i = 0; i < 3 * kLongestStep; ++i) {
    Predicted(survivors, 1_KiB, &last);
    survivors.Freed(last);
  }
  EXPECT_EQ(survivors.step().size(), kLongestStep + 1) << "one more than is learned from";
  EXPECT_EQ(last.step, 0u);
}

TEST(SurvivorsTest, AnInsertedAllocationDoesNotShiftTheOthers) {
  Survivors survivors;
  RunSteps(survivors);
  survivors.BeginStep();
  EXPECT_FALSE(Predicted(survivors, 1_KiB));
  EXPECT_FALSE(Predicted(survivors, 77_KiB));
  EXPECT_TRUE(Predicted(survivors, 2_KiB));
}

TEST(SurvivorsTest, AnOmittedAllocationDoesNotShiftTheOthers) {
  Survivors survivors;
  RunSteps(survivors);
  survivors.BeginStep();
  EXPECT_TRUE(Predicted(survivors, 2_KiB));
  EXPECT_FALSE(Predicted(survivors, 3_KiB));
}

TEST(SurvivorsTest, WhatIsFreedAfterTheStepHasSurvivedIt) {
  Survivors survivors;
  Birth birth;
  survivors.BeginStep();
  Predicted(survivors, 1_KiB, &birth);
  survivors.EndStep();
  survivors.Freed(birth);
  survivors.BeginStep();
  EXPECT_TRUE(Predicted(survivors, 1_KiB));
}

TEST(SurvivorsTest, AFreeInALaterStepIsNotTakenForOneOfThatStep) {
  Survivors survivors;
  Birth birth;
  survivors.BeginStep();
  Predicted(survivors, 1_KiB, &birth);
  survivors.EndStep();
  survivors.BeginStep();
  Predicted(survivors, 1_KiB);
  survivors.Freed(birth);  // the old one: the new one lives
  survivors.EndStep();
  survivors.BeginStep();
  EXPECT_TRUE(Predicted(survivors, 1_KiB));
}

TEST(SurvivorsTest, ItIsKnownWhenWhatTheLastStepLeftIsFreed) {
  Survivors survivors;
  Birth early, late, own, between;
  RunStep(survivors);
  survivors.BeginStep();
  Predicted(survivors, 1_KiB, &early);
  Predicted(survivors, 2_KiB, &late);
  Predicted(survivors, 3_KiB, &between);
  survivors.EndStep();
  survivors.Freed(between, 300);
  survivors.BeginStep();
  survivors.Freed(early, 100);
  Predicted(survivors, 1_KiB, &own);
  survivors.Freed(own, 700);
  survivors.Freed(late, 200);
  ASSERT_EQ(survivors.departures().size(), 3u);
  const auto is = [&](std::size_t i, std::uint32_t index, DevicePtr address, std::uint32_t time) {
    const Departure& found = survivors.departures()[i];
    return found.index == index && found.address == address && found.time == time;
  };
  EXPECT_TRUE(is(0, 2, 300, 0)) << "between the steps";
  EXPECT_TRUE(is(1, 0, 100, 0));
  EXPECT_TRUE(is(2, 1, 200, 2)) << "behind one allocation and one free";
  survivors.EndStep();
  survivors.BeginStep();
  EXPECT_TRUE(survivors.departures().empty());
}

TEST(SurvivorsTest, WhatIsFreedTwoStepsLaterIsNoDeparture) {
  Survivors survivors;
  Birth birth;
  survivors.BeginStep();
  Predicted(survivors, 1_KiB, &birth);
  survivors.EndStep();
  RunStep(survivors);
  survivors.BeginStep();
  survivors.Freed(birth, 100);
  EXPECT_TRUE(survivors.departures().empty());
}

TEST(SurvivorsTest, AStepRepeatsWhoseAllocationsAreTheSame) {
  Survivors survivors;
  RunStep(survivors);
  EXPECT_FALSE(survivors.Repeats());
  RunStep(survivors);
  EXPECT_TRUE(survivors.Repeats());
  survivors.BeginStep();
  Predicted(survivors, 1_KiB);
  survivors.EndStep();
  EXPECT_FALSE(survivors.Repeats());
}

TEST(SurvivorsTest, AStepInsideAStepIsPartOfIt) {
  Survivors survivors;
  RunSteps(survivors);
  survivors.BeginStep();
  EXPECT_FALSE(Predicted(survivors, 1_KiB));
  survivors.BeginStep();
  EXPECT_TRUE(Predicted(survivors, 2_KiB));
  survivors.EndStep();
  EXPECT_TRUE(survivors.InStep());
}

}  // namespace
}  // namespace hocket
