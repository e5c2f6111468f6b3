// Shares of the device follow the weights, by the time of the turns without the hand-overs, whatever the
// steps and the gaps are like.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "coordinator/policies/priority.h"
#include "tests/coordinator/script.h"

namespace hocket::coordinator {
namespace {

using absl::Microseconds;
using absl::Milliseconds;
using absl::Seconds;
using testing::HasSubstr;

constexpr absl::Duration kWindow = Seconds(10);

// The farthest that "a"'s share of the time in steps is from `share` in any window, less what one longest
// step makes of it.
double WorstWindow(Script& s, double share) {
  double worst = 0;
  for (int window = 0; window < 3; ++window) {
    const auto before = s.TurnTimes();
    s.RunsFor(kWindow);
    auto used = s.TurnTimes();
    absl::Duration all;
    for (auto& [name, time] : used) all += time -= before.at(name);
    worst = std::max(worst, std::abs(absl::FDivDuration(used["a"], all) - share));
  }
  return worst;
}

struct Shares {
  double weight;  // of a; b has the rest of 100
  Part a, b;
};

class FairSharesTest : public testing::TestWithParam<Shares> {};

TEST_P(FairSharesTest, FollowTheWeightsInEveryWindow) {
  Script s("fair");
  Part a = GetParam().a, b = GetParam().b;
  a.weight = GetParam().weight;
  b.weight = 100 - GetParam().weight;
  s.Joins("a", a);
  s.Joins("b", b);
  s.Lives("a");
  s.Lives("b");
  s.RunsFor(kWindow);
  const double allowed = std::max(0.01, absl::FDivDuration(std::max(a.step, b.step), kWindow));
  EXPECT_LE(WorstWindow(s, GetParam().weight / 100), allowed) << s.Story();
}

Part Steps(absl::Duration step, absl::Duration gap, absl::Duration ready = Microseconds(200)) {
  return {.step = step, .gap = gap, .ready = ready, .passes = true};
}

INSTANTIATE_TEST_SUITE_P(
    All, FairSharesTest,
    testing::Values(
        // Equal steps, long and short, without gaps.
        Shares{10, Steps(Milliseconds(10), {}), Steps(Milliseconds(10), {})},
        Shares{25, Steps(Milliseconds(10), {}), Steps(Milliseconds(10), {})},
        Shares{10, Steps(Milliseconds(1), {}), Steps(Milliseconds(1), {})},
        Shares{25, Steps(Milliseconds(1), {}), Steps(Milliseconds(1), {})},
        // One has short steps, the other long ones.
        Shares{10, Steps(Milliseconds(1), {}), Steps(Milliseconds(100), {})},
        Shares{90, Steps(Milliseconds(1), {}), Steps(Milliseconds(100), {})},
        Shares{25, Steps(Milliseconds(5), {}), Steps(Milliseconds(100), {})},
        Shares{75, Steps(Milliseconds(5), {}), Steps(Milliseconds(100), {})},
        // Between two steps they do something else for a moment.
        Shares{75, Steps(Milliseconds(5), Milliseconds(1)), Steps(Milliseconds(100), Milliseconds(1))},
        Shares{50, Steps(Milliseconds(20), Milliseconds(8)), Steps(Milliseconds(100), Milliseconds(1))},
        Shares{90, Steps(Milliseconds(20), Milliseconds(12)), Steps(Milliseconds(100), Milliseconds(3))},
        Shares{75, Steps(Milliseconds(10), Milliseconds(2)), Steps(Milliseconds(10), Milliseconds(2))}),
    [](const auto& shares) { return "case" + std::to_string(shares.index); });

TEST(AnticipationTest, TheDeviceIsKeptFreeForWhoIsOwedTimeAndComesBackSoon) {
  Script s("fair");
  s.Joins("short", Steps(Milliseconds(20), Milliseconds(8)));
  s.Joins("long", Steps(Milliseconds(200), {}));
  s.Lives("short");
  s.Lives("long");
  s.RunsFor(Seconds(5));
  while (s.Holder() != "" && s.turns().size() < 10000) s.RunsFor(Microseconds(500));
  EXPECT_THAT(s.Why("long"), HasSubstr("kept free for short")) << s.Story();
  s.RunsFor(Milliseconds(10));
  EXPECT_EQ(s.Holder(), "short") << s.Story();
}

TEST(AnticipationTest, NobodyWaitsForAJobThatDoesNotComeBack) {
  Script s("fair");
  s.Joins("short", Steps(Milliseconds(20), Milliseconds(8)));
  s.Joins("long", Steps(Milliseconds(200), {}));
  s.Lives("short");
  s.Lives("long");
  s.RunsFor(Seconds(5));
  while (s.Holder() != "") s.RunsFor(Microseconds(500));
  s.Pauses("short");
  s.RunsFor(Milliseconds(200));
  EXPECT_EQ(s.Holder(), "long") << s.Story();
}

TEST(AnticipationTest, AGapAsLongAsAStepOfAnotherGoesToTheOther) {
  Script s("fair");
  s.Joins("a", Steps(Milliseconds(50), Milliseconds(50)));
  s.Joins("b", Steps(Milliseconds(50), Milliseconds(50)));
  s.Lives("a");
  s.Lives("b");
  s.RunsFor(Seconds(20));
  EXPECT_GT(s.Steps("a") + s.Steps("b"), 340u) << s.Story();  // of 400 if no moment were lost
}

// Measured times are never quite equal: the device must not idle because one gap is a little shorter.
TEST(AnticipationTest, AGapALittleShorterThanAStepOfAnotherGoesToTheOtherToo) {
  Script s("fair");
  s.Joins("a", Steps(Milliseconds(20), Milliseconds(18)));
  s.Joins("b", Steps(Milliseconds(30), Milliseconds(18)));
  s.Lives("a");
  s.Lives("b");
  s.RunsFor(Seconds(20));
  EXPECT_GT(s.Steps("a") + s.Steps("b"), 780u) << s.Story();  // of 800 if no moment were lost
}

// What it would idle before it gives the turn up is the others' too.
TEST(AnticipationTest, WhoIsAwayAfterEachStepGivesTheTurnUpAtOnce) {
  for (const char* policy : {"fair", "fifo", "round-robin"}) {
    Script s(policy);
    s.Joins("a", Steps(Milliseconds(20), Milliseconds(20)));
    s.Joins("b", Steps(Milliseconds(20), Milliseconds(20)));
    s.Lives("a");
    s.Lives("b");
    s.RunsFor(Seconds(20));
    EXPECT_GT(s.Steps("a") + s.Steps("b"), 950u) << policy << ", of 1000 if no moment were lost";
  }
}

// --- priority -------------------------------------------------------------------------------------

double SlowedBy(Part production, Part other, double bound = 0) {
  auto steps = [&](bool together) {
    Script s("priority");
    production.priority = "high";
    s.Joins("production", production);
    if (bound > 0) s.Says("production", SetProductionBound{bound});
    s.Lives("production");
    if (together) {
      s.Joins("other", other);
      s.Lives("other");
    }
    s.RunsFor(Seconds(100));
    return static_cast<double>(s.Steps("production"));
  };
  return steps(false) / steps(true);
}

TEST(PriorityTest, ProductionIsSlowedDownByAtMostTwoPercent) {
  const Part other = Steps(Milliseconds(30), Milliseconds(1));
  EXPECT_LE(SlowedBy(Steps(Milliseconds(50), {}), other), 1.0205);
  EXPECT_LE(SlowedBy(Steps(Milliseconds(50), Milliseconds(20)), other), 1.0205);
  EXPECT_LE(SlowedBy(Steps(Milliseconds(50), Milliseconds(60)), other), 1.0205);
  EXPECT_LE(SlowedBy(Steps(Milliseconds(5), Milliseconds(2)), Steps(Milliseconds(400), {})), 1.0205);
}

TEST(PriorityTest, TheBoundMayBeSet) {
  const Part production = Steps(Milliseconds(50), {}), other = Steps(Milliseconds(30), {});
  for (const double bound : {0.005, 0.05, 0.2}) {
    EXPECT_LE(SlowedBy(production, other, bound), 1 / (1 - bound) + 0.001) << bound;
    EXPECT_GE(SlowedBy(production, other, bound), 1 + 0.8 * bound) << "others use it: " << bound;
  }
}

Script ProductionAndAnother(Part production, const Part& other) {
  Script s("priority");
  production.priority = "high";
  s.Joins("production", production);
  s.Joins("other", other);
  s.Lives("production");
  s.Lives("other");
  return s;
}

TEST(PriorityTest, OthersUseTheGapsThatAreLongEnough) {
  Script s = ProductionAndAnother(Steps(Milliseconds(50), Milliseconds(60)), Steps(Milliseconds(10), {}));
  s.RunsFor(Seconds(110));
  // 1000 gaps of 60 ms, of which 5 pass until the turn is given up: five steps of 10 ms fit each.
  EXPECT_GT(s.Steps("other"), 4200u) << s.Story();
}

TEST(PriorityTest, OthersGetATurnNowAndThenThoughProductionNeverRests) {
  Script s = ProductionAndAnother(Steps(Milliseconds(50), {}), Steps(Milliseconds(100), {}));
  s.RunsFor(Seconds(100));
  EXPECT_GE(s.Steps("other"), 10u) << s.Story();
  EXPECT_LE(s.Steps("other"), 21u) << s.Story();
}

TEST(PriorityTest, AnotherBoundCountsFromWhenItIsSet) {
  Script s = ProductionAndAnother(Steps(Milliseconds(50), {}), Steps(Milliseconds(30), {}));
  s.RunsFor(Seconds(100));
  s.Says("other", SetProductionBound{0.1});
  const auto production = s.Steps("production"), other = s.Steps("other");
  s.RunsFor(Seconds(10));
  EXPECT_GE(s.Steps("production") - production, 178u) << "of 200: no long life pays at once" << s.Story();
  EXPECT_GE(s.Steps("other") - other, 20u) << s.Story();
  s.Says("other", SetPolicy{"fair"});
  s.Says("other", SetPolicy{"priority"});
  s.RunsFor(Seconds(1));
  EXPECT_THAT(s.Why(s.Holder() == "other" ? "production" : "other"), HasSubstr("at most 10.0 %")) << "kept";
}

// An evaluation, or a night in which nobody asks for anything.
TEST(PriorityTest, AQuietHourDoesNotPayForASlowMinute) {
  Script s("priority");
  s.Joins("production", {.priority = "high", .step = Milliseconds(50)});
  s.Joins("other", Steps(Milliseconds(30), {}));
  s.Lives("production");
  s.RunsFor(absl::Hours(1));
  s.Lives("other");
  const auto steps = s.Steps("production");
  s.RunsFor(Seconds(10));
  EXPECT_GE(s.Steps("production") - steps, 194u) << "of 200: 2 %, and one step of the other" << s.Story();
}

// It asks, and another has waited while the device was kept free for it.
TEST(PriorityTest, WhatIsSavedUpBuysStepsInPausesNotBeforeProductionThatAsks) {
  for (const absl::Duration gap : {Milliseconds(1), Milliseconds(30)}) {
    ProductionFirst policy;
    Estimator step;
    for (int i = 0; i < 10; ++i) step.Add(Milliseconds(8));
    const absl::Time now = absl::UnixEpoch() + Seconds(10);
    const JobView other{.id = 2, .left = absl::InfinitePast(), .step = step, .now = now};
    JobView production{.id = 1, .priority = Priority::kHigh, .left = absl::InfinitePast(), .now = now};
    policy.Asked(other);
    policy.Asked(production);
    policy.Granted(production);
    policy.Charge(production, Seconds(10), /*contended=*/false);
    production.left = now;
    production.gap = Estimate(gap);
    production.now = now + gap;
    policy.Asked(production);
    const bool pauses = gap > Milliseconds(8);
    EXPECT_EQ(policy.Before(production, other), pauses) << gap;
    EXPECT_EQ(policy.Before(other, production), !pauses) << gap;
  }
}

TEST(PriorityTest, AJobThatIsNoLongerProductionHasNoAccount) {
  Script s = ProductionAndAnother({.step = Milliseconds(20)}, {.step = Milliseconds(10)});
  s.RunsFor(Seconds(1));
  s.Says("production", SetShare{.weight = 1, .priority = "normal"});
  s.RunsFor(Seconds(1));
  s.Says("production", SetPaused{true});
  s.RunsFor(Seconds(1));
  s.Joins("next", {.priority = "high", .step = Milliseconds(20)});
  s.Lives("next");
  const auto steps = s.Steps("other");
  s.RunsFor(Seconds(100));
  EXPECT_GE(s.Steps("other") - steps, 150u) << "2 %" << s.Story();
}

TEST(PriorityTest, OthersGetATurnNowAndThenThoughTwoFillEachOthersPauses) {
  Script s =
      ProductionAndAnother({.step = Milliseconds(25), .gap = Milliseconds(20)}, {.step = Milliseconds(10)});
  s.Joins("second", {.priority = "high", .step = Milliseconds(25), .gap = Milliseconds(20)});
  s.Lives("second");
  s.RunsFor(Seconds(10));
  const auto steps = s.Steps("other");
  s.RunsFor(Seconds(100));
  EXPECT_GE(s.Steps("other") - steps, 80u) << s.Story();
}

// The first step of a program takes far longer than the others.
TEST(PriorityTest, AJobWhoseFirstStepWasLongIsNotKeptOutForThat) {
  Script s("priority");
  s.Joins("production", {.priority = "high", .step = Milliseconds(20), .gap = Milliseconds(20)});
  s.Joins("other", Steps(Milliseconds(5), {}));
  s.Asks("other");
  s.Passes(Seconds(5));
  s.GivesUp("other");
  s.Lives("production");
  s.Lives("other");
  s.RunsFor(Seconds(20));
  EXPECT_GE(s.Steps("other"), 200u) << s.Story();
}

TEST(PriorityTest, ExplainShowsTheAccount) {
  Script s = ProductionAndAnother({}, {});
  s.RunsFor(Seconds(1));
  ASSERT_EQ(s.Holder(), "production");
  EXPECT_THAT(s.Why("other"), HasSubstr("it can spare")) << s.Story();
  EXPECT_THAT(s.Why("other"), HasSubstr("at most 2.0 %")) << s.Story();
}

// --- srtf -----------------------------------------------------------------------------------------

TEST(SrtfTest, TheShortestIsDoneFirstAndWaitsForNobody) {
  Script s("srtf");
  s.Joins("long", {.step = Milliseconds(10), .total_steps = 1000});
  s.Joins("short", {.step = Milliseconds(20), .total_steps = 50});
  s.Joins("middle", {.step = Milliseconds(10), .total_steps = 300});
  const absl::Time start = s.now();
  for (const char* job : {"long", "short", "middle"}) s.Lives(job);
  s.RunsFor(Seconds(20));
  EXPECT_LE(s.Finished("short") - start, Seconds(1) + Milliseconds(30)) << s.Story();
  EXPECT_LE(s.Finished("middle") - start, Seconds(4) + Milliseconds(30)) << s.Story();
  EXPECT_LE(s.Finished("long") - start, Seconds(14)) << s.Story();
}

Script OneArrivesAfter(absl::Duration time, std::uint64_t old_steps, std::uint64_t new_steps) {
  Script s("srtf");
  s.Joins("old", {.total_steps = old_steps});
  s.Lives("old");
  s.RunsFor(time);
  s.Joins("new", {.total_steps = new_steps});
  s.Lives("new");
  return s;
}

TEST(SrtfTest, AnArrivalWithLessToDoTakesOverAfterTheStep) {
  Script s = OneArrivesAfter(Seconds(2), 1000, 10);
  s.RunsFor(Milliseconds(120));
  EXPECT_NO_THROW(s.Finished("new")) << s.Story();
}

TEST(SrtfTest, OfUnknownSizeTheOneThatHasHadLeastIsNext) {
  Script s = OneArrivesAfter(Seconds(10), 0, 0);
  s.RunsFor(Seconds(5));
  EXPECT_GT(s.Steps("new"), 480u) << s.Story();
}

TEST(SrtfTest, TheSizeMayBeToldLater) {
  Script s("srtf");
  s.Joins("a");
  s.Joins("b", {.total_steps = 500});
  s.Lives("a");
  s.Lives("b");
  s.RunsFor(Seconds(1));
  s.Says("a", SetShare{.total_steps = s.Steps("a") + 10});
  s.RunsFor(Milliseconds(100));
  EXPECT_EQ(s.Holder(), "a") << s.Story();
}

// --- the watchdog ---------------------------------------------------------------------------------

TEST(WatchdogTest, AHolderThatDoesNotStopIsNamedOnce) {
  Script s;
  s.Joins("hangs");
  s.Joins("waits");
  s.Asks("hangs");
  s.Asks("waits");
  s.Passes(Seconds(4));
  EXPECT_FALSE(s.core().state().turns.begin()->second.overdue);
  s.Passes(Seconds(2));
  EXPECT_TRUE(s.core().state().turns.begin()->second.overdue) << s.Story();
  EXPECT_THAT(s.Why("waits"), HasSubstr("does it hang?"));
  s.Passes(Seconds(100));
  EXPECT_EQ(std::count_if(s.sentences().begin(), s.sentences().end(),
                          [](const std::string& text) { return text.find("Does it hang") != text.npos; }),
            1);
}

TEST(WatchdogTest, ItsTimeCountsFromWhenSomebodyWaits) {
  Script s;
  s.Joins("long");
  s.Joins("waits");
  s.Caps("long", 0.1);
  s.Asks("long");
  s.Passes(Seconds(60));
  ASSERT_TRUE(s.Told<wire::Yield>("long")->now) << "its cap ended its turn " << s.Story();
  s.Asks("waits");
  s.Passes(Seconds(4));
  EXPECT_FALSE(s.core().state().turns.begin()->second.overdue) << s.Story();
  s.Passes(Seconds(2));
  EXPECT_TRUE(s.core().state().turns.begin()->second.overdue) << s.Story();
}

}  // namespace
}  // namespace hocket::coordinator
