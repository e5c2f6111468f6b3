// Forks, and many threads at once.
#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <random>
#include <thread>

#include "csrc/client/unforked_fd.h"
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

// Lives until this ends.
class LivingChild {
 public:
  LivingChild() {
    int ends[2];
    if (pipe(ends) != 0) std::abort();
    child_ = fork();
    close(ends[child_ == 0 ? 1 : 0]);
    if (child_ == 0) {
      char byte;
      (void)!read(ends[0], &byte, 1);
      _exit(0);
    }
    end_ = UniqueFd(ends[1]);
  }
  ~LivingChild() {
    end_.Reset();
    ExitStatus(child_);
  }

 private:
  pid_t child_;
  UniqueFd end_;
};

bool HasEnded(const UniqueFd& read_end) {
  pollfd ready{read_end.get(), POLLIN, 0};
  return poll(&ready, 1, /*ms=*/20'000) == 1 && (ready.revents & POLLHUP) != 0;
}

// A worker that was forked while a daemon was started kept the pipe on which that one says that it listens:
// the start was waited for in vain.
TEST(ProcessTest, APipesEndThatIsNotForForkedChildrenHasNoCopyInThem) {
  UniqueFd read_end, other_read_end;
  UnforkedFd write_end, other_write_end;
  ASSERT_TRUE(write_end.MakePipe(read_end).ok());
  ASSERT_TRUE(other_write_end.MakePipe(other_read_end).ok());
  const LivingChild child;
  write_end.Reset();
  EXPECT_TRUE(HasEnded(read_end));
  ASSERT_TRUE(write_end.MakePipe(read_end).ok());
  const LivingChild second;
  other_write_end.Reset();
  EXPECT_TRUE(HasEnded(other_read_end));
  write_end.Reset();
  EXPECT_TRUE(HasEnded(read_end));
}

// Chunks of the arena that the coordinator has not read yet: their memory stayed for as long as a child
// lived.
TEST(ProcessTest, WhatIsQueuedForTheCoordinatorHasNoCopyInAForkedChild) {
  Scene scene({.exit_patience = std::chrono::seconds(0)});  // nobody reads here
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  const UniqueFd read_end(ends[0]);
  for (int i = 0; i < 2000; ++i) scene.job().ArenaGrew(i, 1, UniqueFd());  // the socket takes some hundred
  scene.job().ArenaGrew(2000, 1, UniqueFd(ends[1]));
  const LivingChild child;
  scene.DestroyJob();
  EXPECT_TRUE(HasEnded(read_end));
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
