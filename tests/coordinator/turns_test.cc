// Who has the turn, for how long, and how it passes on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "coordinator/core/limits.h"
#include "tests/coordinator/script.h"

namespace hocket::coordinator {
namespace {

using absl::Milliseconds;
using absl::Seconds;
using testing::HasSubstr;

TEST(TurnsTest, TheFirstToAskHasTheTurnAtOnce) {
  Script s;
  s.Joins("a");
  s.Asks("a");
  EXPECT_TRUE(s.Holds("a")) << s.Story();
  EXPECT_FALSE(s.Told<wire::Grant>("a")->contended);
}

TEST(TurnsTest, WhileNobodyWaitsTheHolderIsLeftAlone) {
  Script s;
  s.Joins("a");
  s.Joins("b");
  s.Asks("a");
  s.Passes(Seconds(100));
  EXPECT_EQ(s.TimesTold<wire::Yield>("a"), 0) << s.Story();
}

TEST(TurnsTest, WhoeverWaitsMakesTheHolderYieldAndGetsTheTurnWhenItIsOver) {
  Script s;
  s.Joins("a");
  s.Joins("b");
  s.Asks("a");
  s.Asks("b");
  EXPECT_TRUE(s.Told<wire::Yield>("a")->now) << s.Story();
  EXPECT_FALSE(s.Holds("b"));
  s.GivesUp("a");
  EXPECT_EQ(s.Holder(), "b") << s.Story();
}

// It says 31 ms, of which it has waited 30 for the other one.
TEST(TurnsTest, OfAHandOverTheMessagesWayIsWhatIsLeftWithoutTheWait) {
  Script s;
  s.Joins("a");
  s.Joins("b");
  const auto passage = [&] { return s.core().state().jobs.at(s.IdOf("b")).last_passage; };
  const auto turn_of_b = [&](absl::Duration said) {
    s.Asks("a");
    s.Asks("b");
    s.Passes(Milliseconds(30));
    s.GivesUp("a");
    EXPECT_EQ(passage(), absl::ZeroDuration()) << "not known yet\n" << s.Story();
    s.Passes(Milliseconds(10));
    s.GivesUp("b", {.hand_over = said});
  };
  turn_of_b(Milliseconds(31));
  EXPECT_EQ(passage(), Milliseconds(1));
  turn_of_b(Milliseconds(20));
  EXPECT_EQ(passage(), absl::ZeroDuration()) << "its clock, or an older client";
  turn_of_b(absl::Hours(3));
  EXPECT_EQ(passage(), kLongestPassage);
}

TEST(TurnsTest, ATurnGivenWhileOthersWaitSaysSo) {
  Script s;
  s.Joins("a");
  s.Joins("b");
  s.Asks("a");
  s.Asks("b");
  s.GivesUp("a");
  EXPECT_FALSE(s.Told<wire::Grant>("b")->contended) << s.Story();
  s.Asks("a");
  s.GivesUp("b");
  s.Asks("b");
  s.GivesUp("a");
  EXPECT_EQ(s.Holder(), "b");
  s.Joins("c");
  s.Asks("c");
  s.Asks("a");
  s.GivesUp("b");
  EXPECT_TRUE(s.Told<wire::Grant>(s.Holder())->contended) << s.Story();
}

TEST(TurnsTest, DifferentDevicesHaveDifferentTurns) {
  Script s;
  s.Joins("a");
  s.Joins("b", {.device = "gpu1"});
  s.Asks("a");
  s.Asks("b");
  EXPECT_TRUE(s.Holds("a") && s.Holds("b")) << s.Story();
}

TEST(TurnsTest, AskingTwiceIsRejectedAndChangesNothing) {
  Script s;
  s.Joins("a");
  s.Joins("b");
  s.Asks("a");
  s.Asks("a");
  EXPECT_THAT(s.Rejection(), HasSubstr("has the turn"));
  s.Asks("b");
  s.Asks("b");
  EXPECT_THAT(s.Rejection(), HasSubstr("waits already"));
  EXPECT_EQ(s.Holder(), "a");
}

TEST(TurnsTest, ATurnsRecordSaysHowLongItWasWaitedFor) {
  Script s;
  s.Joins("a");
  s.Joins("b");
  s.Asks("a");
  s.Passes(Milliseconds(3));
  s.Asks("b");
  s.Passes(Milliseconds(7));
  s.GivesUp("a");
  EXPECT_EQ(s.turns().back().waited, absl::ZeroDuration()) << s.Story();
  s.GivesUp("b");
  EXPECT_EQ(s.turns().back().waited, Milliseconds(7)) << s.Story();
}

TEST(TurnsTest, AFreeHandOverLastsOneStep) {
  Script s("fifo");
  s.Joins("a", {.step = Milliseconds(10)});
  s.Joins("b", {.step = Milliseconds(10)});
  s.Lives("a");
  s.Lives("b");
  s.RunsFor(Seconds(1));
  EXPECT_EQ(s.turns().size(), 100u) << s.Story();
  for (const TurnEnded& turn : s.turns()) EXPECT_EQ(turn.steps, 1u);
}

TEST(TurnsTest, TheQuantumFollowsTheMeasuredCostOfTheSwitch) {
  Script s("fifo");
  s.Joins("a");
  s.Joins("b");
  for (int i = 0; i < 2; ++i) {  // each has once paid 20 ms for its turn
    s.Asks("a");
    if (i == 0) s.Asks("b");
    s.GivesUp("a", {.ready = Milliseconds(20), .restored = 50});
    s.GivesUp("b", {.ready = Milliseconds(20), .restored = 50});
    s.Asks("b");
    if (i == 0) s.GivesUp("b", {.ready = Milliseconds(20), .restored = 50});
  }
  s.GivesUp("b", {.ready = Milliseconds(20), .restored = 50});
  s.Asks("a");
  s.Asks("b");  // nor is it to give the turn up between two steps: bytes would have to move there and back
  s.Passes(Milliseconds(970));
  EXPECT_FALSE(s.Told<wire::Yield>("a")->now) << s.Story();
  EXPECT_EQ(absl::Nanoseconds(s.Told<wire::Yield>("a")->idle_ns), Milliseconds(40)) << s.Story();
  s.Passes(Milliseconds(20));  // 20 ms * (1 / 0.02 - 1) = 980 ms
  EXPECT_TRUE(s.Told<wire::Yield>("a")->now) << s.Story();
}

TEST(TurnsTest, ALargerSwitchShareMakesShorterTurns) {
  Script s("fifo");
  s.Joins("a");
  s.Joins("b");
  s.Asks("a");
  s.GivesUp("a", {.ready = Milliseconds(20), .restored = 50});
  s.Asks("a");
  s.core().Handle({.at = s.now(), .what = SetSwitchShare{0.5}});
  s.Asks("b");
  s.Passes(Milliseconds(21));
  EXPECT_TRUE(s.Told<wire::Yield>("a")->now) << s.Story();
}

TEST(TurnsTest, APausedJobGetsNoTurnAndKeepsNone) {
  Script s;
  s.Joins("a");
  s.Asks("a");
  s.Pauses("a");
  EXPECT_TRUE(s.Told<wire::Yield>("a")->now) << s.Story();
  s.GivesUp("a");
  s.Asks("a");
  EXPECT_FALSE(s.Holds("a")) << s.Story();
  EXPECT_THAT(s.Why("a"), HasSubstr("hocket resume a"));
  s.Resumes("a");
  EXPECT_TRUE(s.Holds("a")) << s.Story();
}

TEST(TurnsTest, APausedWaiterDoesNotDisturbTheHolder) {
  Script s;
  s.Joins("a");
  s.Joins("b");
  s.Asks("a");
  s.Pauses("b");
  s.Asks("b");
  EXPECT_EQ(s.TimesTold<wire::Yield>("a"), 0) << s.Story();
}

TEST(TurnsTest, AWeightSetByPeopleCountsFromThenOn) {
  Script s("fair");
  s.Joins("a");
  s.Joins("b");
  s.Says("b", SetShare{.weight = 3});
  s.Lives("a");
  s.Lives("b");
  s.RunsFor(Seconds(60));
  EXPECT_NEAR(s.Share("b"), 0.75, 0.02) << s.Story();
}

TEST(TurnsTest, APolicySetByPeopleAnswersFromThenOn) {
  Script s("fair");
  s.Joins("a");
  s.Joins("b");
  s.Lives("a");
  s.Lives("b");
  s.RunsFor(Seconds(1));
  s.Says("a", SetPolicy{"fifo"});
  s.RunsFor(Seconds(1));
  EXPECT_EQ(s.turns().back().reason, "has waited longest") << s.Story();
}

// --- deaths ---------------------------------------------------------------------------------------

TEST(DeathTest, OfTheHolderPassesTheTurnOn) {
  Script s;
  s.Joins("a");
  s.Joins("b");
  s.Asks("a");
  s.Asks("b");
  s.Dies("a");
  EXPECT_EQ(s.Holder(), "b") << s.Story();
  EXPECT_TRUE(s.turns().back().died);
}

TEST(DeathTest, TheLastTurnHasTheStepsOfTheJobsPage) {
  for (const bool hangs_up : {false, true}) {
    Script s;
    s.Joins("a");
    s.Asks("a");
    s.GivesUp("a", {.steps = 3});
    s.Asks("a");
    hangs_up ? s.Says("a", JobHungUp{.steps = 10}) : s.Says("a", JobDied{.steps = 10});
    EXPECT_TRUE(s.turns().back().died) << s.Story();
    EXPECT_EQ(s.turns().back().steps, 7u);
  }
}

TEST(DeathTest, APageThatSaysLessThanTheJobHasToldCountsNothing) {
  Script s;
  s.Joins("a");
  s.Asks("a");
  s.GivesUp("a", {.steps = 3});
  s.Asks("a");
  s.Says("a", JobDied{.steps = 2});
  EXPECT_EQ(s.turns().back().steps, 0u) << s.Story();
}

TEST(DeathTest, OfTheHolderSpoilsTheArenaForEverybodyOnce) {
  Script s;
  s.Joins("a");
  s.Joins("b");
  s.Joins("c");
  s.Asks("a");
  s.Grows("a", 7, 10);
  s.Asks("b");
  s.Dies("a");
  EXPECT_EQ(s.Told<wire::ArenaDrop>("b")->chunk, 0u) << s.Story();
  EXPECT_EQ(s.Told<wire::ArenaDrop>("c")->chunk, 0u);
  EXPECT_TRUE(s.Told<wire::Grant>("b")->fresh_arena);
  s.Grows("b", 8, 10);
  s.Asks("c");
  s.GivesUp("b");
  EXPECT_FALSE(s.Told<wire::Grant>("c")->fresh_arena) << s.Story();
  EXPECT_EQ(s.Told<wire::ArenaAdd>("c")->chunk, 8u);
}

TEST(DeathTest, OfAWaiterIsNoticedByNobody) {
  Script s;
  s.Joins("a");
  s.Joins("b");
  s.Joins("c");
  s.Asks("a");
  s.Asks("b");
  s.Asks("c");
  s.Dies("b");
  s.GivesUp("a");
  EXPECT_EQ(s.Holder(), "c") << s.Story();
  EXPECT_FALSE(s.Told<wire::Grant>("c")->fresh_arena);
}

TEST(DeathTest, OfAnIdleJobIsNoticedByNobody) {
  Script s;
  s.Joins("a");
  s.Joins("b");
  s.Dies("b");
  s.Asks("a");
  EXPECT_EQ(s.Holder(), "a") << s.Story();
}

TEST(DeathTest, OfAHolderAskedToYieldPassesTheTurnOn) {
  Script s;
  s.Joins("a");
  s.Joins("b");
  s.Asks("a");
  s.Asks("b");
  ASSERT_TRUE(s.Told<wire::Yield>("a")->now);
  s.HangsUp("a");
  EXPECT_EQ(s.Holder(), "b") << s.Story();
  EXPECT_TRUE(s.Told<wire::Grant>("b")->fresh_arena);
  s.Dies("a");
  EXPECT_EQ(s.Holder(), "b") << s.Story();
}

TEST(DeathTest, BytesOfAJobThatHungUpCountUntilItsProcessIsDead) {
  Script s;
  s.Joins("a", {.persistent = 30});
  s.Joins("b", {.persistent = 10});
  s.HangsUp("a");
  const Device& device = s.core().state().devices.at("gpu0");
  EXPECT_EQ(s.core().Free(device), 60u);
  s.Dies("a");
  EXPECT_EQ(s.core().Free(device), 60u) << "the driver may need a while";
  s.Passes(Seconds(11));
  s.StandsAtDoors("b");
  EXPECT_EQ(s.core().Free(device), 90u);
}

TEST(DeathTest, LeavingInATurnPassesItOnAndKeepsTheArena) {
  Script s;
  s.Joins("a");
  s.Joins("b");
  s.Asks("a");
  s.Asks("b");
  s.Leaves("a");
  EXPECT_EQ(s.Holder(), "b") << s.Story();
  EXPECT_FALSE(s.Told<wire::Grant>("b")->fresh_arena);
}

// --- names ----------------------------------------------------------------------------------------

TEST(JoinTest, ANameIsMadeUniqueAndAnEmptyOneComesFromTheProgram) {
  Core core({.runtime_dir = "/run/test"});
  auto join = [&](JobId id, const std::string& name, const std::string& program) {
    wire::Join message{.name = name, .program = program, .device = "gpu0", .job = id};
    const auto actions = core.Handle({.at = absl::UnixEpoch(), .job = id, .what = JobJoins{message, 0}});
    return std::get<wire::Joined>(std::get<Send>(actions.front()).message);
  };
  EXPECT_EQ(join(1, "resnet", "").name, "resnet");
  EXPECT_EQ(join(2, "resnet", "").name, "resnet-2");
  EXPECT_EQ(join(3, "", "python3 /home/me/train.py").name, "train.py");
  EXPECT_EQ(join(4, "", "").name, "job");
  EXPECT_EQ(join(5, "x", "").sharing_with, "resnet, resnet-2, train.py, job");
  EXPECT_EQ(join(6, "y", "").lane_lock, "/run/test/lane-gpu0-0.lock");
}

TEST(JoinTest, ANewcomerIsSentTheArenaByWhoeverHasTheTurn) {
  Script s;
  s.Joins("a");
  s.Joins("b");
  s.Asks("b");
  s.Grows("b", 5, 10);
  s.Joins("c");
  EXPECT_EQ(s.Told<wire::ArenaExport>("b")->to_job, s.IdOf("c")) << s.Story();
  s.Grows("b", 5, 10, "c");
  EXPECT_EQ(s.Told<wire::ArenaAdd>("c")->chunk, 5u);
  EXPECT_EQ(s.TimesTold<wire::ArenaAdd>("a"), 1) << s.Story();
}

TEST(JoinTest, AChunkThatHasLeftTheArenaMeanwhileIsNotPassedOn) {
  Script s;
  s.Joins("a");
  s.Asks("a");
  s.Grows("a", 5, 10);
  s.Joins("b");
  s.Loses("a", 5);
  s.Grows("a", 5, 10, "b");  // its answer to the ArenaExport, sent before
  EXPECT_EQ(s.TimesTold<wire::ArenaAdd>("b"), 0) << s.Story();
}

TEST(JoinTest, AChunkIsTakenFromThoseWhoKnowIt) {
  Script s;
  s.Joins("a");
  s.Joins("b");
  s.Asks("a");
  s.Grows("a", 5, 10);
  s.Joins("c");
  s.Loses("a", 5);
  EXPECT_EQ(s.Told<wire::ArenaDrop>("b")->chunk, 5u) << s.Story();
  EXPECT_EQ(s.TimesTold<wire::ArenaDrop>("c"), 0);
  EXPECT_EQ(s.TimesTold<wire::ArenaDrop>("a"), 0);
}

}  // namespace
}  // namespace hocket::coordinator
