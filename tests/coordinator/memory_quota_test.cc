// Guarantees, limits and caps of memory: what is told to whom, and what is spilled first.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/coordinator/script.h"

namespace hocket::coordinator {
namespace {

using absl::Milliseconds;
using absl::Seconds;
using testing::HasSubstr;

// "far" is spilled before "near" where nothing else is known: its turn is farther away.
Script TwoThatWaitAndOneThatNeedsRoom() {
  Script s("fifo");
  s.Joins("holder", {.persistent = 10});
  s.Joins("near", {.persistent = 40});
  s.Joins("far", {.persistent = 40});
  s.Asks("holder");
  for (const char* job : {"near", "far"}) {
    s.Passes(Milliseconds(1));
    s.Asks(job);
    s.StandsAtDoors(job);
  }
  return s;
}

TEST(MemoryGuaranteeTest, WithoutOneTheFarthestIsSpilled) {
  Script s = TwoThatWaitAndOneThatNeedsRoom();
  s.NeedsRoom("holder", 20);
  EXPECT_EQ(s.Told<wire::Spill>("far")->bytes, 20u) << s.Story();
  EXPECT_EQ(s.TimesTold<wire::Spill>("near"), 0) << s.Story();
}

TEST(MemoryGuaranteeTest, GuaranteedBytesAreLeftWhereOthersSuffice) {
  Script s = TwoThatWaitAndOneThatNeedsRoom();
  s.Says("far", SetMemoryGuarantee{30});
  s.NeedsRoom("holder", 20);
  EXPECT_EQ(s.Told<wire::Spill>("far")->bytes, 10u) << "what it has above its guarantee" << s.Story();
  EXPECT_EQ(s.Told<wire::Spill>("near")->bytes, 10u) << s.Story();
  s.Spills("far", 10);
  s.Spills("near", 10);
  EXPECT_TRUE(s.Told<wire::Room>("holder")->ok) << s.Story();
}

TEST(MemoryGuaranteeTest, GuaranteedBytesAreTakenBeforeSomebodyCouldNotRunAtAll) {
  Script s = TwoThatWaitAndOneThatNeedsRoom();
  for (const char* job : {"near", "far"}) s.Says(job, SetMemoryGuarantee{40});
  s.NeedsRoom("holder", 60, /*restoring=*/true);
  EXPECT_EQ(s.Told<wire::Spill>("far")->bytes, 60u) << s.Story();
  s.Spills("far", 40);
  s.Spills("near", 20);
  EXPECT_TRUE(s.Told<wire::Room>("holder")->ok) << s.Story();
}

TEST(MemoryGuaranteeTest, OfOneJobTheRestGoesFirst) {
  Script s = TwoThatWaitAndOneThatNeedsRoom();
  s.Dies("near");
  s.Says("far", SetMemoryGuarantee{30});
  s.NeedsRoom("holder", 60, /*restoring=*/true);
  EXPECT_EQ(s.Told<wire::Spill>("far")->bytes, 10u) << s.Story();
  s.Spills("far", 10);
  EXPECT_EQ(s.Told<wire::Spill>("far")->bytes, 50u) << s.Story();
  EXPECT_EQ(s.TimesTold<wire::Spill>("far"), 2) << s.Story();
}

TEST(MemoryGuaranteeTest, EverybodyRunsThoughAllAreGuaranteedAllTheyHave) {
  Script s;
  for (const char* job : {"a", "b", "c"}) {
    s.Joins(job, {.persistent = 30, .restore_time = Milliseconds(1)});
    s.Says(job, SetMemoryGuarantee{30});
  }
  s.Joins("large", {.spilled = 90, .restore_time = Milliseconds(1)});
  s.Says("large", SetMemoryGuarantee{90});
  for (const char* job : {"a", "b", "c", "large"}) s.Lives(job);
  s.RunsFor(Seconds(10));
  for (const char* job : {"a", "b", "c", "large"}) EXPECT_GT(s.Steps(job), 100u) << job << s.Story();
}

TEST(MemoryLimitTest, IsToldToTheJob) {
  Script s;
  s.Joins("a");
  s.Says("a", SetMemoryLimit{50});
  EXPECT_EQ(s.Told<wire::Limit>("a")->memory, 50u);
  EXPECT_EQ(s.JobOf("a").info.memory_limit, 50u);
}

// --- memory caps of groups and users --------------------------------------------------------------

// a holds 30, b 20.
Script TwoOfAGroup(const std::string& policy = "fair") {
  Script s(policy);
  s.Joins("a", {.persistent = 30, .group = "vision"});
  s.Joins("b", {.persistent = 20, .group = "vision"});
  return s;
}

TEST(MemoryCapTest, EachMayHoldWhatTheOthersLeaveAndKnowsItBeforeItsTurn) {
  Script s = TwoOfAGroup();
  s.Joins("stranger", {.persistent = 10});
  s.Allows(Owner::Group("vision"), {.memory_cap = 60});
  EXPECT_EQ(s.TimesTold<wire::Limit>("a"), 0) << "who has no turn does not grow" << s.Story();
  s.Asks("a");
  ASSERT_TRUE(s.Holds("a"));
  EXPECT_EQ(s.Told<wire::Limit>("a")->memory, 40u) << s.Story();
  EXPECT_THAT(s.Told<wire::Limit>("a")->together,
              HasSubstr("the jobs of group vision may hold 60 B together on gpu0, of which b has 20 B"));
  s.Says("a", wire::Report{.persistent = 38});
  s.Asks("b");
  s.GivesUp("a", {.movable = true});
  ASSERT_TRUE(s.Holds("b")) << s.Story();
  EXPECT_EQ(s.Told<wire::Limit>("b")->memory + s.JobOf("a").persistent, 60u) << s.Story();
  s.GivesUp("b");
  s.Asks("stranger");
  EXPECT_EQ(s.TimesTold<wire::Limit>("stranger"), 0);
  s.Asks("a");
  EXPECT_THAT(s.Why("a"), HasSubstr("its group vision holds")) << s.Story();
  EXPECT_THAT(s.Why("a"), HasSubstr("of memory, the cap is 60 B")) << s.Story();
}

TEST(MemoryCapTest, SpilledBytesCountAsThoseOnTheDevice) {
  Script s = TwoOfAGroup();
  s.Joins("c", {.spilled = 15, .group = "vision"});
  s.Allows(Owner::Group("vision"), {.memory_cap = 80});
  s.Asks("a");
  EXPECT_EQ(s.Told<wire::Limit>("a")->memory, 45u) << s.Story();
  EXPECT_EQ(s.core().MemoryHeld({Owner::Group("vision"), "gpu0"}), 65u);
}

// Its fellow was out of memory: the arena counted as what the killed job itself held.
TEST(MemoryCapTest, TheArenaThatAKilledHolderHasMappedIsNoneOfItsOwn) {
  Script s;
  s.Joins("a", {.persistent = 20, .group = "vision"});
  s.Joins("b", {.persistent = 10, .group = "vision"});
  s.Allows(Owner::Group("vision"), {.memory_cap = 60});
  s.Asks("a");
  s.Grows("a", 1, 25);
  s.Asks("b");
  s.HangsUp("a");
  ASSERT_TRUE(s.Holds("b")) << s.Story();
  EXPECT_EQ(s.Told<wire::Limit>("b")->memory, 40u) << s.Story();
  EXPECT_EQ(s.JobOf("a").most_held, 20u) << "what another run of it will need";
}

TEST(MemoryCapTest, IsLiveForTheOneThatHasTheTurn) {
  Script s = TwoOfAGroup();
  s.Asks("a");
  s.Allows(Owner::Group("vision"), {.memory_cap = 60});
  EXPECT_EQ(s.Told<wire::Limit>("a")->memory, 40u) << s.Story();
  s.Allows(Owner::Group("vision"), {.memory_cap = 40});
  EXPECT_EQ(s.Told<wire::Limit>("a")->memory, 20u) << "less than it holds: it keeps that" << s.Story();
  s.Allows(Owner::Group("vision"), {.memory_cap = 10});
  EXPECT_EQ(s.Told<wire::Limit>("a")->memory, 1u) << "0 would be none" << s.Story();
  s.Dies("b");
  EXPECT_EQ(s.Told<wire::Limit>("a")->memory, 10u) << s.Story();
  s.Says("a", SetGroup{"other"});
  EXPECT_EQ(s.Told<wire::Limit>("a")->memory, 0u) << s.Story();
  EXPECT_EQ(s.Told<wire::Limit>("a")->together, "") << s.Story();
}

TEST(MemoryCapTest, TheTightestOfItsOwnItsGroupsAndItsUsersHolds) {
  Script s = TwoOfAGroup();
  s.Says("a", SetMemoryLimit{50});
  s.Allows(Owner::Group("vision"), {.memory_cap = 80});
  s.Asks("a");
  EXPECT_EQ(s.Told<wire::Limit>("a")->memory, 50u) << s.Story();
  s.Allows(Owner::User(1000), {.memory_cap = 65});
  EXPECT_EQ(s.Told<wire::Limit>("a")->memory, 45u) << s.Story();
  EXPECT_EQ(s.Told<wire::Limit>("a")->own, 50u) << "so it says when it joins again";
  EXPECT_THAT(s.Told<wire::Limit>("a")->together, HasSubstr("the jobs of user 1000 may hold 65 B"));
  s.Says("a", SetMemoryLimit{40});
  EXPECT_EQ(s.Told<wire::Limit>("a")->memory, 40u) << s.Story();
  s.Says("a", SetMemoryLimit{0});
  EXPECT_EQ(s.Told<wire::Limit>("a")->memory, 45u) << s.Story();
}

TEST(MemoryCapTest, RanksOfAGangOnOneDeviceShareWhatIsLeft) {
  Script s = TwoOfAGroup();
  s.FormsGang("g", {"a", "b"});
  s.Allows(Owner::Group("vision"), {.memory_cap = 60});
  s.Asks("a");
  s.Asks("b");
  ASSERT_TRUE(s.Holds("a") && s.Holds("b")) << s.Story();
  EXPECT_EQ(s.Told<wire::Limit>("a")->memory, 35u) << s.Story();
  EXPECT_EQ(s.Told<wire::Limit>("b")->memory, 25u) << s.Story();
}

TEST(MemoryCapTest, WhoJoinsAgainIsToldAnew) {
  Script s = TwoOfAGroup();
  s.Allows(Owner::Group("vision"), {.memory_cap = 60});
  s.Joins("again", {.persistent = 5, .group = "vision", .rejoin = true, .id = 77});
  s.Asks("again");
  EXPECT_EQ(s.Told<wire::Limit>("again")->memory, 10u) << s.Story();
}

}  // namespace
}  // namespace hocket::coordinator
