// Into which steps of others a production job's account goes (coordinator/policies/priority.h).
#include "coordinator/policies/priority.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hocket::coordinator {
namespace {

using absl::Milliseconds;
using absl::Seconds;
using testing::HasSubstr;

Estimator Of(absl::Duration least, absl::Duration most) {
  Estimator estimate;
  for (int i = 0; i < 40; ++i) estimate.Add(i % 2 == 0 ? least : most);
  return estimate;
}

// A production job with steps and gaps of 20 ms, give or take 1 ms, is between two steps; another one, with
// steps of 5 ms, give or take a half, might begin one. A bound of 2 %: 0.8 ms are earned from step to step.
class PriorityAccountTest : public testing::Test {
 protected:
  PriorityAccountTest() {
    production_.step = production_.gap = Of(Milliseconds(19), Milliseconds(21));
    other_.step = Of(Milliseconds(4.5), Milliseconds(5.5));
    policy_.Asked(other_);
    production_.left = absl::InfinitePast();
    policy_.Asked(production_);
  }

  // The account has so much, before the gap.
  void Has(absl::Duration credit) {
    policy_.Granted(production_);
    policy_.Charge(production_, Seconds(10), /*contended=*/true);  // full
    production_.last_ready = kFull - credit;
    policy_.Charge(production_, absl::ZeroDuration(), /*contended=*/true);
    production_.last_ready = absl::ZeroDuration();
    production_.left = now_;
  }

  // A turn may begin so long after the gap's begin.
  bool LetsIn(absl::Duration after) {
    JobView absent = production_;
    absent.now = now_ + after;
    return policy_.KeepFree(absent, other_) == absl::ZeroDuration();
  }

  // And another step in a turn.
  absl::Duration GoesOnFor() { return policy_.StopFor(production_, other_); }

  static constexpr absl::Duration kFull =
      absl::Microseconds(15'500);  // a step of 5.5 ms, and what 0.5 s earn
  const absl::Time now_ = absl::UnixEpoch() + Seconds(100);
  ProductionFirst policy_;
  JobView production_{.id = 1, .priority = Priority::kHigh, .asked = absl::InfiniteFuture(), .now = now_};
  JobView other_{.id = 2, .left = absl::InfinitePast(), .now = now_};
};

TEST_F(PriorityAccountTest, AStepThatIsSureToEndInTimeIsLetInThoughTheAccountIsOverdrawn) {
  Has(Milliseconds(-15));
  EXPECT_TRUE(LetsIn(Milliseconds(13.4))) << "19 - 5.5";
  EXPECT_FALSE(LetsIn(Milliseconds(13.6)));
}

TEST_F(PriorityAccountTest, NoStepIsLetInWhereProductionWasDelayedByMoreThanItCanSaveUp) {
  Has(Milliseconds(-16));
  EXPECT_FALSE(LetsIn(Milliseconds(1)));
}

TEST_F(PriorityAccountTest, AStepThatShouldEndInTimeIsLetInWhileTheAccountIsNotOverdrawn) {
  Has(Milliseconds(0.1));
  EXPECT_TRUE(LetsIn(Milliseconds(15.5))) << "20 - 5, and 0.8 that are earned";
  EXPECT_FALSE(LetsIn(Milliseconds(16.1)));
  Has(Milliseconds(-0.1));
  EXPECT_FALSE(LetsIn(Milliseconds(15.5)));
}

TEST_F(PriorityAccountTest, AStepThatWouldOverrunIsLetInWhereAQuarterOfASecondsEarningsAreLeftAfterIt) {
  Has(Milliseconds(5 + 2));
  EXPECT_TRUE(LetsIn(Milliseconds(16.9))) << "20 - 5, and 2 to spare";
  EXPECT_FALSE(LetsIn(Milliseconds(17.2)));
}

TEST_F(PriorityAccountTest, WhatProductionTakesToBeReadyIsPaidByWhoBeginsATurnNotByWhoGoesOn) {
  production_.ready = Of(Milliseconds(0.5), Milliseconds(0.5));
  Has(Milliseconds(0.1));
  EXPECT_FALSE(LetsIn(Milliseconds(15.5)));
  EXPECT_TRUE(LetsIn(Milliseconds(15.2)));
  EXPECT_GT(GoesOnFor(), Milliseconds(15.5));
}

TEST_F(PriorityAccountTest, WhatAHandOverTookItselfIsPaidInEachCycle) {
  Has(Milliseconds(0.1));
  production_.last_passage = Milliseconds(0.3);
  EXPECT_TRUE(LetsIn(Milliseconds(15.4))) << "20 - 5, and 0.8 that are earned, less 0.3";
  EXPECT_FALSE(LetsIn(Milliseconds(15.6)));
  Has(Milliseconds(7) + 2 * Milliseconds(0.3));  // two charges
  EXPECT_THAT(policy_.Standing(other_), HasSubstr("it can spare 0.007 s"));
  policy_.Charge(production_, absl::ZeroDuration(), /*contended=*/true);
  EXPECT_THAT(policy_.Standing(other_), HasSubstr("it can spare 0.0067 s"));
}

TEST_F(PriorityAccountTest, WhereHandOversCostMoreThanIsEarnedHalfOfItIsLeftForTheOthers) {
  Has(Milliseconds(0.1));
  production_.last_passage = Milliseconds(10);
  EXPECT_TRUE(LetsIn(Milliseconds(15.3))) << "20 - 5, and half of 0.8";
  EXPECT_FALSE(LetsIn(Milliseconds(15.5)));
}

TEST_F(PriorityAccountTest, AHolderGoesOnUntilTheLastWorthwhileMoment) {
  Has(Milliseconds(0.1));
  EXPECT_NEAR(absl::ToDoubleMilliseconds(GoesOnFor()), 15.8, 0.2);
  Has(Milliseconds(5 + 2));
  EXPECT_NEAR(absl::ToDoubleMilliseconds(GoesOnFor()), 17, 0.2);
  Has(Milliseconds(-1));
  EXPECT_NEAR(absl::ToDoubleMilliseconds(GoesOnFor()), 13.5, 0.2);
  Has(Milliseconds(5 + 6));
  EXPECT_EQ(GoesOnFor(), absl::InfiniteDuration()) << "there is plenty for a whole step";
}

TEST_F(PriorityAccountTest, WhereProductionStaysAwayWhatItEarnsMeanwhilePaysForAWholeStep) {
  Has(Milliseconds(2));
  JobView absent = production_;
  absent.now = now_ + Milliseconds(30);
  const absl::Duration until = policy_.KeepFree(absent, other_);
  EXPECT_NEAR(absl::ToDoubleMilliseconds(until), (5 + 5 - 2) / 0.02, 20);
  EXPECT_TRUE(LetsIn(until));
  absent.now = now_ + until;
  EXPECT_EQ(policy_.StopFor(absent, other_), absl::InfiniteDuration());
}

TEST_F(PriorityAccountTest, AJobWhoseStepsNobodyHasMeasuredIsLetInWhileTheAccountIsNotOverdrawn) {
  other_.step = Estimator();
  Has(Milliseconds(0.1));
  EXPECT_TRUE(LetsIn(Milliseconds(1)));
  Has(Milliseconds(-0.1));
  EXPECT_FALSE(LetsIn(Milliseconds(1)));
}

// A pause for an evaluation.
TEST_F(PriorityAccountTest, OneLongGapDoesNotMakeTheNextLookLonger) {
  Estimator gap = Of(Milliseconds(20), Milliseconds(20));
  gap.Add(Seconds(60));
  production_.gap = gap;
  Has(Milliseconds(0.1));
  EXPECT_FALSE(LetsIn(Milliseconds(16.5)));
}

TEST_F(PriorityAccountTest, ExplainSaysWhatIsKeptForWhom) {
  Has(Milliseconds(7));
  EXPECT_THAT(policy_.Standing(other_),
              HasSubstr("it can spare 0.007 s, 0.005 s of that for steps only that"));
  Has(Milliseconds(-3));
  EXPECT_THAT(policy_.Standing(other_), HasSubstr("delayed by 0.003 s too much"));
}

}  // namespace
}  // namespace hocket::coordinator
