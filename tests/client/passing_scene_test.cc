// The turn is passed on by its holder, through the lane's page, and taken without a Grant.
#include <fcntl.h>
#include <unistd.h>

#include <filesystem>
#include <thread>

#include "csrc/client/lane_page.h"
#include "csrc/wire/shared_page.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/scene.h"

namespace hocket {
namespace {

constexpr std::uint64_t kNumber = 55;

// The page as the lane's other jobs see it. Outlives the job: to close another descriptor of the file would
// drop the job's lock.
class Page {
 public:
  explicit Page(const std::string& path) : file_(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)) {
    auto page = LanePage::Map(file_.get());
    EXPECT_TRUE(page.ok()) << page.status();
    page_ = *std::move(page);
  }
  LanePage* operator->() { return page_.get(); }

 private:
  UniqueFd file_;
  std::shared_ptr<LanePage> page_;
};

class PassingSceneTest : public testing::Test {
 protected:
  // A step on a thread of its own, up to the promise of turn 7, which the job has heard.
  void IsPromised(bool contended = false) {
    thread_ = std::thread([&] { scene_->Step(); });
    EXPECT_TRUE(scene_->Expects<wire::Wait>().heeds_pass);
    scene_->Says(wire::Grant{.turn = 7, .contended = contended, .pass = kNumber});
    scene_->AgentHasObeyed();
    EXPECT_FALSE(scene_->job().HoldsTurn());
  }
  // Asked to stop after its step, with somebody waiting for the number.
  void IsToPass(std::uint64_t turn) {
    scene_->TakesTurn(turn);
    ASSERT_TRUE(scene_->job().BeginStep().ok());
    scene_->Says(wire::Yield{.turn = turn, .now = true, .pass = kNumber});
    scene_->AgentHasObeyed();
  }
  std::uint64_t Passes() {
    scene_->job().EndStep(true);
    const std::uint64_t said = scene_->Expects<wire::TurnOver>().passed;
    EXPECT_EQ(said, page_->passed());
    return said;
  }
  ~PassingSceneTest() override {
    if (thread_.joinable()) thread_.join();
    scene_.reset();
  }

  std::unique_ptr<Scene> scene_ = std::make_unique<Scene>(Scene::NeverIdle());
  Page page_{scene_->lock_path()};
  std::thread thread_;
};

TEST_F(PassingSceneTest, WhoeverWasPromisedTheTurnGoesOnWhenItIsPassed) {
  IsPromised();
  page_->Pass(kNumber);
  thread_.join();
  EXPECT_TRUE(scene_->job().HoldsTurn());
  scene_->Says(wire::Yield{.turn = 7, .now = true});
  scene_->AgentHasObeyed();
  thread_ = std::thread([&] { scene_->Step(); });
  EXPECT_EQ(scene_->Expects<wire::TurnOver>().turn, 7u);
  scene_->Expects<wire::Wait>();
  scene_->Grants(8);
}

TEST_F(PassingSceneTest, AlsoWhereItWasPassedBeforeThePromiseIsRead) {
  page_->Pass(kNumber);
  thread_ = std::thread([&] { scene_->Step(); });
  scene_->Expects<wire::Wait>();
  scene_->Says(wire::Grant{.turn = 7, .pass = kNumber});
  thread_.join();
  EXPECT_TRUE(scene_->job().HoldsTurn());
}

TEST_F(PassingSceneTest, ANumberOfAnothersPromiseIsNothing) {
  IsPromised();
  page_->Pass(kNumber - 1);
  scene_->AgentHasObeyed();
  EXPECT_FALSE(scene_->job().HoldsTurn());
  page_->Pass(kNumber);
}

TEST_F(PassingSceneTest, AGrantThatComesInsteadIsObeyed) {
  IsPromised();
  scene_->Grants(8);
  thread_.join();
  scene_->Says(wire::Yield{.turn = 8, .now = true});
  scene_->AgentHasObeyed();
  thread_ = std::thread([&] { scene_->Step(); });
  EXPECT_EQ(scene_->Expects<wire::TurnOver>().turn, 8u);
  scene_->Expects<wire::Wait>();
  page_->Pass(kNumber);  // of a promise that is over
  scene_->AgentHasObeyed();
  EXPECT_FALSE(scene_->job().HoldsTurn());
  scene_->Grants(9);
}

// Where nobody waits any more when it comes, and another thread does while it is being sent back.
TEST_F(PassingSceneTest, WhoTakesAnUnwantedTurnHearsThatOthersWait) {
  Happening asks, begins, takes, in_step, ends;
  SetBlockingHooks({.before = nullptr, .after = nullptr, .interrupted = [&](InOwnCode in_own_code) {
                      in_own_code([&] {
                        asks.Await();
                        return true;
                      });
                    }});
  thread_ = std::thread([&] { EXPECT_TRUE(absl::IsCancelled(scene_->job().BeginStep())); });
  scene_->Expects<wire::Wait>();
  scene_->Says(wire::Grant{.turn = 7, .pass = kNumber});
  scene_->Says(wire::Yield{.turn = 7, .now = true});
  scene_->AgentHasObeyed();
  asks.Happens();
  thread_.join();
  SetBlockingHooks({});
  thread_ = std::thread([&] {
    begins.Await();
    EXPECT_TRUE(scene_->job().BeginStep().ok());
    in_step.Happens();
    ends.Await();
    scene_->job().EndStep(true);
  });
  scene_->allocator().SetHook([&](const std::string& call) {
    if (call != "held") return;
    if (begins.HasHappened()) return takes.Happens();
    begins.Happens();
    // Not for ever: the agent may have been about to look at what is held for a report.
    for (int i = 0; i < 200 && !takes.HasHappened(); ++i) takes.AwaitInVain();
  });
  scene_->Says(wire::Grant{.turn = 7, .pass = kNumber, .passed = true});
  in_step.Await();
  scene_->AgentHasObeyed();
  ends.Happens();
  EXPECT_EQ(scene_->Expects<wire::TurnOver>().turn, 7u);
  thread_.join();
  scene_->allocator().SetHook(nullptr);
}

TEST_F(PassingSceneTest, TheGrantOfWhatWasPassedIsObeyedOnce) {
  IsPromised();
  const wire::Grant grant{.turn = 7, .pass = kNumber, .passed = true};
  scene_->Says(grant);
  thread_.join();
  EXPECT_TRUE(scene_->job().HoldsTurn());
  scene_->Says(wire::Yield{.turn = 7, .now = true});
  scene_->AgentHasObeyed();
  thread_ = std::thread([&] { scene_->Step(); });
  scene_->Expects<wire::Wait>();
  scene_->Says(grant);
  scene_->AgentHasObeyed();
  EXPECT_FALSE(scene_->job().HoldsTurn()) << "the turn that it asks for now is another";
  scene_->Grants(8);
}

// It was there when the job asked.
TEST_F(PassingSceneTest, WhereThePageIsGoneTheGrantIsObeyed) {
  thread_ = std::thread([&] { scene_->Step(); });
  ASSERT_TRUE(scene_->Expects<wire::Wait>().heeds_pass);
  unlink(scene_->lock_path().c_str());
  ASSERT_EQ(symlink("/dev/full", scene_->lock_path().c_str()), 0);
  scene_->Says(wire::Grant{.turn = 7, .pass = kNumber});
  scene_->AgentHasObeyed();
  scene_->Says(wire::Grant{.turn = 7, .pass = kNumber, .passed = true});
  thread_.join();
  EXPECT_TRUE(scene_->job().HoldsTurn());
}

TEST_F(PassingSceneTest, WhatIsAskedOfTheTurnBeforeItIsSeenToBePassedCounts) {
  IsPromised();
  scene_->Says(wire::Yield{.turn = 7, .now = true, .pass = kNumber + 1});
  scene_->AgentHasObeyed();
  page_->Pass(kNumber);
  const wire::TurnOver over = scene_->Expects<wire::TurnOver>();
  EXPECT_EQ(over.turn, 7u);
  EXPECT_EQ(over.turn_steps, 1u);
  EXPECT_EQ(over.passed, kNumber + 1);
}

TEST_F(PassingSceneTest, OneThatIsContendedIsGivenWhenIdle) {
  Scene::Options options;
  options.idle_limit = std::chrono::milliseconds(2);
  scene_ = std::make_unique<Scene>(options);
  Page page(scene_->lock_path());
  IsPromised(/*contended=*/true);
  page->Pass(kNumber);
  EXPECT_EQ(scene_->Expects<wire::TurnOver>().turn, 7u);
  thread_.join();
  scene_.reset();
}

TEST_F(PassingSceneTest, BytesThatWereSpilledSinceThePromiseComeBackFirst) {
  IsPromised();
  scene_->Says(wire::Spill{.request = 1, .bytes = 60});
  while (scene_->Expects<wire::Spilled>().freed == 0) continue;
  page_->Pass(kNumber);
  thread_.join();
  EXPECT_EQ(scene_->allocator().touched_while_spilled(), 0);
  EXPECT_EQ(scene_->allocator().Held().spilled, 0u);
}

TEST_F(PassingSceneTest, APromiseEndsWithItsCoordinator) {
  IsPromised();
  scene_->Dies();
  scene_->Answers();
  scene_->Expects<wire::Wait>();
  page_->Pass(kNumber);
  scene_->AgentHasObeyed();
  EXPECT_FALSE(scene_->job().HoldsTurn());
  scene_->Grants(1);
}

TEST_F(PassingSceneTest, ATurnThatWasTakenBackIsNotTaken) {
  auto words = wire::SharedPageView::Open(scene_->TakeDescriptor().get());
  ASSERT_TRUE(words.ok()) << words.status();
  thread_ = std::thread([&] { scene_->Step(); });
  const wire::Wait wait = scene_->Expects<wire::Wait>();
  EXPECT_TRUE(words->TakeGrantBack(wait.number));
  scene_->Says(wire::Grant{.turn = 7, .pass = kNumber});
  page_->Pass(kNumber);
  EXPECT_GT(scene_->Expects<wire::Wait>().number, wait.number);
  EXPECT_FALSE(scene_->job().HoldsTurn());
  scene_->Grants(8);
}

TEST_F(PassingSceneTest, TheHolderPassesWhatSomebodyWaitsFor) {
  IsToPass(1);
  EXPECT_EQ(Passes(), kNumber);
}

TEST_F(PassingSceneTest, NotWhenItHasBeenToldNotTo) {
  IsToPass(1);
  scene_->Says(wire::Yield{.turn = 1, .now = true});
  scene_->AgentHasObeyed();
  EXPECT_EQ(Passes(), 0u);
}

TEST_F(PassingSceneTest, NotWhereTheArenaHasGrown) {
  IsToPass(1);
  scene_->job().ArenaGrew(9, 64, UniqueFd());
  EXPECT_EQ(Passes(), 0u);
}

TEST_F(PassingSceneTest, NotWhereTheArenaHasLostSomething) {
  IsToPass(1);
  scene_->job().ArenaLost(9);
  EXPECT_EQ(Passes(), 0u);
}

TEST_F(PassingSceneTest, NotWhereItHasLackedHeadroom) {
  IsToPass(1);
  scene_->job().LacksHeadroom(5);
  EXPECT_EQ(Passes(), 0u);
}

TEST_F(PassingSceneTest, NotWhereItHasAskedForRoom) {
  IsToPass(1);
  scene_->allocator().lacking = 30;
  thread_ = std::thread([&] { EXPECT_TRUE(scene_->allocator().Malloc(30, nullptr).ok()); });
  scene_->Expects<wire::NeedRoom>();
  scene_->allocator().lacking = 0;
  scene_->Says(wire::Room{.ok = true});
  thread_.join();
  EXPECT_EQ(Passes(), 0u);
}

TEST_F(PassingSceneTest, NotAsARank) {
  IsToPass(1);
  scene_->job().JoinGang("g", 0, 2);
  EXPECT_EQ(Passes(), 0u);
}

TEST_F(PassingSceneTest, NotWithoutItsCoordinator) {
  IsToPass(1);
  scene_->Dies();
  scene_->Answers();
  scene_->AgentHasObeyed();
  EXPECT_EQ(Passes(), 0u) << "as the one before has asked, which nobody waits for now";
}

TEST_F(PassingSceneTest, InTheNextTurnItIsAsEver) {
  IsToPass(1);
  scene_->job().ArenaGrew(9, 64, UniqueFd());
  EXPECT_EQ(Passes(), 0u);
  IsToPass(2);
  EXPECT_EQ(Passes(), kNumber);
}

// Jobs that have opened another file would wait for a number that is never written there.
TEST_F(PassingSceneTest, AFileThatIsRemovedIsFollowedByTheNextOne) {
  IsToPass(1);
  unlink(scene_->lock_path().c_str());
  Page next(scene_->lock_path());
  EXPECT_EQ(Passes(), kNumber);
  IsToPass(2);
  scene_->job().EndStep(true);
  EXPECT_EQ(scene_->Expects<wire::TurnOver>().passed, kNumber);
  EXPECT_EQ(next->passed(), kNumber);
}

TEST_F(PassingSceneTest, WhereNoOtherFileCanBeHadTheOneThatIsOpenServes) {
  IsToPass(1);
  EXPECT_EQ(Passes(), kNumber);
  std::filesystem::remove_all(std::filesystem::path(scene_->lock_path()).parent_path());
  IsToPass(2);
  EXPECT_EQ(Passes(), kNumber);
}

TEST(LanePageTest, AwaitReturnsWhenTheBellIsRung) {
  char path[] = "/tmp/hocket-page-XXXXXX";
  const UniqueFd file(mkstemp(path));
  auto page = *LanePage::Map(file.get());
  auto other = *LanePage::Map(file.get());
  const std::uint32_t bell = page->bell();
  std::thread rings([&] { other->Ring(); });
  while (page->bell() == bell) page->Await(bell, Clock::duration::max());
  rings.join();
  EXPECT_EQ(page->passed(), 0u);
  other->Pass(3);
  EXPECT_EQ(page->passed(), 3u);
  EXPECT_FALSE(page->Await(bell, Clock::duration::max())) << "it has been rung since";
  unlink(path);
}

TEST(LanePageTest, AFileSystemThatMayLackRoomLaterIsAnError) {
  const UniqueFd full(open("/dev/full", O_RDWR | O_CLOEXEC));
  const auto page = LanePage::Map(full.get());
  ASSERT_FALSE(page.ok());
  EXPECT_THAT(std::string(page.status().message()), testing::HasSubstr("the lane's page"));
}

}  // namespace
}  // namespace hocket
