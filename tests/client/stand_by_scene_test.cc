// A job stands still in the midst of its turn while somebody else's request is served, and goes on.
#include <pthread.h>

#include <atomic>
#include <future>
#include <string>
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/scene.h"

namespace hocket {
namespace {

using ::testing::Contains;

// Has begun a step, and does in it what it is told.
class ThreadInStep {
 public:
  explicit ThreadInStep(
      Scene& scene, std::function<void()> then = [] {})
      : thread_([this, &scene, then = std::move(then)] {
          EXPECT_TRUE(scene.job().BeginStep().ok());
          in_step_.Happens();
          allocate_.Await();
          EXPECT_TRUE(scene.allocator().Malloc(1, nullptr).ok());
          allocated_.Happens();
          end_.Await();
          scene.job().EndStep(true);
          then();
        }) {}
  void Awaits() { in_step_.Await(); }
  void Allocates() { allocate_.Happens(); }
  void AwaitsAllocated() { allocated_.Await(); }
  void Ends() {
    allocate_.Happens();
    end_.Happens();
    thread_.join();
  }

 private:
  Happening in_step_, allocate_, allocated_, end_;
  std::thread thread_;
};

// Its device works until a test says otherwise, so only a thread at a door stands.
class StandByTest : public testing::Test {
 protected:
  StandByTest() { scene.allocator().idle = false; }
  void HasTurn(ThreadInStep& thread) {
    scene.Expects<wire::Wait>();
    scene.Grants(1);
    thread.Awaits();
  }
  // The job's word as the agent sees it: it has obeyed all that was said, and said nothing itself.
  void HasSaidNothing() {
    scene.Says(wire::Spill{.request = 5000, .bytes = 0});
    const wire::Message next = scene.Next();
    EXPECT_TRUE(std::holds_alternative<wire::Spilled>(next)) << "it has said something";
  }
  Scene scene;
};

TEST_F(StandByTest, StandsAtItsNextAllocationUntilItMayGoOn) {
  ThreadInStep thread(scene);
  HasTurn(thread);
  scene.Says(wire::StandBy{1});
  HasSaidNothing();
  thread.Allocates();
  EXPECT_EQ(scene.Expects<wire::StoodBy>().turn, 1u);
  EXPECT_THAT(scene.allocator().TakeLog(), Contains("drain"));
  EXPECT_FALSE(scene.job().HoldsTurn());
  EXPECT_TRUE(scene.job().Info().holds_turn);
  scene.Says(wire::GoOn{1});
  thread.AwaitsAllocated();
  EXPECT_TRUE(scene.job().HoldsTurn());
  thread.Ends();
  EXPECT_EQ(scene.job().Info().turns, 1u);
}

TEST_F(StandByTest, StandsAgainForTheNextRequest) {
  ThreadInStep thread(scene);
  HasTurn(thread);
  scene.allocator().idle = true;
  for (int request = 0; request < 3; ++request) {
    scene.Says(wire::StandBy{1});
    scene.Expects<wire::StoodBy>();
    scene.Says(wire::GoOn{1});
    scene.AgentHasObeyed();
    EXPECT_TRUE(scene.job().HoldsTurn());
  }
  thread.Ends();
}

TEST_F(StandByTest, StandsAtTheBeginOfAStep) {
  ThreadInStep thread(scene);
  HasTurn(thread);
  thread.Ends();
  scene.Says(wire::StandBy{1});
  EXPECT_EQ(scene.Expects<wire::StoodBy>().turn, 1u) << "nobody is in a step: the agent says so";
  auto begun = std::async(std::launch::async, [&] { return scene.job().BeginStep(); });
  scene.Says(wire::GoOn{1});
  EXPECT_TRUE(begun.get().ok());
  EXPECT_EQ(scene.job().Info().turns, 1u);
}

TEST_F(StandByTest, WhoComputesOnTheHostStandsByWhereTheDeviceIsIdle) {
  ThreadInStep thread(scene);
  HasTurn(thread);
  scene.allocator().idle = true;
  scene.Says(wire::StandBy{1});
  scene.Expects<wire::StoodBy>();
  scene.Says(wire::GoOn{1});
  thread.Ends();
}

TEST_F(StandByTest, AllThreadsInStepsStand) {
  ThreadInStep first(scene);
  HasTurn(first);
  ThreadInStep second(scene);
  second.Awaits();
  scene.Says(wire::StandBy{1});
  HasSaidNothing();
  first.Allocates();
  HasSaidNothing();
  second.Allocates();
  scene.Expects<wire::StoodBy>();
  scene.Says(wire::GoOn{1});
  first.Ends();
  second.Ends();
}

TEST_F(StandByTest, TheEndOfTheStepIsAsGood) {
  ThreadInStep thread(scene);
  HasTurn(thread);
  thread.Allocates();
  thread.AwaitsAllocated();
  scene.Says(wire::StandBy{1});
  HasSaidNothing();
  thread.Ends();
  scene.Expects<wire::StoodBy>();
}

TEST_F(StandByTest, ACaptureGoesOnAndIsWaitedFor) {
  ThreadInStep thread(scene);
  HasTurn(thread);
  scene.allocator().capturing = true;
  scene.Says(wire::StandBy{1});
  HasSaidNothing();
  thread.Allocates();
  thread.AwaitsAllocated();
  HasSaidNothing();
  scene.allocator().idle = true;
  scene.allocator().capturing = false;
  scene.Expects<wire::StoodBy>();
  scene.Says(wire::GoOn{1});
  thread.Ends();
}

TEST_F(StandByTest, KeepsATurnThatOthersWaitFor) {
  ThreadInStep thread(scene);
  HasTurn(thread);
  thread.Ends();
  scene.Says(wire::StandBy{1});
  scene.Expects<wire::StoodBy>();
  scene.allocator().idle = true;
  scene.Says(wire::Yield{.turn = 1, .now = false});
  HasSaidNothing();
  HasSaidNothing();  // the agent has looked at its checks in between
  scene.Says(wire::GoOn{1});
  scene.Expects<wire::TurnOver>();  // idle
}

TEST_F(StandByTest, GivesATurnThatItIsToStopBetweenTwoSteps) {
  ThreadInStep thread(scene);
  HasTurn(thread);
  thread.Ends();
  scene.Says(wire::StandBy{1});
  scene.Expects<wire::StoodBy>();
  auto begun = std::async(std::launch::async, [&] { return scene.job().BeginStep(); });
  scene.Says(wire::Yield{.turn = 1, .now = true});
  EXPECT_EQ(scene.Expects<wire::TurnOver>().turn, 1u);
  scene.Expects<wire::Wait>();
  scene.Grants(2);
  EXPECT_TRUE(begun.get().ok()) << "the order was for the turn before";
}

TEST_F(StandByTest, AnOrderForAnotherTurnMeansNothing) {
  ThreadInStep thread(scene);
  HasTurn(thread);
  scene.Says(wire::StandBy{7});
  scene.Says(wire::GoOn{1});
  scene.AgentHasObeyed();
  thread.Allocates();
  thread.AwaitsAllocated();
  thread.Ends();
}

TEST_F(StandByTest, AnEndForAnotherTurnMeansNothing) {
  ThreadInStep thread(scene);
  HasTurn(thread);
  scene.Says(wire::StandBy{1});
  scene.Says(wire::GoOn{7});
  scene.AgentHasObeyed();
  EXPECT_FALSE(scene.job().HoldsTurn());
  scene.Says(wire::GoOn{1});
  thread.Ends();
}

TEST_F(StandByTest, GoesOnWhenTheCoordinatorDies) {
  ThreadInStep thread(scene);
  HasTurn(thread);
  scene.Says(wire::StandBy{1});
  HasSaidNothing();
  thread.Allocates();
  scene.Expects<wire::StoodBy>();
  scene.Dies();
  const wire::Join join = scene.Answers();
  EXPECT_TRUE(join.holds_turn);
  thread.AwaitsAllocated();
  thread.Ends();
}

// The coordinator is stopped, say: it says no more, and its connection does not end.
TEST(StandByLimitTest, GoesOnWhereTheEndIsNeverSaid) {
  Scene::Options options;
  options.longest_stand_by = std::chrono::milliseconds(100);
  Scene scene(options);
  for (const bool idle : {true, false}) {  // the agent says that it stands; the thread at its door
    scene.allocator().idle = idle;
    ThreadInStep thread(scene);
    if (idle) {
      scene.Expects<wire::Wait>();
      scene.Grants(1);
    }
    thread.Awaits();
    scene.Says(wire::StandBy{1});
    scene.AgentHasObeyed();
    thread.Allocates();
    thread.AwaitsAllocated();
    EXPECT_TRUE(scene.job().HoldsTurn());
    scene.Says(wire::GoOn{1});  // too late, and no harm
    scene.AgentHasObeyed();
    thread.Ends();
  }
  EXPECT_EQ(scene.job().Info().turns, 1u);
}

TEST_F(StandByTest, LeavesWhileItStands) {
  ThreadInStep thread(scene);
  HasTurn(thread);
  scene.Says(wire::StandBy{1});
  HasSaidNothing();
  thread.Allocates();
  scene.Expects<wire::StoodBy>();
  scene.job().Leave();
  scene.Expects<wire::TurnOver>();
  scene.Expects<wire::Leave>();
  thread.AwaitsAllocated();
  thread.Ends();
}

// On the thread that waits for the device, the agent hears it meanwhile; where the agent itself waits (it has
// looked first), afterwards.
TEST_F(StandByTest, TheOrderMayBeOverBeforeTheDeviceIsDone) {
  ThreadInStep thread(scene);
  HasTurn(thread);
  std::atomic<int> drains{0};
  scene.allocator().SetHook([&](const std::string& call) {
    if (call != "drain" || drains++ > 0) return;
    scene.Says(wire::GoOn{1});
    char name[16];
    pthread_getname_np(pthread_self(), name, sizeof(name));
    while (std::string(name) != "hocket-agent" && !scene.job().HoldsTurn()) std::this_thread::yield();
  });
  scene.Says(wire::StandBy{1});
  HasSaidNothing();
  thread.Allocates();
  thread.AwaitsAllocated();
  thread.Ends();
  EXPECT_EQ(drains, 1);
  scene.allocator().SetHook(nullptr);
  scene.Says(wire::StandBy{1});
  scene.Expects<wire::StoodBy>();
}

TEST_F(StandByTest, TellsTheAllocatorHowFarItMayRunAhead) {
  ThreadInStep thread(scene);
  HasTurn(thread);
  scene.Says(wire::Pace{2'000'000});
  scene.AgentHasObeyed();
  EXPECT_THAT(scene.allocator().TakeLog(), Contains("pace 2000000 ns"));
  scene.Dies();
  scene.Answers();
  scene.AgentHasObeyed();
  EXPECT_THAT(scene.allocator().TakeLog(), Contains("pace 0 ns")) << "the next coordinator has not said so";
  thread.Ends();
}

}  // namespace
}  // namespace hocket
