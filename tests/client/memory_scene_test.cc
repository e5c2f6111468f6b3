// Memory that moves for others: spills, room, the lane's arena.
#include <sys/eventfd.h>

#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/scene.h"

namespace hocket {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

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

void FindsRoomInTurn(Scene& scene, std::uint64_t turn) {
  scene.allocator().lacking = 0;
  scene.Grants(turn);
}

TEST(MemoryTest, AJobAtItsDoorIsSpilledAndComesBackWithItsTurn) {
  Scene scene;
  std::thread thread([&] { scene.Step(); });
  scene.Expects<wire::Wait>();
  scene.Says(wire::Spill{.request = 1, .bytes = 60});
  wire::Spilled answer = scene.Expects<wire::Spilled>();
  while (answer.request != 1) answer = scene.Expects<wire::Spilled>();
  EXPECT_EQ(answer.freed, 60u);
  EXPECT_EQ(answer.persistent, 40u);
  EXPECT_EQ(answer.spilled, 60u);
  EXPECT_TRUE(answer.movable);
  scene.Grants(1);
  thread.join();
  EXPECT_EQ(scene.allocator().Held().spilled, 0u);
  scene.Says(wire::Yield{.turn = 1, .now = true});
  EXPECT_EQ(scene.Expects<wire::TurnOver>().restored, 60u);
}

TEST(MemoryTest, AThreadInUserCodeKeepsItsJobFromBeingSpilled) {
  Scene scene;
  scene.TakesTurn(1);
  scene.Says(wire::Yield{.turn = 1, .now = false});
  std::promise<void> in_user_code, leave;
  const wire::TurnOver over = scene.Expects<wire::TurnOver>();
  EXPECT_TRUE(over.movable);  // the thread of TakesTurn() is gone
  std::thread thread([&] {
    scene.Step();
    in_user_code.set_value();
    leave.get_future().wait();
    scene.Step();
  });
  scene.Expects<wire::Wait>();
  scene.Grants(2, /*contended=*/true);
  in_user_code.get_future().wait();
  const wire::TurnOver second = scene.Expects<wire::TurnOver>();
  EXPECT_FALSE(second.movable);
  EXPECT_THAT(second.why_not_movable, HasSubstr("1 of 1 threads"));
  const wire::Spilled refused = scene.AgentHasObeyed();
  EXPECT_FALSE(refused.movable);
  EXPECT_THAT(refused.why_not, HasSubstr("1 of 1 threads"));
  leave.set_value();  // it comes to the door, and says so
  const wire::Wait wait = scene.Expects<wire::Wait>();
  EXPECT_TRUE(wait.movable);
  EXPECT_EQ(wait.persistent, refused.persistent);
  scene.Grants(3);
  thread.join();
}

TEST(MemoryTest, TheLastThreadThatComesToADoorSaysThatTheJobCanBeMoved) {
  Scene scene;
  std::promise<void> in_user_code, leave;
  std::thread late([&] {
    scene.Step();
    in_user_code.set_value();
    leave.get_future().wait();
    scene.Step();
  });
  scene.Expects<wire::Wait>();
  scene.Grants(1, /*contended=*/true);
  in_user_code.get_future().wait();
  scene.Expects<wire::TurnOver>();
  std::thread early([&] { scene.Step(); });
  EXPECT_FALSE(scene.Expects<wire::Wait>().movable);
  leave.set_value();
  const wire::Spilled unasked = scene.Expects<wire::Spilled>();
  EXPECT_EQ(unasked.request, 0u);
  EXPECT_TRUE(unasked.movable);
  scene.Grants(2);
  early.join();
  late.join();
}

TEST(MemoryTest, TheEndOfTheLastThreadThatStoodAtNoDoorIsNoticed) {
  Scene scene;
  std::promise<void> in_user_code, leave;
  std::thread ends([&] {
    scene.Step();
    in_user_code.set_value();
    leave.get_future().wait();
  });
  scene.Expects<wire::Wait>();
  scene.Grants(1, /*contended=*/true);
  in_user_code.get_future().wait();
  scene.Expects<wire::TurnOver>();
  std::thread waits([&] { scene.Step(); });
  EXPECT_FALSE(scene.Expects<wire::Wait>().movable);
  leave.set_value();
  ends.join();
  EXPECT_TRUE(scene.Expects<wire::Spilled>().movable);
  scene.Grants(2);
  waits.join();
}

TEST(MemoryTest, TheHolderIsNotSpilled) {
  Scene scene;
  scene.TakesTurn(1);
  const wire::Spilled answer = scene.AgentHasObeyed();
  EXPECT_THAT(answer.why_not, HasSubstr("has the turn"));
  EXPECT_FALSE(answer.movable);
  EXPECT_EQ(scene.allocator().Held().spilled, 0u);
}

TEST(MemoryTest, AJobWhoseDeviceWorksForAnUnknownThreadIsNotSpilled) {
  Scene scene;
  scene.allocator().idle = false;
  const wire::Spilled answer = scene.AgentHasObeyed();
  EXPECT_EQ(answer.freed, 0u);
  EXPECT_THAT(answer.why_not, HasSubstr("not seen before"));
}

TEST(MemoryTest, ASpillThatFailsSaysWhyAndLosesNothing) {
  Scene scene;
  scene.allocator().fail_spill = true;
  scene.Says(wire::Spill{.request = 1, .bytes = 60});
  const wire::Spilled answer = scene.Expects<wire::Spilled>();
  EXPECT_EQ(answer.freed, 0u);
  EXPECT_THAT(answer.why_not, HasSubstr("host budget"));
  EXPECT_EQ(answer.persistent, 100u);
}

TEST(MemoryTest, AutogradsThreadAtTheDoorStandsForTheOneThatWaitsForIt) {
  Scene scene;
  std::promise<void> begun;
  std::thread trainer([&] {
    scene.TakesTurn(1);  // (this thread only hosts the scene's own)
    ASSERT_TRUE(scene.allocator().Malloc(1, nullptr).ok());
    scene.Says(wire::Yield{.turn = 1, .now = false});
    scene.Expects<wire::TurnOver>();
    std::thread autograd([&] {
      pthread_setname_np(pthread_self(), "pt_autograd_0");
      ASSERT_TRUE(scene.allocator().Malloc(1, nullptr).ok());
    });
    scene.Expects<wire::Wait>();
    EXPECT_TRUE(scene.AgentHasObeyed().movable);
    scene.Grants(2);
    autograd.join();
  });
  trainer.join();
}

// A turn given up meanwhile would take the question with it, and nobody would ever answer the allocation.
TEST(MemoryTest, AJobThatWaitsForRoomIsNotIdle) {
  Scene scene;
  scene.TakesTurn(1);
  std::thread thread([&] { EXPECT_TRUE(scene.job().AwaitRoom(30).ok()); });
  scene.Expects<wire::NeedRoom>();
  scene.Says(wire::Yield{.turn = 1, .now = false});
  for (int i = 0; i < 5; ++i) scene.AgentHasObeyed();
  EXPECT_TRUE(scene.job().Info().holds_turn);
  scene.Says(wire::Room{.ok = true});
  thread.join();
  scene.Expects<wire::TurnOver>();  // now it idles
}

// The coordinator forgets the question with the turn. The one thread that waits for the answer must not keep
// the next turn's restore from asking.
TEST(MemoryTest, AnAllocationThatWaitsForRoomTriesAgainWhenItsTurnPasses) {
  Scene scene(Scene::NeverIdle());
  scene.TakesTurn(1);
  ASSERT_TRUE(scene.job().BeginStep().ok());
  scene.allocator().lacking = 30;
  std::thread allocates([&] { EXPECT_TRUE(scene.allocator().Malloc(30, nullptr).ok()); });
  scene.Expects<wire::NeedRoom>();
  scene.Says(wire::Yield{.turn = 1, .now = true});
  scene.AgentHasObeyed();
  scene.job().EndStep(true);
  scene.Expects<wire::TurnOver>();
  scene.Expects<wire::Wait>();
  scene.allocator().lacking = 0;
  scene.allocator().missing = 50;
  scene.Grants(2);
  EXPECT_TRUE(scene.Expects<wire::NeedRoom>().restoring);
  scene.allocator().missing = 0;
  scene.Says(wire::Room{.ok = true});
  allocates.join();
}

TEST(MemoryTest, AnAllocationWhoseTurnHasPassedDoesNotAskForRoom) {
  Scene scene;
  EXPECT_TRUE(scene.job().AwaitRoom(30).ok());
  scene.job().Leave();
  EXPECT_TRUE(std::holds_alternative<wire::Leave>(scene.Next()));
}

TEST(MemoryTest, ASpillThatComesWhileTheProcessEndsMovesNothing) {
  static thread_local bool ends_here = false;
  Happening ending, came;
  Scene scene;
  scene.allocator().SetHook([&](const std::string& call) {
    if (call != "held" || !ends_here) return;
    ending.Happens();
    came.Await();
  });
  std::thread ends([&] {
    ends_here = true;
    scene.job().LeaveAtExit();
  });
  ending.Await();
  scene.Says(wire::Spill{.request = 1, .bytes = 60});
  scene.AwaitsRead();
  came.Happens();
  ends.join();
  scene.allocator().SetHook(nullptr);
  scene.DestroyJob();
  EXPECT_EQ(scene.allocator().Held().spilled, 0u);
}

TEST(MemoryTest, AFullDeviceAsksForRoomAndTriesAgain) {
  Scene scene;
  scene.TakesTurn(1);
  absl::Status status;
  std::thread thread([&] { status = scene.job().AwaitRoom(30); });
  const wire::NeedRoom need = scene.Expects<wire::NeedRoom>();
  EXPECT_EQ(need.bytes, 30u);
  EXPECT_FALSE(need.restoring);
  scene.Says(wire::Room{.ok = true});
  thread.join();
  EXPECT_TRUE(status.ok()) << status;
}

// The others cannot be moved before they have had a turn: so the turn passes in the midst of a step.
TEST(MemoryTest, AStepThatFindsNoRoomLetsOthersGoFirstAndGoesOn) {
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

TEST(MemoryTest, AnAllocationOutsideStepsThatFindsNoRoomLetsOthersGoFirst) {
  Scene scene(Scene::NeverIdle());
  scene.allocator().lacking = 30;
  std::thread builds([&] { EXPECT_TRUE(scene.allocator().Malloc(30, nullptr).ok()); });
  EXPECT_EQ(StandsAsideInItsFirstTurn(scene).turn, 1u);
  scene.Expects<wire::Wait>();
  FindsRoomInTurn(scene, 2);
  builds.join();
}

TEST(MemoryTest, ARestoreThatFindsNoRoomLetsOthersGoFirst) {
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
TEST(MemoryTest, ATurnIsNotGivenForRoomWhileAnotherThreadIsInAStep) {
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

TEST(MemoryTest, TwoStepsThatFindNoRoomLetOthersGoFirstAndGoOn) {
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

TEST(MemoryTest, AQuestionThatWasToldToStandAsideInVainIsNotRememberedAsNeed) {
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
TEST(MemoryTest, AutogradsThreadLetsOthersGoFirstThoughAThreadIsInUserCode) {
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
TEST(MemoryTest, AJobThatStandsAsideInItsStepSaysSoToANewCoordinator) {
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

TEST(MemoryTest, AJobThatStandsAsideInItsStepMayLeave) {
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

TEST(MemoryTest, AutogradsThreadThatFindsNoRoomLetsOthersGoFirst) {
  Scene scene(Scene::NeverIdle());
  scene.allocator().lacking = 30;
  std::thread trains([&] { StepWhoseBackwardAllocates(scene); });
  EXPECT_EQ(StandsAsideInItsFirstTurn(scene).turn, 1u);
  scene.Expects<wire::Wait>();
  FindsRoomInTurn(scene, 2);
  trains.join();
}

TEST(MemoryTest, ATurnIsNotGivenForRoomWhileAGraphIsCaptured) {
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

TEST(MemoryTest, NoRoomIsToldWithItsReason) {
  Scene scene;
  scene.TakesTurn(1);
  absl::Status status;
  std::thread thread([&] { status = scene.job().AwaitRoom(30); });
  scene.Expects<wire::NeedRoom>();
  scene.Says(wire::Room{.ok = false, .reason = "job bert holds 900 B"});
  thread.join();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("bert"));
}

TEST(MemoryTest, ARestoreThatLacksRoomWaitsForItAndNeverFails) {
  Scene scene;
  scene.allocator().missing = 50;
  std::thread thread([&] { scene.Step(); });
  scene.Expects<wire::Wait>();
  scene.Grants(1);
  for (int i = 0; i < 2; ++i) {
    const wire::NeedRoom need = scene.Expects<wire::NeedRoom>();
    EXPECT_EQ(need.bytes, 50u);
    EXPECT_TRUE(need.restoring);
    scene.Says(wire::Room{.ok = i > 0, .reason = "not now"});
  }
  scene.Expects<wire::NeedRoom>();
  scene.allocator().missing = 0;
  scene.Says(wire::Room{.ok = true});
  thread.join();
  EXPECT_TRUE(scene.job().HoldsTurn());
}

TEST(MemoryTest, ForcedSpillsMoveEverythingAtEveryBoundary) {
  Scene::Options forced;
  forced.force_spill = true;
  Scene scene(forced);
  std::thread thread([&] {
    for (int i = 0; i < 3; ++i) scene.Step();
  });
  scene.Expects<wire::Wait>();
  scene.Grants(1);
  thread.join();
  EXPECT_EQ(scene.allocator().Held().spilled_total, 300u);
  EXPECT_EQ(scene.allocator().Held().restored_total, 300u);
  EXPECT_EQ(scene.allocator().Held().spilled, 0u);
}

TEST(MemoryTest, AForcedSpillDoesNotLoseAYield) {
  Scene::Options forced;
  forced.force_spill = true;
  Scene scene(forced);
  scene.TakesTurn(1);
  ASSERT_TRUE(scene.job().BeginStep().ok());
  scene.Says(wire::Yield{.turn = 1, .now = true});
  scene.job().EndStep(true);
  EXPECT_EQ(scene.Expects<wire::TurnOver>().turn, 1u);
}

TEST(MemoryTest, LeavingBringsBackWhatWasSpilled) {
  Scene scene;
  scene.Says(wire::Spill{.request = 1, .bytes = 100});
  EXPECT_EQ(scene.Expects<wire::Spilled>().freed, 100u);
  std::thread thread([&] { scene.job().Leave(); });
  EXPECT_EQ(scene.Expects<wire::Wait>().need, 100u);
  scene.Grants(1);
  thread.join();
  EXPECT_EQ(scene.allocator().Held().spilled, 0u);
  scene.Expects<wire::TurnOver>();
  scene.Expects<wire::Leave>();
}

TEST(MemoryTest, ArenaChunksAreKeptUpWithInOrder) {
  Scene scene;
  const UniqueFd any(eventfd(0, EFD_CLOEXEC));
  scene.allocator().TakeLog();
  scene.Says(wire::ArenaAdd{.chunk = 3, .size = 64}, any.get());
  scene.Says(wire::ArenaDrop{.chunk = 3});
  scene.Says(wire::ArenaAdd{.chunk = 4, .size = 64}, any.get());
  scene.Says(wire::ArenaDrop{.chunk = 0});
  scene.AgentHasObeyed();
  EXPECT_THAT(scene.allocator().TakeLog(), ElementsAre("add 3", "drop 3", "add 4", "drop all", "spill"));
}

TEST(MemoryTest, ChunksToldBeforeTheAllocatorIsThereWaitForIt) {
  Scene::Options without;
  without.with_allocator = false;
  Scene scene(without);
  const UniqueFd any(eventfd(0, EFD_CLOEXEC));
  scene.Says(wire::ArenaAdd{.chunk = 3, .size = 64}, any.get());
  scene.AgentHasObeyed();
  scene.job().SetAllocator(&scene.allocator());
  scene.AgentHasObeyed();
  EXPECT_EQ(scene.allocator().TakeLog().front(), "add 3");
}

TEST(MemoryTest, ALimitIsHeededAlsoByAnAllocatorThatComesLaterAndToldWhenTheJobJoinsAgain) {
  Scene::Options without;
  without.with_allocator = false;
  Scene scene(without);
  scene.Says(wire::Limit{.memory = 300});
  scene.AgentHasObeyed();
  EXPECT_THAT(scene.allocator().TakeLog(), ElementsAre());
  scene.job().SetAllocator(&scene.allocator());
  EXPECT_EQ(scene.allocator().TakeLog().front(), "limit 300");
  scene.Says(wire::Limit{.memory = 200});
  scene.AgentHasObeyed();
  EXPECT_EQ(scene.allocator().TakeLog().front(), "limit 200");
  scene.Dies();
  EXPECT_EQ(scene.Answers().memory_limit, 200u);
  scene.Says(wire::Limit{.memory = 0});
  scene.AgentHasObeyed();
  EXPECT_EQ(scene.allocator().TakeLog().front(), "limit 1000") << "the device's capacity";
}

// Another job may have adopted what is still to be dropped.
TEST(MemoryTest, AGrantDoesNotOvertakeWhatWasToldOfTheArenaBeforeTheAllocatorWasThere) {
  Scene::Options without;
  without.with_allocator = false;
  Happening adding, taken;
  Scene scene(without);
  const UniqueFd any(eventfd(0, EFD_CLOEXEC));
  std::thread thread([&] { scene.Step(); });
  scene.Expects<wire::Wait>();
  scene.Says(wire::ArenaAdd{.chunk = 3, .size = 64}, any.get());
  scene.Says(wire::ArenaDrop{.chunk = 3});
  scene.AgentHasObeyed();
  scene.allocator().SetHook([&](const std::string& call) {
    if (call == "take turn") taken.Happens();
    if (call != "add") return;
    adding.Happens();
    taken.AwaitInVain();
  });
  std::thread sets([&] { scene.job().SetAllocator(&scene.allocator()); });
  adding.Await();
  scene.Grants(1);
  thread.join();
  sets.join();
  EXPECT_THAT(scene.allocator().TakeLog(),
              ElementsAre("add 3", "drop 3", "take turn", "begin step", "end step"));
}

TEST(MemoryTest, ANewChunkIsToldWithItsDescriptorAndALostOneToo) {
  Scene scene;
  scene.job().ArenaGrew(9, 64, UniqueFd(eventfd(0, EFD_CLOEXEC)));
  EXPECT_EQ(scene.Expects<wire::ArenaGrew>().chunk, 9u);
  EXPECT_TRUE(scene.TakeDescriptor());
  scene.job().ArenaLost(9);
  EXPECT_EQ(scene.Expects<wire::ArenaLost>().chunk, 9u);
}

TEST(MemoryTest, AnExportSendsEveryChunkToTheJobThatAsks) {
  Scene scene;
  scene.Says(wire::ArenaExport{.to_job = 12});
  for (std::uint64_t chunk : {7, 8}) {
    const wire::ArenaGrew grew = scene.Expects<wire::ArenaGrew>();
    EXPECT_EQ(grew.chunk, chunk);
    EXPECT_EQ(grew.to_job, 12u);
  }
}

}  // namespace
}  // namespace hocket
