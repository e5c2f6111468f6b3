// After a restart of the coordinator.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/coordinator/script.h"

namespace hocket::coordinator {
namespace {

using absl::Milliseconds;
using absl::Seconds;
using testing::HasSubstr;

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

TEST(RejoinTest, ALateComerJoinsAgainWithoutDisturbingAnybody) {
  Script s;
  s.CoordinatorRestarts({1, 2});
  s.Joins("b", {.rejoin = true, .id = 2});
  s.Asks("b");
  s.Passes(Seconds(2));
  s.Joins("a", {.rejoin = true, .id = 1});
  EXPECT_EQ(s.Holder(), "b") << s.Story();
  s.Asks("a");
  s.GivesUp("b");
  EXPECT_EQ(s.Holder(), "a") << s.Story();
}

}  // namespace
}  // namespace hocket::coordinator
