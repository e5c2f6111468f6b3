// After a restart of the coordinator.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/coordinator/script.h"

namespace hocket::coordinator {
namespace {

using absl::Milliseconds;
using absl::Seconds;
using testing::HasSubstr;

// The coordinator was restarted; b has come back and has the turn, a, who had it, is not there yet.
Script WithoutTheHolder() {
  Script s;
  s.CoordinatorRestarts({1, 2});
  s.Joins("b", {.rejoin = true, .id = 2});
  s.Asks("b");
  s.Passes(Seconds(2));
  return s;
}

TEST(RejoinTest, NothingIsGrantedBeforeAllHaveReported) {
  Script s;
  s.CoordinatorRestarts({1, 2});
  s.Joins("b", {.rejoin = true, .id = 2});
  s.Asks("b");
  EXPECT_FALSE(s.Holds("b")) << s.Story();
  EXPECT_THAT(s.Why("b"), HasSubstr("1 job(s) have not reported yet"));
  s.Joins("a", {.rejoin = true, .id = 1});
  EXPECT_TRUE(s.Holds("b")) << s.Story();
}

TEST(RejoinTest, ASilentJobIsNotWaitedForLongerThanASecond) {
  Script s;
  s.CoordinatorRestarts({1, 2});
  s.Joins("b", {.rejoin = true, .id = 2});
  s.Asks("b");
  s.Passes(Milliseconds(999));
  EXPECT_FALSE(s.Holds("b")) << s.Story();
  s.Passes(Milliseconds(2));
  EXPECT_TRUE(s.Holds("b")) << s.Story();
}

TEST(RejoinTest, AnExpectedJobThatDiesIsNotWaitedFor) {
  Script s;
  s.CoordinatorRestarts({1, 2});
  s.Joins("b", {.rejoin = true, .id = 2});
  s.Joins("a", {.rejoin = true, .id = 1});
  s.Asks("b");
  s.Dies("a");
  EXPECT_TRUE(s.Holds("b")) << s.Story();
}

TEST(RejoinTest, TheHolderKeepsItsTurnAndItsNumber) {
  Script s;
  s.CoordinatorRestarts({1, 2});
  s.Joins("a", {.rejoin = true, .id = 1, .holds_turn = true, .turn = 41});
  s.Joins("b", {.rejoin = true, .id = 2});
  s.Asks("b");
  EXPECT_EQ(s.Holder(), "a") << s.Story();
  EXPECT_EQ(s.Told<wire::Yield>("a")->turn, 41u);
  s.GivesUp("a");
  EXPECT_EQ(s.Told<wire::Grant>("b")->turn, 42u) << s.Story();
}

TEST(RejoinTest, WhatTheHolderKnowsOfTheArenaIsTheTruth) {
  Script s;
  s.CoordinatorRestarts({1, 2, 3});
  s.Joins("b", {.rejoin = true, .id = 2});
  EXPECT_EQ(s.Told<wire::ArenaDrop>("b")->chunk, 0u) << s.Story();
  s.Joins("a", {.rejoin = true, .id = 1, .holds_turn = true, .turn = 41});
  EXPECT_EQ(s.Told<wire::ArenaExport>("a")->to_job, 0u);
  EXPECT_EQ(s.TimesTold<wire::ArenaDrop>("a"), 0);
  s.Grows("a", 5, 10);
  EXPECT_EQ(s.Told<wire::ArenaAdd>("b")->chunk, 5u) << s.Story();
  s.Joins("c", {.rejoin = true, .id = 3});
  EXPECT_EQ(s.Told<wire::ArenaExport>("a")->to_job, 3u) << s.Story();
}

// Its agent was late, and its step lasts: a fellow that waited for that lock might be whom it waits for in
// its step.
TEST(RejoinTest, TheLockOfARankThatHasNotReportedIsLeftToIt) {
  Script s;
  s.CoordinatorRestarts({1, 2, 3}, {{1, {"/run/test/lane-gpu0-0.lock"}}});
  const Part r1{.rejoin = true,
                .id = 2,
                .gang = "ddp",
                .rank = 1,
                .size = 2,
                .lane_lock = "/run/test/lane-gpu0-0.lock"};
  s.Joins("r1", r1);
  s.Asks("r1");
  s.Passes(Seconds(2));
  EXPECT_EQ(s.Told<wire::Grant>("r1")->lane_lock, "/run/test/lane-gpu0-1.lock") << s.Story();
  s.Joins("r0",
          {.rejoin = true, .id = 1, .holds_turn = true, .turn = 41, .gang = "ddp", .rank = 0, .size = 2});
  EXPECT_EQ(s.Holder(), "r1") << s.Story();
}

TEST(RejoinTest, ForTheLockOfASingleJobThatHasNotReportedOthersWait) {
  Script s;
  s.CoordinatorRestarts({1, 2}, {{1, {"/run/test/lane-gpu0-0.lock"}}});
  s.Joins("b", {.rejoin = true, .id = 2});
  s.Asks("b");
  s.Passes(Seconds(2));
  EXPECT_EQ(s.Told<wire::Grant>("b")->lane_lock, "") << s.Story();
}

TEST(RejoinTest, AnExpectedJobThatEndsBeforeItReportsIsNotWaitedFor) {
  Script s;
  s.CoordinatorRestarts({1, 2}, {{1, {"/run/test/lane-gpu0-0.lock"}}});
  const std::string lock = "/run/test/lane-gpu0-0.lock";
  s.Joins("r1", {.rejoin = true, .id = 2, .gang = "ddp", .rank = 1, .size = 2, .lane_lock = lock});
  s.Asks("r1");
  EXPECT_EQ(s.TimesTold<wire::Grant>("r1"), 0) << "it may report yet";
  s.Died(1);
  ASSERT_EQ(s.TimesTold<wire::Grant>("r1"), 1) << s.Story();
  EXPECT_EQ(s.Told<wire::Grant>("r1")->lane_lock, "") << "the one that it knows: nobody has it";
}

// The holder runs on meanwhile: who has not reported yet may be moved for it soon.
TEST(RejoinTest, AHolderThatLacksRoomIsNotToldNoBeforeAllHaveReported) {
  Script s("fair", 100);
  s.CoordinatorRestarts({1, 2});
  s.Joins("a", {.persistent = 30, .rejoin = true, .id = 1, .holds_turn = true, .turn = 41});
  s.NeedsRoom("a", 20);
  EXPECT_EQ(s.TimesTold<wire::Room>("a"), 0) << s.Story();
  s.Joins("b", {.persistent = 70, .rejoin = true, .id = 2});
  s.StandsAtDoors("b");
  EXPECT_EQ(s.Told<wire::Spill>("b")->bytes, 20u) << s.Story();
  s.Spills("b", 20);
  EXPECT_TRUE(s.Told<wire::Room>("a")->ok) << s.Story();
}

// One that died with the coordinator: nobody has told of its memory.
TEST(RejoinTest, MemoryThatTheLedgerDoesNotSeeMayComeBackAfterARestart) {
  Script s("fair", 100);
  s.CoordinatorRestarts({1});
  s.Joins("a", {.persistent = 30, .rejoin = true, .id = 1, .holds_turn = true, .turn = 41});
  s.NeedsRoom("a", 20);
  EXPECT_EQ(s.TimesTold<wire::Room>("a"), 0) << s.Story();
  s.Passes(Milliseconds(25));
  ASSERT_TRUE(s.Told<wire::Room>("a").has_value()) << s.Story();
  EXPECT_TRUE(s.Told<wire::Room>("a")->ok) << "try again";
  s.NeedsRoom("a", 80);  // more than can be anywhere
  EXPECT_FALSE(s.Told<wire::Room>("a")->ok) << s.Story();
  s.Passes(Seconds(12));
  s.NeedsRoom("a", 20);
  EXPECT_FALSE(s.Told<wire::Room>("a")->ok) << "it has had its time: " << s.Story();
}

TEST(RejoinTest, TwoThatSayTheyHoldTheSameDeviceAreNotBothBelieved) {
  Script s;
  s.CoordinatorRestarts({1, 2});
  s.Joins("a", {.rejoin = true, .id = 1, .holds_turn = true, .turn = 41});
  s.Joins("b", {.rejoin = true, .id = 2, .holds_turn = true, .turn = 42});
  EXPECT_EQ(s.Holder(), "a") << s.Story();
  EXPECT_EQ(s.Told<wire::Yield>("b")->turn, 42u) << s.Story();
  EXPECT_TRUE(s.Told<wire::Yield>("b")->now);
  s.GivesUp("b");
  s.Asks("b");
  s.GivesUp("a");
  EXPECT_EQ(s.Holder(), "b") << s.Story();
}

// It was stopped, or copied memory, for longer than anybody waits for it.
TEST(RejoinTest, AHolderThatComesTooLateIsAskedToStopAndForgetsTheArenaOnlyThen) {
  Script s = WithoutTheHolder();
  ASSERT_TRUE(s.Holds("b")) << s.Story();
  s.Joins("a", {.rejoin = true, .id = 1, .holds_turn = true, .turn = 41});
  ASSERT_TRUE(s.Told<wire::Yield>("a")) << s.Story();
  EXPECT_EQ(s.Told<wire::Yield>("a")->turn, 41u);
  EXPECT_TRUE(s.Told<wire::Yield>("a")->now);
  EXPECT_EQ(s.TimesTold<wire::ArenaDrop>("a"), 0) << s.Story();
  s.Grows("a", 7, 10);
  EXPECT_EQ(s.TimesTold<wire::ArenaAdd>("b"), 0) << s.Story();
  s.GivesUp("a");
  EXPECT_EQ(s.Told<wire::ArenaDrop>("a")->chunk, 0u) << s.Story();
  EXPECT_EQ(s.Holder(), "b") << s.Story();
  s.Asks("a");
  s.GivesUp("b");
  EXPECT_EQ(s.Holder(), "a") << s.Story();
}

// Nothing of it lies in the arena yet, and the one who has the lock may have adopted chunks of it.
TEST(RejoinTest, ALateJobThatDoesNotHaveTheLaneYetForgetsTheArenaAtOnce) {
  Script s = WithoutTheHolder();
  s.Joins("a", {.rejoin = true, .id = 1, .holds_turn = false, .turn = 41});
  EXPECT_EQ(s.TimesTold<wire::ArenaDrop>("a"), 1) << s.Story();
  EXPECT_EQ(s.Told<wire::Yield>("a")->turn, 41u) << s.Story();
  EXPECT_TRUE(s.Told<wire::Yield>("a")->give_back) << s.Story();
}

// It stands at the lane's lock, and so does, perhaps, the next one who is granted the turn. Whoever of them
// gets it first, the others' chunks that were adopted in the turn before he hears of only then: he took them
// for the lane's, and wrote over their survivors.
TEST(RejoinTest, ALateJobAndThoseWhoHaveTurnsMeanwhileKnowNoChunkOfEachOthers) {
  Script s = WithoutTheHolder();
  s.Grows("b", 7, 10);
  s.Joins("a", {.rejoin = true, .id = 1, .holds_turn = false, .turn = 41});
  EXPECT_EQ(s.TimesTold<wire::ArenaExport>("b"), 0) << s.Story();
  s.Grows("b", 8, 10);
  s.Grows("b", 7, 10, "a");  // as it was asked to before
  EXPECT_EQ(s.TimesTold<wire::ArenaAdd>("a"), 0) << s.Story();
  s.Grows("a", 9, 10);
  EXPECT_EQ(s.TimesTold<wire::ArenaAdd>("b"), 0) << s.Story();
  s.GivesUp("a");
  EXPECT_EQ(s.TimesTold<wire::ArenaDrop>("a"), 2) << s.Story();
  EXPECT_EQ(s.Told<wire::ArenaExport>("b")->to_job, 1u) << "when it has stopped: " << s.Story();
}

// It waits for the lane's lock and cannot be moved; the holder waited for its bytes, for ever.
TEST(RejoinTest, AHolderThatLacksRoomLetsALateJobGoFirst) {
  Script s;
  s.CoordinatorRestarts({1, 2, 3});
  s.Joins("b", {.persistent = 40, .rejoin = true, .id = 2});
  s.Joins("c", {.spilled = 70, .rejoin = true, .id = 3});
  s.Asks("b");
  s.Passes(Seconds(2));
  ASSERT_TRUE(s.Holds("b")) << s.Story();
  s.Joins("a", {.persistent = 60, .rejoin = true, .id = 1, .turn = 41});
  s.Asks("c", {.need = 70});
  s.NeedsRoom("b", 10);
  s.Passes(Seconds(1));
  ASSERT_TRUE(s.Told<wire::Room>("b")) << s.Story();
  EXPECT_TRUE(s.Told<wire::Room>("b")->step_aside) << s.Story();
}

TEST(RejoinTest, ALateJobThatAsksForATurnHasNoneAnyMore) {
  Script s = WithoutTheHolder();
  s.Joins("a", {.rejoin = true, .id = 1, .holds_turn = false, .turn = 41});
  s.Asks("a");
  EXPECT_EQ(s.JobOf("a").overstays, 0u) << s.Story();
  s.GivesUp("b");
  EXPECT_EQ(s.Holder(), "a") << s.Story();
}

TEST(RejoinTest, AHolderWhoseConnectionBrokeAndThatComesBackIsAskedToStopToo) {
  Script s;
  s.Joins("a");
  s.Joins("b");
  s.Asks("a");
  const TurnNumber turn = s.Told<wire::Grant>("a")->turn;
  s.HangsUp("a");
  s.Asks("b");
  ASSERT_TRUE(s.Holds("b")) << s.Story();
  s.Says("a", JobDied{});  // what the server says of the former connection
  s.Joins("a", {.rejoin = true, .id = 1, .holds_turn = true, .turn = turn});
  EXPECT_EQ(s.Told<wire::Yield>("a")->turn, turn) << s.Story();
  EXPECT_EQ(s.Holder(), "b") << s.Story();
}

// A coordinator numbers its turns from 1.
TEST(RejoinTest, TheNumberOfALateHolderIsNotTakenForTheTurnGrantedWithTheSameSince) {
  Script s = WithoutTheHolder();
  const TurnNumber turn = s.Told<wire::Grant>("b")->turn;
  s.Joins("a", {.rejoin = true, .id = 1, .holds_turn = true, .turn = turn});
  EXPECT_EQ(s.Holder(), "b") << s.Story();
  EXPECT_EQ(s.Told<wire::Yield>("a")->turn, turn) << s.Story();
}

TEST(RejoinTest, TheNumberOfAHolderIsNotTakenForATurnOfAnotherDevice) {
  Script s;
  s.CoordinatorRestarts({1, 2});
  s.Joins("b", {.device = "gpu1", .rejoin = true, .id = 2});
  s.Asks("b");
  s.Passes(Seconds(2));
  const TurnNumber turn = s.Told<wire::Grant>("b")->turn;
  s.Joins("a", {.rejoin = true, .id = 1, .holds_turn = true, .turn = turn});
  EXPECT_EQ(s.Holder("gpu0"), "a") << s.Story();
  s.Joins("c");
  s.Asks("c");
  s.Passes(Seconds(1));
  EXPECT_EQ(s.Told<wire::Yield>("a")->turn, turn) << s.Story();
  s.GivesUp("a");
  EXPECT_EQ(s.Holder("gpu0"), "c") << s.Story();
  EXPECT_EQ(s.Holder("gpu1"), "b") << s.Story();
}

TEST(RejoinTest, ANameThatWasMadeUniqueIsNotTooLongToJoinAgainWith) {
  Script s;
  const std::string longest = std::string(125, 'n') + "\u00e9n";  // its last but one has two bytes
  s.Joins("first", {.name = longest});
  s.Joins("second", {.name = longest});
  EXPECT_EQ(s.Told<wire::Joined>("first")->name, longest);
  EXPECT_EQ(s.Told<wire::Joined>("second")->name, std::string(125, 'n') + "-2") << s.Story();
}

TEST(RejoinTest, AGangThatHeldTheTurnHoldsItAgain) {
  Script s("fifo");
  s.CoordinatorRestarts({1, 2, 3});
  s.Joins("r1", {.rejoin = true,
                 .id = 2,
                 .holds_turn = true,
                 .turn = 41,
                 .gang = "ddp",
                 .rank = 1,
                 .size = 2,
                 .lane_lock = "/run/test/lane-gpu0-1.lock"});
  s.Joins("r0", {.rejoin = true,
                 .id = 1,
                 .holds_turn = true,
                 .turn = 41,
                 .gang = "ddp",
                 .rank = 0,
                 .size = 2,
                 .lane_lock = "/run/test/lane-gpu0-0.lock"});
  s.Joins("c", {.rejoin = true, .id = 3});
  EXPECT_EQ(s.Holder(), "r0, r1") << s.Story();
  EXPECT_EQ(s.JobOf("r1").lane, 1);
  s.Asks("c");
  s.GivesUp("r0");
  EXPECT_FALSE(s.Holds("c")) << s.Story();
  s.GivesUp("r1");
  EXPECT_EQ(s.Holder(), "c") << s.Story();
}

// The other one may wait in its step for whoever asks there now.
TEST(RejoinTest, ADeviceThatARankHasLeftBeforeItsGangIsWholeAgainIsFree) {
  Script s;
  s.CoordinatorRestarts({1, 2, 3, 4});
  for (const std::uint64_t rank : {0, 1}) {
    s.Joins("r" + std::to_string(rank), {.device = "gpu" + std::to_string(rank),
                                         .rejoin = true,
                                         .id = rank + 1,
                                         .holds_turn = true,
                                         .turn = 41,
                                         .gang = "ddp",
                                         .rank = rank,
                                         .size = 3});
  }
  s.Joins("c", {.rejoin = true, .id = 4});
  s.Died(3);
  s.Asks("c");
  s.GivesUp("r0");
  EXPECT_EQ(s.Holder("gpu0"), "c") << s.Story();
  EXPECT_EQ(s.Holder("gpu1"), "r1") << s.Story();
}

// The turn was known by the one that is gone now.
TEST(RejoinTest, ARankThatDiesBeforeItsGangIsWholeAgainLeavesTheTurnToTheOthers) {
  Script s;
  s.CoordinatorRestarts({1, 2, 3, 4});
  for (const std::uint64_t rank : {0, 1}) {
    s.Joins("r" + std::to_string(rank),
            {.rejoin = true,
             .id = rank + 1,
             .holds_turn = true,
             .turn = 41,
             .gang = "ddp",
             .rank = rank,
             .size = 3,
             .lane_lock = "/run/test/lane-gpu0-" + std::to_string(rank) + ".lock"});
  }
  s.Joins("c", {.rejoin = true, .id = 4});
  EXPECT_EQ(s.Holder(), "r0, r1") << s.Story();
  s.Dies("r0");
  s.Asks("c");
  s.Passes(Seconds(2));
  EXPECT_EQ(s.Holder(), "r1") << s.Story();
  EXPECT_THAT(s.Why("c"), HasSubstr("r1")) << s.Story();
  ASSERT_TRUE(s.Told<wire::Yield>("r1")) << s.Story();
  s.GivesUp("r1");
  EXPECT_EQ(s.Holder(), "c") << s.Story();
}

// Nobody has told what it has adopted in its last turn: the connection was down.
TEST(RejoinTest, AnArenaIsUsedNoMoreIfItsHolderJoinsAgainWithoutTheTurnAndNobodySawItGo) {
  Script s;
  s.Joins("a");
  s.Joins("b");
  s.Asks("a");
  s.Grows("a", 7, 10);
  EXPECT_EQ(s.Told<wire::ArenaAdd>("b")->chunk, 7u) << s.Story();
  wire::Join again = s.JobOf("a").info;
  again.rejoin = true;
  again.job = s.IdOf("a");
  s.Says("a", JobJoins{.join = again, .user = 1000, .replaces = {s.IdOf("a")}});
  s.Asks("b");
  ASSERT_TRUE(s.Holds("b")) << s.Story();
  ASSERT_TRUE(s.Told<wire::ArenaDrop>("b")) << s.Story();
  EXPECT_EQ(s.Told<wire::ArenaDrop>("b")->chunk, 0u) << s.Story();
}

TEST(RejoinTest, ALateComerJoinsAgainWithoutDisturbingAnybody) {
  Script s = WithoutTheHolder();
  s.Joins("a", {.rejoin = true, .id = 1});
  EXPECT_EQ(s.Holder(), "b") << s.Story();
  s.Asks("a");
  s.GivesUp("b");
  EXPECT_EQ(s.Holder(), "a") << s.Story();
}

}  // namespace
}  // namespace hocket::coordinator
