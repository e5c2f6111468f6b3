// Threads at the doors: steps, allocations, and who lets whom in.
#include <sys/eventfd.h>

#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/scene.h"

namespace hocket {
namespace {

using ::testing::ElementsAre;

TEST(DoorsTest, TheFirstStepWaitsForTheTurn) {
  Scene scene;
  std::atomic<bool> in_step{false};
  std::thread thread([&] {
    ASSERT_TRUE(scene.job().BeginStep().ok());
    in_step = true;
    scene.job().EndStep(true);
  });
  scene.Expects<wire::Wait>();
  EXPECT_FALSE(in_step);
  EXPECT_FALSE(scene.job().HoldsTurn());
  scene.Grants(1);
  thread.join();
  EXPECT_TRUE(in_step);
  EXPECT_TRUE(scene.job().HoldsTurn());
  EXPECT_EQ(scene.job().Info().steps, 1u);
  EXPECT_EQ(scene.job().Info().turns, 1u);
}

TEST(DoorsTest, WhileNobodyWaitsNothingIsSentDrainedOrMoved) {
  Scene scene;
  scene.TakesTurn();
  scene.allocator().TakeLog();
  for (int i = 0; i < 100; ++i) scene.Step();
  for (const std::string& call : scene.allocator().TakeLog()) {
    EXPECT_TRUE(call == "begin step" || call == "end step") << call;
  }
  scene.job().Leave();
  EXPECT_TRUE(std::holds_alternative<wire::TurnOver>(scene.Next()));
  EXPECT_TRUE(std::holds_alternative<wire::Leave>(scene.Next()));
}

TEST(DoorsTest, AStepInsideAStepIsPartOfIt) {
  Scene scene;
  scene.TakesTurn();
  ASSERT_TRUE(scene.job().BeginStep().ok());
  ASSERT_TRUE(scene.job().BeginStep().ok());
  scene.job().EndStep(true);
  EXPECT_EQ(scene.job().Info().steps, 1u);
  scene.job().EndStep(true);
  EXPECT_EQ(scene.job().Info().steps, 2u);
}

TEST(DoorsTest, AScopeThatIsNoStepIsNotCounted) {
  Scene scene;
  scene.TakesTurn();
  ASSERT_TRUE(scene.job().BeginStep().ok());
  scene.job().EndStep(/*count=*/false);
  EXPECT_EQ(scene.job().Info().steps, 1u);
}

TEST(DoorsTest, AnEndWithoutABeginOnThisThreadDoesNothing) {
  Scene scene;
  scene.TakesTurn();
  scene.job().EndStep(true);
  EXPECT_EQ(scene.job().Info().steps, 1u);
  scene.Step();
  EXPECT_EQ(scene.job().Info().steps, 2u);
}

TEST(DoorsTest, AnAllocationOutsideStepsWaitsForAnImplicitTurn) {
  Scene scene;
  std::thread thread([&] { ASSERT_TRUE(scene.allocator().Malloc(10, nullptr).ok()); });
  scene.Expects<wire::Wait>();
  scene.Grants(1);
  thread.join();
  EXPECT_TRUE(scene.job().HoldsTurn());
}

TEST(DoorsTest, AStepThatNobodyElseWantsKeepsAnImplicitTurn) {
  Scene scene;
  std::thread thread([&] {
    ASSERT_TRUE(scene.allocator().Malloc(10, nullptr).ok());
    scene.Step();
  });
  scene.Expects<wire::Wait>();
  scene.Grants(1);
  thread.join();
  EXPECT_EQ(scene.job().Info().turns, 1u);
  EXPECT_EQ(scene.job().Info().steps, 1u);
}

TEST(DoorsTest, AnImplicitTurnEndsAtTheNextBoundaryWhenSomebodyWaits) {
  Scene scene(Scene::NeverIdle());
  std::promise<void> allocated, go;
  std::thread thread([&] {
    ASSERT_TRUE(scene.allocator().Malloc(10, nullptr).ok());
    allocated.set_value();
    go.get_future().wait();
    scene.Step();
  });
  scene.Expects<wire::Wait>();
  scene.Grants(1, /*contended=*/true);
  allocated.get_future().wait();
  go.set_value();
  EXPECT_EQ(scene.Expects<wire::TurnOver>().turn, 1u);
  scene.Expects<wire::Wait>();
  scene.Grants(2);
  thread.join();
  EXPECT_EQ(scene.job().Info().turns, 2u);
}

TEST(DoorsTest, TwoTrainingThreadsShareOneTurn) {
  Scene scene;
  std::promise<void> first_in, second_in;
  auto first = std::thread([&] {
    ASSERT_TRUE(scene.job().BeginStep().ok());
    first_in.set_value();
    second_in.get_future().wait();
    scene.job().EndStep(true);
  });
  scene.Expects<wire::Wait>();
  scene.Grants(1);
  first_in.get_future().wait();
  ASSERT_TRUE(scene.job().BeginStep().ok());  // needs no second turn
  second_in.set_value();
  first.join();
  EXPECT_TRUE(scene.job().HoldsTurn());
  scene.job().EndStep(true);
  EXPECT_EQ(scene.job().Info().turns, 1u);
}

TEST(DoorsTest, BothThreadsThatWaitAreLetInByOneGrant) {
  Scene scene;
  std::thread one([&] { scene.Step(); });
  std::thread two([&] { scene.Step(); });
  scene.Expects<wire::Wait>();
  scene.Grants(1);
  one.join();
  two.join();
  EXPECT_EQ(scene.job().Info().steps, 2u);
}

TEST(DoorsTest, TheLastOfTwoThreadsToEndItsStepGivesTheTurn) {
  Scene scene;
  scene.TakesTurn();
  ASSERT_TRUE(scene.job().BeginStep().ok());
  std::promise<void> in, leave;
  std::thread other([&] {
    ASSERT_TRUE(scene.job().BeginStep().ok());
    in.set_value();
    leave.get_future().wait();
    scene.job().EndStep(true);
  });
  in.get_future().wait();
  scene.Says(wire::Yield{.turn = 1, .now = true});
  EXPECT_FALSE(scene.AgentHasObeyed().movable);
  scene.job().EndStep(true);
  EXPECT_TRUE(scene.job().HoldsTurn());
  leave.set_value();
  EXPECT_EQ(scene.Expects<wire::TurnOver>().turn_steps, 3u);
  other.join();
  EXPECT_FALSE(scene.job().HoldsTurn());
}

TEST(DoorsTest, AThreadThatEndsInsideItsStepEndsTheStep) {
  Scene scene;
  scene.TakesTurn();
  scene.allocator().TakeLog();
  std::thread dies([&] {
    ASSERT_TRUE(scene.job().BeginStep().ok());
    ASSERT_TRUE(scene.job().BeginStep().ok());
  });
  dies.join();
  EXPECT_THAT(scene.allocator().TakeLog(), ElementsAre("begin step", "end step"));
  scene.Says(wire::Yield{.turn = 1, .now = true});
  EXPECT_EQ(scene.Expects<wire::TurnOver>().turn, 1u);
}

TEST(DoorsTest, BlockingHooksAreCalledAroundAWaitAndNotAroundAStep) {
  static std::atomic<int> before, after;
  before = after = 0;
  SetBlockingHooks({.before =
                        [] {
                          ++before;
                          return static_cast<void*>(&before);
                        },
                    .after =
                        [](void* token) {
                          EXPECT_EQ(token, &before);
                          ++after;
                        },
                    .interrupted = nullptr});
  Scene scene;
  scene.TakesTurn();
  EXPECT_EQ(before, 1);
  EXPECT_EQ(after, 1);
  scene.Step();
  EXPECT_EQ(before, 1);
  scene.job().WhileBlocked([] {
    EXPECT_EQ(before, 2) << "the allocator waits for the device";
    EXPECT_EQ(after, 1);
  });
  EXPECT_EQ(after, 2);
  SetBlockingHooks({});
}

TEST(DoorsTest, AnInterruptedWaitBeginsNoStepAndItsGrantIsGivenBack) {
  static std::atomic<bool> interrupted;
  interrupted = false;
  SetBlockingHooks({.before = nullptr, .after = nullptr, .interrupted = [](InOwnCode in_own_code) {
                      in_own_code([] { return interrupted.load(); });
                    }});
  Scene scene;
  absl::Status status;
  std::thread thread([&] { status = scene.job().BeginStep(); });
  scene.Expects<wire::Wait>();
  interrupted = true;
  thread.join();
  EXPECT_TRUE(absl::IsCancelled(status)) << status;
  scene.Grants(3);
  const wire::TurnOver over = scene.Expects<wire::TurnOver>();
  EXPECT_EQ(over.turn, 3u);
  EXPECT_EQ(over.turn_steps, 0u);
  SetBlockingHooks({});
  std::thread again([&] { scene.Step(); });
  scene.Expects<wire::Wait>();
  scene.Grants(4);
  again.join();
}

// The thread that reads is gone; the other must not wait for it.
TEST(DoorsTest, AThreadThatStaysAtTheDoorIsLetInAfterAnotherWasInterrupted) {
  static std::atomic<bool> interrupted;
  static thread_local bool hears_ctrl_c = false;
  interrupted = false;
  Happening other_waits;
  SetBlockingHooks({.before = nullptr, .after = nullptr, .interrupted = [&](InOwnCode in_own_code) {
                      if (!hears_ctrl_c) return other_waits.Happens();
                      in_own_code([] { return interrupted.load(); });
                    }});
  Scene scene;
  std::thread leaves([&] {
    hears_ctrl_c = true;
    EXPECT_TRUE(absl::IsCancelled(scene.job().BeginStep()));
  });
  scene.Expects<wire::Wait>();
  std::thread stays([&] { EXPECT_TRUE(scene.allocator().Malloc(1, nullptr).ok()); });
  other_waits.Await();  // a turn that comes before it does is sent back, for nobody waits
  interrupted = true;
  leaves.join();
  scene.Grants(1);
  stays.join();
  EXPECT_EQ(scene.job().Info().turns, 1u);
  SetBlockingHooks({});
}

TEST(DoorsTest, WhatCameBeforeTheGrantIsObeyedBeforeTheTurnIsTaken) {
  Scene scene;
  const UniqueFd any(eventfd(0, EFD_CLOEXEC));
  std::thread thread([&] { scene.Step(); });
  scene.Expects<wire::Wait>();
  scene.allocator().TakeLog();
  scene.Says(wire::ArenaAdd{.chunk = 3, .size = 64}, any.get());
  scene.Says(wire::ArenaDrop{.chunk = 3});
  scene.Grants(1);
  thread.join();
  EXPECT_THAT(scene.allocator().TakeLog(),
              ElementsAre("add 3", "drop 3", "take turn", "begin step", "end step"));
}

TEST(DoorsTest, AYieldThatCameWithTheGrantIsNotLost) {
  Scene scene;
  for (std::uint64_t turn = 1; turn <= 50; ++turn) {
    std::thread thread([&] { scene.Step(); });
    scene.Expects<wire::Wait>();
    scene.Grants(turn);
    scene.Says(wire::Yield{.turn = turn, .now = true});
    thread.join();
    EXPECT_EQ(scene.Expects<wire::TurnOver>().turn, turn);
  }
}

TEST(DoorsTest, AJobWithoutAnAllocatorTakesTurnsToo) {
  Scene::Options cpu;
  cpu.with_allocator = false;
  Scene scene(cpu);
  scene.TakesTurn(1);
  scene.Says(wire::Yield{.turn = 1, .now = true});
  scene.Expects<wire::TurnOver>();
  scene.TakesTurn(2);
  EXPECT_EQ(scene.job().Info().steps, 2u);
}

}  // namespace
}  // namespace hocket
