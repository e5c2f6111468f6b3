// Whose lanes: in virtual time. CheckInvariants(), after every event, tests that no lane is two users'.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/coordinator/script.h"

namespace hocket::coordinator {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr unsigned kAnn = 1, kBob = 2;

TEST(LanesOfUsersTest, AnArenaIsKnownToItsUsersJobsOnly) {
  Script s;
  s.Joins("ann", {.user = kAnn});
  s.Joins("ann's", {.user = kAnn});
  s.Joins("bob", {.user = kBob});
  s.Asks("ann");
  s.Grows("ann", 7, 10);
  EXPECT_EQ(s.TimesTold<wire::ArenaAdd>("ann's"), 1);
  EXPECT_EQ(s.TimesTold<wire::ArenaAdd>("bob"), 0);
  s.Asks("bob");
  s.GivesUp("ann");
  ASSERT_TRUE(s.Holds("bob"));
  s.Grows("bob", 7, 10);
  EXPECT_EQ(s.TimesTold<wire::ArenaAdd>("ann's"), 1);
  s.Joins("bob's", {.user = kBob});
  EXPECT_TRUE(s.Told<wire::ArenaExport>("bob"));
  EXPECT_FALSE(s.Told<wire::ArenaExport>("ann"));
}

TEST(LanesOfUsersTest, AnArenaStaysThroughAnothersTurnAndIsGivenBackWhenRoomIsNeeded) {
  Script s("fair", 100);
  s.Joins("ann", {.user = kAnn});
  s.Joins("bob", {.user = kBob});
  s.Asks("ann");
  s.Grows("ann", 7, 60);
  s.Asks("bob");
  s.GivesUp("ann");
  ASSERT_TRUE(s.Holds("bob"));
  s.Passes(absl::Seconds(30));
  EXPECT_FALSE(s.Told<wire::ArenaDrop>("ann")) << s.Story();
  s.NeedsRoom("bob", 50);
  EXPECT_TRUE(s.Told<wire::ArenaDrop>("ann")) << s.Story();
}

TEST(LanesOfUsersTest, WhereOneHasGoneTheNextUserFindsNothingOfHis) {
  Script s;
  s.Joins("ann", {.user = kAnn});
  s.Joins("bob", {.user = kBob});
  s.Asks("ann");
  s.Grows("ann", 7, 60);
  s.GivesUp("ann");
  s.Dies("ann");
  s.Joins("eve", {.user = 3});
  s.Asks("eve");
  s.Grows("eve", 8, 5);
  EXPECT_FALSE(s.Told<wire::ArenaAdd>("bob"));
  EXPECT_FALSE(s.Told<wire::ArenaAdd>("eve"));
  s.Passes(absl::Minutes(1));
  EXPECT_EQ(s.core().Arena(s.core().state().devices.at("gpu0")), 5u) << "hers is no longer counted";
}

TEST(LanesOfUsersTest, AGangOfTheSameNameIsAnother) {
  Script s;
  s.Joins("ann0", {.user = kAnn});
  s.Joins("ann1", {.user = kAnn, .device = "gpu1"});
  s.Joins("bob", {.user = kBob});
  s.FormsGang("g", {"ann0", "ann1"});
  s.Says("bob", wire::Gang{.gang = "g", .rank = 0, .size = 2});
  EXPECT_EQ(s.Rejection(), "");
  EXPECT_EQ(s.core().state().gangs.size(), 2u);
}

TEST(LanesOfUsersTest, RanksOfTwoUsersGangsOnOneDeviceHaveLanesOfTheirOwn) {
  Script s;
  for (const auto& [user, name] : {std::pair(kAnn, "a"), std::pair(kBob, "b")}) {
    s.Joins(std::string(name) + "0", {.user = user});
    s.Joins(std::string(name) + "1", {.user = user});
    s.FormsGang(name, {std::string(name) + "0", std::string(name) + "1"});
  }
  for (const char* name : {"a0", "a1", "b0", "b1"}) s.Lives(name);
  s.RunsFor(absl::Seconds(1));
  for (const char* name : {"a0", "a1", "b0", "b1"}) EXPECT_GT(s.Turns(name), 3) << s.Story();
  EXPECT_NE(s.JobOf("b0").lane, s.JobOf("b1").lane);
}

TEST(LanesOfUsersTest, WhoJoinsAgainWithAnothersLockComesIntoALaneOfHisOwn) {
  Script s;
  s.Joins("ann", {.user = kAnn});
  s.Asks("ann");
  s.Grows("ann", 7, 10);
  s.Joins("bob",
          {.user = kBob, .rejoin = true, .id = 50, .lane_lock = s.Told<wire::Joined>("ann")->lane_lock});
  EXPECT_NE(s.JobOf("bob").lane, s.JobOf("ann").lane);
  EXPECT_FALSE(s.Told<wire::ArenaExport>("ann"));
}

TEST(LanesOfUsersTest, WhoWaitsIsToldThatAnotherUsersJobIsBeforeItAndNotItsName) {
  Script s("fair", 100);
  s.Joins("secret", {.user = kAnn, .persistent = 80});
  s.Joins("bob", {.user = kBob});
  s.Asks("secret");
  s.Asks("bob");
  EXPECT_THAT(s.Why("bob"), AllOf(HasSubstr("a job of uid 1 has had the turn"), Not(HasSubstr("secret"))));
  s.GivesUp("secret");
  s.NeedsRoom("bob", 50);
  EXPECT_THAT(s.Why("bob"), AllOf(HasSubstr("a job of uid 1 holds"), Not(HasSubstr("secret"))));
}

TEST(LanesOfUsersTest, TwoUsersJobsMayHaveTheSameName) {
  Script s;
  s.Joins("a", {.user = kAnn, .name = "train"});
  s.Joins("b", {.user = kBob, .name = "train"});
  s.Joins("b2", {.user = kBob, .name = "train"});
  EXPECT_EQ(s.JobOf("b").info.name, "train");
  EXPECT_EQ(s.JobOf("b2").info.name, "train-2");
}

}  // namespace
}  // namespace hocket::coordinator
