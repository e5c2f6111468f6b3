// Threads that do not use the device for a while: their job can be moved meanwhile, and is whole when they
// come back.
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/scene.h"

namespace hocket {
namespace {

using ::testing::HasSubstr;

// A thread that makes a step, is away, and does what it is told when it is back.
class AwayThread {
 public:
  AwayThread(Scene& scene, std::function<void()> then)
      : thread_([this, &scene, then = std::move(then)] {
          scene.Step();
          scene.job().BeginAway();
          away_.Happens();
          return_.Await();
          EXPECT_TRUE(scene.job().EndAway().ok());
          back_.Happens();
          then();
        }) {}
  void Awaits() { away_.Await(); }
  void Returns() { return_.Happens(); }
  void AwaitsBack() { back_.Await(); }
  void Ends() { thread_.join(); }

 private:
  Happening away_, return_, back_;
  std::thread thread_;
};

// Its first turn is over, and it is away.
void IsAwayAfterItsTurn(Scene& scene, AwayThread& thread) {
  scene.Expects<wire::Wait>();
  scene.Grants(1, /*contended=*/true);
  thread.Awaits();
  scene.Expects<wire::TurnOver>();
}

TEST(AwayTest, ItsJobIsMovedAndIsWholeWhenItComesBack) {
  Scene scene;
  AwayThread thread(scene, [&] {
    EXPECT_EQ(scene.allocator().Held().spilled, 0u);
    scene.Step();
  });
  IsAwayAfterItsTurn(scene, thread);
  EXPECT_EQ(scene.Spills(60).freed, 60u);
  thread.Returns();
  EXPECT_EQ(scene.Expects<wire::Wait>().need, 60u);
  scene.Grants(2);
  thread.Ends();
  EXPECT_EQ(scene.job().Info().turns, 2u) << "the step is made in the turn that brought the bytes back";
}

// It loads data, and bytes would have to move for the others: perhaps it is back sooner.
TEST(AwayTest, ItsJobKeepsATurnThatIsToLastThroughItsPauses) {
  Scene scene;
  AwayThread thread(scene, [] {});
  scene.Expects<wire::Wait>();
  scene.Grants(1);
  thread.Awaits();
  scene.Says(wire::Yield{.turn = 1, .idle_ns = 10'000'000});
  EXPECT_GE(scene.Expects<wire::TurnOver>().idle_ns, 10'000'000u);
  thread.Returns();
  thread.Ends();
}

// Else the bytes would have moved for nothing, and again and again.
TEST(AwayTest, TheTurnThatBringsItBackIsNotGivenBeforeTheStep) {
  Scene scene(Scene::NeverIdle());
  Happening in_step, ends, returns, back, steps;
  std::thread thread([&] {
    EXPECT_TRUE(scene.job().BeginStep().ok());
    in_step.Happens();
    ends.Await();
    scene.job().EndStep(true);  // gives the turn
    scene.job().BeginAway();
    returns.Await();
    EXPECT_TRUE(scene.job().EndAway().ok());
    back.Happens();
    steps.Await();
    scene.Step();
  });
  scene.Expects<wire::Wait>();
  scene.Grants(1);
  in_step.Await();
  scene.Says(wire::Yield{.turn = 1, .now = true});
  scene.AgentHasObeyed();
  ends.Happens();
  EXPECT_FALSE(scene.Expects<wire::TurnOver>().movable);
  EXPECT_TRUE(scene.Expects<wire::Spilled>().movable);  // it is away
  EXPECT_EQ(scene.Spills(60).freed, 60u);
  returns.Happens();
  EXPECT_EQ(scene.Expects<wire::Wait>().need, 60u);
  scene.Grants(2);
  back.Await();
  scene.Says(wire::Yield{.turn = 2, .now = true});
  scene.AgentHasObeyed();
  EXPECT_TRUE(scene.job().HoldsTurn());
  steps.Happens();
  EXPECT_EQ(scene.Expects<wire::TurnOver>().turn_steps, 1u);
  thread.join();
}

TEST(AwayTest, WhereNothingWasMovedItComesBackWithoutATurn) {
  Scene scene;
  AwayThread thread(scene, [] {});
  IsAwayAfterItsTurn(scene, thread);
  thread.Returns();
  thread.AwaitsBack();
  EXPECT_FALSE(scene.job().HoldsTurn());
  thread.Ends();
}

TEST(AwayTest, GivesTheTurnAtOnceWhenSomebodyAsks) {
  Scene scene(Scene::NeverIdle());
  AwayThread thread(scene, [] {});
  scene.Expects<wire::Wait>();
  scene.Grants(1);
  thread.Awaits();
  scene.Says(wire::Yield{.turn = 1, .now = false});
  EXPECT_EQ(scene.Expects<wire::TurnOver>().turn_steps, 1u);
  thread.Returns();
  thread.Ends();
}

TEST(AwayTest, GivesTheTurnAtOnceThatSomebodyHasAskedFor) {
  Scene scene(Scene::NeverIdle());
  AwayThread thread(scene, [] {});
  IsAwayAfterItsTurn(scene, thread);
  thread.Returns();
  thread.Ends();
}

TEST(AwayTest, KeepsTheTurnWhileTheDeviceWorks) {
  Scene scene(Scene::NeverIdle());
  AwayThread thread(scene, [] {});
  scene.Expects<wire::Wait>();
  scene.allocator().idle = false;
  scene.Grants(1, /*contended=*/true);
  thread.Awaits();
  for (int looks = 0; looks < 2; ++looks) scene.AgentHasObeyed();  // and nothing else was said
  scene.allocator().idle = true;
  scene.Expects<wire::TurnOver>();
  thread.Returns();
  thread.Ends();
}

TEST(AwayTest, KeepsTheTurnForAThreadThatIsNotAway) {
  Scene scene(Scene::NeverIdle());
  scene.TakesTurn(1);
  ASSERT_TRUE(scene.allocator().Malloc(1, nullptr).ok());  // this thread is known, and stays out here
  AwayThread thread(scene, [] {});
  thread.Awaits();
  scene.Says(wire::Yield{.turn = 1, .now = false});
  scene.AgentHasObeyed();
  EXPECT_TRUE(scene.job().HoldsTurn());
  thread.Returns();
  thread.Ends();
}

TEST(AwayTest, SaysThatTheJobCanBeMoved) {
  Scene scene;
  AwayThread thread(scene, [] {});
  scene.Expects<wire::Wait>();
  scene.Says(wire::Grant{.turn = 1, .contended = true});
  thread.Awaits();
  // Away before the turn is over, or told after it: the coordinator knows in both cases.
  const bool with_turn = scene.Expects<wire::TurnOver>().movable;
  if (!with_turn) {
    EXPECT_TRUE(scene.Expects<wire::Spilled>().movable);
  }
  thread.Returns();
  thread.Ends();
}

TEST(AwayTest, AnotherThreadInUserCodeKeepsTheJob) {
  Scene scene(Scene::NeverIdle());
  scene.TakesTurn(1);
  ASSERT_TRUE(scene.allocator().Malloc(1, nullptr).ok());  // this thread is known, and stays out here
  AwayThread thread(scene, [] {});
  thread.Awaits();
  scene.Says(wire::Yield{.turn = 1, .now = true});
  scene.AgentHasObeyed();
  std::thread gives([&] { scene.Step(); });
  EXPECT_FALSE(scene.Expects<wire::TurnOver>().movable);
  scene.Expects<wire::Wait>();
  EXPECT_THAT(scene.Spills(60).why_not, HasSubstr("of 3 threads"));
  scene.Grants(2);
  gives.join();
  thread.Returns();
  thread.Ends();
}

TEST(AwayTest, ASpillUnderWayIsWaitedFor) {
  Happening spilling, goes_on;
  Scene scene;
  AwayThread thread(scene, [&] { EXPECT_EQ(scene.allocator().Held().spilled, 0u); });
  IsAwayAfterItsTurn(scene, thread);
  scene.allocator().SetHook([&](const std::string& call) {
    if (call != "spill") return;
    spilling.Happens();
    goes_on.Await();
  });
  scene.Says(wire::Spill{.request = 77, .bytes = 60});
  spilling.Await();
  thread.Returns();
  goes_on.Happens();
  scene.Expects<wire::Wait>();
  scene.allocator().SetHook(nullptr);
  scene.Grants(2);
  thread.Ends();
}

TEST(AwayTest, AnAllocationEndsIt) {
  Scene scene;
  Happening allocated, ends;
  std::thread thread([&] {
    scene.Step();
    scene.job().BeginAway();
    EXPECT_TRUE(scene.allocator().Malloc(1, nullptr).ok());
    allocated.Happens();
    ends.Await();
    EXPECT_TRUE(scene.job().EndAway().ok());  // of nothing
  });
  scene.Expects<wire::Wait>();
  scene.Grants(1);
  allocated.Await();
  scene.Says(wire::Yield{.turn = 1, .now = false});
  EXPECT_FALSE(scene.Expects<wire::TurnOver>().movable);
  EXPECT_THAT(scene.Spills(60).why_not, HasSubstr("1 of 1 threads"));
  ends.Happens();
  thread.join();
}

TEST(AwayTest, AStepEndsIt) {
  Scene scene;
  scene.TakesTurn(1);
  ASSERT_TRUE(scene.job().BeginStep().ok());
  scene.job().EndStep(true);
  scene.job().BeginAway();
  ASSERT_TRUE(scene.job().BeginStep().ok());
  scene.job().EndStep(true);
  scene.Says(wire::Yield{.turn = 1, .now = false});
  EXPECT_FALSE(scene.Expects<wire::TurnOver>().movable);
  EXPECT_TRUE(scene.job().EndAway().ok());
}

TEST(AwayTest, InAStepItIsNothing) {
  Scene scene;
  scene.TakesTurn(1);
  ASSERT_TRUE(scene.job().BeginStep().ok());
  scene.job().BeginAway();
  EXPECT_TRUE(scene.job().HoldsTurn());
  EXPECT_TRUE(scene.job().EndAway().ok());
  scene.job().EndStep(true);
  scene.Says(wire::Yield{.turn = 1, .now = false});
  EXPECT_FALSE(scene.Expects<wire::TurnOver>().movable);
}

TEST(AwayTest, AThreadThatHasNotUsedTheDeviceStaysUnknown) {
  Scene scene;
  std::thread reader([&] {
    scene.job().BeginAway();
    EXPECT_TRUE(scene.job().EndAway().ok());
    EXPECT_TRUE(scene.AgentHasObeyed().movable);
  });
  reader.join();
}

TEST(AwayTest, AThreadThatEndsWhileAwayIsForgotten) {
  Scene scene;
  Happening away, ends;
  std::thread thread([&] {
    scene.Step();
    scene.job().BeginAway();
    away.Happens();
    ends.Await();
  });
  scene.Expects<wire::Wait>();
  scene.Grants(1);
  away.Await();
  ends.Happens();
  thread.join();
  ASSERT_TRUE(scene.allocator().Malloc(1, nullptr).ok());  // of this thread, which stays in its own code
  scene.Says(wire::Yield{.turn = 1, .now = false});
  EXPECT_FALSE(scene.Expects<wire::TurnOver>().movable);
}

// Its turn is over before it is away: a job that has its turn still keeps its bytes.
TEST(AwayTest, ForcedSpillsMoveEverythingWhileItIsAway) {
  Scene::Options forced = Scene::NeverIdle();
  forced.force_spill = true;
  Scene scene(forced);
  Happening in_step, ends;
  std::thread thread([&] {
    EXPECT_TRUE(scene.job().BeginStep().ok());
    in_step.Happens();
    ends.Await();
    scene.job().EndStep(true);  // gives the turn
    scene.job().BeginAway();
    EXPECT_GT(scene.allocator().Held().spilled, 0u);
    EXPECT_TRUE(scene.job().EndAway().ok());
    EXPECT_EQ(scene.allocator().Held().spilled, 0u);
  });
  scene.Expects<wire::Wait>();
  scene.Grants(1);
  in_step.Await();
  scene.Says(wire::Yield{.turn = 1, .now = true});
  scene.AgentHasObeyed();
  ends.Happens();
  scene.Expects<wire::TurnOver>();
  EXPECT_GT(scene.Expects<wire::Wait>().need, 0u);
  scene.Grants(2);
  thread.join();
}

TEST(AwayTest, TheCoordinatorDiesAndTheBytesComeBackAllTheSame) {
  Scene scene;
  AwayThread thread(scene, [&] { EXPECT_EQ(scene.allocator().Held().spilled, 0u); });
  IsAwayAfterItsTurn(scene, thread);
  EXPECT_EQ(scene.Spills(60).freed, 60u);
  scene.Dies();
  scene.Answers();
  thread.Returns();
  scene.Expects<wire::Wait>();
  scene.Grants(2);
  thread.Ends();
}

}  // namespace
}  // namespace hocket
