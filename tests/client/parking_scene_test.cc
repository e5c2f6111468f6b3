// Threads that wait in the program's own code, as its language says: their job can be moved, and they find
// its memory when they go on.
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/scene.h"

namespace hocket {
namespace {

using ::testing::HasSubstr;

bool Waits(pthread_t) { return true; }
bool Works(pthread_t) { return false; }

// A thread that makes a step and then waits, until it is told, for something that is none of Hocket's.
class Waiting {
 public:
  Waiting(Scene& scene, std::function<void()> then)
      : thread_([this, &scene, then = std::move(then)] {
          scene.Step();
          waits_.Happens();
          goes_on_.Await();
          then();
        }) {}
  ~Waiting() {
    if (thread_.joinable()) Ends();
  }
  void Awaits() { waits_.Await(); }
  void GoesOn() { goes_on_.Happens(); }
  void Ends() {
    GoesOn();
    thread_.join();
  }

 private:
  Happening waits_, goes_on_;
  std::thread thread_;
};

void WaitsAfterItsTurn(Scene& scene, Waiting& thread) {
  scene.Expects<wire::Wait>();
  scene.Grants(1, /*contended=*/true);
  thread.Awaits();
  EXPECT_FALSE(scene.Expects<wire::TurnOver>().movable);
}

TEST(ParkingTest, AThreadThatWaitsIsAwayUntilItsNextStep) {
  Scene scene;
  Waiting thread(scene, [&] {
    scene.Step();
    EXPECT_EQ(scene.allocator().Held().spilled, 0u);
  });
  WaitsAfterItsTurn(scene, thread);
  EXPECT_EQ(scene.job().Park(&Waits), 1);
  EXPECT_TRUE(scene.job().HasParked());
  EXPECT_EQ(scene.Spills(60).freed, 60u);
  thread.GoesOn();
  EXPECT_EQ(scene.Expects<wire::Wait>().need, 60u);
  scene.Grants(2);
  thread.Ends();
  EXPECT_FALSE(scene.job().HasParked());
}

TEST(ParkingTest, AnAllocationBringsItBack) {
  Scene scene;
  Happening allocated, ends;
  Waiting thread(scene, [&] {
    EXPECT_TRUE(scene.allocator().Malloc(1, nullptr).ok());
    EXPECT_FALSE(scene.job().HasParked());
    allocated.Happens();
    ends.Await();
  });
  WaitsAfterItsTurn(scene, thread);
  EXPECT_EQ(scene.job().Park(&Waits), 1);
  EXPECT_EQ(scene.Spills(60).freed, 60u);
  thread.GoesOn();
  scene.Expects<wire::Wait>();
  scene.Grants(2);
  allocated.Await();
  scene.Says(wire::Yield{.turn = 2, .now = false});
  EXPECT_FALSE(scene.Expects<wire::TurnOver>().movable);
  EXPECT_THAT(scene.Spills(60).why_not, HasSubstr("1 of 1 threads"));
  ends.Happens();
}

TEST(ParkingTest, AnOperatorBringsItBackWithoutATurnWhereNothingWasMoved) {
  Scene scene;
  Happening back, ends;
  Waiting thread(scene, [&] {
    EXPECT_TRUE(scene.job().EndParked().ok());
    EXPECT_FALSE(scene.job().HasParked());
    back.Happens();
    ends.Await();
  });
  WaitsAfterItsTurn(scene, thread);
  EXPECT_EQ(scene.job().Park(&Waits), 1);
  thread.GoesOn();
  back.Await();
  EXPECT_FALSE(scene.job().HasTurn());
  EXPECT_THAT(scene.Spills(60).why_not, HasSubstr("1 of 1 threads"));
  ends.Happens();
}

TEST(ParkingTest, AnOperatorBringsBackWhatWasMoved) {
  Scene scene;
  Waiting thread(scene, [&] {
    EXPECT_TRUE(scene.job().EndParked().ok());
    EXPECT_EQ(scene.allocator().Held().spilled, 0u);
  });
  WaitsAfterItsTurn(scene, thread);
  EXPECT_EQ(scene.job().Park(&Waits), 1);
  EXPECT_EQ(scene.Spills(60).freed, 60u);
  thread.GoesOn();
  EXPECT_EQ(scene.Expects<wire::Wait>().need, 60u);
  scene.Grants(2);
  thread.Ends();
}

TEST(ParkingTest, OneThreadThatWorksKeepsTheJob) {
  Scene scene(Scene::NeverIdle());
  Waiting first(scene, [] {});
  scene.Expects<wire::Wait>();
  scene.Grants(1);
  first.Awaits();
  Waiting second(scene, [] {});
  second.Awaits();
  scene.Says(wire::Yield{.turn = 1, .now = true});
  scene.AgentHasObeyed();
  std::thread gives([&] { scene.Step(); });
  scene.Expects<wire::TurnOver>();
  scene.Expects<wire::Wait>();
  int asked = 0;
  EXPECT_EQ(scene.job().Park([&](pthread_t) { return ++asked < 2; }), 1);
  EXPECT_EQ(asked, 2) << "not the one that stands at a door";
  EXPECT_EQ(scene.job().Park(&Works), 0);
  EXPECT_THAT(scene.Spills(60).why_not, HasSubstr("1 of 3 threads"));
  EXPECT_EQ(scene.job().Park(&Waits), 1);
  EXPECT_EQ(scene.Spills(60).freed, 60u);
  scene.Grants(2);
  gives.join();
}

TEST(ParkingTest, NobodyIsParkedInItsTurnNorInAGang) {
  Scene scene(Scene::NeverIdle());
  Waiting thread(scene, [] {});
  scene.Expects<wire::Wait>();
  scene.Grants(1);
  thread.Awaits();
  EXPECT_EQ(scene.job().Park(&Waits), 0) << "it has the turn";
  scene.Says(wire::Yield{.turn = 1, .now = true});
  scene.AgentHasObeyed();
  std::thread gives([&] { scene.Step(); });
  scene.Expects<wire::TurnOver>();
  scene.Expects<wire::Wait>();
  scene.job().JoinGang("gang", 0, 2);
  EXPECT_EQ(scene.job().Park(&Waits), 0) << "a fellow's work may come to it by another thread";
  scene.Grants(2);
  gives.join();
}

TEST(ParkingTest, OneThatEndsIsForgotten) {
  Scene scene;
  {
    Waiting thread(scene, [] {});
    WaitsAfterItsTurn(scene, thread);
    EXPECT_EQ(scene.job().Park(&Waits), 1);
  }
  EXPECT_FALSE(scene.job().HasParked());
  EXPECT_EQ(scene.Spills(60).freed, 60u);
  scene.TakesTurn(2);
}

TEST(ParkingTest, TheAgentLooksByItselfAndSaysIt) {
  Scene scene;
  Waiting thread(scene, [] {});
  WaitsAfterItsTurn(scene, thread);
  SetParkingHook([](absl::FunctionRef<void(IsWaiting)> park) { park(&Waits); });
  EXPECT_TRUE(scene.Expects<wire::Spilled>().movable);
  SetParkingHook(nullptr);
  EXPECT_EQ(scene.Spills(60).freed, 60u);
}

}  // namespace
}  // namespace hocket
