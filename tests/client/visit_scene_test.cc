// Threads that visit: they use what others have allocated. Their job is not moved meanwhile, and they hold
// nothing up between two uses.
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/scene.h"

namespace hocket {
namespace {

using ::testing::HasSubstr;

// A thread that uses the device's memory when it is told, twice at most, and then ends when it is told.
class Visitor {
 public:
  explicit Visitor(Scene& scene)
      : thread_([this, &scene] {
          for (Use& use : uses_) {
            use.may_begin.Await();
            if (ends_) return;
            EXPECT_TRUE(scene.job().BeginUse().ok());
            use.begun.Happens();
            use.may_end.Await();
            EXPECT_FALSE(scene.job().EndUse());
            use.ended.Happens();
          }
          ends_at_.Await();
        }) {}
  ~Visitor() {
    if (thread_.joinable()) Ends();
  }
  void AsksFor(int use) { uses_[use].may_begin.Happens(); }
  void AwaitsUse(int use) { uses_[use].begun.Await(); }
  void EndsUse(int use) {
    uses_[use].may_end.Happens();
    uses_[use].ended.Await();
  }
  void Uses(int use) {
    AsksFor(use);
    AwaitsUse(use);
  }
  void Ends() {
    ends_ = true;
    for (Use& use : uses_) use.may_begin.Happens();
    ends_at_.Happens();
    thread_.join();
  }

 private:
  struct Use {
    Happening may_begin, begun, may_end, ended;
  };
  Use uses_[2];
  std::atomic<bool> ends_{false};
  Happening ends_at_;
  std::thread thread_;
};

// Its only thread has made a step and has ended.
void HasHadItsTurn(Scene& scene) {
  scene.TakesTurn(1, /*contended=*/true);
  scene.Expects<wire::TurnOver>();
}

TEST(VisitTest, ItsJobIsNotMovedMeanwhileAndIsBetweenTwoUses) {
  Scene scene;
  Visitor visitor(scene);
  HasHadItsTurn(scene);
  visitor.Uses(0);
  EXPECT_THAT(scene.Spills(60).why_not, HasSubstr("1 of 1 threads"));
  visitor.EndsUse(0);
  EXPECT_TRUE(scene.Expects<wire::Spilled>().movable) << "said when the use ends";
  EXPECT_EQ(scene.Spills(60).freed, 60u);
}

TEST(VisitTest, WhatIsOnTheHostComesBackByATurn) {
  Scene scene;
  Visitor visitor(scene);
  HasHadItsTurn(scene);
  EXPECT_EQ(scene.Spills(60).freed, 60u);
  visitor.AsksFor(0);
  EXPECT_EQ(scene.Expects<wire::Wait>().need, 60u);
  scene.Grants(2, /*contended=*/true);
  visitor.AwaitsUse(0);
  EXPECT_EQ(scene.allocator().Held().spilled, 0u);
  visitor.EndsUse(0);
  scene.Expects<wire::TurnOver>();
  EXPECT_EQ(scene.Spills(60).freed, 60u);
  visitor.AsksFor(1);
  scene.Expects<wire::Wait>();
  scene.Grants(3);
  visitor.AwaitsUse(1);
  visitor.EndsUse(1);
}

TEST(VisitTest, ResidentMemoryNeedsNoTurn) {
  Scene scene;
  Visitor visitor(scene);
  HasHadItsTurn(scene);
  for (const int use : {0, 1}) {
    visitor.Uses(use);
    EXPECT_FALSE(scene.job().HasTurn());
    visitor.EndsUse(use);
  }
}

TEST(VisitTest, ASpillUnderWayIsWaitedFor) {
  Scene scene;
  Visitor visitor(scene);
  HasHadItsTurn(scene);
  Happening spilling, goes_on;
  scene.allocator().SetHook([&](const std::string& call) {
    if (call != "spill") return;
    spilling.Happens();
    goes_on.Await();
  });
  scene.Says(wire::Spill{.request = 78, .bytes = 60});
  spilling.Await();
  visitor.AsksFor(0);
  goes_on.Happens();
  EXPECT_EQ(scene.Expects<wire::Wait>().need, 60u);
  scene.allocator().SetHook(nullptr);
  scene.Grants(2);
  visitor.AwaitsUse(0);
  EXPECT_EQ(scene.allocator().Held().spilled, 0u);
  visitor.EndsUse(0);
}

TEST(VisitTest, OneThatEndsIsNobody) {
  Scene scene;
  {
    Visitor visitor(scene);
    HasHadItsTurn(scene);
    visitor.Uses(0);
    visitor.EndsUse(0);
    visitor.Ends();
  }
  EXPECT_EQ(scene.Spills(60).freed, 60u);
}

TEST(VisitTest, InItsJobsTurnItWaitsForNothing) {
  Scene scene(Scene::NeverIdle());
  scene.TakesTurn(1);
  Visitor visitor(scene);
  visitor.Uses(0);
  visitor.EndsUse(0);
  EXPECT_TRUE(scene.job().HasTurn());
}

TEST(VisitTest, AThreadThatAllocatesIsKnownFromThenOn) {
  Scene scene;
  HasHadItsTurn(scene);
  Happening allocated, ends;
  std::thread thread([&] {
    EXPECT_TRUE(scene.job().BeginUse().ok());
    EXPECT_TRUE(scene.allocator().Malloc(1, nullptr).ok());
    EXPECT_TRUE(scene.job().EndUse());
    allocated.Happens();
    ends.Await();
    EXPECT_TRUE(scene.job().BeginUse().ok());
    EXPECT_TRUE(scene.job().EndUse());
  });
  scene.Expects<wire::Wait>();
  scene.Grants(2);
  allocated.Await();
  scene.Says(wire::Yield{.turn = 2, .now = false});
  EXPECT_FALSE(scene.Expects<wire::TurnOver>().movable);
  EXPECT_THAT(scene.Spills(60).why_not, HasSubstr("1 of 1 threads"));
  ends.Happens();
  thread.join();
}

TEST(VisitTest, AThreadThatMakesStepsIsKnownFromThenOn) {
  Scene scene;
  std::thread thread([&] {
    EXPECT_TRUE(scene.job().BeginUse().ok());
    EXPECT_FALSE(scene.job().EndUse());
    scene.Step();
    EXPECT_TRUE(scene.job().BeginUse().ok());
    EXPECT_TRUE(scene.job().EndUse());
  });
  scene.Expects<wire::Wait>();
  scene.Grants(1);
  thread.join();
}

TEST(VisitTest, ThatItIsAwayIsItsOwnAffair) {
  Scene scene;
  HasHadItsTurn(scene);
  Happening away, returns;
  std::thread thread([&] {
    EXPECT_TRUE(scene.job().BeginUse().ok());
    EXPECT_FALSE(scene.job().EndUse());
    scene.job().BeginAway();
    EXPECT_TRUE(scene.job().EndAway().ok());
    away.Happens();
    returns.Await();
  });
  away.Await();
  EXPECT_EQ(scene.Spills(60).freed, 60u) << "it is between two uses";
  returns.Happens();
  thread.join();
}

// One of autograd's threads, which works for a thread that visits, or is parked.
TEST(VisitTest, AHelpersUseKeepsItsJobToo) {
  Scene scene;
  HasHadItsTurn(scene);
  EXPECT_EQ(scene.Spills(60).freed, 60u);
  Happening uses, ends, ended;
  std::thread helper([&] {
    pthread_setname_np(pthread_self(), "pt_autograd_0");
    EXPECT_TRUE(scene.job().BeginUse().ok());
    uses.Happens();
    ends.Await();
    EXPECT_TRUE(scene.job().EndUse());
    EXPECT_TRUE(scene.job().EndUse()) << "of nothing";
    ended.Happens();
  });
  EXPECT_EQ(scene.Expects<wire::Wait>().need, 60u);
  scene.Grants(2, /*contended=*/true);
  uses.Await();
  EXPECT_EQ(scene.allocator().Held().spilled, 0u);
  EXPECT_FALSE(scene.Expects<wire::TurnOver>().movable);
  EXPECT_NE(scene.Spills(60).why_not, "");
  ends.Happens();
  ended.Await();
  EXPECT_EQ(scene.Spills(60).freed, 60u);
  helper.join();
}

TEST(VisitTest, AHelpersAllocationThatWaitsInAUseHoldsNothing) {
  Scene scene;
  HasHadItsTurn(scene);
  std::thread helper([&] {
    pthread_setname_np(pthread_self(), "pt_autograd_0");
    EXPECT_TRUE(scene.job().BeginUse().ok());
    EXPECT_TRUE(scene.allocator().Malloc(1, nullptr).ok());
    EXPECT_TRUE(scene.job().EndUse());
  });
  scene.Expects<wire::Wait>();  // of the allocation: all is on the device
  EXPECT_EQ(scene.Spills(60).freed, 60u);
  scene.Grants(2);
  helper.join();
}

}  // namespace
}  // namespace hocket
