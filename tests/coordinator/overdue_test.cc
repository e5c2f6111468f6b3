// A holder that does not give his turn up: the others wait, or go on in another lane, as people have said.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "coordinator/core/limits.h"
#include "tests/coordinator/script.h"

namespace hocket::coordinator {
namespace {

using absl::Milliseconds;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;

class OverdueTest : public testing::Test {
 protected:
  // "hung" has had the turn for so long that it is named, and "next" waits; steps of 10 ms.
  void Hang(bool go_on, Part hung = {}, Part next = {}, Bytes transient = 0) {
    s.Joins("hung", hung);
    s.Joins("next", next);
    s.Asks("next");
    s.GivesUp("next", {.movable = true, .transient = transient});
    s.Says("hung", SetOverdue{go_on});
    s.Asks("hung");
    s.Asks("next");
    s.Passes(kHolderLimit);
  }
  Script s{"fifo", 100};
};

TEST_F(OverdueTest, TheOthersWaitUnlessPeopleHaveSaidOtherwise) {
  Hang(/*go_on=*/false);
  EXPECT_EQ(s.Holder(), "hung") << s.Story();
  EXPECT_THAT(s.sentences(), Contains(HasSubstr("Does it hang? Nothing is done to it.")));
}

TEST_F(OverdueTest, TheOthersGoOnInAnotherLane) {
  Hang(/*go_on=*/true);
  EXPECT_EQ(s.Holder(), "next") << s.Story();
  EXPECT_THAT(s.Told<wire::Grant>("next")->lane_lock, HasSubstr("-1.lock")) << s.Story();
  EXPECT_TRUE(s.Told<wire::Yield>("hung")->give_back) << "it may wait for its lane's lock: " << s.Story();
  EXPECT_THAT(s.sentences(), Contains(HasSubstr("hung (pid 10001) keeps its lane")));
  EXPECT_THAT(s.Why("hung"), HasSubstr("does it hang? It keeps lane 0"));
  EXPECT_EQ(s.core().StateOf(s.IdOf("hung")), "holds");
  s.GivesUp("next");
  s.Joins("third");
  s.Asks("third");  // one after the other, in that lane
  s.Asks("next");
  EXPECT_EQ(s.Holder(), "third") << s.Story();
  EXPECT_EQ(s.JobOf("third").lane, 1) << s.Story();
}

// It may be paused for a night.
TEST_F(OverdueTest, TheLimitOfOneThatIsPausedBeginsWhenSomebodyWaits) {
  s.Joins("hung");
  s.Asks("hung");
  s.Pauses("hung");
  s.Passes(2 * kHolderLimit);
  s.Joins("next");
  s.Asks("next");
  EXPECT_THAT(s.sentences(), Not(Contains(HasSubstr("Does it hang?")))) << s.Story();
  s.Passes(kHolderLimit);
  EXPECT_THAT(s.sentences(), Contains(HasSubstr("Does it hang?"))) << s.Story();
}

TEST_F(OverdueTest, WhoComesBackIsStoppedAndTakesTurnsAgain) {
  Hang(/*go_on=*/true);
  EXPECT_TRUE(s.Told<wire::Yield>("hung")->now) << s.Story();
  s.GivesUp("hung");
  EXPECT_EQ(s.Told<wire::ArenaDrop>("hung")->chunk, 0u) << s.Story();
  s.Asks("hung");
  EXPECT_EQ(s.Holder(), "next") << s.Story();
  s.GivesUp("next");
  EXPECT_EQ(s.Holder(), "hung") << s.Story();
  s.Asks("next");
  s.GivesUp("hung");
  EXPECT_THAT(s.Told<wire::Grant>("next")->lane_lock, HasSubstr("-0.lock")) << s.Story();
}

TEST_F(OverdueTest, NobodyGoesOnWhoseBytesDoNotFitBesideIt) {
  Hang(/*go_on=*/true, {.persistent = 60}, {.persistent = 20}, /*transient=*/21);
  EXPECT_EQ(s.Holder(), "hung") << s.Story();
  s.Joins("small");
  s.Asks("small");
  EXPECT_EQ(s.Holder(), "small") << s.Story();
}

TEST_F(OverdueTest, SomebodyGoesOnForWhomOthersCanBeMoved) {
  s.Joins("hung", {.persistent = 40});
  s.Joins("next", {.spilled = 50});
  s.Asks("next");
  s.GivesUp("next");
  s.Says("hung", SetOverdue{true});
  s.Asks("hung");
  s.Joins("idle", {.persistent = 30});
  s.StandsAtDoors("idle");
  s.Asks("next");
  s.Passes(kHolderLimit);
  EXPECT_EQ(s.Holder(), "next") << s.Story();
  EXPECT_EQ(s.Told<wire::Spill>("idle")->bytes, 20u) << s.Story();
}

TEST_F(OverdueTest, ItsDeathDropsTheArenaOfItsLane) {
  s.Joins("third");
  Hang(/*go_on=*/true);
  s.Grows("next", 9, 5);
  s.Dies("hung");
  EXPECT_EQ(s.Told<wire::ArenaDrop>("third")->chunk, 0u) << s.Story();
  EXPECT_FALSE(s.Told<wire::ArenaDrop>("next")) << s.Story();
  s.GivesUp("next");
  s.Asks("third");
  EXPECT_TRUE(s.Told<wire::Grant>("third")->fresh_arena) << s.Story();
}

TEST_F(OverdueTest, IsNotBlockedByTwoThatHang) {
  Hang(/*go_on=*/true);
  s.Joins("third");
  s.Asks("third");
  s.Passes(kHolderLimit);
  EXPECT_EQ(s.Holder(), "third") << s.Story();
  EXPECT_EQ(s.JobOf("third").lane, 2) << s.Story();
}

// It says that it has the lock of a lane that another has not given up.
TEST_F(OverdueTest, WhoJoinsAgainInItsLaneIsAskedToStop) {
  Hang(/*go_on=*/true);
  const Part late{
      .rejoin = true, .id = 77, .holds_turn = true, .turn = 9, .lane_lock = "/run/test/lane-gpu0-0.lock"};
  s.Joins("late", late);
  EXPECT_TRUE(s.Told<wire::Yield>("late")->now) << s.Story();
  EXPECT_EQ(s.Holder(), "next") << s.Story();
  s.GivesUp("late");
  s.GivesUp("next");
  Part again = late;
  again.id = 78;
  s.Joins("again", again);
  EXPECT_TRUE(s.Told<wire::Yield>("again")->now) << s.Story();
  EXPECT_EQ(s.Holder(), "") << s.Story();
  EXPECT_THAT(s.sentences().back(), HasSubstr("which one that does not give its turn up keeps"));
}

TEST_F(OverdueTest, AGangKeepsItsTurn) {
  for (const char* job : {"r0", "r1", "next"}) s.Joins(job);
  s.FormsGang("g", {"r0", "r1"});
  s.Says("r0", SetOverdue{true});
  for (const char* job : {"r0", "r1", "next"}) s.Asks(job);
  s.Passes(2 * kHolderLimit);
  EXPECT_EQ(s.Holder(), "r0, r1") << s.Story();
}

TEST_F(OverdueTest, WhoWaitsForRoomInItsTurnIsStillAnswered) {
  s.Joins("unmovable", {.persistent = 60});
  s.Joins("hung", {.persistent = 30});
  s.Joins("next");
  s.Asks("next");
  s.GivesUp("next", {.movable = true});
  s.Says("hung", SetOverdue{true});
  s.Asks("hung");
  s.Asks("next");
  s.Passes(kHolderLimit - Milliseconds(1));
  s.NeedsRoom("hung", 20);
  s.Passes(Milliseconds(1));
  ASSERT_EQ(s.Holder(), "next") << s.Story();
  EXPECT_FALSE(s.Told<wire::Room>("hung")) << s.Story();
  s.Passes(2 * kRoomRetry);
  ASSERT_TRUE(s.Told<wire::Room>("hung")) << s.Story();
  EXPECT_TRUE(s.Told<wire::Room>("hung")->ok) << s.Story();
}

TEST_F(OverdueTest, WhatIsSaidLaterHoldsForThoseWhoHangAlready) {
  Hang(/*go_on=*/false);
  s.Says("hung", SetOverdue{true});
  EXPECT_EQ(s.Holder(), "next") << s.Story();
}

TEST_F(OverdueTest, WhoHoldsRoomThatItDoesNotGiveIsAskedForItWhenItComesBack) {
  Hang(/*go_on=*/true, {.persistent = 60}, {.persistent = 20});
  s.NeedsRoom("next", 30);
  EXPECT_FALSE(s.Told<wire::Spill>("hung")) << s.Story();
  s.GivesUp("hung", {.movable = true});
  EXPECT_EQ(s.Told<wire::Spill>("hung")->bytes, 30u) << s.Story();
}

}  // namespace
}  // namespace hocket::coordinator
