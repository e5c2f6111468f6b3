// Several jobs in one turn: who may, what becomes of their memory and lanes, how they are measured, and what
// happens when one of them goes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "coordinator/core/limits.h"
#include "tests/coordinator/script.h"

namespace hocket::coordinator {
namespace {

using absl::Milliseconds;
using absl::Seconds;
using testing::HasSubstr;

// First come, first served, and all at the same time whom the test allows.
class AllTogether final : public Policy {
 public:
  bool Before(const JobView& a, const JobView& b) const override { return a.asked < b.asked; }
  std::string Reason(const JobView&) const override { return "is next"; }
  bool RunsSeveral() const override { return true; }
  bool Together(const std::vector<JobView>& members) const override { return members.size() <= most; }
  static inline std::size_t most = 2;
};

// Jobs that have had a turn, and do nothing now.
class GuestTest : public testing::Test {
 protected:
  GuestTest() { AllTogether::most = 2; }
  void Join(const std::string& name, Part part = {}, Bytes transient = 0) {
    s.Joins(name, part);
    s.Asks(name);
    s.GivesUp(name, {.movable = true, .transient = transient});
  }
  Script s{[](const std::string&) { return std::make_unique<AllTogether>(); }, 100};
};

TEST_F(GuestTest, RunsBesideTheHolderInALaneOfItsOwn) {
  Join("a");
  Join("b");
  s.Asks("a");
  s.Asks("b");
  EXPECT_EQ(s.Holder(), "a, b") << s.Story();
  const wire::Grant guest = *s.Told<wire::Grant>("b");
  EXPECT_THAT(guest.lane_lock, HasSubstr("-1.lock")) << s.Story();
  EXPECT_TRUE(guest.fresh_arena && !guest.contended) << s.Story();
  EXPECT_EQ(guest.turn, s.Told<wire::Grant>("a")->turn);
  EXPECT_EQ(s.TimesTold<wire::Yield>("a"), 0) << s.Story();
  EXPECT_THAT(s.Why("a"), HasSubstr("runs beside b"));
}

TEST_F(GuestTest, WhoHasGuestsFromTheBeginningIsNotAskedForItsGaps) {
  for (const char* job : {"a", "b", "c"}) Join(job);
  AllTogether::most = 1;
  for (const char* job : {"c", "a", "b"}) s.Asks(job);
  AllTogether::most = 2;
  s.GivesUp("c");
  EXPECT_EQ(s.Holder(), "a, b") << s.Story();
  EXPECT_FALSE(s.Told<wire::Grant>("a")->contended) << s.Story();
}

// Both would grow at the same time.
TEST_F(GuestTest, JobsWithAMemoryCapTogetherDoNotRunBesideEachOther) {
  Join("a", {.group = "vision"});
  Join("b", {.group = "vision"});
  s.Asks("a");
  s.Asks("b");
  ASSERT_EQ(s.Holder(), "a, b") << s.Story();
  s.Allows(Owner::Group("vision"), {.memory_cap = 60});
  EXPECT_TRUE(s.Told<wire::Yield>("a")->now && s.Told<wire::Yield>("b")->now) << s.Story();
  s.GivesUp("a");
  s.GivesUp("b");
  s.Asks("a");
  s.Asks("b");
  EXPECT_EQ(s.Holder(), "a") << s.Story();
}

TEST_F(GuestTest, WhoHasNeverHadATurnHasNeitherGuestsNorIsOne) {
  Join("a");
  s.Joins("new");
  s.Asks("a");
  s.Asks("new");
  EXPECT_EQ(s.Holder(), "a") << s.Story();
  s.GivesUp("a");
  s.Asks("a");
  EXPECT_EQ(s.Holder(), "new") << s.Story();
}

TEST_F(GuestTest, ComesOnlyWhereItsBytesFitBesideWhatTheHolderWillNeed) {
  Join("a", {.persistent = 30}, 20);
  Join("b", {.persistent = 20}, 31);
  s.Asks("a");
  s.Asks("b");  // 100 - 30 - 20, of which a's arena will take 20
  EXPECT_EQ(s.Holder(), "a") << s.Story();
  s.GivesUp("a", {.movable = true, .transient = 19});
  s.Asks("a");
  EXPECT_EQ(s.Holder(), "a, b") << s.Story();
}

TEST_F(GuestTest, NobodyIsMovedForIt) {
  Join("a", {.persistent = 40});
  Join("b", {.spilled = 30});
  Join("idle", {.persistent = 40});
  s.Asks("a");
  s.Asks("b", {.need = 30});
  EXPECT_EQ(s.Holder(), "a") << s.Story();
  EXPECT_EQ(s.TimesTold<wire::Spill>("idle"), 0) << s.Story();
}

TEST_F(GuestTest, WhoWaitsForMoreThanTheyAreStopsThemAll) {
  for (const char* job : {"a", "b", "c"}) Join(job);
  for (const char* job : {"a", "b", "c"}) s.Asks(job);
  EXPECT_EQ(s.Holder(), "a, b") << s.Story();
  EXPECT_TRUE(s.Told<wire::Yield>("a")->now && s.Told<wire::Yield>("b")->now) << s.Story();
  s.GivesUp("b");
  s.Asks("b");
  EXPECT_EQ(s.Holder(), "a") << s.Story();
  s.GivesUp("a");
  EXPECT_EQ(s.Holder(), "b, c") << s.Story();
}

TEST_F(GuestTest, IsTheHolderWhenTheHolderHasGone) {
  Join("a");
  Join("b");
  s.Asks("a");
  s.Asks("b");
  s.GivesUp("a");
  EXPECT_EQ(s.Holder(), "b") << s.Story();
  EXPECT_THAT(s.Why("b"), Not(HasSubstr("beside a;"))) << s.Why("b");
  s.Asks("a");  // and has a guest again
  EXPECT_EQ(s.Holder(), "a, b") << s.Story();
  s.GivesUp("b");
  s.GivesUp("a");
  EXPECT_EQ(s.Holder(), "") << s.Story();
}

TEST_F(GuestTest, ItsDeathDropsTheArenaOfItsLaneOnly) {
  Join("a", {.persistent = 1}, 10);
  Join("b", {.persistent = 1}, 10);
  Join("idle");
  s.Asks("a");
  s.Grows("a", 7, 10);
  s.Asks("b");
  s.Grows("b", 8, 10);
  EXPECT_EQ(s.core().Arena(s.core().state().devices.at("gpu0")), 20u);
  const int told = s.TimesTold<wire::ArenaDrop>("idle");
  s.Dies("b");
  EXPECT_EQ(s.Holder(), "a") << s.Story();
  EXPECT_EQ(s.TimesTold<wire::ArenaDrop>("idle"), told) << s.Story();
  EXPECT_EQ(s.TimesTold<wire::ArenaDrop>("a"), 0) << s.Story();
  EXPECT_EQ(s.core().Arena(s.core().state().devices.at("gpu0")), 10u) << s.Story();
}

TEST_F(GuestTest, RunsOnWhenTheHolderDies) {
  Join("a", {}, 10);
  Join("b", {}, 10);
  Join("c", {}, 10);
  s.Asks("a");
  s.Grows("a", 7, 10);
  s.Asks("b");
  s.Grows("b", 8, 10);
  s.Dies("a");
  EXPECT_EQ(s.Holder(), "b") << s.Story();
  EXPECT_EQ(s.Told<wire::ArenaDrop>("c")->chunk, 0u) << s.Story();
  EXPECT_FALSE(s.Told<wire::ArenaDrop>("b")) << s.Story();
  s.Asks("c");
  EXPECT_TRUE(s.Told<wire::Grant>("c")->fresh_arena) << s.Story();
}

TEST_F(GuestTest, ThatFindsNoRoomStepsAsideAndRunsAloneNext) {
  Join("a", {.persistent = 40});
  Join("b", {.persistent = 40});
  s.Asks("a");
  s.Asks("b");
  ASSERT_EQ(s.Holder(), "a, b") << s.Story();
  s.NeedsRoom("b", 10);
  EXPECT_TRUE(s.Told<wire::Room>("b")->step_aside) << s.Story();
  s.GivesUp("b", {.movable = true, .stood_aside = true});
  s.Asks("b", {.need = 10});
  EXPECT_EQ(s.Holder(), "a") << s.Story();
  s.GivesUp("a", {.movable = true});
  EXPECT_EQ(s.Holder(), "b") << s.Story();
  s.Asks("a");
  EXPECT_EQ(s.Holder(), "a, b") << s.Story();  // who needs no more than there is
}

TEST_F(GuestTest, ThatFoundNoRoomIsNoneBeforeItHasRunAlone) {
  for (const char* job : {"a", "b", "c"}) Join(job, {.persistent = 20});
  s.Asks("a");
  s.Asks("b");
  s.NeedsRoom("b", 10, /*restoring=*/true);
  s.GivesUp("b", {.movable = true, .stood_aside = true});
  s.Asks("c");
  EXPECT_EQ(s.Holder(), "a, c") << s.Story();
  AllTogether::most = 3;
  s.Asks("b");
  EXPECT_EQ(s.Holder(), "a, c") << s.Story();
}

TEST_F(GuestTest, ThatCannotStepAsideIsGivenRoomWhenAllHaveStopped) {
  Join("a", {.persistent = 40});
  Join("b", {.persistent = 40});
  s.Asks("a");
  s.Asks("b");
  for (int i = 0; i < kMostAsides; ++i) {
    s.NeedsRoom("b", 30);
    EXPECT_TRUE(s.Told<wire::Room>("b")->step_aside) << s.Story();
  }
  s.NeedsRoom("b", 30);
  EXPECT_TRUE(s.Told<wire::Yield>("a")->now) << s.Story();
  s.GivesUp("a", {.movable = true});
  EXPECT_EQ(s.Told<wire::Spill>("a")->bytes, 30u) << s.Story();
  s.Spills("a", 30);
  EXPECT_TRUE(s.Told<wire::Room>("b")->ok && !s.Told<wire::Room>("b")->step_aside) << s.Story();
}

// The guest cannot step aside (its process has the turn of another device), nor end its step.
TEST_F(GuestTest, WhereAllLackRoomTheOneThatCanStepsAside) {
  Join("a", {.persistent = 40});
  Join("b", {.persistent = 40});
  s.Asks("a");
  s.Asks("b");
  for (int i = 0; i < kMostAsides; ++i) s.NeedsRoom("b", 30);
  s.NeedsRoom("b", 30);
  s.NeedsRoom("a", 30);
  s.Passes(2 * kRoomRetry);
  ASSERT_TRUE(s.Told<wire::Room>("a")) << s.Story();
  EXPECT_TRUE(s.Told<wire::Room>("a")->step_aside) << s.Story();
  s.GivesUp("a", {.movable = true, .stood_aside = true});
  s.NeedsRoom("b", 30);
  EXPECT_EQ(s.Told<wire::Spill>("a")->bytes, 30u) << s.Story();
  s.Spills("a", 30);
  EXPECT_TRUE(s.Told<wire::Room>("b")->ok && !s.Told<wire::Room>("b")->step_aside) << s.Story();
}

TEST_F(GuestTest, GivesWayWhenTheHolderNeedsItsRoom) {
  Join("a", {.persistent = 40});
  Join("b", {.persistent = 40});
  s.Asks("a");
  s.Asks("b");
  s.NeedsRoom("a", 30);
  EXPECT_TRUE(s.Told<wire::Yield>("b")->now) << s.Story();
  EXPECT_FALSE(s.Told<wire::Yield>("a")) << s.Story();
  s.GivesUp("b", {.movable = true});
  EXPECT_EQ(s.Told<wire::Spill>("b")->bytes, 30u) << s.Story();
  s.Asks("b");
  s.Spills("b", 30);
  EXPECT_TRUE(s.Told<wire::Room>("a")->ok && !s.Told<wire::Room>("a")->step_aside) << s.Story();
  EXPECT_EQ(s.Holder(), "a") << s.Story();
}

TEST_F(GuestTest, WhoseTimeIsGuaranteedRunsAlone) {
  Join("a");
  Join("b");
  s.Guarantees("b", 0.5);
  s.Asks("a");
  s.Asks("b");
  EXPECT_EQ(s.Holder(), "a") << s.Story();
  s.GivesUp("a");
  s.Asks("a");
  EXPECT_EQ(s.Holder(), "b") << s.Story();
}

TEST_F(GuestTest, APauseOfOneStopsThem) {
  Join("a");
  Join("b");
  s.Asks("a");
  s.Asks("b");
  s.Pauses("b");
  EXPECT_TRUE(s.Told<wire::Yield>("b")->now) << s.Story();
  s.GivesUp("b");
  s.Asks("b");
  s.GivesUp("a");
  s.Asks("a");
  EXPECT_EQ(s.Holder(), "a") << s.Story();
}

TEST_F(GuestTest, LeavesLikeAnybody) {
  Join("a");
  Join("b");
  s.Asks("a");
  s.Asks("b");
  s.Leaves("b");
  EXPECT_EQ(s.Holder(), "a") << s.Story();
  EXPECT_THAT(s.Why("a"), Not(HasSubstr("beside")));
}

TEST_F(GuestTest, AGrantThatItDoesNotReadIsTakenBack) {
  Join("a");
  Join("b");
  Join("c");
  AllTogether::most = 3;
  s.Asks("a");
  s.Stops("b");
  s.Asks("b");
  AllTogether::most = 2;
  s.Asks("c");
  s.Passes(kAnswerLimit);
  EXPECT_EQ(s.TriedToTakeBack("b"), 1) << s.Story();
  EXPECT_EQ(s.Holder(), "a") << s.Story();
  s.GivesUp("a");
  EXPECT_EQ(s.Holder(), "c") << s.Story();
  s.GoesOn("b");
  EXPECT_EQ(s.Holder(), "b, c") << s.Story();
}

TEST_F(GuestTest, AnotherPolicyStopsThem) {
  Join("a");
  Join("b");
  s.Asks("a");
  s.Asks("b");
  AllTogether::most = 1;
  s.Says("a", SetPolicy{"another"});
  EXPECT_TRUE(s.Told<wire::Yield>("a")->now && s.Told<wire::Yield>("b")->now) << s.Story();
}

TEST_F(GuestTest, AGangIsNoGuestAndHasNone) {
  for (const char* job : {"a", "r0", "r1"}) Join(job);
  s.FormsGang("g", {"r0", "r1"});
  s.Asks("a");
  s.Asks("r0");
  s.Asks("r1");
  EXPECT_EQ(s.Holder(), "a") << s.Story();
  s.GivesUp("a");
  EXPECT_EQ(s.Holder(), "r0, r1") << s.Story();
  s.Asks("a");
  EXPECT_EQ(s.Holder(), "r0, r1") << s.Story();
}

TEST_F(GuestTest, AGangThatFormsAmongThemGoesOnWithoutTheOthers) {
  for (const char* job : {"a", "r0", "r1"}) Join(job);
  s.Asks("a");
  s.Asks("r0");
  s.FormsGang("g", {"r0", "r1"});
  EXPECT_EQ(s.Holder(), "r0") << s.Story();
  EXPECT_TRUE(s.Told<wire::Yield>("a")->now) << s.Story();
  s.Asks("r1");  // in a lane that is nobody's, a's neither
  EXPECT_EQ(s.Holder(), "r0, r1") << s.Story();
  s.GivesUp("a");
  EXPECT_EQ(s.Told<wire::ArenaDrop>("a")->chunk, 0u) << s.Story();
  s.Asks("a");
  EXPECT_TRUE(s.Told<wire::Yield>("r0")) << s.Story();
}

TEST_F(GuestTest, RanksThatWereBesideEachOtherAreNoGuestsAnyMore) {
  for (const char* job : {"r0", "r1"}) Join(job);
  s.Asks("r0");
  s.Asks("r1");
  s.FormsGang("g", {"r0", "r1"});
  EXPECT_EQ(s.Holder(), "r0, r1") << s.Story();
  EXPECT_FALSE(s.Told<wire::Yield>("r0")) << s.Story();
}

// --- stopping near each other ---------------------------------------------------------------------

// Jobs whose steps take different times, and c, which waits for them.
class UnequalStepsTest : public GuestTest {
 protected:
  void Learns(const std::string& name, absl::Duration step) {
    Join(name);
    s.Asks(name);
    s.Passes(step);
    s.GivesUp(name);
  }
  void AllAsk(std::initializer_list<const char*> names) {
    Join("c");
    s.Sets(SetSwitchShare{1});  // their turn is over after a step
    for (const char* name : names) s.Asks(name);
    s.Asks("c");
  }
  bool ToldToStop(const std::string& name) const {
    const auto yield = s.Told<wire::Yield>(name);
    return yield && yield->now && yield->turn == s.Told<wire::Grant>(name)->turn;
  }
};

TEST_F(UnequalStepsTest, TheLongestIsToldFirstAndTheOthersWhenNoMoreThanTheirStepIsLeft) {
  Learns("short", Milliseconds(10));
  Learns("long", Milliseconds(100));
  AllAsk({"short", "long"});
  EXPECT_TRUE(ToldToStop("long") && !ToldToStop("short")) << s.Story();
  EXPECT_THAT(s.Why("short"), HasSubstr("when those beside it have ended their steps"));
  EXPECT_THAT(s.Why("long"), HasSubstr("gives it up at the end of its step"));
  s.Passes(Milliseconds(90) - absl::Nanoseconds(1));
  EXPECT_FALSE(ToldToStop("short")) << s.Story();
  s.Passes(absl::Nanoseconds(1));
  EXPECT_TRUE(ToldToStop("short")) << s.Story();
  s.GivesUp("short");
  s.GivesUp("long");
  EXPECT_EQ(s.Holder(), "c") << s.Story();
}

TEST_F(UnequalStepsTest, TheNextIsToldWhenTheLongestWasNearlyDone) {
  AllTogether::most = 3;
  Learns("a", Milliseconds(1));
  Learns("b", Milliseconds(10));
  Learns("long", Milliseconds(100));
  AllAsk({"a", "b", "long"});
  s.Passes(Milliseconds(5));
  s.GivesUp("long");
  EXPECT_TRUE(ToldToStop("b") && !ToldToStop("a")) << s.Story();
  s.Passes(Milliseconds(9));
  EXPECT_TRUE(ToldToStop("a")) << s.Story();
  s.GivesUp("b");
  s.GivesUp("a");
  EXPECT_EQ(s.Holder(), "c") << s.Story();
}

TEST_F(UnequalStepsTest, AStepBesideOthersIsAsLongAsItWasThere) {
  Learns("short", Milliseconds(10));
  Learns("long", Milliseconds(100));
  s.Asks("short");
  s.Asks("long");
  s.Passes(Milliseconds(200));
  s.GivesUp("long");
  s.GivesUp("short", {.steps = 10});
  AllAsk({"short", "long"});
  s.Passes(Milliseconds(180) - absl::Nanoseconds(1));
  EXPECT_FALSE(ToldToStop("short")) << s.Story();
  s.Passes(absl::Nanoseconds(1));
  EXPECT_TRUE(ToldToStop("short")) << s.Story();
}

TEST_F(UnequalStepsTest, AllAreToldAtOnceWhereItIsNotForTheQuantum) {
  Learns("short", Milliseconds(10));
  Learns("long", Milliseconds(100));
  AllAsk({"short", "long"});
  ASSERT_FALSE(ToldToStop("short")) << s.Story();
  s.Pauses("long");
  EXPECT_TRUE(ToldToStop("short")) << s.Story();
  EXPECT_EQ(s.TimesTold<wire::Yield>("long"), 1) << s.Story();
}

TEST_F(UnequalStepsTest, TheHoldersRoomIsMadeAtOnce) {
  Learns("long", Milliseconds(100));
  Learns("short", Milliseconds(10));
  AllAsk({"long", "short"});
  ASSERT_FALSE(ToldToStop("short")) << s.Story();
  s.NeedsRoom("long", 200);
  EXPECT_TRUE(ToldToStop("short")) << s.Story();
}

TEST_F(UnequalStepsTest, ACapIsHeededAtOnce) {
  Learns("short", Milliseconds(10));
  Learns("long", Milliseconds(100));
  AllAsk({"short", "long"});
  ASSERT_FALSE(ToldToStop("short")) << s.Story();
  s.Caps("short", 0.5);
  EXPECT_TRUE(ToldToStop("short")) << s.Story();
}

TEST_F(UnequalStepsTest, WhoIsToldLateHasItsTimeBeforeItIsNamed) {
  Learns("short", Milliseconds(10));
  Learns("long", Seconds(20));
  AllAsk({"short", "long"});
  s.Passes(Seconds(15));
  s.GivesUp("long");
  ASSERT_TRUE(ToldToStop("short")) << s.Story();
  const auto overdue = [&] { return s.core().state().turns.begin()->second.overdue; };
  EXPECT_FALSE(overdue()) << s.Story();
  s.Passes(kHolderLimit);
  EXPECT_TRUE(overdue()) << s.Story();
}

TEST_F(UnequalStepsTest, AGangThatFormsAmongThemStopsTogether) {
  Learns("r0", Milliseconds(10));
  Learns("r1", Milliseconds(100));
  AllAsk({"r0", "r1"});
  ASSERT_FALSE(ToldToStop("r0")) << s.Story();
  s.FormsGang("g", {"r0", "r1"});
  EXPECT_GT(s.Told<wire::Yield>("r0")->stop_step, 0u) << s.Story();
  EXPECT_GT(s.Told<wire::Yield>("r1")->stop_step, 0u) << s.Story();
}

// --- lanes ----------------------------------------------------------------------------------------

TEST_F(GuestTest, KeepsItsLaneForAWhile) {
  Join("a");
  Join("b");
  s.Asks("a");
  s.Asks("b");
  s.GivesUp("a");
  s.GivesUp("b");
  s.Asks("b");
  s.Asks("a");
  EXPECT_TRUE(s.Told<wire::Grant>("a")->lane_lock.empty()) << s.Story();
  EXPECT_TRUE(s.Told<wire::Grant>("b")->lane_lock.empty()) << s.Story();
}

TEST_F(GuestTest, ArenasOfLanesThatNobodyUsesAreGivenBackAfterAWhile) {
  Join("a");
  Join("b");
  s.Asks("a");
  s.Grows("a", 7, 10);
  s.Asks("b");
  s.Grows("b", 8, 20);
  s.GivesUp("b");
  const Device& device = s.core().state().devices.at("gpu0");
  s.Passes(kLanesKept - Milliseconds(1));
  EXPECT_EQ(s.core().Arena(device), 30u) << s.Story();
  s.Passes(Milliseconds(1));
  EXPECT_EQ(s.core().Arena(device), 10u) << s.Story();
  s.GivesUp("a");
  s.Asks("b");  // back in the first lane
  EXPECT_THAT(s.Told<wire::Grant>("b")->lane_lock, HasSubstr("-0.lock")) << s.Story();
}

TEST_F(GuestTest, TheFirstLaneIsGivenBackWhereAnotherIsUsedAlone) {
  Join("a");
  Join("b");
  s.Asks("a");
  s.Grows("a", 7, 10);
  s.Asks("b");
  s.Grows("b", 8, 20);
  s.GivesUp("a");
  s.Passes(kLanesKept);
  EXPECT_EQ(s.Told<wire::ArenaDrop>("a")->chunk, 0u) << s.Story();
  EXPECT_EQ(s.core().Arena(s.core().state().devices.at("gpu0")), 20u) << s.Story();
}

TEST_F(GuestTest, ArenasOfLanesThatNobodyUsesAreGivenBackWhenRoomIsLacking) {
  Join("a", {.persistent = 40});
  Join("b", {.persistent = 20});
  s.Asks("a");
  s.Asks("b");
  s.Grows("b", 8, 40);
  s.GivesUp("b", {.movable = true});
  s.NeedsRoom("a", 30);
  EXPECT_EQ(s.Told<wire::ArenaDrop>("b")->chunk, 0u) << s.Story();
  EXPECT_FALSE(s.Told<wire::Spill>("b")) << s.Story();
  EXPECT_FALSE(s.Told<wire::Room>("a")) << s.Story();
  s.Passes(kReturningRetry);
  EXPECT_TRUE(s.Told<wire::Room>("a")->ok) << s.Story();
}

TEST_F(GuestTest, WhatTheLastOneOfALaneTookAlongIsNotCounted) {
  Join("a");
  Join("b");
  s.Asks("a");
  s.Asks("b");
  s.Grows("b", 8, 40);
  s.GivesUp("b");
  s.Dies("b");
  EXPECT_EQ(s.core().Arena(s.core().state().devices.at("gpu0")), 0u) << s.Story();
}

// --- restarts -------------------------------------------------------------------------------------

TEST(GuestRestartTest, TwoThatComeBackWithTurnsInTwoLanesGoOnUntilTheyAreStopped) {
  Script s("fair");
  s.CoordinatorRestarts({1, 2});
  s.Joins(
      "a",
      {.rejoin = true, .id = 1, .holds_turn = true, .turn = 7, .lane_lock = "/run/test/lane-gpu0-0.lock"});
  s.Joins(
      "b",
      {.rejoin = true, .id = 2, .holds_turn = true, .turn = 7, .lane_lock = "/run/test/lane-gpu0-1.lock"});
  EXPECT_EQ(s.Holder(), "a, b") << s.Story();
  EXPECT_EQ(s.JobOf("b").lane, 1);
  EXPECT_TRUE(s.Told<wire::Yield>("a")->now && s.Told<wire::Yield>("b")->now)
      << s.Story();  // fair knows none
  EXPECT_EQ(s.Told<wire::Yield>("b")->turn, 7u) << s.Story();
  s.GivesUp("b");
  s.GivesUp("a");
  EXPECT_EQ(s.Holder(), "") << s.Story();
}

TEST(GuestRestartTest, TwoThatComeBackWithTurnsInOneLaneAreNotTogether) {
  Script s("fair");
  s.CoordinatorRestarts({1, 2});
  s.Joins(
      "a",
      {.rejoin = true, .id = 1, .holds_turn = true, .turn = 7, .lane_lock = "/run/test/lane-gpu0-1.lock"});
  s.Joins("b", {.rejoin = true, .id = 2, .turn = 8, .lane_lock = "/run/test/lane-gpu0-1.lock"});
  EXPECT_EQ(s.Holder(), "a") << s.Story();
  EXPECT_TRUE(s.Told<wire::Yield>("b")->now) << s.Story();
}

TEST(GuestRestartTest, ThatBothSayTheyHaveALanesLockIsNotBelieved) {
  Script s("fair");
  s.CoordinatorRestarts({1, 2});
  s.Joins("a", {.rejoin = true, .id = 1, .holds_turn = true, .turn = 7});
  s.Joins("b", {.rejoin = true, .id = 2, .holds_turn = true, .turn = 8});
  EXPECT_EQ(s.Holder(), "a") << s.Story();
}

}  // namespace
}  // namespace hocket::coordinator
