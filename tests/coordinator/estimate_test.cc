#include "coordinator/policies/estimate.h"

#include <gtest/gtest.h>

#include <random>

namespace hocket::coordinator {
namespace {

using absl::Milliseconds;

Estimator Of(int samples, absl::Duration time) {
  Estimator estimator;
  for (int i = 0; i < samples; ++i) estimator.Add(time);
  return estimator;
}

TEST(EstimatorTest, TheFirstSampleIsForgottenWhenTheSecondComes) {
  Estimator step = Of(1, absl::Seconds(5));
  EXPECT_TRUE(step.known());
  EXPECT_FALSE(step.settled());
  step.Add(Milliseconds(10));
  EXPECT_EQ(step.mean(), Milliseconds(10));
  EXPECT_LT(step.Upper(), Milliseconds(20));
}

TEST(EstimatorTest, WhatVariesByATenthIsBoundedByLittleMore) {
  std::mt19937 random(1);
  std::normal_distribution<double> ms(20, 2);
  Estimator step;
  int within = 0;
  for (int i = 0; i < 1000; ++i) {
    const absl::Duration sample = Milliseconds(ms(random));
    within += i >= 100 && step.Lower() <= sample && sample <= step.Upper();
    step.Add(sample);
    if (i < 100) continue;
    EXPECT_LE(step.Upper(), Milliseconds(20 + 3 * 2)) << "sample " << i;
    EXPECT_GE(step.Lower(), Milliseconds(20 - 3 * 2)) << "sample " << i;
  }
  EXPECT_GE(within, 700) << "of 900";
}

TEST(EstimatorTest, OneOutsiderMovesNoBoundAndThreeInARowDo) {
  Estimator step = Of(40, Milliseconds(10));
  step.Add(Milliseconds(18));
  EXPECT_EQ(step.Upper(), Milliseconds(10));
  step.Add(Milliseconds(18));
  step.Add(Milliseconds(18));
  EXPECT_EQ(step.Upper(), Milliseconds(18));
  EXPECT_EQ(step.Lower(), Milliseconds(10));
}

TEST(EstimatorTest, APauseForAnEvaluationCountsAsTwiceTheBound) {
  Estimator gap = Of(40, Milliseconds(10));
  gap.Add(absl::Minutes(10));
  EXPECT_LE(gap.mean(), Milliseconds(12));
}

TEST(EstimatorTest, AnotherPaceIsLearnedInThreeDozenSamples) {
  Estimator step = Of(100, Milliseconds(10));
  for (int i = 0; i < 36; ++i) step.Add(Milliseconds(30));
  EXPECT_EQ(step.Lower(), Milliseconds(30));
  for (int i = 0; i < 36; ++i) step.Add(Milliseconds(2));
  EXPECT_EQ(step.Upper(), Milliseconds(2));
}

}  // namespace
}  // namespace hocket::coordinator
