// Who can be moved: a job is, when none of its threads may be computing.
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/scene.h"

namespace hocket {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(MovableTest, AThreadInUserCodeKeepsItsJobFromBeingSpilled) {
  Scene scene;
  scene.TakesTurn(1);
  scene.Says(wire::Yield{.turn = 1, .now = false});
  const wire::TurnOver over = scene.Expects<wire::TurnOver>();
  EXPECT_TRUE(over.movable);  // the thread of TakesTurn() is gone
  ThreadInUserCode thread(scene);
  scene.Expects<wire::Wait>();
  scene.Grants(2, /*contended=*/true);
  thread.Awaits();
  const wire::TurnOver second = scene.Expects<wire::TurnOver>();
  EXPECT_FALSE(second.movable);
  EXPECT_THAT(second.why_not_movable, HasSubstr("1 of 1 threads"));
  const wire::Spilled refused = scene.AgentHasObeyed();
  EXPECT_FALSE(refused.movable);
  EXPECT_THAT(refused.why_not, HasSubstr("1 of 1 threads"));
  thread.Leaves();  // it comes to the door, and says so
  const wire::Message said = scene.Next();
  if (const auto* by_agent = std::get_if<wire::Spilled>(&said)) {  // which has looked just then
    EXPECT_TRUE(by_agent->movable);
    EXPECT_EQ(by_agent->persistent, refused.persistent);
    scene.Expects<wire::Wait>();
  } else {
    const wire::Wait& wait = std::get<wire::Wait>(said);
    EXPECT_TRUE(wait.movable);
    EXPECT_EQ(wait.persistent, refused.persistent);
  }
  scene.Grants(3);
  thread.Ends();
}

// Its bytes are of no use any more, and cannot be copied.
TEST(MovableTest, WhoseKernelHasFailedSaysSoAndGivesTheTurnAllTheSame) {
  Scene scene;
  scene.TakesTurn(1);
  scene.allocator().failed = true;
  scene.Says(wire::Yield{.turn = 1, .now = false});
  const wire::TurnOver over = scene.Expects<wire::TurnOver>();
  EXPECT_FALSE(over.movable);
  EXPECT_THAT(over.why_not_movable, AllOf(HasSubstr("a kernel"), HasSubstr("CUDA_ERROR_ASSERT (710)")));
  scene.Says(wire::Spill{.request = 3, .bytes = 1});
  const wire::Spilled refused = scene.Expects<wire::Spilled>();
  EXPECT_EQ(refused.freed, 0u);
  EXPECT_FALSE(refused.movable);
  EXPECT_THAT(refused.why_not, HasSubstr("a kernel"));
}

TEST(MovableTest, TheLastThreadThatComesToADoorSaysThatTheJobCanBeMoved) {
  Scene scene;
  ThreadInUserCode late(scene);
  scene.Expects<wire::Wait>();
  scene.Grants(1, /*contended=*/true);
  late.Awaits();
  scene.Expects<wire::TurnOver>();
  std::thread early([&] { scene.Step(); });
  EXPECT_FALSE(scene.Expects<wire::Wait>().movable);
  late.Leaves();
  const wire::Spilled unasked = scene.Expects<wire::Spilled>();
  EXPECT_EQ(unasked.request, 0u);
  EXPECT_TRUE(unasked.movable);
  scene.Grants(2);
  early.join();
  late.Ends();
}

TEST(MovableTest, TheEndOfTheLastThreadThatStoodAtNoDoorIsNoticed) {
  Scene scene;
  ThreadInUserCode ends(scene, /*returns=*/false);
  scene.Expects<wire::Wait>();
  scene.Grants(1, /*contended=*/true);
  ends.Awaits();
  scene.Expects<wire::TurnOver>();
  std::thread waits([&] { scene.Step(); });
  EXPECT_FALSE(scene.Expects<wire::Wait>().movable);
  ends.Leaves();
  ends.Ends();
  EXPECT_TRUE(scene.Expects<wire::Spilled>().movable);
  scene.Grants(2);
  waits.join();
}

// Nobody waits for a turn any more who would say it: others waited for this one's room for ever.
TEST(MovableTest, TheEndOfTheLastThreadIsNoticedWhereNoneWaitsForATurn) {
  Scene scene;
  ThreadInUserCode ends(scene, /*returns=*/false);
  scene.Expects<wire::Wait>();
  scene.Grants(1, /*contended=*/true);
  ends.Awaits();
  EXPECT_FALSE(scene.Expects<wire::TurnOver>().movable);
  ends.Leaves();
  ends.Ends();
  const wire::Spilled unasked = scene.Expects<wire::Spilled>();
  EXPECT_EQ(unasked.request, 0u);
  EXPECT_TRUE(unasked.movable);
  EXPECT_TRUE(scene.AgentHasObeyed().movable);
}

TEST(MovableTest, TheHolderIsNotSpilled) {
  Scene scene;
  scene.TakesTurn(1);
  const wire::Spilled answer = scene.AgentHasObeyed();
  EXPECT_THAT(answer.why_not, HasSubstr("has the turn"));
  EXPECT_FALSE(answer.movable);
  EXPECT_EQ(scene.allocator().Held().spilled, 0u);
}

TEST(MovableTest, AJobWhoseDeviceWorksForAnUnknownThreadIsNotSpilled) {
  Scene scene;
  scene.allocator().idle = false;
  const wire::Spilled answer = scene.AgentHasObeyed();
  EXPECT_EQ(answer.freed, 0u);
  EXPECT_THAT(answer.why_not, HasSubstr("not seen before"));
}

TEST(MovableTest, WhereStraysSeeTheHostCopyAJobStaysMovable) {
  Scene scene;
  scene.allocator().idle = false;
  EXPECT_TRUE(scene.AgentHasObeyed().movable);
  scene.allocator().idle = true;
  EXPECT_EQ(scene.AgentHasObeyed().why_not, "");
}

TEST(MovableTest, WhereStraysWouldFaultAJobThatHasOneIsNotMovedAnyMore) {
  Scene scene;
  scene.allocator().maps_spilled = false;
  scene.allocator().idle = false;
  EXPECT_FALSE(scene.AgentHasObeyed().movable);
  scene.allocator().idle = true;
  const wire::Spilled refused = scene.AgentHasObeyed();
  EXPECT_FALSE(refused.movable);
  EXPECT_EQ(refused.freed, 0u);
  EXPECT_THAT(refused.why_not, HasSubstr("the driver cannot map host memory"));
  EXPECT_EQ(scene.allocator().Held().spilled, 0u);
}

TEST(MovableTest, AutogradsThreadAtTheDoorStandsForTheOneThatWaitsForIt) {
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

}  // namespace
}  // namespace hocket
