// Gangs: ranks that have their turns together.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/coordinator/script.h"

namespace hocket::coordinator {
namespace {

using absl::Milliseconds;
using absl::Seconds;
using testing::HasSubstr;

// A gang of two on one device, and a single job beside it.
Script GangAndThird() {
  Script s("fifo");
  s.Joins("r0");
  s.Joins("r1");
  s.Joins("c");
  s.FormsGang("ddp", {"r0", "r1"});
  return s;
}

TEST(GangTest, AllRanksHaveTheTurnEachInItsOwnLane) {
  Script s = GangAndThird();
  s.Asks("r0");
  s.Asks("r1");
  EXPECT_EQ(s.Holder(), "r0, r1") << s.Story();
  EXPECT_EQ(s.Told<wire::Grant>("r0")->turn, s.Told<wire::Grant>("r1")->turn);
  EXPECT_EQ(s.Told<wire::Grant>("r0")->lane_lock, "");
  EXPECT_EQ(s.Told<wire::Grant>("r1")->lane_lock, "/run/test/lane-gpu0-1.lock");
  EXPECT_TRUE(s.Told<wire::Grant>("r1")->fresh_arena) << "the chunks of lane 0 are not its own any more";
}

// Two ranks of one program hung here: the second to join was rank 0, was sent into lane 0 too, and waited for
// a lock that the other held while it waited for rank 0.
TEST(GangTest, ARankInATurnOfItsOwnKeepsItsLaneAndTheFirstRankTakesAnother) {
  Script s("fifo");
  s.Joins("r1");
  s.Asks("r1");
  s.Joins("r0");
  s.FormsGang("ddp", {"r0", "r1"});
  s.Asks("r0");
  EXPECT_EQ(s.Holder(), "r0, r1") << s.Story();
  EXPECT_EQ(s.Told<wire::Grant>("r1")->lane_lock, "");
  EXPECT_EQ(s.Told<wire::Grant>("r0")->lane_lock, "/run/test/lane-gpu0-1.lock");
}

TEST(GangTest, ARankThatComesLaterHasPartInTheTurn) {
  Script s = GangAndThird();
  s.Asks("r0");
  s.Asks("c");
  EXPECT_EQ(s.Holder(), "r0");
  s.Asks("r1");
  EXPECT_EQ(s.Holder(), "r0, r1") << s.Story();
}

// The daemon ended here: it forgot a device with its last job, and the gang's turn on it was still to be
// charged.
TEST(GangTest, TheDeviceOfADeadRankIsRememberedUntilTheTurnOfItsGangIsOver) {
  Script s("fifo");
  s.Joins("r0", {.device = "gpu0"});
  s.Joins("r1", {.device = "gpu1"});
  s.FormsGang("ddp", {"r0", "r1"});
  s.Asks("r0");
  s.Asks("r1");
  s.Dies("r0");
  EXPECT_EQ(s.Holder("gpu1"), "r1") << s.Story();
  s.GivesUp("r1");
  EXPECT_EQ(s.Holder("gpu1"), "") << s.Story();
}

TEST(GangTest, NobodyElseHasTheTurnBeforeAllRanksGaveItUp) {
  Script s = GangAndThird();
  s.Asks("r0");
  s.Asks("r1");
  s.Asks("c");
  s.GivesUp("r0");
  EXPECT_FALSE(s.Holds("c")) << s.Story();
  s.GivesUp("r1");
  EXPECT_EQ(s.Holder(), "c") << s.Story();
}

TEST(GangTest, AllRanksAreToldTheSameStep) {
  Script s = GangAndThird();
  s.Asks("r0");
  s.Asks("r1");
  s.Asks("c");
  EXPECT_EQ(s.Told<wire::Yield>("r0")->stop_step, 1u) << s.Story();
  EXPECT_EQ(s.Told<wire::Yield>("r1")->stop_step, 1u);
  s.Acknowledges("r0", true, 0);
  s.Acknowledges("r1", true, 0);
  EXPECT_EQ(s.TimesTold<wire::Yield>("r0"), 1) << s.Story();
}

TEST(GangTest, ARankThatIsPastTheStepMakesItALaterOneForAll) {
  Script s = GangAndThird();
  s.Asks("r0");
  s.Asks("r1");
  s.Asks("c");
  s.Acknowledges("r0", true, 0);
  s.GivesUp("r0");                 // stopped after step 1
  s.Acknowledges("r1", false, 1);  // in step 2 already
  EXPECT_GT(s.Told<wire::Yield>("r1")->stop_step, 1u) << s.Story();
  s.Asks("r0");
  EXPECT_TRUE(s.Holds("r0")) << "r1 cannot end step 2 without it: " << s.Story();
  EXPECT_EQ(s.Told<wire::Yield>("r0")->stop_step, s.Told<wire::Yield>("r1")->stop_step);
}

TEST(GangTest, StepsMadeBeforeTheGangFormedDoNotMatter) {
  Script s("fifo");
  s.Joins("r0");
  s.Joins("r1");
  s.Joins("c");
  s.Asks("r0");
  s.GivesUp("r0", {.steps = 100});
  s.FormsGang("ddp", {"r0", "r1"});
  s.Asks("r0");
  s.Asks("r1");
  s.Asks("c");
  EXPECT_EQ(s.Told<wire::Yield>("r0")->stop_step, 101u) << s.Story();
  EXPECT_EQ(s.Told<wire::Yield>("r1")->stop_step, 1u);
}

// rank 0 has counted steps that rank 1 has not: it comes to its stop while rank 1 needs it.
TEST(GangTest, CountsThatAreNotAlignedAreAlignedAnewInsteadOfBlocking) {
  Script s = GangAndThird();
  s.Asks("r0");
  s.Asks("r1");
  s.Says("r0", wire::Report{.steps = 5});
  s.Asks("c");
  const auto stop = s.Told<wire::Yield>("r0")->stop_step;
  s.GivesUp("r0", {.steps = stop});
  s.Asks("r0");
  EXPECT_FALSE(s.Holds("r0")) << s.Story();
  s.Passes(Seconds(2));
  EXPECT_TRUE(s.Holds("r0")) << s.Story();
  EXPECT_FALSE(s.Holds("c"));
  s.GivesUp("r1");
  s.GivesUp("r0");
  EXPECT_EQ(s.Holder(), "c") << s.Story();
}

TEST(GangTest, AGangOverTwoDevicesHasBothOrNone) {
  Script s("fifo");
  s.Joins("r0", {.device = "gpu0"});
  s.Joins("r1", {.device = "gpu1"});
  s.Joins("x", {.device = "gpu0"});
  s.Joins("y", {.device = "gpu1"});
  s.FormsGang("ddp", {"r0", "r1"});
  s.Asks("x");
  s.Asks("y");
  s.Asks("r0");
  s.Asks("r1");
  s.GivesUp("x");
  EXPECT_EQ(s.Holder("gpu0"), "") << "kept free for the gang: " << s.Story();
  s.Asks("x");
  EXPECT_EQ(s.Holder("gpu0"), "") << s.Story();
  EXPECT_THAT(s.Why("x"), HasSubstr("kept free for gang ddp"));
  s.GivesUp("y");
  EXPECT_EQ(s.Holder("gpu0"), "r0") << s.Story();
  EXPECT_EQ(s.Holder("gpu1"), "r1");
}

TEST(GangTest, TwoGangsOverTheSameDevicesDoNotBlockEachOther) {
  Script s("fifo");
  for (const char* name : {"a0", "b0"}) s.Joins(name, {.device = "gpu0"});
  for (const char* name : {"a1", "b1"}) s.Joins(name, {.device = "gpu1"});
  s.Joins("x", {.device = "gpu0"});
  s.Joins("y", {.device = "gpu1"});
  s.FormsGang("a", {"a0", "a1"});
  s.FormsGang("b", {"b0", "b1"});
  s.Asks("x");
  s.Asks("y");
  s.Asks("a0");
  s.Asks("b1");
  s.GivesUp("x");
  s.GivesUp("y");
  EXPECT_EQ(s.Holder("gpu0") + s.Holder("gpu1"), "a0") << s.Story();
  s.GivesUp("a0");
  EXPECT_EQ(s.Holder("gpu0") + s.Holder("gpu1"), "b1") << s.Story();
}

TEST(GangTest, ARankThatHadTheTurnByItselfSharesItWhenTheGangForms) {
  Script s("fifo");
  s.Joins("r0");
  s.Joins("r1");
  s.Asks("r0");
  s.Asks("r1");
  EXPECT_EQ(s.Holder(), "r0");
  s.FormsGang("ddp", {"r0", "r1"});
  EXPECT_EQ(s.Holder(), "r0, r1") << "r0 may wait for r1 in a collective: " << s.Story();
}

TEST(GangTest, ARankThatBringsItsTurnIntoTheGangIsAskedWhetherItIdlesToo) {
  Script s("fair");
  s.Joins("r0", {.weight = 100});
  s.Joins("r1", {.weight = 100, .device = "gpu1"});
  s.Joins("other");
  s.Asks("other");
  s.Asks("r0");
  s.Passes(absl::Seconds(1));
  s.GivesUp("other");
  s.Asks("r1");
  s.Asks("other");
  s.Passes(absl::Milliseconds(10));
  ASSERT_EQ(s.Told<wire::Yield>("r0")->now, false) << s.Story();
  ASSERT_EQ(s.TimesTold<wire::Yield>("r1"), 0) << "nobody else wants gpu1 " << s.Story();
  s.FormsGang("ddp", {"r0", "r1"});
  EXPECT_EQ(s.TimesTold<wire::Yield>("r1"), 1) << s.Story();
}

TEST(GangTest, ADeadRankDoesNotTakeTheOthersWithIt) {
  Script s = GangAndThird();
  s.Asks("r0");
  s.Asks("r1");
  s.Asks("c");
  s.Dies("r1");
  EXPECT_EQ(s.Holder(), "r0") << s.Story();
  s.GivesUp("r0");
  EXPECT_EQ(s.Holder(), "c") << s.Story();
  s.Asks("r0");
  s.GivesUp("c");
  EXPECT_EQ(s.Holder(), "r0") << s.Story();
}

TEST(GangTest, RanksAreNotSpilledForEachOther) {
  Script s("fifo", 100);
  s.Joins("r0", {.persistent = 60});
  s.Joins("r1", {.persistent = 40});
  s.FormsGang("ddp", {"r0", "r1"});
  s.StandsAtDoors("r1");
  s.Asks("r0");
  s.NeedsRoom("r0", 20);
  EXPECT_EQ(s.TimesTold<wire::Spill>("r1"), 0) << s.Story();
  ASSERT_TRUE(s.Told<wire::Room>("r0")) << s.Story();
  EXPECT_FALSE(s.Told<wire::Room>("r0")->ok);
}

// Its other ranks would wait for it in the midst of theirs.
TEST(GangTest, ARankThatLacksRoomKeepsItsPart) {
  Script s("fifo", 100);
  s.Joins("r0", {.persistent = 30});
  s.Joins("r1", {.persistent = 10});
  s.Joins("c", {.persistent = 60});
  s.FormsGang("ddp", {"r0", "r1"});
  s.Asks("r0");
  s.Asks("r1");
  s.Asks("c");
  s.NeedsRoom("r0", 20);
  s.Passes(Milliseconds(150));
  ASSERT_TRUE(s.Told<wire::Room>("r0").has_value()) << s.Story();
  EXPECT_FALSE(s.Told<wire::Room>("r0")->step_aside) << s.Story();
}

TEST(GangTest, APausedRankPausesItsGang) {
  Script s = GangAndThird();
  s.Pauses("r1");
  s.Asks("r0");
  EXPECT_EQ(s.Holder(), "") << s.Story();
  EXPECT_THAT(s.Why("r0"), HasSubstr("r1, of its gang, is paused"));
  s.Resumes("r1");
  EXPECT_EQ(s.Holder(), "r0") << s.Story();
}

// As of a model of which each rank has two parts; and where a program loads something on the first device.
TEST(GangTest, ARanksOtherDevicesHaveTheGangsTurns) {
  Script s("fifo");
  s.Joins("r0", {.pid = 7});
  s.Joins("r1", {.device = "gpu1", .pid = 8});
  s.Joins("r1 on gpu0", {.pid = 8});
  s.Joins("r1 on gpu2", {.device = "gpu2", .pid = 8});
  s.Joins("x", {.device = "gpu2"});
  s.Says("r1 on gpu0", wire::Gang{"g", 1, 2});
  s.Says("r0", wire::Gang{"g", 0, 2});
  EXPECT_THAT(s.sentences().back(), HasSubstr("is complete: its 2 ranks")) << s.Story();
  s.Says("r1", wire::Gang{"g", 1, 2});
  s.Says("r1 on gpu2", wire::Gang{"g", 1, 2});
  EXPECT_EQ(s.Rejection(), "") << s.Story();
  EXPECT_THAT(s.sentences().back(), HasSubstr("uses gpu2, too, in rank 1")) << s.Story();
  s.Asks("r1 on gpu0");
  s.Asks("r0");
  s.Asks("r1");
  s.Asks("r1 on gpu2");
  EXPECT_EQ(s.Holder("gpu0"), "r0, r1 on gpu0") << s.Story();
  EXPECT_NE(s.JobOf("r0").lane, s.JobOf("r1 on gpu0").lane);
  EXPECT_EQ(s.Holder("gpu1"), "r1") << s.Story();
  EXPECT_EQ(s.Holder("gpu2"), "r1 on gpu2") << s.Story();
  s.Asks("x");
  for (const char* job : {"r0", "r1", "r1 on gpu0", "r1 on gpu2"}) {
    EXPECT_EQ(s.Told<wire::Yield>(job)->stop_step, 1u) << job << s.Story();
    s.GivesUp(job);
  }
  EXPECT_EQ(s.Holder("gpu2"), "x") << s.Story();
}

TEST(GangTest, AnotherDeviceOfARankThatSaysAnotherSizeIsRejected) {
  for (const std::uint64_t size : {0, 1, 3}) {
    Script s("fifo");
    s.Joins("r0", {.pid = 7});
    s.Joins("r0 on gpu1", {.device = "gpu1", .pid = 7});
    s.Says("r0", wire::Gang{"g", 0, 2});
    s.Says("r0 on gpu1", wire::Gang{"g", 0, size});
    EXPECT_THAT(s.Rejection(), HasSubstr("has 1 ranks of 2 already")) << size;
  }
}

TEST(GangTest, ARankThatCannotBeIsRejected) {
  Script s("fifo");
  s.Joins("a");
  s.Joins("b");
  s.Joins("c");
  s.Says("a", wire::Gang{"g", 5, 2});
  EXPECT_THAT(s.Rejection(), HasSubstr("rank 5 of 2"));
  s.Says("a", wire::Gang{"g", 0, 2});
  EXPECT_EQ(s.Rejection(), "");
  s.Says("b", wire::Gang{"g", 0, 2});
  EXPECT_THAT(s.Rejection(), HasSubstr("that one among them"));
  s.Says("c", wire::Gang{"g", 1, 3});
  EXPECT_THAT(s.Rejection(), HasSubstr("1 ranks of 2"));
}

}  // namespace
}  // namespace hocket::coordinator
