// The coordinator takes a Grant back that the job has not read yet.
#include <thread>

#include "csrc/wire/shared_page.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/scene.h"

namespace hocket {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;

class TakeBackTest : public testing::Test {
 protected:
  explicit TakeBackTest() : page_(wire::SharedPageView::Open(scene_.TakeDescriptor().get()).value()) {}

  // Asks for the turn on a thread of its own, and steps.
  std::thread Steps() {
    return std::thread([&] { scene_.Step(); });
  }
  // Sends a Grant that is taken back before it can be read, and returns the Wait that follows.
  wire::Wait GrantsInVain(const wire::Wait& wait, wire::Grant grant) {
    EXPECT_TRUE(page_.TakeGrantBack(wait.number));
    scene_.Says(std::move(grant));
    return scene_.Expects<wire::Wait>();
  }

  Scene scene_{Scene::NeverIdle()};
  wire::SharedPageView page_;  // the coordinator's; Join is what the scene has heard last
};

TEST_F(TakeBackTest, AGrantThatWasTakenBackIsNotObeyedAndTheWaitComesAgain) {
  std::thread thread = Steps();
  const wire::Wait first = scene_.Expects<wire::Wait>();
  EXPECT_GT(first.number, 0u);
  const wire::Wait second = GrantsInVain(first, {.turn = 1});
  EXPECT_GT(second.number, first.number);
  EXPECT_FALSE(scene_.job().HoldsTurn());
  EXPECT_EQ(scene_.job().Info().turns, 0u);
  scene_.Grants(2);
  thread.join();
  EXPECT_EQ(scene_.job().Info().turns, 1u);
}

TEST_F(TakeBackTest, AGrantThatWasObeyedCannotBeTakenBack) {
  std::thread thread = Steps();
  const wire::Wait wait = scene_.Expects<wire::Wait>();
  scene_.Grants(1);
  thread.join();
  EXPECT_FALSE(page_.TakeGrantBack(wait.number));
  EXPECT_TRUE(scene_.job().HoldsTurn());
}

TEST_F(TakeBackTest, ThatItCanBeMovedIsSaidAgain) {
  std::thread thread = Steps();
  scene_.Expects<wire::Wait>();
  EXPECT_TRUE(page_.TakeGrantBack(1));
  scene_.Grants(1);
  EXPECT_TRUE(scene_.Expects<wire::Wait>().movable);
  EXPECT_GT(scene_.AgentHasObeyed().persistent, 0u);
  scene_.Grants(2);
  thread.join();
}

TEST_F(TakeBackTest, AYieldThatCameWithItDoesNotTouchTheNextTurn) {
  std::thread thread = Steps();
  wire::Wait wait = scene_.Expects<wire::Wait>();
  EXPECT_TRUE(page_.TakeGrantBack(wait.number));
  scene_.Grants(1, /*contended=*/true);
  scene_.Says(wire::Yield{.turn = 1, .now = true});
  scene_.Expects<wire::Wait>();
  scene_.Grants(2);
  thread.join();
  scene_.AgentHasObeyed();
  scene_.Step();
  EXPECT_TRUE(scene_.job().HoldsTurn());
}

// A gang's rank may have part in the same turn again.
TEST_F(TakeBackTest, TheSameTurnGrantedAnewIsObeyed) {
  std::thread thread = Steps();
  GrantsInVain(scene_.Expects<wire::Wait>(), {.turn = 7});
  scene_.Grants(7);
  thread.join();
  EXPECT_TRUE(scene_.job().HoldsTurn());
}

TEST_F(TakeBackTest, ItsFreshArenaCountsAllTheSame) {
  std::thread thread = Steps();
  const wire::Wait wait = scene_.Expects<wire::Wait>();
  scene_.allocator().TakeLog();
  GrantsInVain(wait, {.turn = 1, .fresh_arena = true});
  EXPECT_THAT(scene_.allocator().TakeLog(), ElementsAre("drop all"));
  scene_.Grants(2);
  thread.join();
  EXPECT_THAT(scene_.allocator().TakeLog(), Contains("take turn"));
}

TEST_F(TakeBackTest, ItsLanesLockIsTheOneOfTheNextTurn) {
  const std::string lane = scene_.lock_path() + "-1";
  std::thread thread = Steps();
  GrantsInVain(scene_.Expects<wire::Wait>(), {.turn = 1, .lane_lock = lane});
  scene_.Grants(2);
  thread.join();
  scene_.Dies();
  EXPECT_EQ(scene_.Answers().lane_lock, lane);
}

TEST_F(TakeBackTest, ItMayBeTakenBackManyTimes) {
  std::thread thread = Steps();
  wire::Wait wait = scene_.Expects<wire::Wait>();
  for (std::uint64_t turn = 1; turn <= 20; ++turn) wait = GrantsInVain(wait, {.turn = turn});
  scene_.Grants(21);
  thread.join();
  EXPECT_EQ(scene_.job().Info().turns, 1u);
}

// The number is the job's, so what the word says of Grants of a dead coordinator concerns no other.
TEST_F(TakeBackTest, AfterARestartTheNextWaitHasANumberOfItsOwn) {
  std::thread thread = Steps();
  const wire::Wait before = scene_.Expects<wire::Wait>();
  EXPECT_TRUE(page_.TakeGrantBack(before.number));
  scene_.Dies();
  scene_.Answers();
  const wire::Wait after = scene_.Expects<wire::Wait>();
  EXPECT_GT(after.number, before.number);
  scene_.Grants(1);
  thread.join();
  EXPECT_TRUE(scene_.job().HoldsTurn());
}

}  // namespace
}  // namespace hocket
