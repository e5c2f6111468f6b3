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
