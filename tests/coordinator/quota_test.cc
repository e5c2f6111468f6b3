// Time caps: they hold under every policy, whoever else is there, and nobody hangs because of one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "coordinator/policies/registry.h"
#include "tests/coordinator/script.h"

namespace hocket::coordinator {
namespace {

using absl::Milliseconds;
using absl::Seconds;
using testing::HasSubstr;
using testing::Not;

constexpr absl::Duration kCapWindow = Seconds(10);
constexpr absl::Duration kPoint = Milliseconds(100);  // 1 % of the window

// The most that `name` has had in any 10 s: such a window ends with one of its turns.
absl::Duration MostInAWindow(const Script& s, const std::string& name) {
  absl::Duration most;
  std::vector<TurnEnded> own;
  for (const TurnEnded& turn : s.turns()) {
    if (turn.name == name) own.push_back(turn);
  }
  for (size_t last = 0, first = 0; last < own.size(); ++last) {
    const absl::Time begin = own[last].end - kCapWindow;
    while (own[first].end <= begin) ++first;
    absl::Duration had;
    for (size_t i = first; i <= last; ++i) had += own[i].end - std::max(begin, own[i].start + own[i].ready);
    most = std::max(most, had);
  }
  return most;
}

// Jobs "capped" and others, which run for a while.
struct Scene {
  double cap = 0.25;
  Part capped;
  std::vector<Part> others;
  absl::Duration time = Seconds(60);
};

Script Plays(const std::string& policy, const Scene& scene) {
  Script s(policy);
  s.Joins("capped", scene.capped);
  s.Caps("capped", scene.cap);
  for (size_t i = 0; i < scene.others.size(); ++i) s.Joins("other" + std::to_string(i), scene.others[i]);
  s.Lives("capped");
  for (size_t i = 0; i < scene.others.size(); ++i) s.Lives("other" + std::to_string(i));
  s.RunsFor(scene.time);
  return s;
}

// Of all time, not only of what was used.
double ShareOfTime(const Script& s, const std::string& name, absl::Duration time) {
  const auto times = s.TurnTimes();
  auto found = times.find(name);
  return found == times.end() ? 0 : absl::FDivDuration(found->second, time);
}

absl::Duration LongestStep(const Scene& scene) {
  absl::Duration longest = scene.capped.step;
  for (const Part& other : scene.others) longest = std::max(longest, other.step);
  return longest;
}

class CapContract : public testing::TestWithParam<PolicyEntry> {
 protected:
  std::string name() const { return GetParam().name; }
};

TEST_P(CapContract, HoldsThoughNobodyElseWaitsAndTheDeviceIdles) {
  const Scene scene = {.cap = 0.25, .capped = {.step = Milliseconds(10)}};
  Script s = Plays(name(), scene);
  EXPECT_LE(MostInAWindow(s, "capped"), kCapWindow * 0.26) << s.Story();
  EXPECT_GE(ShareOfTime(s, "capped", scene.time), 0.24) << s.Story();
}

TEST_P(CapContract, OthersTakeTheRest) {
  const Scene scene = {.cap = 0.25, .capped = {.step = Milliseconds(10)}, .others = {{}, {}}};
  Script s = Plays(name(), scene);
  EXPECT_LE(MostInAWindow(s, "capped"), kCapWindow * 0.26) << s.Story();
  EXPECT_GE(ShareOfTime(s, "capped", scene.time), 0.24) << s.Story();
  // More where they have run at the same time.
  EXPECT_GE(ShareOfTime(s, "other0", scene.time) + ShareOfTime(s, "other1", scene.time), 0.74) << s.Story();
}

TEST_P(CapContract, AStepLongerThanTheCapAllowsInTenSecondsIsRunAndPaidFor) {
  const Scene scene = {.cap = 0.05, .capped = {.step = Seconds(2)}, .others = {{}}, .time = Seconds(400)};
  Script s = Plays(name(), scene);
  EXPECT_GE(s.Steps("capped"), 8u) << s.Story();
  EXPECT_LE(s.Steps("capped"), 10u) << s.Story();
}

TEST_P(CapContract, NobodyStarvesWhoeverIsCapped) {
  Script s(name());
  for (const char* job : {"a", "b", "c"}) {
    s.Joins(job);
    s.Caps(job, 0.05);
  }
  s.Joins("long", {.step = Milliseconds(900)});
  for (const char* job : {"a", "b", "c", "long"}) s.Lives(job);
  s.RunsFor(Seconds(100));
  for (const char* job : {"a", "b", "c", "long"}) EXPECT_GT(s.Turns(job), 10) << job << s.Story();
}

TEST_P(CapContract, WhatAJobDoesNotUseBetweenTwoStepsIsNotCounted) {
  const Scene scene = {.cap = 0.3, .capped = {.step = Milliseconds(20), .gap = Milliseconds(80)}};
  Script s = Plays(name(), scene);
  EXPECT_GE(s.Steps("capped"), 590u) << "it uses 25 %, the 5 ms until it counts as idle included"
                                     << s.Story();
}

std::string CappedUnder(const testing::TestParamInfo<PolicyEntry>& policy) {
  std::string name = policy.param.name;
  name.erase(std::remove(name.begin(), name.end(), '-'), name.end());
  return name;
}
INSTANTIATE_TEST_SUITE_P(All, CapContract, testing::ValuesIn(AllPolicies()), CappedUnder);

// --- any caps, any steps --------------------------------------------------------------------------

class AnyScene {
 public:
  explicit AnyScene(std::uint64_t seed) : random_(seed) {}

  Scene Next() {
    Scene scene = {.cap = std::uniform_real_distribution(0.02, 0.98)(random_), .capped = AnyPart()};
    while (random_() % 3 != 0) scene.others.push_back(AnyPart());
    return scene;
  }
  std::string Policy() {
    const auto& all = AllPolicies();
    return all[random_() % all.size()].name;
  }

 private:
  Part AnyPart() {
    constexpr int kSteps[] = {1, 3, 10, 50, 120, 400, 1500};
    constexpr int kGaps[] = {0, 0, 0, 2, 20, 150};
    return {.step = Milliseconds(kSteps[random_() % std::size(kSteps)]),
            .gap = Milliseconds(kGaps[random_() % std::size(kGaps)]),
            .ready = Milliseconds(random_() % 4)};
  }
  std::mt19937_64 random_;
};

std::string ToText(const Scene& scene) {
  std::string text = absl::StrCat("cap ", scene.cap, ", steps of ", absl::FormatDuration(scene.capped.step),
                                  " gaps of ", absl::FormatDuration(scene.capped.gap));
  for (const Part& other : scene.others)
    absl::StrAppend(&text, "; other: ", absl::FormatDuration(other.step), " ",
                    absl::FormatDuration(other.gap));
  return text;
}

class AnyCapTest : public testing::TestWithParam<std::uint64_t> {};

TEST_P(AnyCapTest, HoldsInEveryWindowWithinAPointOrTheLongestStep) {
  AnyScene any(2 * GetParam());
  for (int i = 0; i < 10; ++i) {
    const std::string policy = any.Policy();
    const Scene scene = any.Next();
    Script s = Plays(policy, scene);
    const absl::Duration allowed = std::max(kPoint, LongestStep(scene)) + Milliseconds(1);
    EXPECT_LE(MostInAWindow(s, "capped"), kCapWindow * scene.cap + allowed)
        << policy << " " << ToText(scene) << s.Story();
  }
}

TEST_P(AnyCapTest, IsReachedByAJobThatIsAloneOrEqualToOneOther) {
  AnyScene any(2 * GetParam() + 1);
  for (int i = 0; i < 10; ++i) {
    Scene scene = any.Next();
    scene.capped.gap = absl::ZeroDuration();
    scene.others.resize(std::min<size_t>(scene.others.size(), 1));
    if (!scene.others.empty()) scene.cap = std::min(scene.cap, 0.45);  // or it is its share that binds
    Script s = Plays("fair", scene);
    const double allowed =
        0.01 + absl::FDivDuration(std::max(kPoint, LongestStep(scene)), scene.time) + 0.02 * scene.cap;
    EXPECT_GE(ShareOfTime(s, "capped", scene.time), scene.cap - allowed) << ToText(scene) << s.Story();
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, AnyCapTest, testing::Range<std::uint64_t>(1, 7));

// --- live -----------------------------------------------------------------------------------------

TEST(TimeCapTest, SetInATurnItEndsThatAfterTheStep) {
  Script s;
  s.Joins("a", {.step = Milliseconds(10)});
  s.Lives("a");
  s.RunsFor(Seconds(100));
  ASSERT_EQ(s.turns().size(), 0u) << "alone it keeps its turn";
  s.Caps("a", 0.1);
  const auto before = s.Steps("a");
  s.RunsFor(Seconds(100));
  EXPECT_NEAR(static_cast<double>(s.Steps("a") - before), 1000, 15) << s.Story();
}

TEST(TimeCapTest, RemovedWhileItWaitsItGoesOnAtOnceAndDoesNotCatchUp) {
  Script s("fair");
  s.Joins("capped", {.step = Milliseconds(500)});
  s.Joins("other");
  s.Caps("capped", 0.01);
  s.Lives("capped");
  s.Lives("other");
  s.RunsFor(Seconds(40));
  ASSERT_TRUE(s.JobOf("capped").held_back) << s.Story();
  s.Caps("capped", 0);
  EXPECT_FALSE(s.JobOf("capped").held_back);
  s.RunsFor(Milliseconds(10));
  EXPECT_EQ(s.Holder(), "capped") << s.Story();
  const auto before = s.Steps("other");
  s.RunsFor(Seconds(10));
  EXPECT_GT(s.Steps("other") - before, 350u) << "of 500" << s.Story();
}

TEST(TimeCapTest, ALowerOneCountsWhatItHasHadInItsTurnByTheOldOne) {
  Script s;
  s.Joins("a");
  s.Caps("a", 0.5);
  s.Asks("a");
  s.Passes(Seconds(1));  // at 50 %: a debt of half a second
  s.Caps("a", 0.1);
  s.GivesUp("a");
  s.Asks("a");
  EXPECT_TRUE(s.JobOf("a").held_back) << s.Story();
  s.Passes(Seconds(4.9));
  EXPECT_FALSE(s.Holds("a")) << s.Story();
  s.Passes(Seconds(0.3));
  EXPECT_TRUE(s.Holds("a")) << s.Story();
}

TEST(TimeCapTest, SettingTheSameOneAgainGivesNothing) {
  Script s;
  s.Joins("a");
  s.Lives("a");
  s.Caps("a", 0.1);
  const auto before = s.Steps("a");
  for (int i = 0; i < 1000; ++i) {
    s.Caps("a", 0.1);
    s.RunsFor(Milliseconds(37));
  }
  EXPECT_LE(s.Steps("a") - before, 380u) << "of 3700" << s.Story();
}

TEST(TimeCapTest, OfAJobThatHasDiedInItsTurnNothingIsLeft) {
  Script s;
  s.Joins("a");
  s.Caps("a", 0.5);
  s.Asks("a");
  s.Dies("a");
  EXPECT_EQ(s.core().TimeAccountOf(s.IdOf("a")), nullptr);
  EXPECT_TRUE(s.core().state().accounts.empty());
}

TEST(TimeCapTest, ACappedJobThatWaitsIsNotWaitedFor) {
  Script s;
  s.Joins("capped", {.step = Milliseconds(100)});
  s.Joins("other");
  s.Caps("capped", 0.1);
  s.Asks("capped");
  s.Passes(Milliseconds(100));
  s.GivesUp("capped");
  s.Asks("capped");
  s.Asks("other");
  EXPECT_TRUE(s.Holds("other")) << s.Story();
  EXPECT_EQ(s.TimesTold<wire::Yield>("other"), 0) << "nobody could have its turn" << s.Story();
  s.Passes(Seconds(2));
  EXPECT_TRUE(s.Told<wire::Yield>("other")->now) << "now it could" << s.Story();
}

TEST(TimeCapTest, OfTwoDevicesEachIsItsOwn) {
  Script s;
  s.Joins("a", {.device = "gpu0"});
  s.Joins("b", {.device = "gpu1"});
  s.Caps("a", 0.1);
  s.Lives("a");
  s.Lives("b");
  s.RunsFor(Seconds(10));
  EXPECT_GT(s.Steps("b"), 990u) << s.Story();
  EXPECT_LT(s.Steps("a"), 115u) << s.Story();
}

TEST(TimeCapTest, BringingItsBytesBackIsNoUseOfTheDevice) {
  Script s;
  s.Joins("a", {.step = Milliseconds(10), .ready = Milliseconds(5)});
  s.Caps("a", 0.2);
  s.Lives("a");
  s.RunsFor(Seconds(60));
  EXPECT_GE(ShareOfTime(s, "a", Seconds(60)), 0.19) << s.Story();
}

// A turn of one step would cost more than it gives.
TEST(TimeCapTest, WhereBytesHaveToMoveItsTurnsAreLongInsteadOfMany) {
  Script s("fair", /*capacity=*/100);
  s.Joins("capped", {.spilled = 80, .restore_time = Milliseconds(200)});
  s.Joins("other", {.persistent = 80, .restore_time = Milliseconds(200)});
  s.Caps("capped", 0.2);
  s.Lives("other");  // first: it can be moved when it has had a turn
  s.Lives("capped");
  s.RunsFor(Seconds(200));
  EXPECT_LE(ShareOfTime(s, "capped", Seconds(200)), 0.21) << s.Story();
  EXPECT_GE(ShareOfTime(s, "capped", Seconds(200)), 0.17) << s.Story();
  EXPECT_LE(s.Turns("capped"), 40) << "they cost 200 ms each" << s.Story();
}

TEST(TimeCapTest, AGapThatIsShorterThanMovingItsBytesEndsNoTurn) {
  Script s("fair", /*capacity=*/100);
  s.Joins("capped", {.spilled = 80, .gap = Milliseconds(10), .restore_time = Milliseconds(200)});
  s.Joins("other", {.persistent = 80, .restore_time = Milliseconds(200)});
  s.Caps("capped", 0.5);
  s.Lives("other");  // first: it can be moved when it has had a turn
  s.Lives("capped");
  s.RunsFor(Seconds(200));
  EXPECT_LE(s.Turns("capped"), 60) << "they cost 200 ms each" << s.Story();
  EXPECT_GE(s.Steps("capped"), 3000u) << s.Story();
}

TEST(TimeCapTest, ProductionIsNotDelayedByOthersWhileItsCapHoldsItBack) {
  Script s("priority");
  s.Joins("production", {.priority = "high", .step = Milliseconds(50)});
  s.Joins("other", {.step = Milliseconds(20)});
  s.Caps("production", 0.5);
  s.Lives("production");
  s.Lives("other");
  s.RunsFor(Seconds(60));
  EXPECT_GE(ShareOfTime(s, "production", Seconds(60)), 0.48) << s.Story();
  EXPECT_GE(ShareOfTime(s, "other", Seconds(60)), 0.45) << s.Story();
}

// --- gangs ----------------------------------------------------------------------------------------

TEST(CappedGangTest, StopsTogetherAndIsHeldBackAsAWhole) {
  Script s;
  for (const char* rank : {"r0", "r1"})
    s.Joins(rank, {.device = rank == std::string("r0") ? "gpu0" : "gpu1"});
  s.FormsGang("g", {"r0", "r1"});
  s.Caps("r1", 0.25);
  s.Asks("r0");
  s.Asks("r1");
  ASSERT_TRUE(s.Holds("r0") && s.Holds("r1")) << s.Story();
  const auto yield = s.Told<wire::Yield>("r0");
  ASSERT_TRUE(yield && yield->now) << "it has nothing saved: one step" << s.Story();
  EXPECT_EQ(yield->stop_step, s.Told<wire::Yield>("r1")->stop_step);
  for (const char* rank : {"r0", "r1"}) s.Acknowledges(rank, true, 0);
  s.Passes(Milliseconds(100));
  for (const char* rank : {"r0", "r1"}) s.GivesUp(rank);
  for (const char* rank : {"r0", "r1"}) s.Asks(rank);
  EXPECT_FALSE(s.Holds("r0") || s.Holds("r1")) << s.Story();
  EXPECT_THAT(s.Why("r0"), HasSubstr("r1, of its gang, has had 100.0 % of the last 0.1 s, the cap is 25 %"));
  s.Passes(Seconds(1));
  EXPECT_TRUE(s.Holds("r0") && s.Holds("r1")) << s.Story();
}

TEST(CappedGangTest, ARankThatComesBackInTheMidstOfTheTurnHasItsPartAgain) {
  Script s;
  for (const char* rank : {"r0", "r1"}) s.Joins(rank);
  s.FormsGang("g", {"r0", "r1"});
  s.Caps("r0", 0.1);
  s.Asks("r0");
  s.Asks("r1");
  for (const char* rank : {"r0", "r1"}) s.Acknowledges(rank, true, 0);
  s.Passes(Milliseconds(100));
  s.GivesUp("r0", {.steps = 0});  // idle, before the stop: its fellow may wait for it
  s.Asks("r0");
  EXPECT_TRUE(s.Holds("r0")) << "it has had its part, but its fellow still steps" << s.Story();
}

// --- restarts -------------------------------------------------------------------------------------

TEST(TimeCapTest, WhatAJobHasHadIsRememberedAcrossARestart) {
  Script s;
  s.Joins("a");
  s.Caps("a", 0.1);
  s.Asks("a");
  s.Passes(Seconds(1));
  s.GivesUp("a");
  const TimeAccount account = *s.core().TimeAccountOf(s.IdOf("a"));
  EXPECT_EQ(account.credit(), Milliseconds(-900));
  s.CoordinatorRestarts({1});
  s.Joins("a",
          {.rejoin = true, .id = 1, .time = TimeAccount(account.cap(), account.as_of(), account.credit())});
  s.Asks("a");
  s.Passes(Seconds(8.9));
  EXPECT_FALSE(s.Holds("a")) << s.Story();
  s.Passes(Seconds(0.2));
  EXPECT_TRUE(s.Holds("a")) << s.Story();
}

TEST(TimeCapTest, AJobThatComesBackOnANewConnectionHasTheSameAccount) {
  Script s;
  s.Joins("a");
  s.Caps("a", 0.1);
  s.Asks("a");
  s.Passes(Seconds(1));
  s.GivesUp("a");
  wire::Join again = s.JobOf("a").info;
  again.rejoin = true;
  again.job = 1;
  s.Says("a", JobJoins{.join = again, .replaces = {1}});
  s.Asks("a");
  EXPECT_FALSE(s.Holds("a")) << s.Story();
  s.Passes(Seconds(9.1));
  EXPECT_TRUE(s.Holds("a")) << s.Story();
}

// --- explain --------------------------------------------------------------------------------------

TEST(TimeCapTest, ExplainShowsTheArithmetic) {
  Script s;
  s.Joins("a");
  s.Caps("a", 0.25);
  s.Passes(Seconds(20));
  s.Asks("a");
  s.Passes(Seconds(1.5));
  s.Says("a", Tick{});
  EXPECT_THAT(s.Why("a"), HasSubstr("has had 15.0 % of the last 10.0 s, its cap is 25 %")) << s.Story();
  s.Passes(Seconds(1));
  s.GivesUp("a");
  s.Asks("a");
  EXPECT_THAT(s.Why("a"), HasSubstr("has had 25.0 % of the last 10.0 s, its cap is 25 %; may go on in 7.5 s"))
      << s.Story();
  EXPECT_EQ(s.core().StateOf(1), "waits");
  s.Caps("a", 0);
  EXPECT_THAT(s.Why("a"), Not(HasSubstr("cap")));
}

}  // namespace
}  // namespace hocket::coordinator
