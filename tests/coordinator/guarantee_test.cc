// Shares of time that are guaranteed: kept under every policy, and what is left is everybody's.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "coordinator/policies/registry.h"
#include "tests/coordinator/script.h"

namespace hocket::coordinator {
namespace {

using absl::Microseconds;
using absl::Milliseconds;
using absl::Seconds;
using testing::HasSubstr;
using testing::Not;

constexpr absl::Duration kWindow = Seconds(10);

// Of the time in steps, in the next 10 s.
std::map<std::string, double> SharesInAWindow(Script& s) {
  const auto before = s.TurnTimes();
  s.RunsFor(kWindow);
  absl::Duration all;
  auto used = s.TurnTimes();
  for (auto& [name, time] : used) {
    auto had = before.find(name);
    if (had != before.end()) time -= had->second;
    all += time;
  }
  std::map<std::string, double> shares;
  for (const auto& [name, time] : used) shares[name] = absl::FDivDuration(time, all);
  return shares;
}

// In the worst of some windows.
double LeastShare(Script& s, const std::string& name) {
  double least = 1;
  for (int window = 0; window < 3; ++window) least = std::min(least, SharesInAWindow(s)[name]);
  return least;
}

double OneStepOf(absl::Duration longest) { return std::max(0.01, absl::FDivDuration(longest, kWindow)); }

class GuaranteeContract : public testing::TestWithParam<PolicyEntry> {
 protected:
  std::string name() const { return GetParam().name; }
};

// Everything speaks against it: weight, priority, the length of its steps, and how many the others are.
TEST_P(GuaranteeContract, HoldsWhoeverElseIsThere) {
  for (const absl::Duration step : {Milliseconds(2), Milliseconds(100)}) {
    for (const double share : {0.1, 0.6}) {
      Script s(name());
      s.Joins("a", {.weight = 0.1, .priority = "low", .step = step, .ready = Microseconds(200)});
      for (const char* other : {"b", "c", "d"})
        s.Joins(other,
                {.weight = 10, .priority = "high", .step = Milliseconds(20), .ready = Microseconds(200)});
      s.Guarantees("a", share);
      for (const char* job : {"a", "b", "c", "d"}) s.Lives(job);
      s.RunsFor(kWindow);
      EXPECT_GE(LeastShare(s, "a"), share - OneStepOf(step)) << share << " " << step << s.Story();
    }
  }
}

TEST_P(GuaranteeContract, TwoThatAddUpToAllAreTheShares) {
  for (const double share : {0.1, 0.25, 0.75}) {
    for (const absl::Duration step : {Milliseconds(2), Milliseconds(100)}) {
      Script s(name());
      s.Joins("a", {.step = Milliseconds(10), .ready = Microseconds(200)});
      s.Joins("b", {.step = step, .ready = Microseconds(200)});
      s.Guarantees("a", share);
      s.Guarantees("b", 1 - share);
      for (const char* job : {"a", "b"}) s.Lives(job);
      s.RunsFor(kWindow);
      for (int window = 0; window < 3; ++window)
        EXPECT_NEAR(SharesInAWindow(s)["a"], share, OneStepOf(step)) << step << s.Story();
    }
  }
}

TEST_P(GuaranteeContract, IsNoLimit) {
  Script s(name());
  s.Joins("a");
  s.Joins("b", {.step = Milliseconds(5), .gap = Milliseconds(300)});
  s.Guarantees("a", 0.1);
  for (const char* job : {"a", "b"}) s.Lives(job);
  s.RunsFor(kWindow);
  EXPECT_GE(LeastShare(s, "a"), 0.9) << s.Story();
}

TEST_P(GuaranteeContract, NobodyStarvesForThoseOfOthers) {
  Script s(name());
  for (const char* job : {"a", "b", "c", "d"}) s.Joins(job);
  s.Guarantees("a", 0.5);
  s.Guarantees("b", 0.4);
  for (const char* job : {"a", "b", "c", "d"}) s.Lives(job);
  s.RunsFor(Seconds(20));
  for (const char* job : {"c", "d"}) EXPECT_GT(s.Turns(job), 50) << job << s.Story();
}

std::string GuaranteedUnder(const testing::TestParamInfo<PolicyEntry>& policy) {
  std::string name = policy.param.name;
  name.erase(std::remove(name.begin(), name.end(), '-'), name.end());
  return name;
}
INSTANTIATE_TEST_SUITE_P(All, GuaranteeContract, testing::ValuesIn(AllPolicies()), GuaranteedUnder);

// --- what it takes, and from whom -----------------------------------------------------------------

// The shares where bytes have to move for each turn, which are long then.
TEST(TimeGuaranteeTest, HoldsWhereTurnsAreLong) {
  Script s("fifo", /*capacity=*/100);
  s.Joins("a", {.spilled = 80, .restore_time = Milliseconds(20)});
  s.Joins("b", {.persistent = 80, .restore_time = Milliseconds(20)});
  s.Guarantees("a", 0.25);
  s.Guarantees("b", 0.75);
  s.Lives("b");  // first: it can be moved when it has had a turn
  s.Lives("a");
  s.RunsFor(Seconds(20));
  const auto before = s.TurnTimes();
  s.RunsFor(Seconds(200));
  const auto after = s.TurnTimes();
  const absl::Duration a = after.at("a") - before.at("a"), b = after.at("b") - before.at("b");
  EXPECT_NEAR(absl::FDivDuration(a, a + b), 0.25, 0.02) << s.Story();
}

TEST(TimeGuaranteeTest, WhoHasBeenAwayIsOwedOneTurnAtMost) {
  Script s("fifo");
  for (const char* job : {"a", "b", "c"}) s.Joins(job);
  s.Guarantees("a", 0.5);
  s.Lives("b");
  s.Lives("c");
  s.RunsFor(Seconds(100));
  s.Lives("a");
  const auto before = s.TurnTimes();
  s.RunsFor(Seconds(1));
  const absl::Duration had = s.TurnTimes().at("a") - (before.contains("a") ? before.at("a") : Seconds(0));
  EXPECT_GE(had, Milliseconds(490)) << s.Story();
  EXPECT_LE(had, Milliseconds(620)) << s.Story();
}

// What it had while nobody waited was taken from nobody.
TEST(TimeGuaranteeTest, WhoHasHadTheDeviceAloneStillHasHisShare) {
  Script s("fair");
  s.Joins("a", {.step = Milliseconds(10)});
  s.Joins("b", {.weight = 100});
  s.Joins("c", {.weight = 100});
  s.Guarantees("a", 0.5);
  s.Lives("a");
  s.RunsFor(Seconds(60));
  s.Lives("b");
  s.Lives("c");
  const auto before = s.TurnTimes();
  s.RunsFor(Seconds(1));
  const auto after = s.TurnTimes();
  EXPECT_LE(after.at("b") + after.at("c"), Milliseconds(530)) << s.Story();
}

// What it had by its guarantee is no debt to the policy.
TEST(TimeGuaranteeTest, WhenItIsLiftedTheJobHasThePolicysShareAtOnce) {
  Script s("fair");
  s.Joins("a", {.weight = 1});
  s.Joins("b", {.weight = 9});
  s.Guarantees("a", 0.5);
  s.Lives("a");
  s.Lives("b");
  s.RunsFor(Seconds(100));
  s.Guarantees("a", 0);
  for (int window = 0; window < 2; ++window) EXPECT_NEAR(SharesInAWindow(s)["a"], 0.1, 0.011) << s.Story();
}

TEST(TimeGuaranteeTest, AddsNothingToAShareThatIsLarger) {
  Script s("fair");
  s.Joins("a", {.weight = 2});
  s.Joins("b", {.weight = 1});
  s.Guarantees("a", 0.3);
  s.Lives("a");
  s.Lives("b");
  s.RunsFor(kWindow);
  EXPECT_NEAR(SharesInAWindow(s)["a"], 2.0 / 3, 0.01) << s.Story();
}

TEST(TimeGuaranteeTest, TheHolderStopsAfterItsStepForWhoIsOwed) {
  Script s("fifo");
  s.Joins("a");
  s.Joins("b");
  s.Guarantees("b", 0.5);
  s.Asks("a");
  s.Passes(Seconds(1));
  s.Asks("b");
  EXPECT_THAT(s.Why("b"), HasSubstr("its guarantee is 50 %, nothing of it is owed")) << s.Why("b");
  s.Passes(Milliseconds(40));
  s.Says("b", wire::Report{});
  EXPECT_THAT(s.Why("b"),
              HasSubstr("has had 0.0 % of the last 1.0 s, its guarantee is 50 %, of which 0.02 s"))
      << s.Why("b");
  s.GivesUp("a");
  ASSERT_EQ(s.Holder(), "b");
  EXPECT_THAT(s.Why("b"), HasSubstr("its guarantee is 50 %")) << s.Why("b");
}

TEST(TimeGuaranteeTest, OfTwoDevicesEachIsItsOwn) {
  Script s("fifo");
  s.Joins("a", {.device = "gpu0"});
  s.Joins("b", {.device = "gpu0"});
  s.Joins("c", {.device = "gpu1"});
  s.Joins("d", {.device = "gpu1"});
  s.Guarantees("a", 0.8);
  for (const char* job : {"a", "b", "c", "d"}) s.Lives(job);
  s.RunsFor(kWindow);
  SharesInAWindow(s);
  EXPECT_NEAR(absl::FDivDuration(s.TurnTimes().at("c"), s.TurnTimes().at("d")), 1, 0.02) << s.Story();
  EXPECT_NEAR(absl::FDivDuration(s.TurnTimes().at("a"), s.TurnTimes().at("b")), 4, 0.1) << s.Story();
}

TEST(TimeGuaranteeTest, ACapHoldsAllTheSame) {
  Script s("fifo");
  s.Joins("a");
  s.Joins("b");
  s.Guarantees("a", 0.2);
  s.Caps("a", 0.25);
  for (const char* job : {"a", "b"}) s.Lives(job);
  s.RunsFor(kWindow);
  const double share = SharesInAWindow(s)["a"];
  EXPECT_GE(share, 0.19) << s.Story();
  EXPECT_LE(share, 0.26) << s.Story();
}

TEST(TimeGuaranteeTest, IsAGangsIfARanksIs) {
  Script s("fifo");
  for (const char* rank : {"r0", "r1"})
    s.Joins(rank, {.device = rank == std::string("r0") ? "gpu0" : "gpu1"});
  s.FormsGang("g", {"r0", "r1"});
  s.Joins("b", {.device = "gpu0"});
  s.Joins("c", {.device = "gpu0"});
  s.Guarantees("r0", 0.5);
  s.Asks("b");
  s.Asks("c");
  s.Passes(Milliseconds(40));
  s.Asks("r0");
  s.Asks("r1");
  s.Passes(Milliseconds(10));
  s.GivesUp("b");
  EXPECT_TRUE(s.Holds("r0") && s.Holds("r1")) << "c asked before it" << s.Story();
}

TEST(TimeGuaranteeTest, IsKeptByAJobThatComesBackOnANewConnection) {
  Script s("fifo");
  s.Joins("a", {.group = "g"});
  s.Guarantees("a", 0.3);
  wire::Join again = s.JobOf("a").info;
  again.rejoin = true;
  again.job = 1;
  again.group = "";
  s.Says("a", JobJoins{.join = again, .replaces = {1}});
  EXPECT_EQ(s.core().state().guarantees.at({Owner::Job(1), "gpu0"}).share(), 0.3);
  EXPECT_EQ(s.JobOf("a").info.group, "g");
}

// --- groups and users -----------------------------------------------------------------------------

TEST(GroupQuotaTest, AGuaranteeIsItsJobsTogether) {
  Script s("fifo");
  s.Joins("a", {.group = "g"});
  s.Joins("b", {.group = "g"});
  for (const char* other : {"c", "d", "e"}) s.Joins(other, {.step = Milliseconds(20)});
  s.Allows(Owner::Group("g"), {.time_guarantee = 0.5});
  for (const char* job : {"a", "b", "c", "d", "e"}) s.Lives(job);
  s.RunsFor(kWindow);
  auto shares = SharesInAWindow(s);
  EXPECT_NEAR(shares["a"] + shares["b"], 0.5, 0.01) << s.Story();
  EXPECT_NEAR(shares["a"], 0.25, 0.02) << "within the group the policy decides" << s.Story();
}

TEST(GroupQuotaTest, ACapIsItsJobsTogether) {
  for (const PolicyEntry& policy : AllPolicies()) {
    Script s(policy.name);
    s.Joins("a", {.group = "g"});
    s.Joins("b", {.group = "g"});
    s.Allows(Owner::Group("g"), {.time_cap = 0.3});
    s.Joins("c", {.priority = "low"});
    for (const char* job : {"a", "b", "c"}) s.Lives(job);
    s.RunsFor(kWindow);
    auto shares = SharesInAWindow(s);
    EXPECT_NEAR(shares["a"] + shares["b"], 0.3, 0.01) << policy.name << s.Story();
  }
}

TEST(GroupQuotaTest, ACapHoldsThoughTheDeviceIdles) {
  Script s("fair");
  s.Joins("a", {.group = "g"});
  s.Joins("b", {.group = "g"});
  s.Allows(Owner::Group("g"), {.time_cap = 0.3});
  for (const char* job : {"a", "b"}) s.Lives(job);
  s.RunsFor(Seconds(60));
  const absl::Duration had = s.TurnTimes().at("a") + s.TurnTimes().at("b");
  EXPECT_LE(had, Seconds(60) * 0.31) << s.Story();
  EXPECT_GE(had, Seconds(60) * 0.29) << s.Story();
}

TEST(GroupQuotaTest, AUserIsAllHisJobs) {
  Script s("fifo");
  s.Joins("a", {.user = 1});
  s.Joins("b", {.user = 1});
  s.Joins("c", {.user = 2});
  s.Allows(Owner::User(1), {.time_cap = 0.2});
  for (const char* job : {"a", "b", "c"}) s.Lives(job);
  s.RunsFor(kWindow);
  EXPECT_NEAR(SharesInAWindow(s)["c"], 0.8, 0.01) << s.Story();
}

TEST(GroupQuotaTest, ChangesWithTheGroupWhileJobsRun) {
  Script s("fifo");
  s.Joins("a");
  s.Joins("b");
  s.Allows(Owner::Group("g"), {.time_cap = 0.1});
  for (const char* job : {"a", "b"}) s.Lives(job);
  s.RunsFor(kWindow);
  EXPECT_NEAR(SharesInAWindow(s)["a"], 0.5, 0.01) << s.Story();
  s.Says("a", SetGroup{"g"});
  EXPECT_NEAR(SharesInAWindow(s)["a"], 0.1, 0.011) << s.Story();
  EXPECT_THAT(s.Why("a"), HasSubstr("its group g has had 10")) << s.Why("a");
  EXPECT_THAT(s.Why("a"), HasSubstr("the cap is 10 %")) << s.Why("a");
  EXPECT_THAT(s.Why("b"), Not(HasSubstr("cap"))) << s.Why("b");
  s.Allows(Owner::Group("g"), {});
  s.RunsFor(Seconds(1));
  EXPECT_NEAR(SharesInAWindow(s)["a"], 0.5, 0.01) << s.Story();
}

// holder, "inside" and "fellow" of a group, and one that is in none; all but the holder stand at their doors.
Script ThreeThatMayBeSpilled(Bytes guarantee) {
  Script s("fifo");
  s.Joins("holder", {.persistent = 10});
  s.Joins("outside", {.persistent = 20});
  s.Joins("inside", {.persistent = 30, .group = "g"});
  s.Joins("fellow", {.persistent = 40, .group = "g"});
  s.Allows(Owner::Group("g"), {.memory_guarantee = guarantee});
  s.Asks("holder");
  for (const char* job : {"outside", "inside", "fellow"}) {
    s.Passes(Milliseconds(1));
    s.Asks(job);
    s.StandsAtDoors(job);
  }
  return s;
}

TEST(GroupQuotaTest, OfItsMemoryWhatIsAboveTheGuaranteeIsSpilledFirst) {
  Script s = ThreeThatMayBeSpilled(50);
  s.NeedsRoom("holder", 35);
  EXPECT_EQ(s.Told<wire::Spill>("fellow")->bytes, 20u) << "70 less 50" << s.Story();
  EXPECT_EQ(s.TimesTold<wire::Spill>("inside"), 0) << s.Story();
  EXPECT_EQ(s.Told<wire::Spill>("outside")->bytes, 15u) << s.Story();
}

TEST(GroupQuotaTest, GuaranteedMemoryIsSpilledWhereAllElseIsNotEnough) {
  Script s = ThreeThatMayBeSpilled(70);
  s.NeedsRoom("holder", 25);
  EXPECT_EQ(s.Told<wire::Spill>("outside")->bytes, 25u) << s.Story();
  s.Spills("outside", 20);
  EXPECT_TRUE(s.Told<wire::Spill>("fellow")) << s.Story();
}

TEST(GroupQuotaTest, AGuaranteeOfMemoryIsNothingToTheGroupsOwnJobs) {
  Script s = ThreeThatMayBeSpilled(70);
  s.Says("holder", SetGroup{"g"});
  s.NeedsRoom("holder", 25);
  EXPECT_EQ(s.Told<wire::Spill>("fellow")->bytes, 25u) << s.Story();
}

TEST(GroupQuotaTest, IsThereForAJobThatComesLaterAndForgottenWithTheLast) {
  Script s("fifo");
  s.Allows(Owner::Group("g"), {.time_cap = 0.1, .time_guarantee = 0.05});
  s.Joins("b");
  EXPECT_TRUE(s.core().state().accounts.empty());
  s.Joins("a", {.group = "g"});
  EXPECT_EQ(s.core().state().accounts.count({Owner::Group("g"), "gpu0"}), 1u);
  EXPECT_EQ(s.core().state().guarantees.count({Owner::Group("g"), "gpu0"}), 1u);
  s.Dies("a");
  EXPECT_TRUE(s.core().state().accounts.empty());
  EXPECT_TRUE(s.core().state().guarantees.empty());
  EXPECT_EQ(s.core().state().quotas.size(), 1u);
}

}  // namespace
}  // namespace hocket::coordinator
