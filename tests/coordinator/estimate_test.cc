#include "coordinator/policies/estimate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

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

TEST(EstimatorTest, ItCountsHowItsBoundsHaveHeld) {
  EXPECT_EQ(Of(2, Milliseconds(10)).record().foretold, 0u) << "there were none before";
  Estimator step = Of(40, Milliseconds(10));
  EXPECT_EQ(step.record().inside, 38u);
  step.Add(Milliseconds(9));
  step.Add(Milliseconds(10));
  step.Add(Milliseconds(12));
  EXPECT_EQ(step.record().foretold, 41u);
  EXPECT_EQ(step.record().inside, 39u);
  EXPECT_EQ(step.record().above, 1u);
}

TEST(EstimatorTest, OfTimesThatVaryEightInTenAreInside) {
  std::mt19937 random(2);
  std::normal_distribution<double> ms(20, 2);
  Estimator step;
  for (int i = 0; i < 2000; ++i) step.Add(Milliseconds(ms(random)));
  const auto share = [&](std::uint64_t of) {
    return static_cast<double>(of) / static_cast<double>(step.record().foretold);
  };
  EXPECT_GE(share(step.record().inside), 0.8);
  EXPECT_LE(share(step.record().above), 0.1);
}

// Many are equal, so bounds are met exactly, from both sides.
TEST(EstimatorTest, TheBoundsAreAlwaysTheThirdLeastAndTheThirdMostOfTheLastThirtyTwo) {
  std::mt19937 random(3);
  Estimator step;
  std::vector<absl::Duration> last;
  for (int i = 0; i < 5000; ++i) {
    const int around = 20 + 2 * (i / 500 % 2);  // and now and then all shift
    last.push_back(Milliseconds(around + std::uniform_int_distribution<int>(-3, 3)(random)));
    step.Add(last.back());
    if (i < 40) continue;
    std::vector<absl::Duration> sorted(last.end() - 32, last.end());
    std::sort(sorted.begin(), sorted.end());
    ASSERT_EQ(step.Lower(), sorted[2]) << "sample " << i;
    ASSERT_EQ(step.Upper(), sorted[29]) << "sample " << i;
  }
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
