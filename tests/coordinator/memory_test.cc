// Room on a full device: who is spilled, who waits, and who is told no.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/coordinator/script.h"

namespace hocket::coordinator {
namespace {

using absl::Milliseconds;
using absl::Seconds;
using testing::HasSubstr;

TEST(RoomTest, TheOneWhoseTurnIsFarthestIsSpilled) {
  Script s = FullDevice();
  s.NeedsRoom("a", 20);
  EXPECT_EQ(s.Told<wire::Spill>("c")->bytes, 20u) << s.Story();
  EXPECT_EQ(s.TimesTold<wire::Spill>("b"), 0);
  EXPECT_EQ(s.TimesTold<wire::Room>("a"), 0);
  s.Spills("c", 20);
  EXPECT_TRUE(s.Told<wire::Room>("a")->ok) << s.Story();
}

TEST(RoomTest, SeveralAreSpilledWhenOneIsNotEnough) {
  Script s = FullDevice();
  s.NeedsRoom("a", 60);
  EXPECT_EQ(s.Told<wire::Spill>("c")->bytes, 60u) << s.Story();
  EXPECT_EQ(s.Told<wire::Spill>("b")->bytes, 30u) << "what c cannot bring";
  s.Spills("c", 30);
  EXPECT_EQ(s.TimesTold<wire::Room>("a"), 0);
  s.Spills("b", 30);
  EXPECT_TRUE(s.Told<wire::Room>("a")->ok) << s.Story();
}

TEST(RoomTest, ASpillIsRecordedFromItsOrderToItsLastPart) {
  Script s = FullDevice();
  s.NeedsRoom("a", 20);
  const absl::Time ordered = s.now();
  s.Passes(Milliseconds(5));
  s.SpillsPart("c", 15);
  EXPECT_TRUE(s.spills().empty());
  s.Passes(Milliseconds(2));
  s.Spills("c", 5);
  ASSERT_EQ(s.spills().size(), 1u) << s.Story();
  const SpillEnded& spill = s.spills()[0];
  EXPECT_EQ(spill.job.name, "c");
  EXPECT_EQ(spill.job.id, s.IdOf("c"));
  EXPECT_EQ(spill.for_job.name, "a");
  EXPECT_EQ(spill.bytes, 20u);
  EXPECT_EQ(spill.start, ordered);
  EXPECT_EQ(spill.end, ordered + Milliseconds(7));
}

TEST(RoomTest, WhatWasSpilledBeforeADeathIsRecordedAndNothingIsWhereNothingWas) {
  Script s = FullDevice();
  s.NeedsRoom("a", 60);
  s.SpillsPart("c", 10);
  s.Dies("c");
  s.Spills("b", 0, /*movable=*/false, "it may not");
  ASSERT_EQ(s.spills().size(), 1u) << s.Story();
  EXPECT_EQ(s.spills()[0].job.name, "c");
  EXPECT_EQ(s.spills()[0].bytes, 10u);
}

TEST(RoomTest, AJobThatSpillsByItselfDoesSoForNobody) {
  Script s = FullDevice();
  s.Spills("c", 5);
  ASSERT_EQ(s.spills().size(), 1u) << s.Story();
  EXPECT_EQ(s.spills()[0].for_job.id, 0u);
  EXPECT_EQ(s.spills()[0].start, s.spills()[0].end);
}

// While one part is copied in, the next is copied out.
TEST(RoomTest, WhoRestoresTriesWithEachPart) {
  Script s = FullDevice();
  s.NeedsRoom("a", 60, /*restoring=*/true);
  s.SpillsPart("c", 10);
  EXPECT_TRUE(s.Told<wire::Room>("a")->ok) << s.Story();
  s.NeedsRoom("a", 50, /*restoring=*/true);
  EXPECT_EQ(s.TimesTold<wire::Room>("a"), 1) << "the rest is on its way";
  EXPECT_EQ(s.TimesTold<wire::Spill>("c"), 1);
  s.SpillsPart("c", 10);
  EXPECT_EQ(s.TimesTold<wire::Room>("a"), 2) << s.Story();
  s.NeedsRoom("a", 40, /*restoring=*/true);
  s.Spills("c", 10);
  s.NeedsRoom("a", 30, /*restoring=*/true);
  EXPECT_EQ(s.TimesTold<wire::Spill>("c"), 1) << s.Story();
  s.Spills("b", 30);
  EXPECT_EQ(s.TimesTold<wire::Room>("a"), 4) << s.Story();
  EXPECT_EQ(s.TimesTold<wire::Spill>("b"), 1);
}

// It looked before the part came and asks after: nobody spills for it twice.
TEST(RoomTest, APartThatComesBeforeTheQuestionAnswersIt) {
  Script s = FullDevice();
  s.NeedsRoom("a", 30, /*restoring=*/true);
  s.SpillsPart("c", 10);
  s.Spills("c", 20);  // a restores meanwhile
  s.NeedsRoom("a", 20, /*restoring=*/true);
  EXPECT_EQ(s.TimesTold<wire::Room>("a"), 2) << s.Story();
  EXPECT_EQ(s.TimesTold<wire::Spill>("c") + s.TimesTold<wire::Spill>("b"), 1) << s.Story();
}

TEST(RoomTest, WhatIsForeseenAtTheGrantIsNotAskedForAgain) {
  Script s("fifo", 100);
  s.Joins("a", {.persistent = 70});
  s.Joins("b", {.persistent = 10, .spilled = 60});
  s.StandsAtDoors("a");
  s.Asks("b");
  ASSERT_EQ(s.Told<wire::Spill>("a")->bytes, 40u) << s.Story();
  s.SpillsPart("a", 20);
  s.Spills("a", 20);
  s.NeedsRoom("b", 30, /*restoring=*/true);
  EXPECT_EQ(s.TimesTold<wire::Room>("b"), 1) << s.Story();
  EXPECT_EQ(s.TimesTold<wire::Spill>("a"), 1);
}

// 20 are free by the ledger, 5 by the driver: other programs, and what each process takes for itself.
TEST(RoomTest, WhatTheLedgerDoesNotKnowIsForeseenAtTheGrantAsLongAsItIsNews) {
  for (const auto& [later, bytes] : {std::pair(Seconds(9), Bytes{55}), std::pair(Seconds(11), Bytes{40})}) {
    Script s("fifo", 100);
    s.Joins("a", {.persistent = 70});
    s.Joins("b", {.persistent = 10, .spilled = 60});
    s.Asks("a");
    s.NeedsRoom("a", 15, /*restoring=*/false, /*device_free=*/5);
    s.Passes(later);
    s.GivesUp("a", {.movable = true});
    s.Asks("b");
    EXPECT_EQ(s.Told<wire::Spill>("a")->bytes, bytes) << s.Story();
  }
}

// Whoever has not asked yet has not been answered either: the time in which a refusal may change begins anew.
TEST(RoomTest, WhatWasForeseenInVainTakesNothingFromTheNextQuestion) {
  Script s("fifo", 100);
  s.Joins("a", {.persistent = 70});
  s.Joins("b", {.persistent = 10, .spilled = 60});
  s.StandsAtDoors("a");
  s.Asks("b");
  s.Spills("a", 20);
  s.Spills("a", 0, true, "the device works for a thread");
  s.NeedsRoom("b", 10);
  EXPECT_EQ(s.TimesTold<wire::Room>("b"), 0) << "a may change its mind\n" << s.Story();
}

TEST(RoomTest, AnAllocationIsAnsweredWhenAllThatItNeedsIsThere) {
  Script s = FullDevice();
  s.NeedsRoom("a", 20);
  s.SpillsPart("c", 10);
  EXPECT_EQ(s.TimesTold<wire::Room>("a"), 0) << s.Story();
  s.Spills("c", 10);
  EXPECT_TRUE(s.Told<wire::Room>("a")->ok) << s.Story();
}

TEST(RoomTest, PartsOfNothingAreTheEndOfAnAnswer) {
  Script s = FullDevice();
  s.NeedsRoom("a", 20, /*restoring=*/true);
  s.SpillsPart("c", 0);
  EXPECT_EQ(s.Told<wire::Spill>("b")->bytes, 20u) << s.Story();
}

TEST(RoomTest, AVictimThatGivesTooLittleIsFollowedByTheNext) {
  Script s = FullDevice();
  s.NeedsRoom("a", 20);
  s.Spills("c", 5, true, "pinned memory is exhausted");
  EXPECT_EQ(s.Told<wire::Spill>("c")->bytes, 15u) << "it has more, and is asked again";
  s.Spills("c", 0, true, "pinned memory is exhausted");
  EXPECT_EQ(s.Told<wire::Spill>("b")->bytes, 15u) << s.Story();
  s.Spills("b", 15);
  EXPECT_TRUE(s.Told<wire::Room>("a")->ok) << s.Story();
}

TEST(RoomTest, AnIdleMovableJobIsSpilledBeforeOneThatWaits) {
  Script s("fifo", 100);
  s.Joins("a", {.persistent = 30});
  s.Joins("b", {.persistent = 40});
  s.Joins("c", {.persistent = 30});
  s.StandsAtDoors("b");
  s.StandsAtDoors("c");
  s.Asks("a");
  s.Asks("c");
  s.NeedsRoom("a", 10);
  EXPECT_EQ(s.TimesTold<wire::Spill>("b"), 1) << s.Story();
  EXPECT_EQ(s.TimesTold<wire::Spill>("c"), 0);
}

TEST(RoomTest, APausedJobIsSpilledFirst) {
  Script s = FullDevice();
  s.Pauses("b");
  s.NeedsRoom("a", 10);
  EXPECT_EQ(s.TimesTold<wire::Spill>("b"), 1) << s.Story();
}

TEST(RoomTest, AJobBeingSpilledGetsNoTurnBeforeItHasAnswered) {
  Script s = FullDevice();
  s.NeedsRoom("a", 60);
  s.GivesUp("a");
  EXPECT_EQ(s.Holder(), "") << s.Story();
  s.Spills("b", 30);
  EXPECT_EQ(s.Holder(), "b") << s.Story();
}

TEST(RoomTest, AJobThatCannotBeMovedSaysWhyToItselfAndToWhoWaitsForRoom) {
  Script s = FullDevice();
  s.NeedsRoom("a", 60);
  s.Spills("b", 0, /*movable=*/false, "a thread that Hocket has not seen uses the device");
  EXPECT_THAT(s.Why("a"), HasSubstr("b holds 40 B and cannot be moved: a thread that Hocket has not seen"));
  EXPECT_THAT(s.Why("b"),
              AllOf(HasSubstr("has waited for"),
                    HasSubstr("; its 40 B stay on the device: a thread that Hocket has not seen")));
}

TEST(RoomTest, AJobNotAtItsDoorsIsWaitedFor) {
  Script s("fifo", 100);
  s.Joins("a", {.persistent = 30});
  s.Joins("b", {.persistent = 70});
  s.Asks("a");
  s.NeedsRoom("a", 20);
  EXPECT_EQ(s.TimesTold<wire::Room>("a"), 0) << s.Story();
  EXPECT_THAT(s.Why("a"), HasSubstr("b holds 70 B and does not stand at a door"));
  s.StandsAtDoors("b");
  EXPECT_EQ(s.Told<wire::Spill>("b")->bytes, 20u) << s.Story();
  s.Spills("b", 20);
  EXPECT_TRUE(s.Told<wire::Room>("a")->ok);
}

TEST(RoomTest, WhileAVictimSpillsNobodyIsWokenToTryAgain) {
  Script s("fifo", 100);
  s.Joins("a", {.persistent = 30});
  s.Joins("b", {.persistent = 70});
  s.Asks("a");
  s.NeedsRoom("a", 20);  // b is not at its doors: a is to try again in a moment
  s.StandsAtDoors("b");
  ASSERT_EQ(s.TimesTold<wire::Spill>("b"), 1) << s.Story();
  const int before = s.ticks();
  s.Passes(Milliseconds(900));
  EXPECT_LE(s.ticks() - before, 1) << s.Story();
  s.Spills("b", 20);
  EXPECT_TRUE(s.Told<wire::Room>("a")->ok) << s.Story();
}

TEST(RoomTest, AJobAloneOnATooSmallDeviceIsToldNoWithTheArithmetic) {
  Script s("fifo", 100);
  s.Joins("a", {.persistent = 90});
  s.Asks("a");
  s.NeedsRoom("a", 20);
  ASSERT_TRUE(s.Told<wire::Room>("a").has_value()) << s.Story();
  EXPECT_FALSE(s.Told<wire::Room>("a")->ok);
  EXPECT_THAT(s.Told<wire::Room>("a")->reason,
              HasSubstr("cannot make room for 20 B for job a on gpu0 (100 B)"));
  EXPECT_THAT(s.Told<wire::Room>("a")->reason, HasSubstr("a holds 90 B"));
}

TEST(RoomTest, WhenEvenEverythingMovableWouldNotSufficeTheAnswerIsNoAtOnce) {
  Script s("fifo", 100);
  s.Joins("a", {.persistent = 60});
  s.Joins("b", {.persistent = 40});
  s.Asks("a");
  s.NeedsRoom("a", 50);
  EXPECT_FALSE(s.Told<wire::Room>("a")->ok) << s.Story();
  EXPECT_THAT(s.Told<wire::Room>("a")->reason, HasSubstr("b 40 B (not enough even if moved)"));
}

TEST(RoomTest, AJobThatCannotSpillIsNamedWithItsReason) {
  Script s("fifo", 100);
  s.Joins("a", {.persistent = 60, .host = 0});
  s.Joins("b", {.persistent = 40, .spilled = 10});
  s.Asks("a");
  s.Asks("b", {.movable = true});  // and could not go on beside what a has
  s.GivesUp("a");
  s.Asks("a");
  ASSERT_EQ(s.Holder(), "b") << s.Story();
  s.GivesUp("b", {.movable = true});
  s.Asks("b", {.movable = true});
  for (int asked = 0; !s.Told<wire::Room>("a") || s.Told<wire::Room>("a")->ok; ++asked) {
    ASSERT_LT(asked, 100) << s.Story();
    s.NeedsRoom("a", 30);
    s.Spills("b", 0, true, "host memory for spilling is exhausted");
    s.Passes(Milliseconds(100));
  }
  EXPECT_FALSE(s.Told<wire::Room>("a")->ok) << s.Story();
  EXPECT_THAT(s.Told<wire::Room>("a")->reason, HasSubstr("b 40 B (cannot be moved: host memory"));
}

TEST(RoomTest, AJobThatCouldNotSpillForAMomentIsAskedAgain) {
  Script s("fifo", 100);
  s.Joins("a", {.persistent = 60});
  s.Joins("b", {.persistent = 40});
  s.StandsAtDoors("b");
  s.Asks("a");
  s.NeedsRoom("a", 30);
  s.Spills("b", 0, true, "the device is busy");
  s.Passes(Milliseconds(100));
  EXPECT_TRUE(s.Told<wire::Room>("a")->ok) << s.Story();
  s.NeedsRoom("a", 30);
  EXPECT_EQ(s.TimesTold<wire::Spill>("b"), 2) << s.Story();
}

TEST(RoomTest, ALargeSpillHasMoreTime) {
  Script s("fifo", 100_GiB);
  s.Joins("a");
  s.Joins("b", {.persistent = 100_GiB});
  s.StandsAtDoors("b");
  s.Asks("a");
  s.NeedsRoom("a", 10_GiB);
  s.Passes(Seconds(10));
  EXPECT_FALSE(s.JobOf("b").unresponsive);
  s.Passes(Seconds(2));
  EXPECT_TRUE(s.JobOf("b").unresponsive);
}

TEST(RoomTest, ARestoringJobIsNeverToldNoAndTriesAgain) {
  Script s("fifo", 100);
  s.Joins("a", {.persistent = 90});
  s.Asks("a");
  s.NeedsRoom("a", 20, /*restoring=*/true);
  EXPECT_EQ(s.TimesTold<wire::Room>("a"), 0) << s.Story();
  s.Passes(Milliseconds(150));
  EXPECT_TRUE(s.Told<wire::Room>("a")->ok) << s.Story();
  s.NeedsRoom("a", 20, /*restoring=*/true);
  s.Passes(Milliseconds(150));
  EXPECT_EQ(s.TimesTold<wire::Room>("a"), 2);
}

TEST(RoomTest, MemoryOfTheDeadIsWaitedFor) {
  Script s("fifo", 100);
  s.Joins("a", {.persistent = 30});
  s.Joins("b", {.persistent = 70});
  s.Asks("a");
  s.Dies("b");
  s.NeedsRoom("a", 50);
  EXPECT_EQ(s.TimesTold<wire::Room>("a"), 0) << s.Story();
  s.Passes(Milliseconds(25));
  EXPECT_TRUE(s.Told<wire::Room>("a")->ok) << "try again: " << s.Story();
}

TEST(RoomTest, MemoryOfTheDeadIsWaitedForByTheNextJobThoughNobodyElseIsLeft) {
  Script s("fifo", 100);
  s.Joins("a", {.persistent = 90});
  s.Dies("a");
  s.Passes(Milliseconds(1));
  s.Joins("b");
  s.Asks("b");
  s.NeedsRoom("b", 50);
  EXPECT_EQ(s.TimesTold<wire::Room>("b"), 0) << s.Story();
  s.Passes(Milliseconds(25));
  EXPECT_TRUE(s.Told<wire::Room>("b")->ok) << s.Story();
}

TEST(DeviceTest, IsForgottenWithItsLastJobOnceNothingIsOnItsWayBack) {
  Script s("fifo", 100);
  s.Joins("a", {.persistent = 90});
  s.Dies("a");
  EXPECT_EQ(s.core().state().devices.count("gpu0"), 1u);
  s.Passes(Seconds(11));
  s.Joins("b", {.device = "gpu1"});
  EXPECT_EQ(s.core().state().devices.count("gpu0"), 0u);
}

// a has grown into what b left. What the driver says shows it; what the ledger does not know of (5 bytes of
// somebody else's, seen before) does not.
TEST(RoomTest, MemoryOfTheDeadThatTheDriverHasBackIsNotWaitedFor) {
  Script s("fifo", 100);
  s.Joins("a", {.persistent = 30});
  s.Joins("b", {.persistent = 60});
  s.Asks("a");
  s.NeedsRoom("a", 20, false, /*device_free=*/5);
  s.Passes(Seconds(2));
  s.Dies("b");
  const auto tries = [&](Bytes device_free) {
    for (int i = 0; i < 10; ++i) {
      s.NeedsRoom("a", 90, false, device_free);
      s.Passes(Milliseconds(25));
      if (!s.Told<wire::Room>("a")->ok) return false;
    }
    return true;
  };
  EXPECT_TRUE(tries(5)) << "not back yet: it is waited for\n" << s.Story();
  for (int i = 0; i < 10; ++i) {
    s.NeedsRoom("a", 90, false, i % 2 == 0 ? 65 : 5);
    s.Passes(Milliseconds(25));
    EXPECT_TRUE(s.Told<wire::Room>("a")->ok) << "one glimpse is none\n" << s.Story();
  }
  EXPECT_FALSE(tries(65)) << "back, and not enough\n" << s.Story();
}

TEST(RoomTest, MemoryOfTheDeadIsNotWaitedForForEver) {
  Script s("fifo", 100);
  s.Joins("a", {.persistent = 30});
  s.Joins("b", {.persistent = 70});
  s.Asks("a");
  s.Dies("b");
  for (int i = 0; i < 1000; ++i) {
    s.NeedsRoom("a", 90);
    s.Passes(Milliseconds(25));
    if (!s.Told<wire::Room>("a")->ok) break;
  }
  EXPECT_FALSE(s.Told<wire::Room>("a")->ok) << s.Story();
}

TEST(RoomTest, AVictimThatDiesMakesRoomToo) {
  Script s = FullDevice();
  s.NeedsRoom("a", 20);
  s.Dies("c");
  EXPECT_EQ(s.Told<wire::Spill>("b")->bytes, 20u) << s.Story();
  s.Dies("b");
  s.Passes(Milliseconds(25));
  EXPECT_TRUE(s.Told<wire::Room>("a")->ok) << s.Story();
}

TEST(RoomTest, TheMemoryOfAJobThatLeavesIsWaitedForUntilItsProcessEnds) {
  Script s("fifo", 100);
  s.Joins("a", {.persistent = 30});
  s.Joins("b", {.persistent = 70});
  s.Asks("a");
  s.Leaves("b");
  for (int i = 0; i < 300; ++i) {  // it tries again and again
    s.NeedsRoom("a", 20);
    s.Passes(Milliseconds(30));
    ASSERT_TRUE(s.Told<wire::Room>("a")->ok) << s.Story();
  }
}

TEST(RoomTest, AJobThatLeftAndLivesOnIsNotWaitedForForEver) {
  Script s("fifo", 100);
  s.Joins("a", {.persistent = 30});
  s.Joins("b", {.persistent = 70});
  s.Leaves("b");
  s.Asks("a");
  for (int i = 0; i < 400; ++i) {
    s.NeedsRoom("a", 20);
    s.Passes(Milliseconds(30));
    if (!s.Told<wire::Room>("a")->ok) break;
  }
  EXPECT_FALSE(s.Told<wire::Room>("a")->ok) << s.Story();
  EXPECT_THAT(s.Told<wire::Room>("a")->reason, HasSubstr("b 70 B (it has left Hocket and keeps them)"));
}

TEST(RoomTest, AnAskerThatDiesLeavesItsVictimsAlone) {
  Script s = FullDevice();
  s.NeedsRoom("a", 20);
  s.Dies("a");
  EXPECT_EQ(s.Holder(), "b") << s.Story();
  s.Spills("c", 20);
  s.GivesUp("b");
  EXPECT_EQ(s.Holder(), "c") << s.Story();
}

TEST(RoomTest, AStoppedVictimIsPassedOverAndLeftAsideUntilItAnswers) {
  Script s = FullDevice();
  s.NeedsRoom("a", 20);
  s.Passes(Milliseconds(999));
  EXPECT_EQ(s.TimesTold<wire::Spill>("b"), 0);
  s.Passes(Milliseconds(2));
  EXPECT_EQ(s.Told<wire::Spill>("b")->bytes, 20u) << s.Story();
  s.Spills("b", 20);
  EXPECT_TRUE(s.Told<wire::Room>("a")->ok);
  s.GivesUp("a");
  s.GivesUp("b");
  EXPECT_EQ(s.Holder(), "") << "c is stopped";
  EXPECT_THAT(s.Why("c"), HasSubstr("stopped, or in a debugger? A stopped one goes on with: kill -CONT "));
  s.Spills("c", 20);
  EXPECT_EQ(s.Holder(), "c") << s.Story();
}

TEST(RoomTest, OnlyAStoppedJobIsLeftSoItIsWaitedFor) {
  Script s("fifo", 100);
  s.Joins("a", {.persistent = 30});
  s.Joins("b", {.persistent = 70});
  s.StandsAtDoors("b");
  s.Asks("a");
  s.NeedsRoom("a", 20);
  s.Passes(Milliseconds(1050));
  EXPECT_EQ(s.TimesTold<wire::Room>("a"), 0) << s.Story();
  s.Spills("b", 20);
  EXPECT_TRUE(s.Told<wire::Room>("a")->ok) << s.Story();
}

TEST(RoomTest, RoomThatWillBeMissingIsAskedForWithTheGrant) {
  Script s("fifo", 100);
  s.Joins("a", {.persistent = 70});
  s.Joins("b");
  s.Asks("a");
  s.Asks("b", {.need = 60});
  s.GivesUp("a", {.movable = true});
  EXPECT_TRUE(s.Holds("b"));
  EXPECT_EQ(s.Told<wire::Spill>("a")->bytes, 30u) << s.Story();
  s.NeedsRoom("b", 30, /*restoring=*/true);
  s.Spills("a", 30);
  EXPECT_TRUE(s.Told<wire::Room>("b")->ok) << s.Story();
  EXPECT_EQ(s.TimesTold<wire::Spill>("a"), 1);
}

TEST(RoomTest, OneThatDoesNotFitNowLetsOthersGoFirstButNotForEver) {
  Script s("fifo", 100);
  s.Joins("a", {.persistent = 50});
  s.Joins("b");
  s.Joins("c", {.persistent = 10});
  s.Asks("a");
  s.Asks("b", {.need = 80});
  s.Asks("c");
  int turns_of_others = 0;
  for (std::string holder = "a"; holder != "b" && turns_of_others < 20; ++turns_of_others) {
    s.Passes(Milliseconds(1));
    s.GivesUp(holder, {.movable = false});  // not at its door yet
    s.Asks(holder);
    holder = s.Holder();
  }
  EXPECT_EQ(s.Holder(), "b") << s.Story();
  EXPECT_GT(turns_of_others, 1) << s.Story();
}

TEST(RoomTest, AskingTwiceForRoomIsRejected) {
  Script s = FullDevice();
  s.NeedsRoom("a", 20);
  s.NeedsRoom("a", 20);
  EXPECT_THAT(s.Rejection(), HasSubstr("not answered yet"));
}

// Three jobs of 60 bytes each on a device of 100, by themselves.
TEST(RoomTest, ThreeJobsThatDoNotFitTogetherAllGoOn) {
  for (const char* policy : {"fifo", "round-robin", "fair"}) {
    Script s(policy, 100);
    for (const char* name : {"a", "b", "c"}) {
      s.Joins(name, {.spill_time = Milliseconds(5), .restore_time = Milliseconds(5)});
      s.Says(name, wire::Report{.persistent = 0, .spilled = 60});
    }
    s.Lives("a");
    s.Lives("b");
    s.Lives("c");
    s.RunsFor(Seconds(30));
    for (const char* name : {"a", "b", "c"}) EXPECT_GT(s.Steps(name), 500u) << policy << name << s.Story();
  }
}

}  // namespace
}  // namespace hocket::coordinator
