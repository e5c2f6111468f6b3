// A turn that is given in its midst, because others must go first for there to be room.
#include <thread>

#include "gtest/gtest.h"
#include "tests/client/scene.h"

namespace hocket {
namespace {

void StepThatAllocates(Scene& scene) {
  ASSERT_TRUE(scene.job().BeginStep().ok());
  EXPECT_TRUE(scene.allocator().Malloc(30, nullptr).ok());
  scene.job().EndStep(true);
}

// The allocation is made by one of autograd's threads, for which the step waits.
void StepWhoseBackwardAllocates(Scene& scene) {
  ASSERT_TRUE(scene.job().BeginStep().ok());
  std::thread autograd([&] {
    pthread_setname_np(pthread_self(), "pt_autograd_0");
    EXPECT_TRUE(scene.allocator().Malloc(30, nullptr).ok());
  });
  autograd.join();
  scene.job().EndStep(true);
}

void IsToldToStandAside(Scene& scene) {
  scene.Expects<wire::NeedRoom>();
  scene.Says(wire::Room{.ok = true, .step_aside = true});
}

// Has turn 1, in which room is lacking.
wire::TurnOver StandsAsideInItsFirstTurn(Scene& scene) {
  scene.Expects<wire::Wait>();
  scene.Grants(1);
  IsToldToStandAside(scene);
  return scene.Expects<wire::TurnOver>();
}

void SpillsOnceAllStandAtDoors(Scene& scene) {
  for (std::uint64_t request = 1;; ++request) {
    scene.Says(wire::Spill{.request = request, .bytes = 60});
    wire::Spilled answer = scene.Expects<wire::Spilled>();
    while (answer.request != request) answer = scene.Expects<wire::Spilled>();
    if (answer.freed > 0) return;
  }
}

void FindsRoomInTurn(Scene& scene, std::uint64_t turn) {
  scene.allocator().lacking = 0;
  scene.Grants(turn);
}

// The others cannot be moved before they have had a turn: so the turn passes in the midst of a step.
TEST(StandAsideTest, AStepThatFindsNoRoomLetsOthersGoFirstAndGoesOn) {
  Scene scene(Scene::NeverIdle());
  scene.allocator().lacking = 30;
  std::thread trains([&] { StepThatAllocates(scene); });
  const wire::TurnOver over = StandsAsideInItsFirstTurn(scene);
  EXPECT_EQ(over.turn, 1u);
  EXPECT_EQ(over.turn_steps, 0u);
  EXPECT_TRUE(over.movable);
  EXPECT_TRUE(over.stood_aside);
  EXPECT_EQ(scene.Expects<wire::Wait>().need, 30u);
  scene.Says(wire::Spill{.request = 1, .bytes = 60});
  while (scene.Expects<wire::Spilled>().freed == 0) continue;
  FindsRoomInTurn(scene, 2);
  trains.join();
  EXPECT_EQ(scene.allocator().touched_while_spilled(), 0);
  scene.Says(wire::Yield{.turn = 2, .now = true});
  scene.AgentHasObeyed();
  std::thread next([&] { scene.Step(); });
  const wire::TurnOver second = scene.Expects<wire::TurnOver>();
  EXPECT_EQ(second.turn_steps, 1u) << "the step that was interrupted";
  EXPECT_FALSE(second.stood_aside);
  EXPECT_EQ(scene.Expects<wire::Wait>().need, 0u) << "it has had its room";
  scene.Grants(3);
  next.join();
}

// It may be in its optimizer's step, whose state does not follow later then; whichever of the two threads
// takes the turn.
TEST(StandAsideTest, WhereOneIsInTheMidstOfAStepTheTurnIsNotTakenForTheBeginOfOne) {
  for (int i = 0; i < 10; ++i) {
    Scene scene(Scene::NeverIdle());
    scene.allocator().lacking = 30;
    std::thread trains([&] { StepThatAllocates(scene); });
    StandsAsideInItsFirstTurn(scene);
    scene.Expects<wire::Wait>();
    std::thread begins([&] { scene.Step(); });
    SpillsOnceAllStandAtDoors(scene);
    FindsRoomInTurn(scene, 2);
    trains.join();
    begins.join();
    ASSERT_FALSE(scene.allocator().taken_for_step) << "round " << i;
  }
}

TEST(StandAsideTest, AnAllocationOutsideStepsThatFindsNoRoomLetsOthersGoFirst) {
  Scene scene(Scene::NeverIdle());
  scene.allocator().lacking = 30;
  std::thread builds([&] { EXPECT_TRUE(scene.allocator().Malloc(30, nullptr).ok()); });
  EXPECT_EQ(StandsAsideInItsFirstTurn(scene).turn, 1u);
  scene.Expects<wire::Wait>();
  FindsRoomInTurn(scene, 2);
  builds.join();
}

TEST(StandAsideTest, ARestoreThatFindsNoRoomLetsOthersGoFirst) {
  Scene scene(Scene::NeverIdle());
  std::thread trains([&] { scene.Step(); });
  scene.Expects<wire::Wait>();
  scene.Says(wire::Spill{.request = 1, .bytes = 60});
  while (scene.Expects<wire::Spilled>().request != 1) continue;
  scene.allocator().missing = 60;
  scene.Grants(1);
  EXPECT_TRUE(scene.Expects<wire::NeedRoom>().restoring);
  scene.Says(wire::Room{.ok = true, .step_aside = true});
  const wire::TurnOver over = scene.Expects<wire::TurnOver>();
  EXPECT_TRUE(over.movable);
  EXPECT_EQ(over.spilled, 60u);
  EXPECT_EQ(scene.Expects<wire::Wait>().need, 60u);
  scene.allocator().missing = 0;
  scene.Grants(2);
  trains.join();
  EXPECT_EQ(scene.job().Info().steps, 1u);
}

// Its kernels may still be queued by then: a step is never cut while a thread computes in one.
TEST(StandAsideTest, ATurnIsNotGivenForRoomWhileAnotherThreadIsInAStep) {
  Scene scene(Scene::NeverIdle());
  scene.TakesTurn(1);
  ASSERT_TRUE(scene.job().BeginStep().ok());
  scene.allocator().lacking = 30;
  std::thread other([&] { StepThatAllocates(scene); });
  IsToldToStandAside(scene);
  EXPECT_TRUE(std::holds_alternative<wire::NeedRoom>(scene.Next())) << "it asks again";
  EXPECT_TRUE(scene.job().Info().holds_turn);
  scene.job().EndStep(true);  // now it can
  scene.Says(wire::Room{.ok = true, .step_aside = true});
  EXPECT_EQ(scene.Expects<wire::TurnOver>().turn, 1u);
  scene.Expects<wire::Wait>();
  FindsRoomInTurn(scene, 2);
  other.join();
}

TEST(StandAsideTest, TwoStepsThatFindNoRoomLetOthersGoFirstAndGoOn) {
  Scene scene(Scene::NeverIdle());
  scene.allocator().lacking = 30;
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back([&] { StepThatAllocates(scene); });
  }
  scene.Expects<wire::Wait>();
  scene.Grants(1);
  // The first that asks may find the other still computing: then it asks again.
  std::optional<wire::TurnOver> over;
  while (!over) {
    const wire::Message next = scene.Next();
    if (auto* ended = std::get_if<wire::TurnOver>(&next)) over = *ended;
    if (std::holds_alternative<wire::NeedRoom>(next)) scene.Says(wire::Room{.ok = true, .step_aside = true});
  }
  scene.Expects<wire::Wait>();
  FindsRoomInTurn(scene, 2);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(scene.job().Info().steps, 2u);
}

TEST(StandAsideTest, AQuestionThatWasToldToStandAsideInVainIsNotRememberedAsNeed) {
  Scene scene(Scene::NeverIdle());
  scene.TakesTurn(1);
  ASSERT_TRUE(scene.job().BeginStep().ok());
  scene.allocator().lacking = 30;
  std::thread other([&] { StepThatAllocates(scene); });
  IsToldToStandAside(scene);
  scene.Expects<wire::NeedRoom>();
  scene.allocator().lacking = 0;
  scene.Says(wire::Room{.ok = true});
  other.join();
  scene.Says(wire::Yield{.turn = 1, .now = true});
  scene.AgentHasObeyed();
  scene.job().EndStep(true);
  scene.Expects<wire::TurnOver>();
  std::thread next([&] { scene.Step(); });
  EXPECT_EQ(scene.Expects<wire::Wait>().need, 0u);
  scene.Grants(2);
  next.join();
}

// The trainer waits in backward(); the other thread is in the program's own code, perhaps for good.
TEST(StandAsideTest, AutogradsThreadLetsOthersGoFirstThoughAThreadIsInUserCode) {
  Scene scene(Scene::NeverIdle());
  scene.TakesTurn(1);
  ASSERT_TRUE(scene.allocator().Malloc(1, nullptr).ok());  // this thread is known, and stays out here
  scene.allocator().lacking = 30;
  std::thread trains([&] { StepWhoseBackwardAllocates(scene); });
  IsToldToStandAside(scene);
  EXPECT_FALSE(scene.Expects<wire::TurnOver>().movable);
  scene.Expects<wire::Wait>();
  FindsRoomInTurn(scene, 2);
  trains.join();
}

// A new coordinator learns that it waits, not that it holds.
TEST(StandAsideTest, AJobThatStandsAsideInItsStepSaysSoToANewCoordinator) {
  Scene scene(Scene::NeverIdle());
  scene.allocator().lacking = 30;
  std::thread trains([&] { StepThatAllocates(scene); });
  StandsAsideInItsFirstTurn(scene);
  scene.Expects<wire::Wait>();
  scene.Dies();
  const wire::Join join = scene.Answers();
  EXPECT_FALSE(join.holds_turn);
  EXPECT_EQ(scene.Expects<wire::Wait>().need, 30u);
  FindsRoomInTurn(scene, 2);
  trains.join();
}

TEST(StandAsideTest, AJobThatStandsAsideInItsStepMayLeave) {
  Scene scene(Scene::NeverIdle());
  scene.allocator().lacking = 30;
  std::thread trains([&] { StepThatAllocates(scene); });
  StandsAsideInItsFirstTurn(scene);
  scene.Expects<wire::Wait>();
  scene.allocator().lacking = 0;
  scene.job().LeaveAtExit();
  scene.Expects<wire::Leave>();
  trains.join();
}

TEST(StandAsideTest, AutogradsThreadThatFindsNoRoomLetsOthersGoFirst) {
  Scene scene(Scene::NeverIdle());
  scene.allocator().lacking = 30;
  std::thread trains([&] { StepWhoseBackwardAllocates(scene); });
  EXPECT_EQ(StandsAsideInItsFirstTurn(scene).turn, 1u);
  scene.Expects<wire::Wait>();
  FindsRoomInTurn(scene, 2);
  trains.join();
}

TEST(StandAsideTest, ATurnIsNotGivenForRoomWhileAGraphIsCaptured) {
  Scene scene(Scene::NeverIdle());
  scene.TakesTurn(1);
  scene.allocator().capturing = true;
  scene.allocator().lacking = 30;
  std::thread captures([&] { EXPECT_TRUE(scene.allocator().Malloc(30, nullptr).ok()); });
  IsToldToStandAside(scene);
  EXPECT_TRUE(std::holds_alternative<wire::NeedRoom>(scene.Next())) << "it asks again";
  EXPECT_TRUE(scene.job().Info().holds_turn);
  scene.allocator().lacking = 0;
  scene.Says(wire::Room{.ok = true});
  captures.join();
}

}  // namespace
}  // namespace hocket
