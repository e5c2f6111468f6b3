#include "csrc/emulator/timing/timeline.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <memory>
#include <new>
#include <random>
#include <vector>

#include "tests/emulator/timing/scene.h"

namespace hocket::emulator::timing {
namespace {

std::unique_ptr<DeviceTimeline> Join(TimelineState& state, pid_t pid) {
  auto timeline = DeviceTimeline::Join(state, {.pid = pid, .start_time = 1, .lives = &IsAlive});
  return timeline.ok() ? *std::move(timeline) : nullptr;
}

class TimelineTest : public testing::Test {
 protected:
  void SetUp() override { Dead().clear(); }

  OwnedState state_ = MakeState();
};

TEST_F(TimelineTest, WhatIsNotCommittedHasNotHappened) {
  const auto job = Join(*state_, 1);
  {
    Transaction forgotten(*job);
    forgotten.Submit(Engine::kCompute, 0, 5 * kMs);
    forgotten.Advance(Engine::kCompute, 3 * kMs);
  }
  Transaction transaction(*job);
  EXPECT_EQ(transaction.submitted(Engine::kCompute), 0);
  EXPECT_EQ(transaction.now(Engine::kCompute), 0);
}

TEST_F(TimelineTest, WorkToldLateCountsFromWhenItWasReady) {
  const auto job = Join(*state_, 1);
  Transaction transaction(*job);
  transaction.Submit(Engine::kCompute, 10 * kMs, 2 * kMs);
  transaction.Submit(Engine::kCompute, 20 * kMs, 2 * kMs);
  transaction.Advance(Engine::kCompute, 50 * kMs);
  EXPECT_EQ(transaction.ReceivedAt(Engine::kCompute, 2 * kMs), 12 * kMs);
  EXPECT_EQ(transaction.ReceivedAt(Engine::kCompute, 4 * kMs), 22 * kMs);
}

TEST_F(TimelineTest, SaysWhenWorkWillBeDoneBesideOthers) {
  const auto a = Join(*state_, 1), b = Join(*state_, 2);
  {
    Transaction transaction(*b);
    transaction.Submit(Engine::kCompute, 0, 100 * kMs);
    transaction.Commit();
  }
  Transaction transaction(*a);
  transaction.Submit(Engine::kCompute, 0, 10 * kMs);
  EXPECT_EQ(transaction.ReceivedAt(Engine::kCompute, 10 * kMs), 20 * kMs);
  EXPECT_EQ(transaction.ReceivedAt(Engine::kCompute, 11 * kMs), kNever);
  EXPECT_EQ(transaction.now(Engine::kCompute), 0) << "asking changes nothing";
}

TEST_F(TimelineTest, TheSliceCanBeSetAnewWhileNobodyIsThere) {
  SetSlice(*state_, 5 * kMs);
  const auto a = Join(*state_, 1), b = Join(*state_, 2);
  for (const auto& job : {&a, &b}) {
    Transaction transaction(**job);
    transaction.Submit(Engine::kCompute, 0, 100 * kMs);
    transaction.Commit();
  }
  Transaction transaction(*a);
  transaction.Advance(Engine::kCompute, 5 * kMs);
  EXPECT_EQ(transaction.received(Engine::kCompute) % (5 * kMs), 0);
  transaction.Advance(Engine::kCompute, 10 * kMs);
  EXPECT_EQ(transaction.received(Engine::kCompute), 5 * kMs);
}

TEST_F(TimelineTest, EnginesDoNotSlowEachOther) {
  const auto job = Join(*state_, 1);
  Transaction transaction(*job);
  for (Engine engine : {Engine::kCompute, Engine::kToDevice, Engine::kToHost}) {
    transaction.Submit(engine, 0, 10 * kMs);
    transaction.Advance(engine, 10 * kMs);
    EXPECT_EQ(transaction.received(engine), 10 * kMs);
  }
}

TEST_F(TimelineTest, WhoLeavesTakesTheirWorkAlong) {
  const auto a = Join(*state_, 1);
  {
    const auto b = Join(*state_, 2);
    Transaction transaction(*b);
    transaction.Submit(Engine::kCompute, 0, 100 * kMs);
    transaction.Commit();
  }
  EXPECT_FALSE(a->Shared());
  Transaction transaction(*a);
  EXPECT_FALSE(transaction.Contended(Engine::kCompute));
}

TEST_F(TimelineTest, TheDeadAreLookedForAtMostOncePerInterval) {
  const auto a = Join(*state_, 1), b = Join(*state_, 2);
  {
    Transaction transaction(*b);
    transaction.Submit(Engine::kCompute, 0, 100 * kMs);
    transaction.Commit();
  }
  const auto contended = [&] { return Transaction(*a).Contended(Engine::kCompute); };
  a->DropDead(50 * kMs, 10 * kMs);
  Dead().insert(2);
  a->DropDead(55 * kMs, 10 * kMs);
  EXPECT_TRUE(contended());
  a->DropDead(60 * kMs, 10 * kMs);
  EXPECT_FALSE(contended());
}

TEST_F(TimelineTest, OneMoreThanThereArePlacesIsRefusedUntilSomebodyDies) {
  std::vector<std::unique_ptr<DeviceTimeline>> jobs;
  for (int i = 0; i < kMaxShares; ++i) jobs.push_back(Join(*state_, 1 + i));
  ASSERT_NE(jobs.back(), nullptr);
  const auto refused = DeviceTimeline::Join(*state_, {.pid = 9999, .start_time = 1, .lives = &IsAlive});
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kResourceExhausted);
  Dead().insert(17);
  EXPECT_NE(Join(*state_, 9999), nullptr);
}

// Real processes from here on.

struct Unmap {
  void operator()(TimelineState* state) const { munmap(state, sizeof(TimelineState)); }
};

std::unique_ptr<TimelineState, Unmap> SharedState() {
  void* memory =
      mmap(nullptr, sizeof(TimelineState), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  std::unique_ptr<TimelineState, Unmap> state(new (memory) TimelineState);
  Initialize(*state);
  return state;
}

bool ReallyLives(pid_t pid, std::int64_t) { return kill(pid, 0) == 0; }

std::unique_ptr<DeviceTimeline> JoinReally(TimelineState& state) {
  return *DeviceTimeline::Join(state, {.pid = getpid(), .start_time = 1, .lives = &ReallyLives});
}

template <typename Body>
pid_t InAnotherProcess(Body body) {
  const pid_t pid = fork();
  if (pid == 0) {
    body();
    _exit(0);
  }
  return pid;
}

TEST(KillTest, ALockHeldByADeadProcessIsPassedOn) {
  const auto state = SharedState();
  const auto job = JoinReally(*state);
  const pid_t other = InAnotherProcess([&] {
    const auto theirs = JoinReally(*state);
    Transaction transaction(*theirs);
    transaction.Submit(Engine::kCompute, 0, kMs);
    kill(getpid(), SIGKILL);
  });
  ASSERT_EQ(waitpid(other, nullptr, 0), other);
  Transaction transaction(*job);
  EXPECT_FALSE(transaction.Contended(Engine::kCompute)) << "it was not committed";
}

// Another process changes the timeline as fast as it can and is killed somewhere in between.
TEST(KillTest, AtWhateverInstructionAProcessDiesTheTimelineStaysRight) {
  std::mt19937 random(7);
  const auto state = SharedState();
  const auto job = JoinReally(*state);
  Nanos now = 0, received = 0;
  for (int round = 0; round < 40; ++round) {
    int pipe_ends[2];
    ASSERT_EQ(pipe(pipe_ends), 0);
    const pid_t other = InAnotherProcess([&] {
      const auto theirs = JoinReally(*state);
      for (int i = 0;; ++i) {
        Transaction transaction(*theirs);
        const Nanos from = transaction.now(Engine::kCompute);
        transaction.Submit(Engine::kCompute, from, 3 * kMs);
        transaction.Advance(Engine::kCompute, from + kMs);
        transaction.Commit();
        if (i == 50 && write(pipe_ends[1], "x", 1) != 1) _exit(1);
      }
    });
    char ready;
    ASSERT_EQ(read(pipe_ends[0], &ready, 1), 1);
    for (unsigned i = random() % 200'000; i > 0; --i) asm volatile("");
    kill(other, SIGKILL);
    ASSERT_EQ(waitpid(other, nullptr, 0), other);
    close(pipe_ends[0]);
    close(pipe_ends[1]);

    job->DropDead(kNever, 0);
    Transaction transaction(*job);
    ASSERT_FALSE(transaction.Contended(Engine::kCompute));
    ASSERT_EQ(transaction.received(Engine::kCompute), received);
    ASSERT_GE(transaction.now(Engine::kCompute), now);
    now = transaction.now(Engine::kCompute);
    transaction.Submit(Engine::kCompute, now, 5 * kMs);
    transaction.Advance(Engine::kCompute, now + 5 * kMs);
    received += 5 * kMs;
    ASSERT_EQ(transaction.received(Engine::kCompute), received) << "alone again: all of it";
    ASSERT_EQ(transaction.ReceivedAt(Engine::kCompute, received), now + 5 * kMs);
    transaction.Commit();
    now += 5 * kMs;
  }
}

}  // namespace
}  // namespace hocket::emulator::timing
