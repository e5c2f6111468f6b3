// Forks, and many threads at once.
#include <sys/wait.h>
#include <unistd.h>

#include <random>
#include <thread>

#include "gtest/gtest.h"
#include "tests/client/scene.h"

namespace hocket {
namespace {

int ExitStatus(pid_t child) {
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

TEST(ProcessTest, AForkedChildHasNoPartInItsParentsJob) {
  Scene scene;
  scene.TakesTurn(1);
  ASSERT_TRUE(scene.job().BeginStep().ok());
  const pid_t child = fork();
  if (child == 0) {
    scene.job().EndStep(true);  // the step it was forked in
    bool ok = scene.job().BeginStep().ok() && scene.job().HoldsTurn();
    scene.job().EndStep(true);
    ok &= scene.job().AwaitTurn().ok();
    scene.job().ArenaLost(1);
    scene.job().JoinGang("g", 0, 1);
    scene.job().Leave();
    scene.DestroyJob();
    _exit(ok ? 0 : 1);
  }
  EXPECT_EQ(ExitStatus(child), 0);
  EXPECT_TRUE(scene.job().HoldsTurn());
  scene.job().EndStep(true);
  scene.Says(wire::Yield{.turn = 1, .now = true});
  EXPECT_TRUE(std::holds_alternative<wire::TurnOver>(scene.Next()));  // and nothing from the child before it
}

TEST(ProcessTest, AChildThatExitsNormallyDoesNotLeaveForItsParent) {
  Scene scene;
  scene.TakesTurn(1);
  const pid_t child = fork();
  if (child == 0) {
    scene.job().LeaveAtExit();
    _exit(0);
  }
  EXPECT_EQ(ExitStatus(child), 0);
  scene.Step();
  scene.Says(wire::Yield{.turn = 1, .now = true});
  EXPECT_TRUE(std::holds_alternative<wire::TurnOver>(scene.Next()));
}

TEST(ProcessTest, TheCoordinatorSeesTheEndOfTheParentThoughAChildLives) {
  Scene scene;
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    close(ends[1]);
    char byte;
    (void)!read(ends[0], &byte, 1);
    _exit(0);
  }
  scene.DestroyJob();
  EXPECT_FALSE(scene.Expects<wire::Leave>().keeps_running);
  EXPECT_TRUE(scene.PeerHasClosed());
  close(ends[1]);
  ExitStatus(child);
  close(ends[0]);
}

TEST(ProcessTest, AThreadAtTheDoorIsLetThroughWhenTheProcessEndsWithAllItsBytes) {
  Scene scene;
  std::thread thread([&] { EXPECT_TRUE(scene.job().BeginStep().ok()); });
  scene.Expects<wire::Wait>();
  scene.job().LeaveAtExit();
  thread.join();
}

// For the thread sanitizer, and for every wake-up: training threads, an evaluating one, and a coordinator
// that asks for the turn all the time. Each thread must finish.
TEST(ProcessTest, ManyThreadsAndManyTurnsLeaveNobodyWaiting) {
  constexpr int kSteps = 300;
  Scene scene;
  std::atomic<int> running{4};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < kSteps; ++i) {
        EXPECT_TRUE(scene.job().BeginStep().ok());
        EXPECT_TRUE(scene.job().HoldsTurn());
        EXPECT_TRUE(scene.allocator().Malloc(1, nullptr).ok());
        scene.job().EndStep(true);
      }
      --running;
    });
  }
  threads.emplace_back([&] {
    for (int i = 0; i < kSteps; ++i) EXPECT_TRUE(scene.allocator().Malloc(1, nullptr).ok());
    --running;
  });
  std::thread coordinator([&] {
    std::mt19937 random(7);
    std::uint64_t turn = 0;
    for (;;) {
      const wire::Message message = scene.Next();
      if (std::holds_alternative<wire::Leave>(message)) return;
      if (!std::holds_alternative<wire::Wait>(message)) continue;
      if (random() % 2) scene.Says(wire::Spill{.request = 1, .bytes = random() % 200});
      scene.Grants(++turn, random() % 2);
      // All threads may have had their last step in this turn.
      if (random() % 4) scene.SaysPerhapsTooLate(wire::Yield{.turn = turn, .now = random() % 3 > 0});
    }
  });
  for (std::thread& thread : threads) thread.join();
  scene.DestroyJob();
  coordinator.join();
  EXPECT_EQ(scene.allocator().touched_while_spilled(), 0);
}

}  // namespace
}  // namespace hocket
