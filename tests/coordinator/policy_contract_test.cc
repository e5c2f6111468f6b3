// What every policy promises. A new policy takes part by being in AllPolicies(). So do those that
// coordinator/own/README.md shows to whoever writes one of his own, as programs that are asked.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "coordinator/own/own_policy.h"
#include "coordinator/policies/registry.h"
#include "tests/coordinator/script.h"

namespace hocket::coordinator {
namespace {

using absl::Milliseconds;
using absl::Seconds;

struct Case {
  std::string title;  // of the test
  std::string name;   // registered, or the command of an own one
  bool shares = true;
};

void PrintTo(const Case& policy, std::ostream* out) { *out << policy.title; }

class PolicyContract : public testing::TestWithParam<Case> {
 protected:
  Script Scene() {
    if (!IsOwnPolicy(GetParam().name)) return Script(GetParam().name);
    return Script([this](const std::string&) { return MakeOwn(); }, /*capacity=*/100);
  }
  // It decides to the end.
  void TearDown() override { EXPECT_EQ(trouble_, ""); }

 private:
  std::unique_ptr<Policy> MakeOwn() {
    const auto give_up = [this](const std::string& why) { trouble_ = why; };
    auto policy = std::make_unique<OwnPolicy>(GetParam().name,
                                              OwnPolicyOptions{.patience = kPatience, .give_up = give_up});
    policy->Await(kPatience);
    return policy;
  }

  static constexpr absl::Duration kPatience =
      absl::Minutes(5);  // for what hangs: a busy machine takes its time
  std::string trouble_;
};

// Of those that give equal jobs equal parts at any time.
class SharingContract : public PolicyContract {};

TEST_P(PolicyContract, EveryWaitingJobRunsInTheEnd) {
  Script s = Scene();
  s.Joins("short", {.step = Milliseconds(10)});
  s.Joins("long", {.step = Milliseconds(900)});
  s.Joins("light", {.weight = 0.1, .priority = "low"});
  s.Joins("heavy", {.weight = 10, .priority = "high"});
  const auto jobs = {"short", "long", "light", "heavy"};
  for (const char* job : jobs) s.Lives(job);
  const auto has_run = [&s](const char* job) { return s.Turns(job) > 0; };
  for (int tens = 0; tens < 40 && !std::all_of(jobs.begin(), jobs.end(), has_run); ++tens)
    s.RunsFor(Seconds(10));
  for (const char* job : jobs) EXPECT_TRUE(has_run(job)) << job << s.Story();
}

TEST_P(PolicyContract, TheDeviceIsNeverFreeWhileSomebodyWaits) {  // CheckInvariants() says so at every event
  Script s = Scene();
  for (const char* job : {"a", "b", "c"}) s.Joins(job, {.step = Milliseconds(7), .gap = Milliseconds(3)});
  for (const char* job : {"a", "b", "c"}) s.Lives(job);
  s.RunsFor(Seconds(10));
  EXPECT_GE(s.Steps("a") + s.Steps("b") + s.Steps("c"), 1000u) << s.Story();
}

TEST_P(SharingContract, EqualJobsGetEqualShares) {
  Script s = Scene();
  for (const char* job : {"a", "b", "c"}) s.Joins(job);
  for (const char* job : {"a", "b", "c"}) s.Lives(job);
  s.RunsFor(Seconds(30));
  for (const char* job : {"a", "b", "c"}) EXPECT_NEAR(s.Share(job), 1.0 / 3, 0.01) << job << s.Story();
}

TEST_P(SharingContract, ANewcomerStarvesNobodyAndIsNotStarved) {
  Script s = Scene();
  s.Joins("old");
  s.Lives("old");
  s.RunsFor(Seconds(100));
  s.Joins("new");
  s.Lives("new");
  const auto before = s.Steps("old");
  s.RunsFor(Seconds(2));
  EXPECT_GT(s.Steps("old") - before, 80u) << s.Story();
  EXPECT_GT(s.Steps("new"), 80u) << s.Story();
}

TEST_P(PolicyContract, TheDepartedLeaveNoTrace) {
  Script s = Scene();
  s.Joins("a");
  s.Joins("b");
  s.Lives("a");
  s.Lives("b");
  s.RunsFor(Seconds(1));
  s.Dies("b");
  s.RunsFor(Seconds(1));
  EXPECT_GT(s.Steps("a"), 140u) << s.Story();
}

TEST_P(PolicyContract, TheSameEventsGiveTheSameTurns) {
  auto order = [this] {
    Script s = Scene();
    s.Joins("a", {.weight = 2, .step = Milliseconds(13)});
    s.Joins("b", {.step = Milliseconds(7)});
    s.Joins("c", {.priority = "high", .gap = Milliseconds(5)});
    for (const char* job : {"a", "b", "c"}) s.Lives(job);
    s.RunsFor(Seconds(5));
    std::string names;
    for (const TurnEnded& turn : s.turns()) names += turn.name;
    return names;
  };
  EXPECT_EQ(order(), order());
}

TEST_P(PolicyContract, ItsReasonIsGivenWithTheTurn) {
  Script s = Scene();
  s.Joins("a");
  s.Asks("a");
  EXPECT_FALSE(s.Told<wire::Grant>("a")->reason.empty());
}

std::string TitleOf(const testing::TestParamInfo<Case>& policy) { return policy.param.title; }

std::vector<Case> All() {
  std::vector<Case> all = {{"OwnInCpp", HOCKET_EXAMPLE_IN_CPP}};
#ifdef HOCKET_EXAMPLE_IN_PYTHON
  all.push_back({"OwnInPython", HOCKET_EXAMPLE_IN_PYTHON});
#endif
  for (const PolicyEntry& entry : AllPolicies()) {
    std::string title = entry.name;
    std::erase(title, '-');
    all.push_back({title, entry.name, entry.shares});
  }
  return all;
}

std::vector<Case> Sharing() {
  std::vector<Case> sharing = All();
  std::erase_if(sharing, [](const Case& policy) { return !policy.shares; });
  return sharing;
}

INSTANTIATE_TEST_SUITE_P(All, PolicyContract, testing::ValuesIn(All()), TitleOf);
INSTANTIATE_TEST_SUITE_P(All, SharingContract, testing::ValuesIn(Sharing()), TitleOf);

// --- what each promises beyond that ---------------------------------------------------------------

TEST(FairTest, TwiceTheWeightGetsTwiceTheDeviceTime) {
  Script s("fair");
  s.Joins("light", {.weight = 1});
  s.Joins("heavy", {.weight = 2});
  s.Lives("light");
  s.Lives("heavy");
  s.RunsFor(Seconds(30));
  EXPECT_NEAR(s.Share("heavy"), 2.0 / 3, 0.01) << s.Story();
}

TEST(FairTest, SharesAreOfTimeNotOfSteps) {
  Script s("fair");
  s.Joins("short", {.step = Milliseconds(10)});
  s.Joins("long", {.step = Milliseconds(200)});
  s.Lives("short");
  s.Lives("long");
  s.RunsFor(Seconds(30));
  EXPECT_NEAR(s.Share("short"), 0.5, 0.02) << s.Story();
}

TEST(FairTest, APriorityIsAFactorOfFour) {
  Script s("fair");
  s.Joins("high", {.priority = "high"});
  s.Joins("normal");
  s.Joins("low", {.priority = "low"});
  for (const char* job : {"high", "normal", "low"}) s.Lives(job);
  s.RunsFor(Seconds(60));
  EXPECT_NEAR(s.Share("high") / s.Share("normal"), 4, 0.2) << s.Story();
  EXPECT_NEAR(s.Share("normal") / s.Share("low"), 4, 0.2) << s.Story();
}

TEST(FairTest, UsersShareFirstThenTheirJobs) {
  Script s("fair");
  s.Joins("alone", {.user = 1});
  for (const char* job : {"b1", "b2", "b3"}) s.Joins(job, {.user = 2});
  for (const char* job : {"alone", "b1", "b2", "b3"}) s.Lives(job);
  s.RunsFor(Seconds(30));
  EXPECT_NEAR(s.Share("alone"), 0.5, 0.02) << s.Story();
  EXPECT_NEAR(s.Share("b2"), 0.5 / 3, 0.02) << s.Story();
}

TEST(FairTest, UsersShareByTheirWeights) {
  Script s("fair");
  s.Allows(Owner::User(1), {.weight = 3});
  s.Joins("alone", {.user = 1});
  for (const char* job : {"b1", "b2"}) s.Joins(job, {.weight = 8, .user = 2});
  for (const char* job : {"alone", "b1", "b2"}) s.Lives(job);
  s.RunsFor(Seconds(30));
  EXPECT_NEAR(s.Share("alone"), 0.75, 0.02) << s.Story();
  EXPECT_NEAR(s.Share("b2"), 0.25 / 2, 0.02) << s.Story();
  s.Allows(Owner::User(1), {});
  s.RunsFor(Seconds(60));
  EXPECT_NEAR(s.Share("alone"), (0.75 * 30 + 0.5 * 60) / 90, 0.02) << s.Story();
}

TEST(FairTest, WhoComesBackAfterAPauseDoesNotCatchUp) {
  Script s("fair");
  s.Joins("a");
  s.Joins("b");
  s.Lives("a");
  s.Lives("b");
  s.RunsFor(Seconds(1));
  s.Pauses("b");
  s.RunsFor(Seconds(30));
  s.Resumes("b");
  const auto before = s.Steps("a");
  s.RunsFor(Seconds(10));
  EXPECT_GT(s.Steps("a") - before, 400u) << s.Story();
}

TEST(RoundRobinTest, GoesInACircleWhoeverAskedFirst) {
  Script s("round-robin");
  for (const char* job : {"a", "b", "c"}) s.Joins(job);
  s.Asks("a");
  s.Asks("c");
  s.Asks("b");
  s.GivesUp("a");
  EXPECT_EQ(s.Holder(), "b") << s.Story();
  s.Asks("a");
  s.GivesUp("b");
  EXPECT_EQ(s.Holder(), "c") << s.Story();
}

// It is behind the holder in the circle, however early it joined.
TEST(RoundRobinTest, WhoAsksWhileOneBehindItHasTheTurnWaitsForARound) {
  Script s("round-robin");
  for (const char* job : {"a", "b", "c"}) s.Joins(job);
  s.Asks("b");
  s.Asks("a");
  s.Asks("c");
  s.GivesUp("b");
  EXPECT_EQ(s.Holder(), "c") << s.Story();
}

TEST(FifoTest, GoesByTheTimeOfAsking) {
  Script s("fifo");
  for (const char* job : {"a", "b", "c"}) s.Joins(job);
  for (const char* job : {"a", "c", "b"}) {
    s.Asks(job);
    s.Passes(Milliseconds(1));
  }
  s.GivesUp("a");
  EXPECT_EQ(s.Holder(), "c") << s.Story();
}

TEST(RegistryTest, AnUnknownNameListsTheKnownOnes) {
  const std::string text(MakePolicy("lottery").status().message());
  EXPECT_EQ(text,
            "there is no policy 'lottery'. The policies are: fair, fifo, pack, priority, round-robin, srtf.");
}

}  // namespace
}  // namespace hocket::coordinator
