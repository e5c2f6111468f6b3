// A job that is stopped while it waits, and then given the turn: the Grant is taken back.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/coordinator/script.h"

namespace hocket::coordinator {
namespace {

using absl::Milliseconds;
using absl::Seconds;
using testing::Each;
using testing::HasSubstr;
using testing::Not;

// "a" has had a turn, waits for the next one and is stopped; "b" waits behind it; "c" gives its turn up.
void StoppedIsNext(Script& s) {
  for (const char* name : {"a", "b", "c"}) s.Joins(name);
  s.Asks("c");
  s.Asks("a");
  s.Asks("b");
  s.Stops("a");
  s.Passes(Milliseconds(100));
  s.GivesUp("c");
  ASSERT_EQ(s.Holder(), "a") << s.Story();
}

TEST(TakeBackTest, TheTurnOfAStoppedWaiterGoesOnAfterASecond) {
  Script s("fifo");
  StoppedIsNext(s);
  s.Passes(Milliseconds(999));
  EXPECT_EQ(s.Holder(), "a") << s.Story();
  s.Passes(Milliseconds(2));
  EXPECT_EQ(s.Holder(), "b") << s.Story();
}

TEST(TakeBackTest, ItIsNamedAndGetsNoTurnUntilItAnswers) {
  Script s("fifo");
  StoppedIsNext(s);
  s.Passes(Seconds(3));
  EXPECT_EQ(s.core().StateOf(s.IdOf("a")), "stopped");
  EXPECT_THAT(s.Why("a"), HasSubstr("has not taken up the turn that it was given 1.0 s ago"));
  EXPECT_EQ(std::count_if(s.sentences().begin(), s.sentences().end(),
                          [](const std::string& said) { return said.find("has not taken up") != said.npos; }),
            1);
  s.GivesUp("b");
  EXPECT_EQ(s.Holder(), "") << s.Story();
  s.GoesOn("a");
  EXPECT_EQ(s.Holder(), "a") << s.Story();
  EXPECT_EQ(s.TimesTold<wire::Grant>("a"), 2);
}

TEST(TakeBackTest, NothingIsRecordedLearnedOrCharged) {
  Script s("fifo");
  StoppedIsNext(s);
  s.Passes(Seconds(2));
  EXPECT_EQ(s.Turns("a"), 0) << s.Story();
  EXPECT_EQ(s.JobOf("a").turns, 0u);
  EXPECT_EQ(s.JobOf("a").held, absl::ZeroDuration());
  EXPECT_FALSE(s.JobOf("a").ready.known());
  s.GoesOn("a");
  EXPECT_FALSE(s.JobOf("a").gap.known()) << "being stopped is no gap between two turns";
}

TEST(TakeBackTest, FairDoesNotChargeForATurnThatWasTakenBack) {
  Script s("fair");
  for (const char* name : {"a", "b", "c"}) s.Joins(name);
  s.Asks("c");
  s.Asks("a");
  s.Stops("a");
  s.GivesUp("c");
  ASSERT_EQ(s.Holder(), "a") << s.Story();
  s.Asks("b");
  s.Passes(Milliseconds(1001));
  ASSERT_EQ(s.Holder(), "b") << s.Story();
  s.GoesOn("a");
  s.Asks("c");
  s.Passes(Milliseconds(10));
  s.GivesUp("b");
  s.Asks("b");
  EXPECT_EQ(s.Holder(), "a") << "it has had nothing yet" << s.Story();
}

TEST(TakeBackTest, AJobThatHasTakenUpItsTurnIsTriedOnceAndKeepsIt) {
  Script s("fifo");
  for (const char* name : {"a", "b"}) s.Joins(name);
  s.Asks("a");
  s.Asks("b");
  s.Passes(Seconds(100));
  EXPECT_EQ(s.Holder(), "a") << s.Story();
  EXPECT_EQ(s.TriedToTakeBack("a"), 1);
  EXPECT_NE(s.core().StateOf(s.IdOf("a")), "stopped");
}

TEST(TakeBackTest, ATurnThatEndsWithinASecondIsNeverTried) {
  Script s("fifo");
  for (const char* name : {"a", "b"}) {
    s.Joins(name, {.step = Milliseconds(50)});
    s.Lives(name);
  }
  s.RunsFor(Seconds(10));
  EXPECT_EQ(s.TriedToTakeBack("a") + s.TriedToTakeBack("b"), 0) << s.Story();
}

TEST(TakeBackTest, WhileNobodyElseWaitsItKeepsWhatItHasNotRead) {
  Script s("fifo");
  for (const char* name : {"a", "b"}) s.Joins(name);
  s.Stops("a");
  s.Asks("a");
  s.Passes(Seconds(100));
  EXPECT_EQ(s.Holder(), "a") << s.Story();
  EXPECT_EQ(s.TriedToTakeBack("a"), 0);
  s.Asks("b");  // and the second is long over
  EXPECT_EQ(s.Holder(), "b") << s.Story();
  EXPECT_EQ(s.core().StateOf(s.IdOf("a")), "stopped");
}

TEST(TakeBackTest, OnlyThoseWhoCouldHaveTheTurnCountAsWaiting) {
  Script s("fifo");
  for (const char* name : {"a", "b"}) s.Joins(name);
  s.Stops("a");
  s.Asks("a");
  s.Pauses("b");
  s.Asks("b");
  s.Passes(Seconds(5));
  EXPECT_EQ(s.Holder(), "a") << s.Story();
  s.Resumes("b");
  EXPECT_EQ(s.Holder(), "b") << s.Story();
}

TEST(TakeBackTest, AJobWhoseWaitHasNoNumberKeepsItsTurn) {
  Script s("fifo");
  for (const char* name : {"a", "b"}) s.Joins(name);
  s.Stops("a");
  s.Says("a", wire::Wait{});
  s.Asks("b");
  s.Passes(Seconds(5));
  EXPECT_EQ(s.Holder(), "a") << s.Story();
  EXPECT_EQ(s.TriedToTakeBack("a"), 0);
}

TEST(TakeBackTest, AYieldThatWasSentWithItIsNotSentAgainForAnotherTurn) {
  Script s("fifo");
  StoppedIsNext(s);
  s.Passes(Seconds(2));
  const int yields = s.TimesTold<wire::Yield>("a");
  s.Asks("c");
  s.Passes(Seconds(5));
  EXPECT_EQ(s.TimesTold<wire::Yield>("a"), yields) << s.Story();
}

TEST(TakeBackTest, ItsBytesAreNotAskedForUntilItAnswers) {
  Script s("fifo", 100);
  s.Joins("a", {.persistent = 40});
  s.Joins("b", {.persistent = 40});
  s.StandsAtDoors("a");
  s.Stops("a");
  s.Asks("a");
  s.Asks("b");
  s.Passes(Seconds(2));
  ASSERT_EQ(s.Holder(), "b") << s.Story();
  s.NeedsRoom("b", 30);
  s.Passes(Seconds(5));
  EXPECT_EQ(s.TimesTold<wire::Spill>("a"), 0) << s.Story();
  s.GoesOn("a");
  s.NeedsRoom("b", 30);
  EXPECT_EQ(s.TimesTold<wire::Spill>("a"), 1) << s.Story();
}

// What the ledger says will be missing is asked for at the grant already.
TEST(TakeBackTest, RoomThatWasForeseenForItIsAskedForNoMore) {
  Script s("fifo", 100);
  s.Joins("a", {.persistent = 60});
  s.Joins("b", {.persistent = 10});
  s.Joins("c", {.persistent = 60});
  s.StandsAtDoors("a");
  s.Spills("a", 60);
  s.StandsAtDoors("c");
  s.Stops("a");
  s.Asks("a");
  EXPECT_EQ(s.Told<wire::Spill>("c")->bytes, 30u) << s.Story();
  s.Asks("b");
  s.Passes(Seconds(2));
  EXPECT_EQ(s.Holder(), "b") << s.Story();
  EXPECT_FALSE(s.JobOf("a").room);
  s.Spills("c", 10);  // less than was asked for, and nobody is asked for the rest
  EXPECT_EQ(s.TimesTold<wire::Spill>("c"), 1) << s.Story();
}

TEST(TakeBackTest, AJobThatDiesAfterwardsTakesNobodysArenaAway) {
  Script s("fifo");
  StoppedIsNext(s);
  s.Passes(Seconds(2));
  s.Grows("b", 7, 10);
  s.Dies("a");
  EXPECT_EQ(s.TimesTold<wire::ArenaDrop>("b"), 0) << s.Story();
  s.Asks("c");
  s.GivesUp("b");
  EXPECT_EQ(s.Holder(), "c") << s.Story();
}

TEST(TakeBackTest, OneThatIsPausedMeanwhileWaitsUntilItIsResumed) {
  Script s("fifo");
  StoppedIsNext(s);
  s.Passes(Seconds(2));
  s.Pauses("a");
  s.GoesOn("a");
  s.GivesUp("b");
  EXPECT_EQ(s.Holder(), "") << s.Story();
  s.Resumes("a");
  EXPECT_EQ(s.Holder(), "a") << s.Story();
}

TEST(TakeBackTest, AStoppedGangGivesWayAndComesBackWhole) {
  Script s("fifo");
  for (const char* name : {"r0", "r1", "c"}) s.Joins(name);
  s.FormsGang("ddp", {"r0", "r1"});
  s.Stops("r0");
  s.Stops("r1");
  s.Asks("r0");
  s.Asks("r1");
  ASSERT_EQ(s.Holder(), "r0, r1") << s.Story();
  s.Asks("c");
  s.Passes(Seconds(2));
  EXPECT_EQ(s.Holder(), "c") << s.Story();
  s.GoesOn("r0");
  s.GivesUp("c");
  EXPECT_EQ(s.Holder(), "") << "one rank does not answer yet" << s.Story();
  s.GoesOn("r1");
  EXPECT_EQ(s.Holder(), "r0, r1") << s.Story();
}

// The other rank runs on; the stopped one has part in the same turn again when it goes on, with another
// Grant.
TEST(TakeBackTest, AStoppedRankLosesItsPartAndMayHaveItBackInTheSameTurn) {
  Script s("fifo");
  for (const char* name : {"r0", "r1", "c"}) s.Joins(name);
  s.FormsGang("ddp", {"r0", "r1"});
  s.Stops("r1");
  s.Asks("r0");
  s.Asks("r1");
  s.Asks("c");
  s.Passes(Seconds(2));
  EXPECT_EQ(s.Holder(), "r0") << s.Story();
  EXPECT_THAT(s.Why("c"), HasSubstr("gang ddp"));
  s.GoesOn("r1");
  EXPECT_EQ(s.Holder(), "r0, r1") << s.Story();
  EXPECT_EQ(s.Told<wire::Grant>("r1")->turn, s.Told<wire::Grant>("r0")->turn);
  s.GivesUp("r0");
  s.GivesUp("r1");
  EXPECT_EQ(s.Holder(), "c") << s.Story();
}

TEST(TakeBackTest, ALateAnswerAboutAnOlderGrantChangesNothing) {
  Script s("fifo");
  for (const char* name : {"a", "b"}) s.Joins(name);
  s.Asks("a");
  s.GivesUp("a");
  s.Asks("a");
  s.Says("a", GrantTakenBack{1});
  EXPECT_EQ(s.Holder(), "a") << s.Story();
  EXPECT_THAT(s.sentences(), Each(Not(HasSubstr("has not taken up"))));
}

}  // namespace
}  // namespace hocket::coordinator
