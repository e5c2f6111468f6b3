// Requests beside training: who stands by for them, for how long, and what is done where nobody can.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "coordinator/core/limits.h"
#include "tests/coordinator/script.h"

namespace hocket::coordinator {
namespace {

using absl::Milliseconds;
using absl::Seconds;
using testing::HasSubstr;
using testing::Not;

constexpr Part kTrainer = {.stands_by = true};
constexpr Part kServer = {.serves = true, .stands_by = true};

// Jobs that have had a turn, and do nothing now.
class ServingTest : public testing::Test {
 protected:
  explicit ServingTest(const std::string& policy = "fair") : s(policy, 100) {}
  void Join(const std::string& name, const Part& part, Bytes transient = 0) {
    s.Joins(name, part);
    s.Asks(name);
    s.GivesUp(name, {.movable = true, .transient = transient});
  }
  // `train` is in its turn, and nobody waits.
  void Trains() {
    Join("serve", kServer);
    Join("train", kTrainer);
    s.Asks("train");
  }
  Script s;
};

TEST_F(ServingTest, WhoTrainsStandsByAndKeepsItsTurn) {
  Trains();
  s.Asks("serve");
  EXPECT_EQ(s.Holder(), "train") << s.Story();
  EXPECT_EQ(s.Told<wire::StandBy>("train")->turn, s.Told<wire::Grant>("train")->turn);
  s.StandsBy("train");
  EXPECT_EQ(s.Holder(), "serve, train") << s.Story();
  const wire::Grant grant = *s.Told<wire::Grant>("serve");
  EXPECT_TRUE(grant.contended) << s.Story();
  EXPECT_THAT(grant.lane_lock, HasSubstr("-1.lock")) << s.Story();
  EXPECT_EQ(s.TimesTold<wire::GoOn>("train"), 0) << s.Story();
  s.GivesUp("serve");
  EXPECT_EQ(s.Told<wire::GoOn>("train")->turn, s.Told<wire::StandBy>("train")->turn) << s.Story();
  EXPECT_EQ(s.Holder(), "train") << s.Story();
  EXPECT_EQ(s.TimesTold<wire::Yield>("train"), 0) << s.Story();
}

// It is to go as soon as it has nothing to do.
TEST_F(ServingTest, WhoServesIsNotToldHowLongTheTurnIsKeptInPauses) {
  Join("serve", kServer);
  s.Joins("other");
  s.Joins("train", kTrainer);
  for (int i = 0; i < 3; ++i) {
    s.Asks("train");
    s.GivesUp("train", {.ready = Milliseconds(200), .restored = 50});
  }
  s.Asks("train");
  s.Asks("serve");
  s.StandsBy("train");
  ASSERT_TRUE(s.Holds("serve")) << s.Story();
  s.Asks("other", {.need = 60, .spilled = 60});
  s.Passes(Milliseconds(10));
  EXPECT_GT(s.Told<wire::Yield>("train")->idle_ns, 0u) << s.Story();
  EXPECT_EQ(s.TimesTold<wire::Yield>("serve"), 0) << s.Story();
}

TEST_F(ServingTest, TheNextRequestIsServedInTheSameLane) {
  Trains();
  for (int request = 1; request <= 3; ++request) {
    s.Asks("serve");
    s.StandsBy("train");
    s.GivesUp("serve");
    s.Passes(kLanesKept * 2);
    EXPECT_EQ(s.TimesTold<wire::StandBy>("train"), request) << s.Story();
  }
  EXPECT_THAT(s.Told<wire::Grant>("serve")->lane_lock, "") << s.Story();
  EXPECT_EQ(s.JobOf("serve").lane, 1);
  EXPECT_EQ(s.TimesTold<wire::ArenaDrop>("train"), 0) << s.Story();
}

TEST_F(ServingTest, ItsArenaStaysWhileOthersTrain) {
  Join("serve", kServer);
  Join("train", kTrainer, 20);
  s.Asks("train");
  s.Grows("train", 1, 20);
  s.Asks("serve");
  s.StandsBy("train");
  s.Grows("serve", 2, 10);
  s.GivesUp("serve", {.transient = 10});
  s.GivesUp("train", {.transient = 20});
  s.Asks("serve");  // alone: the trainer's arena is not given back for that
  s.GivesUp("serve", {.transient = 10});
  s.Passes(Seconds(60));
  EXPECT_EQ(s.core().Arena(s.core().state().devices.at("gpu0")), 30u) << s.Story();
}

// It stays in the second lane, and nobody in the first when they have gone.
TEST_F(ServingTest, WhatTrainersHadBesideItIsFreeWhenTheyHaveGone) {
  Trains();
  s.Asks("serve");
  s.StandsBy("train");
  s.Grows("serve", 1, 10);
  s.GivesUp("serve");
  const Device& device = s.core().state().devices.at("gpu0");
  const auto ends = [&](const std::string& trainer, std::uint64_t chunk) {
    s.Grows(trainer, chunk, 20);
    EXPECT_EQ(s.core().Arena(device), 30u) << s.Story();
    s.Leaves(trainer);
    s.Dies(trainer);
    EXPECT_EQ(s.core().Arena(device), 10u) << s.Story();
    EXPECT_EQ(s.core().Free(device), 90u) << s.Story();
  };
  ends("train", 2);
  Join("another", kTrainer);
  s.Asks("another");
  ASSERT_EQ(s.JobOf("serve").lane, 1) << s.Story();
  ends("another", 3);
}

// Who goes to a lane of its own forgets what it had in the other one.
TEST_F(ServingTest, WhatItLeavesBehindInTheFirstLaneIsNotCounted) {
  Join("serve", kServer);
  s.Asks("serve");
  s.Grows("serve", 1, 10);
  s.GivesUp("serve");
  Join("train", kTrainer);
  s.Asks("train");
  s.Asks("serve");
  s.StandsBy("train");
  ASSERT_EQ(s.JobOf("serve").lane, 1) << s.Story();
  const Device& device = s.core().state().devices.at("gpu0");
  EXPECT_EQ(s.core().Arena(device), 0u) << s.Story();
  s.Passes(kArenaDropLimit);
  s.Sets(Tick{});
  EXPECT_EQ(s.core().Free(device), 100u) << s.Story();
}

TEST_F(ServingTest, WhoDoesNotStandByIsNotWaitedForForEver) {
  Trains();
  s.Asks("serve");
  s.Passes(kMostStandBy - Milliseconds(1));
  EXPECT_FALSE(s.Holds("serve")) << s.Story();
  s.Passes(Milliseconds(2));
  EXPECT_TRUE(s.Holds("serve")) << s.Story();
  s.GivesUp("serve");
  EXPECT_EQ(s.TimesTold<wire::GoOn>("train"), 1) << s.Story();
}

TEST_F(ServingTest, ALongRequestGoesOnBesideWhoTrains) {
  Trains();
  s.Asks("serve");
  s.StandsBy("train");
  s.Passes(kMostStandBy - Milliseconds(1));
  EXPECT_EQ(s.TimesTold<wire::GoOn>("train"), 0) << s.Story();
  s.Passes(Milliseconds(2));
  EXPECT_EQ(s.TimesTold<wire::GoOn>("train"), 1) << s.Story();
  EXPECT_EQ(s.Holder(), "serve, train") << s.Story();
  s.Passes(Seconds(60));
  EXPECT_EQ(s.TimesTold<wire::StandBy>("train"), 1) << s.Story();
  s.GivesUp("serve");
  s.Asks("serve");
  EXPECT_EQ(s.TimesTold<wire::StandBy>("train"), 2) << s.Story();
}

TEST_F(ServingTest, WhoNeverStandsByGoesOnBesideInTheEnd) {
  Trains();
  s.Asks("serve");
  s.Passes(2 * kMostStandBy + Milliseconds(1));
  EXPECT_EQ(s.Holder(), "serve, train") << s.Story();
  EXPECT_EQ(s.TimesTold<wire::GoOn>("train"), 1) << s.Story();
  s.StandsBy("train");  // too late: it crosses with that
  EXPECT_EQ(s.TimesTold<wire::GoOn>("train"), 1) << s.Story();
}

TEST_F(ServingTest, TwoServeAtTheSameTime) {
  Join("other", kServer);
  Trains();
  s.Asks("serve");
  s.StandsBy("train");
  s.Asks("other");
  EXPECT_TRUE(s.Holds("serve") && s.Holds("other")) << s.Story();
  s.GivesUp("serve");
  EXPECT_EQ(s.TimesTold<wire::GoOn>("train"), 0) << s.Story();
  s.GivesUp("other");
  EXPECT_EQ(s.TimesTold<wire::GoOn>("train"), 1) << s.Story();
}

TEST_F(ServingTest, ARequestThatIsWithdrawnLetsThemGoOn) {
  Trains();
  s.Asks("serve");
  s.Dies("serve");
  EXPECT_EQ(s.TimesTold<wire::GoOn>("train"), 1) << s.Story();
}

TEST_F(ServingTest, WhoServesMayDieInIt) {
  Trains();
  s.Asks("serve");
  s.StandsBy("train");
  s.Dies("serve");
  EXPECT_EQ(s.Holder(), "train") << s.Story();
  EXPECT_EQ(s.TimesTold<wire::GoOn>("train"), 1) << s.Story();
}

TEST_F(ServingTest, WhoStandsByMayDieInIt) {
  Trains();
  s.Asks("serve");
  s.StandsBy("train");
  s.Dies("train");
  EXPECT_EQ(s.Holder(), "serve") << s.Story();
  s.GivesUp("serve");
  EXPECT_EQ(s.Holder(), "") << s.Story();
}

TEST_F(ServingTest, TheTurnMayEndMeanwhile) {
  Trains();
  s.Asks("serve");
  s.GivesUp("train");  // at the end of a step, as somebody asks for the turn
  EXPECT_EQ(s.Holder(), "serve") << s.Story();
  s.Asks("train");
  EXPECT_FALSE(s.Told<wire::Grant>("train")->turn == s.Told<wire::Grant>("serve")->turn);
  s.Passes(Seconds(1));
  EXPECT_GE(s.TimesTold<wire::Yield>("serve"), 1) << s.Story();
  s.GivesUp("serve");
  EXPECT_EQ(s.Holder(), "train") << s.Story();
}

TEST_F(ServingTest, OthersHaveTheirTurnsAsEver) {
  Join("next", kTrainer);
  Trains();
  s.Asks("serve");
  s.Asks("next");
  s.StandsBy("train");
  s.Passes(Seconds(1));
  EXPECT_TRUE(s.Told<wire::Yield>("train")->now) << s.Story();
  s.GivesUp("serve");
  s.GivesUp("train");
  EXPECT_EQ(s.Holder(), "next") << s.Story();
}

TEST_F(ServingTest, WhoStandsByIsNotOverdue) {
  Join("next", kTrainer);
  Trains();
  s.Asks("next");
  s.Passes(Milliseconds(100));
  ASSERT_TRUE(s.Told<wire::Yield>("train")->now) << s.Story();
  for (int request = 0; request < 12; ++request) {
    s.Asks("serve");
    s.StandsBy("train");
    s.Passes(Milliseconds(900));
    s.GivesUp("serve");
  }
  EXPECT_FALSE(s.core().state().turns.at(s.Told<wire::Grant>("train")->turn).overdue) << s.Story();
  s.Passes(kHolderLimit);
  EXPECT_TRUE(s.core().state().turns.at(s.Told<wire::Grant>("train")->turn).overdue) << s.Story();
}

TEST_F(ServingTest, TheTimeInWhichItStoodIsNotItsStep) {
  Trains();
  s.Passes(Milliseconds(10));
  s.Asks("serve");
  s.StandsBy("train");
  s.Passes(Milliseconds(500));
  s.GivesUp("serve");
  s.Passes(Milliseconds(10));
  s.GivesUp("train", {.steps = 2});
  EXPECT_EQ(s.JobOf("train").step.mean(), Milliseconds(10)) << s.Story();
}

TEST_F(ServingTest, WhoDoesNotUnderstandItIsAskedForTheTurn) {
  Join("serve", kServer);
  Join("train", {});
  s.Asks("train");
  s.Asks("serve");
  EXPECT_EQ(s.TimesTold<wire::StandBy>("train"), 0) << s.Story();
  EXPECT_TRUE(s.Told<wire::Yield>("train")->now) << s.Story();
  EXPECT_EQ(s.TimesTold<wire::Pace>("train"), 0) << s.Story();
}

TEST_F(ServingTest, AGangIsAskedForTheTurn) {
  Join("serve", kServer);
  Join("a", kTrainer);
  Join("b", {.device = "gpu1", .stands_by = true});
  s.FormsGang("pair", {"a", "b"});
  s.Asks("a");
  s.Asks("b");
  s.Asks("serve");
  EXPECT_EQ(s.TimesTold<wire::StandBy>("a"), 0) << s.Story();
  EXPECT_GT(s.Told<wire::Yield>("a")->stop_step, 0u) << s.Story();
}

TEST_F(ServingTest, WhoTakesNoRoomMayServeOthersWaitForATurn) {
  Join("serve", kServer, 30);
  Join("train", {.persistent = 50, .stands_by = true}, 30);
  s.Asks("train");
  s.Asks("serve");  // 100 - 50 - 30: its arena would need 30
  EXPECT_EQ(s.TimesTold<wire::StandBy>("train"), 0) << s.Story();
  EXPECT_TRUE(s.Told<wire::Yield>("train")->now) << s.Story();
}

// Each would have all of the cap that the other leaves at its begin.
TEST_F(ServingTest, WhoSharesAMemoryCapHasATurnOfItsOwn) {
  Join("serve", {.serves = true, .stands_by = true, .group = "g"});
  Join("train", {.stands_by = true, .group = "g"});
  s.Allows(Owner::Group("g"), {.memory_cap = 50});
  s.Asks("train");
  s.Asks("serve");
  EXPECT_EQ(s.TimesTold<wire::StandBy>("train"), 0) << s.Story();
  EXPECT_TRUE(s.Told<wire::Yield>("train")->now) << s.Story();
}

TEST_F(ServingTest, WhoFoundNoRoomBesideHasATurnOfItsOwnNext) {
  Trains();
  s.Asks("serve");
  s.StandsBy("train");
  s.NeedsRoom("serve", 60);
  EXPECT_TRUE(s.Told<wire::Room>("serve")->step_aside) << s.Story();
  s.GivesUp("serve", {.stood_aside = true});
  s.Asks("serve");
  EXPECT_EQ(s.TimesTold<wire::StandBy>("train"), 1) << s.Story();
  EXPECT_TRUE(s.Told<wire::Yield>("train")->now) << s.Story();
}

TEST_F(ServingTest, ItsBytesAreMovedLast) {
  Join("serve", {.persistent = 40, .serves = true});
  Join("idle", {.persistent = 40, .stands_by = true});
  Join("train", kTrainer);
  s.Asks("train");
  s.NeedsRoom("train", 50);
  EXPECT_EQ(s.TimesTold<wire::Spill>("idle"), 1) << s.Story();
  EXPECT_EQ(s.Told<wire::Spill>("serve")->bytes, 10u) << s.Story();
}

TEST_F(ServingTest, NobodyRunsAheadWhereSomebodyServes) {
  s.Joins("train", kTrainer);
  EXPECT_EQ(s.TimesTold<wire::Pace>("train"), 0) << s.Story();
  s.Joins("serve", kServer);
  s.Joins("elsewhere", {.device = "gpu1", .stands_by = true});
  EXPECT_EQ(s.Told<wire::Pace>("train")->most_queued_ns,
            static_cast<std::uint64_t>(absl::ToInt64Nanoseconds(kMostQueued)));
  EXPECT_EQ(s.TimesTold<wire::Pace>("serve") + s.TimesTold<wire::Pace>("elsewhere"), 0) << s.Story();
  s.Joins("later", kTrainer);
  EXPECT_GT(s.Told<wire::Pace>("later")->most_queued_ns, 0u);
  s.Dies("serve");
  EXPECT_EQ(s.Told<wire::Pace>("train")->most_queued_ns, 0u) << s.Story();
  EXPECT_EQ(s.TimesTold<wire::Pace>("train"), 2) << s.Story();
}

TEST_F(ServingTest, APausedOneInterruptsNobody) {
  Trains();
  s.Asks("serve");
  s.StandsBy("train");
  s.Pauses("serve");
  EXPECT_EQ(s.TimesTold<wire::Yield>("train"), 0) << s.Story();
  s.GivesUp("serve");
  s.Asks("serve");
  EXPECT_EQ(s.TimesTold<wire::StandBy>("train"), 1) << s.Story();
  EXPECT_EQ(s.TimesTold<wire::Yield>("train"), 0) << s.Story();
}

TEST_F(ServingTest, SaysWhoStandsBy) {
  Trains();
  s.Asks("serve");
  EXPECT_THAT(s.Why("train"), HasSubstr("is to stand by"));
  EXPECT_THAT(s.Why("serve"), HasSubstr("train has had the turn"));
  s.StandsBy("train");
  EXPECT_THAT(s.Why("train"), HasSubstr("stands by for"));
  EXPECT_THAT(s.Why("serve"), HasSubstr("serves, beside train"));
  s.GivesUp("serve");
  EXPECT_THAT(s.Why("train"), Not(HasSubstr("stand")));
}

TEST_F(ServingTest, AnAnswerToNothingMeansNothing) {
  Trains();
  s.Says("train", wire::StoodBy{.turn = s.Told<wire::Grant>("train")->turn});
  s.Says("serve", wire::StoodBy{.turn = 99});
  EXPECT_EQ(s.Rejection(), "");
  s.Asks("serve");
  s.Says("train", wire::StoodBy{.turn = 99});
  EXPECT_FALSE(s.Holds("serve")) << s.Story();
}

// Nobody stands by then: who trains has gone on when the coordinator was gone.
class ServingRestartTest : public ServingTest {
 protected:
  void RestartsWhileARequestIsServed() {
    Trains();
    s.Asks("serve");
    s.StandsBy("train");
    turn_ = s.Told<wire::Grant>("train")->turn;
    s.CoordinatorRestarts({s.IdOf("train"), s.IdOf("serve")});
  }
  void JoinsAgain(const std::string& name) {
    Part part = name == "serve" ? kServer : kTrainer;
    part.rejoin = part.holds_turn = true;
    part.turn = turn_;
    part.id = s.IdOf(name);
    part.lane_lock = name == "serve" ? "/run/test/lane-gpu0-1.lock" : "/run/test/lane-gpu0-0.lock";
    s.Joins(name, part);
  }
  void GoOnBesideEachOther() {
    EXPECT_EQ(s.Holder(), "serve, train") << s.Story();
    ASSERT_TRUE(s.Told<wire::Yield>("serve")) << s.Story();
    EXPECT_FALSE(s.Told<wire::Yield>("serve")->now) << s.Story();
    EXPECT_EQ(s.TimesTold<wire::Yield>("train") + s.TimesTold<wire::StandBy>("train"), 0) << s.Story();
    s.GivesUp("serve");
    s.Asks("serve");
    EXPECT_EQ(s.TimesTold<wire::StandBy>("train"), 1) << s.Story();
  }
  TurnNumber turn_ = 0;
};

TEST_F(ServingRestartTest, WhoServesJoinsAgainFirst) {
  RestartsWhileARequestIsServed();
  JoinsAgain("serve");
  JoinsAgain("train");
  GoOnBesideEachOther();
}

TEST_F(ServingRestartTest, WhoTrainsJoinsAgainFirst) {
  RestartsWhileARequestIsServed();
  JoinsAgain("train");
  JoinsAgain("serve");
  GoOnBesideEachOther();
}

// The stop was asked of the other.
TEST_F(ServingTest, WhoServesOnWhenTheTrainerHasGoneIsAskedForTheTurn) {
  Join("next", kTrainer);
  Trains();
  s.Asks("next");
  s.Passes(Milliseconds(100));
  ASSERT_TRUE(s.Told<wire::Yield>("train")->now) << s.Story();
  s.Asks("serve");
  s.StandsBy("train");
  s.GivesUp("train");
  EXPECT_EQ(s.Holder(), "serve") << s.Story();
  s.Passes(Seconds(1));
  ASSERT_TRUE(s.Told<wire::Yield>("serve")) << s.Story();
  EXPECT_TRUE(s.Told<wire::Yield>("serve")->now) << s.Story();
}

TEST_F(ServingTest, WhoIsToStandByIsNotOverdueMeanwhile) {
  Join("next", kTrainer);
  Trains();
  s.Asks("next");
  s.Passes(kHolderLimit - Milliseconds(500));
  s.Asks("serve");
  s.Passes(Milliseconds(900));
  const Turn& turn = s.core().state().turns.at(s.Told<wire::Grant>("train")->turn);
  EXPECT_FALSE(turn.overdue) << s.Story();
}

TEST_F(ServingTest, WhoIsSetAsideWhileItIsToStandByMayGoOn) {
  Join("next", kTrainer);
  Trains();
  s.Asks("next");
  s.Passes(kHolderLimit * 2);
  ASSERT_TRUE(s.core().state().turns.at(s.Told<wire::Grant>("train")->turn).overdue) << s.Story();
  s.Asks("serve");
  ASSERT_EQ(s.TimesTold<wire::StandBy>("train"), 1) << s.Story();
  s.Says("next", SetOverdue{true});
  ASSERT_TRUE(s.JobOf("train").set_aside) << s.Story();
  EXPECT_EQ(s.TimesTold<wire::GoOn>("train"), 1) << s.Story();
}

// It is let in at any time: no reason to keep the device free for it.
TEST_F(ServingTest, TheDeviceIsNotKeptFreeForTheNextRequest) {
  Join("serve", kServer);
  Join("train", kTrainer);
  for (int request = 0; request < 20; ++request) {
    s.Asks("serve");
    s.Passes(Milliseconds(5));
    s.GivesUp("serve");
    s.Passes(Milliseconds(1));
  }
  s.Asks("serve");
  s.Asks("train");
  s.Passes(Milliseconds(5));
  s.GivesUp("serve");
  EXPECT_EQ(s.Holder(), "train") << s.Story();
}

// Policies that would not think of it.
class ServingUnderFifoTest : public ServingTest {
 protected:
  ServingUnderFifoTest() : ServingTest("fifo") {}
};

TEST_F(ServingUnderFifoTest, ItsFirstTurnComesNext) {
  Join("a", kTrainer);
  Join("b", kTrainer);
  s.Asks("a");
  s.Asks("b");
  s.Joins("serve", kServer);
  s.Asks("serve");
  EXPECT_EQ(s.TimesTold<wire::StandBy>("a"), 0) << s.Story();
  EXPECT_TRUE(s.Told<wire::Yield>("a")->now) << s.Story();
  s.GivesUp("a");
  EXPECT_EQ(s.Holder(), "serve") << s.Story();
  EXPECT_THAT(s.Why("serve"), HasSubstr("requests go first"));
}

TEST_F(ServingTest, WhoIsSetAsideNoLongerStandsBy) {
  Join("next", kTrainer);
  Trains();
  s.Says("train", SetOverdue{true});
  s.Asks("next");
  s.Passes(kHolderLimit - Milliseconds(500));
  s.Asks("serve");
  s.Passes(kMostStandBy + Milliseconds(1));
  s.GivesUp("serve");
  s.Passes(kHolderLimit);
  ASSERT_TRUE(s.JobOf("train").set_aside) << s.Story();
  EXPECT_EQ(s.TimesTold<wire::GoOn>("train"), s.TimesTold<wire::StandBy>("train")) << s.Story();
  EXPECT_EQ(s.Holder(), "next") << s.Story();
  s.Asks("serve");
  s.StandsBy("next");
  EXPECT_EQ(s.Holder(), "next, serve") << s.Story();
}

}  // namespace
}  // namespace hocket::coordinator
