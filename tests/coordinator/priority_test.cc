// Into which steps of others a production job's account goes (coordinator/policies/priority.h).
#include "coordinator/policies/priority.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <string>

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
    production_.last_ready = full_ - credit;
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

  absl::Duration full_ = absl::Microseconds(15'500);  // a step of 5.5 ms, and what 0.5 s earn
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

// The other one has left 442 ms ago, and is away for 482 as a rule; production, whose steps take 410, asks.
class AwaitedAccountTest : public PriorityAccountTest {
 protected:
  AwaitedAccountTest() {
    production_.step = Of(Milliseconds(410), Milliseconds(410));
    production_.gap = Of(Milliseconds(16), Milliseconds(16));
    other_.step = Of(Milliseconds(8), Milliseconds(8));
    other_.gap = Of(Milliseconds(482), Milliseconds(482));
    full_ = absl::Microseconds(120'500);  // its step of 8 ms, a quarter of production's, what 0.5 s earn
    Tell(other_, now_ - Seconds(20));
    Tell(production_, now_ - Seconds(20));
  }

  void Tell(JobView job, absl::Time at) {
    job.now = at;
    policy_.Asked(job);
  }

  // The other one's turn ends; production, which has so much credit then, asks `after` that.
  void ProductionAsks(absl::Duration credit, absl::Duration after = Milliseconds(442)) {
    production_.now = std::max(now_, asked_ + Milliseconds(100));
    Has(credit);
    other_.left = other_.now = now_;
    policy_.Charge(other_, Milliseconds(8), /*contended=*/false);
    production_.left = asked_ = now_ + after;  // just now: its gap earns nothing
    Tell(production_, asked_);
  }

  // So long after production has asked.
  absl::Duration IsWaitedFor(absl::Duration after = absl::ZeroDuration()) {
    JobView absent = other_;
    absent.now = asked_ + after;
    const absl::Duration until = policy_.KeepFree(absent, production_);
    return until == absl::ZeroDuration() ? until : absent.left + until - absent.now;
  }

  absl::Duration Spare() {
    JobView none = other_;
    none.step = Estimator();
    const std::string standing = policy_.Standing(none);
    const auto from = standing.find("it can spare ");
    double seconds = 0;
    EXPECT_EQ(std::sscanf(standing.c_str() + from, "it can spare %lf s", &seconds), 1) << standing;
    return Seconds(seconds);
  }

  absl::Time asked_ = now_ - Seconds(20);
};

TEST_F(AwaitedAccountTest, OneThatIsBackSoonIsWaitedForWhereThereIsPlenty) {
  ProductionAsks(Milliseconds(40 + 8 + 5 + 1));
  EXPECT_EQ(IsWaitedFor(), Milliseconds(40));
  EXPECT_EQ(IsWaitedFor(Milliseconds(30)), Milliseconds(10));
  EXPECT_EQ(IsWaitedFor(Milliseconds(40)), absl::ZeroDuration());
  ProductionAsks(Milliseconds(40 + 8 + 5 - 1));
  EXPECT_EQ(IsWaitedFor(), absl::ZeroDuration());
}

TEST_F(AwaitedAccountTest, NotForMoreThanAQuarterOfProductionsStep) {
  ProductionAsks(Milliseconds(118), Milliseconds(380));
  EXPECT_EQ(IsWaitedFor(), Milliseconds(102));
  ProductionAsks(Milliseconds(118), Milliseconds(379));
  EXPECT_EQ(IsWaitedFor(), absl::ZeroDuration());
}

// It is back before the step ends, and waits then.
TEST_F(AwaitedAccountTest, NotWhereItsGapIsShorterThanProductionsStep) {
  other_.gap = Of(Milliseconds(400), Milliseconds(400));
  Tell(other_, now_ - Seconds(20));
  full_ = Milliseconds(18);
  ProductionAsks(Milliseconds(18), Milliseconds(398));
  EXPECT_EQ(IsWaitedFor(), absl::ZeroDuration());
  policy_.Granted(production_);
  JobView absent = other_;
  absent.now = asked_;
  EXPECT_EQ(policy_.StopFor(absent, production_), absl::InfiniteDuration());
}

TEST_F(AwaitedAccountTest, NotWhereThereAreOthersOrAnotherProductionJob) {
  JobView third = other_;
  third.id = 3;
  ProductionAsks(Milliseconds(100));
  Tell(third, asked_);
  EXPECT_EQ(IsWaitedFor(), absl::ZeroDuration());
  policy_.Forget(3);
  EXPECT_EQ(IsWaitedFor(), Milliseconds(40));
  third.priority = Priority::kHigh;
  Tell(third, asked_);
  EXPECT_EQ(IsWaitedFor(), absl::ZeroDuration());
}

TEST_F(AwaitedAccountTest, WhenItHasComeItIsFirstAndPaysForTheWholeWait) {
  ProductionAsks(Milliseconds(60));
  EXPECT_FALSE(policy_.Before(other_, production_)) << "there are gaps for it";
  Tell(other_, asked_ + Milliseconds(38));
  EXPECT_TRUE(policy_.Before(other_, production_));
  other_.now = asked_ + Milliseconds(47);
  policy_.Granted(other_);
  policy_.Charge(other_, Milliseconds(8), /*contended=*/true);
  EXPECT_EQ(Spare(), Milliseconds(60 - 47));
  EXPECT_FALSE(policy_.Before(other_, production_)) << "once";
  other_.left = other_.now;
  EXPECT_EQ(IsWaitedFor(Milliseconds(47)), absl::ZeroDuration());
}

TEST_F(AwaitedAccountTest, ANewcomerIsNotTheOneThatIsWaitedFor) {
  ProductionAsks(Milliseconds(60));
  JobView newcomer = other_;
  newcomer.id = 3;
  Tell(newcomer, asked_ + Milliseconds(10));
  EXPECT_FALSE(policy_.Before(newcomer, production_));
  EXPECT_EQ(IsWaitedFor(Milliseconds(10)), absl::ZeroDuration());
}

TEST_F(AwaitedAccountTest, WhoComesTooLateIsNotFirstAndTheWaitIsPaid) {
  ProductionAsks(Milliseconds(60));
  production_.now = asked_ + Milliseconds(40);
  policy_.Granted(production_);
  EXPECT_EQ(Spare(), Milliseconds(20));
  Tell(other_, asked_ + Milliseconds(41));
  EXPECT_FALSE(policy_.Before(other_, production_));
}

TEST_F(AwaitedAccountTest, ProductionBeginsNoStepShortlyBeforeItWhereThereIsPlentyForTheWait) {
  ProductionAsks(Milliseconds(60));
  production_.now = asked_ + Milliseconds(40);
  policy_.Granted(production_);  // it has been waited for in vain: 60 - 40 are left
  JobView absent = other_;
  absent.now = asked_;
  const double earned_until = 442;
  // 20 and what is earned until then, for 482 - t to wait, its step of 8, and 5 to spare.
  const double expected = (482 + 8 + 5 - 20 + 0.02 * earned_until) / 1.02;
  EXPECT_NEAR(absl::ToDoubleMilliseconds(policy_.StopFor(absent, production_)), expected, 0.5);
  absent.now = absent.left + Milliseconds(483);
  EXPECT_EQ(policy_.StopFor(absent, production_), absl::InfiniteDuration()) << "who knows when it comes";
}

}  // namespace
}  // namespace hocket::coordinator
