// Several real processes and the machine's clock. What is asserted is order and counts, never a duration.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <functional>
#include <memory>
#include <new>

#include "csrc/emulator/timing/stream_engine.h"
#include "tests/emulator/timing/scene.h"

namespace hocket::emulator::timing {
namespace {

bool ReallyLives(pid_t pid, std::int64_t) {
  // A child that has ended and was not yet waited for is dead.
  siginfo_t info = {};
  const int result = waitid(P_PID, pid, &info, WEXITED | WNOHANG | WNOWAIT);
  return kill(pid, 0) == 0 && !(result == 0 && info.si_pid == pid);
}

// What the processes of a test share.
struct Shared {
  TimelineState timeline;
  std::atomic<int> steps[4];
  std::atomic<bool> stop;
};

class ProcessesTest : public testing::Test {
 protected:
  void SetUp() override {
    void* memory = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(memory, MAP_FAILED);
    shared_ = new (memory) Shared;
    Initialize(shared_->timeline);
  }
  void TearDown() override { munmap(shared_, sizeof(Shared)); }

  std::unique_ptr<StreamEngine> Open() {
    const Identity who{.pid = getpid(), .start_time = 1, .lives = &ReallyLives};
    auto engine = std::make_unique<StreamEngine>(Clock::Monotonic(), who);
    HOCKET_CHECK(engine->Open(0, shared_->timeline).ok());
    return engine;
  }

  pid_t Start(const std::function<void()>& body) {
    const pid_t pid = fork();
    if (pid != 0) return pid;
    body();
    _exit(0);
  }

  static int StatusOf(pid_t pid) {
    int status = -1;
    EXPECT_EQ(waitpid(pid, &status, 0), pid);
    return status;
  }

  // A training: copy in, kernels, copy out, wait; `steps` times.
  void Train(int index, int steps) {
    const auto engine = Open();
    const auto compute = engine->CreateStream(0), copies = engine->CreateStream(0);
    for (int step = 0; step < steps && !shared_->stop; ++step) {
      const Point input{copies, engine->Submit(copies, CopyIn(kMs / 5))};
      engine->Submit(compute, After(Kernel(kMs / 10), {input}));
      for (int i = 0; i < 20; ++i) engine->Submit(compute, Kernel(kMs / 20));
      Nanos computed = 0;
      const Point last{compute, engine->Submit(compute, Mark(&computed))};
      const std::uint64_t loss = engine->Submit(copies, After(CopyOut(kMs / 20), {last}));
      engine->Wait(*copies, loss);
      if (!engine->Done(*compute, last.number) || computed == 0) _exit(3);
      ++shared_->steps[index];
    }
  }

  Shared* shared_ = nullptr;
};

TEST_F(ProcessesTest, ThreeTrainingsOnOneDeviceAllComeToTheirEnd) {
  pid_t pids[3];
  for (int i = 0; i < 3; ++i) pids[i] = Start([&] { Train(i, 20); });
  for (pid_t pid : pids) EXPECT_EQ(StatusOf(pid), 0);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(shared_->steps[i], 20);
}

// Each time one of them is killed with seconds of work queued; the others must not wait for it.
TEST_F(ProcessesTest, KilledProcessesHoldNobodyUp) {
  const pid_t survivor = Start([&] { Train(0, 1 << 30); });
  for (int i = 0; i < 5; ++i) {
    const pid_t victim = Start([&] {
      const auto engine = Open();
      const auto stream = engine->CreateStream(0);
      for (int k = 0; k < 1000; ++k) engine->Submit(stream, Kernel(3'600'000 * kMs));
      ++shared_->steps[1];
      engine->Wait(*stream, stream->last());
    });
    while (shared_->steps[1] == i) usleep(100);
    kill(victim, SIGKILL);
    EXPECT_TRUE(WIFSIGNALED(StatusOf(victim)));
    const int before = shared_->steps[0];
    while (shared_->steps[0] < before + 2) usleep(100);  // the test's own limit ends it should this not come
  }
  shared_->stop = true;
  EXPECT_EQ(StatusOf(survivor), 0);
}

TEST_F(ProcessesTest, HostFunctionsRunOnAThreadOfTheEngineInOrder) {
  const auto engine = Open();
  const auto stream = engine->CreateStream(0);
  std::atomic<int> called = 0;
  std::thread::id thread;
  for (int i = 0; i < 10; ++i) {
    engine->Submit(stream, Kernel(kMs / 10));
    engine->Submit(stream, HostFunction([&, i](Nanos) {
                     EXPECT_EQ(called++, i);
                     thread = std::this_thread::get_id();
                   }));
  }
  engine->Wait(*stream, stream->last());
  EXPECT_EQ(called, 10);
  EXPECT_NE(thread, std::this_thread::get_id());
}

TEST_F(ProcessesTest, ManyThreadsMayQueueAndWaitAtOnce) {
  const auto engine = Open();
  std::vector<std::thread> threads;
  std::atomic<int> ended = 0;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      const auto stream = engine->CreateStream(0);
      for (int i = 0; i < 50; ++i) {
        Work work = i % 5 == 0 ? CopyIn(kMs / 50) : Kernel(kMs / 50);
        work.action = [&](Nanos) { ++ended; };
        engine->Submit(stream, std::move(work));
        if (i % 7 == 0) engine->Submit(stream, HostFunction([](Nanos) {}));
        if (i % 10 == 0) engine->Wait(*stream, stream->last());
      }
      engine->Wait(*stream, stream->last());
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(ended, 200);
  engine->CheckInvariants();
}

TEST_F(ProcessesTest, StopEndsTheWaitOfAnotherThread) {
  const auto engine = Open();
  const auto stream = engine->CreateStream(0);
  const std::uint64_t far = engine->Submit(stream, Kernel(3'600'000 * kMs));
  std::thread waiter([&] { engine->Wait(*stream, far); });
  engine->Stop();
  waiter.join();
}

TEST_F(ProcessesTest, AForkedChildOfABusyProcessEndsWithoutTouchingItsPlace) {
  const auto engine = Open();
  const auto stream = engine->CreateStream(0);
  engine->Submit(stream, CopyIn(3'600'000 * kMs));
  const std::uint64_t kernel = engine->Submit(stream, Kernel(kMs));
  engine->BeforeFork();
  const pid_t child = fork();
  if (child == 0) {
    engine->InChild();
    engine->Wait(*stream, kernel);
    _exit(engine->Done(*stream, kernel) ? 0 : 1);
  }
  engine->InParent();
  EXPECT_EQ(StatusOf(child), 0);
  EXPECT_FALSE(engine->Done(*stream, kernel));
  EXPECT_EQ(shared_->timeline.members[0].pid, getpid());
}

}  // namespace
}  // namespace hocket::emulator::timing
