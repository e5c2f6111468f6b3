// Turns that their holders pass on: who is promised one, when not, and what becomes of promises.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/coordinator/script.h"

namespace hocket::coordinator {
namespace {

using absl::Milliseconds;
using absl::Seconds;

constexpr Part kPasses{.passes = true};

Part With(Part part) {
  part.passes = true;
  return part;
}

// The number that `holder` was told last to pass; 0: none.
std::uint64_t NumberTold(const Script& s, const std::string& holder) {
  const auto yield = s.Told<wire::Yield>(holder);
  return yield ? yield->pass : 0;
}

bool IsPromised(const Script& s, const std::string& name) {
  const auto grant = s.Told<wire::Grant>(name);
  return grant && grant->pass != 0 && !grant->passed;
}

// "a" has the turn and "b" waits for it.
void BWaits(Script& s, Part a = kPasses, Part b = kPasses) {
  s.Joins("a", a);
  s.Joins("b", b);
  s.Asks("a");
  s.Asks("b");
  ASSERT_EQ(s.Holder(), "a") << s.Story();
}

TEST(PassingTest, TheHolderPassesItsTurnOnToTheOneWhoWaits) {
  Script s;
  BWaits(s);
  ASSERT_TRUE(IsPromised(s, "b")) << s.Story();
  EXPECT_EQ(s.Told<wire::Grant>("b")->pass, NumberTold(s, "a"));
  EXPECT_TRUE(s.Told<wire::Yield>("a")->now);
  EXPECT_THAT(s.Why("b"), testing::HasSubstr("a has had the turn for 0.0 s, and passes it on to this job"));
  s.GivesUp("a", {.passed = NumberTold(s, "a")});
  EXPECT_EQ(s.Holder(), "b") << s.Story();
  EXPECT_EQ(s.TimesTold<wire::Grant>("b"), 1) << "it knows already";
  EXPECT_EQ(s.JobOf("b").turn, s.Told<wire::Grant>("b")->turn);
}

TEST(PassingTest, TwoPassItToAndFro) {
  Script s;
  for (const char* name : {"a", "b"}) s.Joins(name, kPasses);
  for (const char* name : {"a", "b"}) s.Lives(name);
  s.RunsFor(Seconds(10));
  EXPECT_NEAR(s.Share("a"), 0.5, 0.01);
  EXPECT_NEAR(s.TimesTold<wire::Grant>("b"), s.Turns("b"), 1) << "a message for each turn";
  EXPECT_NE(s.Told<wire::Grant>("b")->pass, 0u) << "which is the promise";
}

// Of those who waited when it was asked to stop nobody could be.
TEST(PassingTest, TheNextOneMayAskAfterTheHolderWasAskedToStop) {
  Script s;
  BWaits(s, kPasses, With({.spilled = 10}));
  EXPECT_TRUE(s.Told<wire::Yield>("a")->now);
  EXPECT_EQ(NumberTold(s, "a"), 0u) << s.Story();
  s.Restores("b", 10);
  s.Says("b", wire::Report{.persistent = 10, .spilled = 0});
  EXPECT_TRUE(IsPromised(s, "b")) << s.Story();
  EXPECT_NE(NumberTold(s, "a"), 0u);
}

TEST(PassingTest, WhoDoesNotPassItIsFollowedByAGrant) {
  Script s;
  BWaits(s);
  const TurnNumber promised = s.Told<wire::Grant>("b")->turn;
  s.GivesUp("a");
  EXPECT_EQ(s.Holder(), "b") << s.Story();
  EXPECT_EQ(s.Told<wire::Grant>("b")->pass, 0u);
  EXPECT_NE(s.JobOf("b").turn, promised) << "a number is given once";
}

TEST(PassingTest, NothingIsPromisedByOrToOneThatDoesNotKnowOfIt) {
  for (const bool holder_knows : {false, true}) {
    Script s;
    BWaits(s, {.passes = holder_knows}, {.passes = !holder_knows});
    EXPECT_FALSE(s.Told<wire::Grant>("b")) << s.Story();
    EXPECT_EQ(NumberTold(s, "a"), 0u);
  }
}

TEST(PassingTest, NothingIsPromisedWhereBytesMustComeBackFirst) {
  Script s;
  BWaits(s, kPasses, With({.spilled = 10}));
  EXPECT_FALSE(s.Told<wire::Grant>("b")) << s.Story();
}

TEST(PassingTest, NothingIsPromisedInAnothersLane) {
  Script s;
  BWaits(s, kPasses, With({.user = 1001}));
  EXPECT_FALSE(s.Told<wire::Grant>("b")) << s.Story();
}

TEST(PassingTest, NothingIsPromisedToARankNorByOne) {
  Script s;
  for (const char* name : {"a", "r0", "r1"}) s.Joins(name, kPasses);
  s.FormsGang("g", {"r0", "r1"});
  s.Asks("a");
  for (const char* name : {"r0", "r1"}) s.Asks(name);
  EXPECT_EQ(NumberTold(s, "a"), 0u) << s.Story();
  s.GivesUp("a");
  s.Asks("a");
  EXPECT_FALSE(IsPromised(s, "a")) << s.Story();
}

TEST(PassingTest, NothingIsPromisedUnderAPolicyWhoseChoiceDependsOnTheTime) {
  Script s("priority");
  BWaits(s);
  EXPECT_FALSE(s.Told<wire::Grant>("b")) << s.Story();
}

TEST(PassingTest, NothingIsPromisedBesideOneThatServes) {
  Script s;
  s.Joins("server", {.serves = true});
  BWaits(s);
  EXPECT_FALSE(s.Told<wire::Grant>("b")) << s.Story();
}

// What the holder will leave of it is not known before.
TEST(PassingTest, NothingIsPromisedToOneThatSharesAMemoryCapWithTheHolder) {
  Script s;
  s.Allows(Owner::User(1000), {.memory_cap = 60});
  BWaits(s, With({.persistent = 10}), With({.persistent = 10}));
  EXPECT_FALSE(IsPromised(s, "b")) << s.Story();
  s.Says("a", wire::TurnOver{.turn = s.JobOf("a").turn, .steps = 1, .turn_steps = 1, .persistent = 35});
  ASSERT_EQ(s.Holder(), "b") << s.Story();
  EXPECT_EQ(s.Told<wire::Limit>("b")->memory, 25u) << s.Story();
}

TEST(PassingTest, ACapThatIsSetMeanwhileEndsThePromise) {
  Script s;
  BWaits(s);
  ASSERT_NE(NumberTold(s, "a"), 0u) << s.Story();
  s.Allows(Owner::User(1000), {.memory_cap = 60});
  EXPECT_EQ(NumberTold(s, "a"), 0u) << s.Story();
}

TEST(PassingTest, WhoeverIsPausedMeanwhileIsNotPassedIt) {
  Script s;
  BWaits(s);
  s.Pauses("b");
  EXPECT_EQ(NumberTold(s, "a"), 0u) << s.Story();
  EXPECT_TRUE(s.Told<wire::Yield>("a")->now);
  s.GivesUp("a");
  EXPECT_EQ(s.Holder(), "") << s.Story();
  s.Resumes("b");
  EXPECT_EQ(s.Holder(), "b") << s.Story();
}

// It had passed it before it read that it should not.
TEST(PassingTest, WhoeverHasItHasIt) {
  Script s;
  BWaits(s);
  const std::uint64_t number = NumberTold(s, "a");
  s.Pauses("b");
  s.GivesUp("a", {.passed = number});
  EXPECT_EQ(s.Holder(), "b") << s.Story();
  EXPECT_TRUE(s.Told<wire::Grant>("b")->passed) << "said at once: perhaps nobody waits there";
  EXPECT_TRUE(s.Told<wire::Yield>("b")->now) << "it is paused: after a step";
  s.GivesUp("b");
  EXPECT_EQ(s.Holder(), "") << s.Story();
}

TEST(PassingTest, ANumberThatWasPassedToTheDeadIsAnybodys) {
  Script s;
  BWaits(s);
  s.Joins("c");
  s.Asks("c");
  const std::uint64_t number = NumberTold(s, "a");
  s.Dies("b");
  s.GivesUp("a", {.passed = number});
  EXPECT_EQ(s.Holder(), "c") << s.Story();
}

TEST(PassingTest, OneThatWasPromisedATurnIsSpilledWhenTheHolderLacksRoom) {
  Script s("fair", 100);
  BWaits(s, With({.persistent = 40}), With({.persistent = 40}));
  ASSERT_TRUE(IsPromised(s, "b")) << s.Story();
  s.StandsAtDoors("b");
  s.NeedsRoom("a", 40);
  ASSERT_TRUE(s.Told<wire::Spill>("b")) << s.Story();
  s.Spills("b", 40);
  EXPECT_TRUE(s.Told<wire::Room>("a")->ok);
  s.GivesUp("a");
  EXPECT_EQ(s.Holder(), "b") << s.Story();
  EXPECT_EQ(s.Told<wire::Grant>("b")->pass, 0u);
}

TEST(PassingTest, NorIsItPromisedAgainInThatTurn) {
  Script s("fair", 100);
  BWaits(s, With({.persistent = 40}));
  s.NeedsRoom("a", 10);
  s.Joins("c", kPasses);
  s.Asks("c");
  EXPECT_EQ(s.TimesTold<wire::Grant>("b"), 1) << s.Story();
  EXPECT_FALSE(s.Told<wire::Grant>("c")) << s.Story();
}

TEST(PassingTest, HeadroomIsMadeByOneThatWasPromisedATurn) {
  Script s("fair", 100);
  BWaits(s, With({.persistent = 50}), With({.persistent = 50}));
  s.StandsAtDoors("b");
  s.Says("a", wire::LacksHeadroom{.bytes = 5});
  EXPECT_TRUE(s.Told<wire::Spill>("b")) << s.Story();
}

// Set aside, it could pass its turn on all the same: not before it has heard that it is not to.
TEST(PassingTest, OthersGoOnBesideAnOverdueHolderOnlyWhenItCanPassNothing) {
  Script s;
  BWaits(s);
  s.Passes(Seconds(20));
  s.Sets(SetOverdue{.go_on = true});
  EXPECT_EQ(NumberTold(s, "a"), 0u) << s.Story();
  s.Passes(Seconds(2));
  EXPECT_EQ(s.Holder(), "b") << s.Story();
  EXPECT_EQ(s.Told<wire::Grant>("b")->pass, 0u);
}

TEST(PassingTest, NothingIsPromisedWhereOthersGoOnBesideTheOverdue) {
  Script s;
  s.Sets(SetOverdue{.go_on = true});
  BWaits(s);
  EXPECT_FALSE(s.Told<wire::Grant>("b")) << s.Story();
}

TEST(PassingTest, AHolderThatJoinsAGangPassesNothing) {
  Script s;
  BWaits(s);
  s.FormsGang("g", {"a"});
  s.GivesUp("a");
  EXPECT_EQ(s.Holder(), "b") << s.Story();
  EXPECT_EQ(s.core().PasserTo(s.IdOf("b")), 0u);
}

TEST(PassingTest, TheGrantIsSaidWhereThePassWasNotSeen) {
  Script s;
  BWaits(s);
  s.Stops("b");
  s.GivesUp("a", {.passed = NumberTold(s, "a")});
  s.Passes(Milliseconds(249));
  EXPECT_EQ(s.TimesTold<wire::Grant>("b"), 1) << s.Story();
  s.Passes(Milliseconds(251));
  EXPECT_EQ(s.TimesTold<wire::Grant>("b"), 2) << s.Story();
  EXPECT_TRUE(s.Told<wire::Grant>("b")->passed);
  s.Passes(Seconds(10));
  EXPECT_EQ(s.TimesTold<wire::Grant>("b"), 2) << s.Story();
}

// Only then: it would ask again when it reads that, and could read nothing.
TEST(PassingTest, AGrantIsTakenBackASecondAfterItWasSaid) {
  Script s;
  BWaits(s);
  s.Stops("b");
  s.GivesUp("a", {.passed = NumberTold(s, "a")});
  s.Joins("c");
  s.Asks("c");
  s.Passes(Milliseconds(1249));
  EXPECT_EQ(s.TriedToTakeBack("b"), 0) << s.Story();
  s.Passes(Milliseconds(251));
  EXPECT_EQ(s.TriedToTakeBack("b"), 1) << s.Story();
  EXPECT_EQ(s.Holder(), "c") << s.Story();
  s.GoesOn("b");
  s.GivesUp("c");
  EXPECT_EQ(s.Holder(), "b") << s.Story();
}

// Whoever does not fit has his turn after some that do, also where these pass theirs on to each other.
TEST(PassingTest, WhoeverIsPassedOverIsCounted) {
  Script s("fifo", 100);
  BWaits(s, With({.persistent = 45}), With({.persistent = 45}));
  s.Joins("large", {.spilled = 95});
  s.Asks("large");
  std::string holder = "a", next = "b";
  int turns = 0, promised = 0;
  for (; turns < 20 && s.Holder() != "large"; ++turns) {
    s.Passes(Milliseconds(1));
    const std::uint64_t number = NumberTold(s, holder);
    promised += number != 0;
    s.GivesUp(holder, {.passed = number});
    s.Asks(holder);
    std::swap(holder, next);
  }
  EXPECT_GT(promised, 2) << "it did not fit";
  EXPECT_LT(turns, 20) << s.Story();
}

// It may have passed it on and not been heard.
TEST(PassingTest, OneThatWasPromisedTheTurnOfAHolderThatIsGoneHasIt) {
  for (const bool dies : {true, false}) {
    Script s;
    BWaits(s);
    s.Joins("c");
    s.Asks("c");
    const TurnNumber promised = s.Told<wire::Grant>("b")->turn;
    dies ? s.Dies("a") : s.HangsUp("a");
    EXPECT_EQ(s.Holder(), "b") << s.Story();
    EXPECT_EQ(s.JobOf("b").turn, promised);
    EXPECT_TRUE(s.Told<wire::Grant>("b")->passed) << "it may not have passed it";
    EXPECT_TRUE(s.Told<wire::Grant>("b")->fresh_arena);
  }
}

TEST(PassingTest, ARankOfAGangThatIsNotCompleteNeitherPassesNorIsPromisedATurn) {
  for (const char* rank : {"a", "b"}) {
    Script s;
    for (const char* name : {"a", "b"}) s.Joins(name, kPasses);
    s.SaysItsGang(rank, "g", {rank, "later"});
    s.Asks("a");
    s.Asks("b");
    EXPECT_EQ(NumberTold(s, "a"), 0u) << s.Story();
  }
}

TEST(PassingTest, APromiseToOneThatJoinsAnewIsNobodys) {
  Script s;
  BWaits(s);
  const std::uint64_t number = NumberTold(s, "a");
  const JobId former = s.IdOf("b");
  s.Joins("b", {.passes = true, .rejoin = true, .id = former});
  s.Asks("b");
  s.GivesUp("a", {.passed = number});
  EXPECT_EQ(s.Holder(), "b") << s.Story();
  EXPECT_EQ(s.Told<wire::Grant>("b")->pass, 0u) << "it knows of no promise";
}

TEST(PassingTest, AHolderThatJoinsAgainWithItsTurnHasNotPassedIt) {
  Script s;
  BWaits(s);
  const TurnNumber turn = s.JobOf("a").turn;
  s.Joins("a", {.passes = true, .rejoin = true, .id = s.IdOf("a"), .holds_turn = true, .turn = turn});
  EXPECT_EQ(s.Holder(), "a") << s.Story();
  EXPECT_EQ(s.core().PasserTo(s.IdOf("b")), 0u);
}

TEST(PassingTest, ItIsKnownWhoseMessagesCountFirst) {
  Script s;
  BWaits(s);
  EXPECT_EQ(s.core().PasserTo(s.IdOf("b")), s.IdOf("a"));
  EXPECT_EQ(s.core().PasserTo(s.IdOf("a")), 0u);
  s.GivesUp("a", {.passed = NumberTold(s, "a")});
  EXPECT_EQ(s.core().PasserTo(s.IdOf("b")), 0u);
}

// As one that has joined a gang since: that it runs cannot be undone.
TEST(PassingTest, OneThatHasJoinedAGangSinceKeepsWhatItWasPassed) {
  Script s;
  BWaits(s);
  const std::uint64_t number = NumberTold(s, "a");
  s.FormsGang("g", {"b"});
  s.GivesUp("a", {.passed = number});
  EXPECT_EQ(s.Holder(), "b") << s.Story();
  s.GivesUp("b");
  s.Asks("a");
  EXPECT_EQ(s.Holder(), "a") << s.Story();
}

}  // namespace
}  // namespace hocket::coordinator
