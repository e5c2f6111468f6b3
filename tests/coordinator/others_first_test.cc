// Who lacks room lets others go first whose memory is not to be had otherwise, and when he does not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/coordinator/script.h"

namespace hocket::coordinator {
namespace {

using absl::Milliseconds;
using testing::HasSubstr;

// b cannot be moved: a thread of it, in the program's own code, may wait for the one that waits for the turn.
Script LackingRoom(bool restoring = false) {
  Script s("fair", 100);
  s.Joins("a", {.persistent = 30});
  s.Joins("b", {.persistent = 70});
  s.Asks("a");
  s.Passes(Milliseconds(1));
  s.Asks("b");
  s.NeedsRoom("a", 20, restoring);
  EXPECT_EQ(s.TimesTold<wire::Room>("a"), 0) << "perhaps it comes to a door: " << s.Story();
  s.Passes(Milliseconds(150));
  return s;
}

TEST(OthersFirstTest, WhoLacksRoomWhileAnotherWaitsLetsItGoFirst) {
  Script s = LackingRoom();
  ASSERT_TRUE(s.Told<wire::Room>("a").has_value()) << s.Story();
  EXPECT_TRUE(s.Told<wire::Room>("a")->ok);
  EXPECT_TRUE(s.Told<wire::Room>("a")->step_aside) << s.Story();
  s.GivesUp("a", {.steps = 0, .movable = true, .stood_aside = true});
  s.Asks("a", {.need = 20});
  EXPECT_EQ(s.Holder(), "b") << s.Story();
  EXPECT_FALSE(s.JobOf("a").ready.known()) << "it had nothing of that turn";
  EXPECT_THAT(s.Why("a"), HasSubstr("found no room for 20 B in its last turn"));
  s.GivesUp("b");
  EXPECT_EQ(s.Holder(), "a") << s.Story();
}

TEST(OthersFirstTest, ARestoreThatLacksRoomLetsOthersGoFirst) {
  Script s = LackingRoom(/*restoring=*/true);
  ASSERT_TRUE(s.Told<wire::Room>("a").has_value()) << s.Story();
  EXPECT_TRUE(s.Told<wire::Room>("a")->step_aside) << s.Story();
}

// Another thread of it computed, and freed what was lacking: its turn went on as any.
TEST(OthersFirstTest, WhoWasToldToStandAsideAndDidNotIsTreatedAsAnyOther) {
  Script s = LackingRoom();
  s.Passes(Milliseconds(50));
  s.GivesUp("a", {.steps = 5});
  EXPECT_TRUE(s.JobOf("a").step.known()) << s.Story();
  EXPECT_FALSE(s.JobOf("a").after_others);
}

TEST(OthersFirstTest, WhoLacksRoomTriesAgainWhileNobodyWaits) {
  Script s("fifo", 100);
  s.Joins("a", {.persistent = 30});
  s.Joins("b", {.persistent = 70});
  s.Asks("a");
  s.NeedsRoom("a", 20);
  s.Passes(Milliseconds(150));
  ASSERT_TRUE(s.Told<wire::Room>("a").has_value()) << s.Story();
  EXPECT_TRUE(s.Told<wire::Room>("a")->ok);
  EXPECT_FALSE(s.Told<wire::Room>("a")->step_aside) << s.Story();
}

// c could not do more with the turn: its bytes would only move to and fro.
TEST(OthersFirstTest, WhoLacksRoomKeepsTheTurnFromOneThatLacksItToo) {
  Script s("fifo", 100);
  s.Joins("a", {.persistent = 30});
  s.Joins("b", {.persistent = 70});
  s.Joins("c", {.persistent = 0});
  s.Asks("a");
  s.StandsAtDoors("c");
  s.Asks("c", {.need = 40});
  s.NeedsRoom("a", 20, /*restoring=*/true);
  s.Passes(Milliseconds(150));
  ASSERT_TRUE(s.Told<wire::Room>("a").has_value()) << s.Story();
  EXPECT_FALSE(s.Told<wire::Room>("a")->step_aside) << s.Story();
}

// With memory on its way back it has its room sooner than after two hand-overs.
TEST(OthersFirstTest, WhoLacksRoomKeepsTheTurnWhileMemoryComesBack) {
  Script s("fifo", 100);
  s.Joins("a", {.persistent = 20});
  s.Joins("b", {.persistent = 70});
  s.Joins("c", {.persistent = 10});
  s.Asks("a");
  s.Asks("b");
  s.NeedsRoom("a", 20);
  s.Dies("c");
  s.Passes(Milliseconds(25));
  ASSERT_TRUE(s.Told<wire::Room>("a").has_value()) << s.Story();
  EXPECT_FALSE(s.Told<wire::Room>("a")->step_aside) << s.Story();
}

}  // namespace
}  // namespace hocket::coordinator
