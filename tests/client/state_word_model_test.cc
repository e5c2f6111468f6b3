// All interleavings of the state word's protocol, and a variant with a bug to show that the search bites.
#include "tests/client/state_word_model.h"

#include "gtest/gtest.h"

namespace hocket::model {
namespace {

TEST(StateWordModelTest, TwoTrainingThreadsKeepEveryPromiseInAllInterleavings) {
  const Result result = Search({.steps = {2, 2}, .yields = 2}).Run();
  EXPECT_EQ(result.violation, "");
  EXPECT_GT(result.states, 1000u);
  EXPECT_GT(result.ends, 0u);
  EXPECT_GT(result.handed_over, 0u);
}

TEST(StateWordModelTest, AYieldRightAfterTheGrantIsObeyedByTheThreadThatReadsBoth) {
  const Result result = Search({.steps = {2, 1}, .yields = 3}).Run();
  EXPECT_EQ(result.violation, "");
  EXPECT_GT(result.yields_at_door, 0u);
}

TEST(StateWordModelTest, ATrainingThreadBesideAnEvaluationKeepsEveryPromise) {
  Config config;
  config.allocates[1] = true;
  const Result result = Search(config).Run();
  EXPECT_EQ(result.violation, "");
  EXPECT_GT(result.handed_over, 0u);
}

TEST(StateWordModelTest, TwoEvaluationsKeepEveryPromise) {
  Config config;
  config.allocates[0] = config.allocates[1] = true;
  EXPECT_EQ(Search(config).Run().violation, "");
}

TEST(StateWordModelTest, MoreTurnsForFewerStepsKeepEveryPromise) {
  EXPECT_EQ(Search({.steps = {3, 1}, .yields = 3}).Run().violation, "");
}

TEST(StateWordModelTest, AStepThatLacksRoomPassesTheTurnBesideATrainingThread) {
  const Result result = Search({.steps = {2, 2}, .yields = 1, .lacks = {1, 0}}).Run();
  EXPECT_EQ(result.violation, "");
  EXPECT_GT(result.handed_over, 0u);
}

TEST(StateWordModelTest, TwoStepsThatLackRoomPassTheTurn) {
  EXPECT_EQ(Search({.steps = {2, 1}, .yields = 1, .lacks = {1, 1}}).Run().violation, "");
}

TEST(StateWordModelTest, AStepThatLacksRoomBesideAnEvaluationPassesTheTurn) {
  Config config{.yields = 1, .lacks = {1, 0}};
  config.allocates[1] = true;
  EXPECT_EQ(Search(config).Run().violation, "");
}

TEST(StateWordModelTest, WhoStandsByKeepsEveryPromise) {
  const Result result = Search({.steps = {2, 1}, .yields = 1, .stand_bys = 1}).Run();
  EXPECT_EQ(result.violation, "");
  EXPECT_GT(result.handed_over, 0u);
}

TEST(StateWordModelTest, WhoStandsByBesideAnEvaluationKeepsEveryPromise) {
  Config config{.steps = {2, 1}, .yields = 1, .stand_bys = 1};
  config.allocates[1] = true;
  EXPECT_EQ(Search(config).Run().violation, "");
}

TEST(StateWordModelTest, WhoStandsByAndLacksRoomKeepsEveryPromise) {
  EXPECT_EQ(Search({.steps = {1, 1}, .yields = 1, .lacks = {1, 0}, .stand_bys = 1}).Run().violation, "");
}

TEST(StateWordModelTest, AnEndOfAStepThatTellsNobodyIsCaught) {
  EXPECT_EQ(Search({.steps = {2, 0}, .yields = 0, .stand_bys = 1, .end_not_told = true}).Run().violation,
            "who stands by never says so");
}

TEST(StateWordModelTest, WhoIsNotNotifiedThatItMayGoOnIsCaught) {
  EXPECT_EQ(Search({.steps = {2, 2}, .yields = 0, .stand_bys = 1, .go_on_not_told = true}).Run().violation,
            "a thread waits for ever");
}

TEST(StateWordModelTest, AThreadThatTakesAnothersStepForStandingIsCaught) {
  EXPECT_EQ(Search({.steps = {1, 1}, .yields = 0, .lacks = {1, 0}, .all_stand = true}).Run().violation,
            "the turn was passed while a thread was in a step");
}

TEST(StateWordModelTest, AnAllocationThatGoesOnWhileTheTurnIsGivenIsCaught) {
  EXPECT_EQ(Search({.steps = {1, 1}, .yields = 0, .lacks = {1, 1}, .giving_goes_on = true}).Run().violation,
            "the turn was passed while a thread was in a step");
}

TEST(StateWordModelTest, PlainLoadsAndStoresAreCaught) {
  EXPECT_NE(Search({.steps = {2, 2}, .yields = 2, .plain_accesses = true}).Run().violation, "");
}

TEST(StateWordModelTest, PlainLoadsAndStoresOfOneThreadBesideTheAgentAreCaught) {
  EXPECT_NE(Search({.steps = {2, 0}, .yields = 1, .plain_accesses = true}).Run().violation, "");
}

TEST(StateWordModelTest, AThreadThatReadsAndIsNotWokenIsCaught) {
  EXPECT_EQ(Search({.steps = {2, 2}, .door_not_woken = true}).Run().violation, "a thread waits for ever");
}

// It is obeyed where nobody looks for idleness.
TEST(StateWordModelTest, AYieldThatIsObeyedAtTheDoorOfATurnInUseIsCaught) {
  Config config{.steps = {2, 2}, .yields = 2, .yield_obeyed_in_use = true};
  config.allocates[0] = config.allocates[1] = true;
  EXPECT_EQ(Search(config).Run().violation, "a turn that was asked for is held for ever");
}

TEST(StateWordModelTest, AThreadThatReadsOneMessageOnlyIsCaught) {
  EXPECT_EQ(Search({.steps = {2, 2}, .reads_one_message = true}).Run().violation, "a message is never heard");
}

}  // namespace
}  // namespace hocket::model
