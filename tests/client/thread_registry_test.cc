// What threads leave behind when they end, and what they may still do then.
#include "csrc/client/thread_registry.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>
#include <future>
#include <thread>

#include "csrc/base/unique_fd.h"
#include "gtest/gtest.h"

namespace hocket {
namespace {

// What it is told is done when the thread's objects are destroyed, after the registry's (it was made before).
struct AtTheLast {
  ~AtTheLast() {
    if (done) done();
  }
  std::function<void()> done;
};
thread_local AtTheLast at_the_last;

TEST(ThreadRegistryTest, AThreadIsKnownFromItsFirstVisitToItsEnd) {
  ThreadRegistry registry([](const ThreadRecord&) { ADD_FAILURE() << "it was in no step"; });
  EXPECT_EQ(registry.Seen(), nullptr);
  std::thread([&] {
    ThreadRecord& mine = registry.Mine();
    EXPECT_EQ(&mine, registry.Seen());
    EXPECT_EQ(registry.known(), 1);
  }).join();
  EXPECT_EQ(registry.known(), 0);
}

TEST(ThreadRegistryTest, AThreadThatEndsInsideAStepIsTold) {
  int depth = 0;
  ThreadRegistry registry([&](const ThreadRecord& gone) { depth = gone.depth; });
  std::thread([&] { registry.Mine().depth = 2; }).join();
  EXPECT_EQ(depth, 2);
}

// So a static hocket::Job is destroyed at the end of a program. It used a record that was freed.
TEST(ThreadRegistryTest, WhoComesAfterTheEndOfTheThreadTouchesNoRecordOfBefore) {
  ThreadRegistry registry([](const ThreadRecord&) {});
  ThreadRegistry other([](const ThreadRecord&) {});
  bool came = false;
  std::thread([&] {
    AtTheLast& last = at_the_last;  // made now
    last.done = [&, before = &registry.Mine(), of_other = &other.Mine()] {
      for (ThreadRegistry* each : {&registry, &other}) {
        EXPECT_EQ(each->Seen(), nullptr);
        ThreadRecord& mine = each->Mine();
        EXPECT_TRUE(&mine != before && &mine != of_other);
        EXPECT_TRUE(mine.ended);
        EXPECT_EQ(each->known(), 0);
      }
      came = true;
    };
  }).join();
  EXPECT_TRUE(came);
}

// Where another thread was ending at the moment of the fork, the child waited for it for ever at its own end.
TEST(ThreadRegistryTest, AForkedChildEndsThoughAnotherThreadWasEnding) {
  int began[2], end[2];
  ASSERT_TRUE(pipe(began) == 0 && pipe(end) == 0);
  const UniqueFd fds[] = {UniqueFd(began[0]), UniqueFd(began[1]), UniqueFd(end[0]), UniqueFd(end[1])};
  ThreadRegistry registry([&](const ThreadRecord&) {
    char byte = 'b';
    EXPECT_EQ(write(began[1], &byte, 1), 1);
    EXPECT_EQ(read(end[0], &byte, 1), 1);
  });
  std::promise<int> ended;
  std::promise<void> is_known, may_fork;
  std::thread forks([&] {
    registry.Mine();
    is_known.set_value();
    may_fork.get_future().wait();
    const pid_t child = fork();
    if (child == 0) {
      alarm(20);  // it would hang
      registry.Forget();
      std::atexit([] { _exit(0); });  // after this thread's objects, before everything else
      std::exit(1);
    }
    int status = -1;
    waitpid(child, &status, 0);
    ended.set_value(status);
  });
  is_known.get_future().wait();
  std::thread ending([&] { registry.Mine().depth = 1; });
  char byte;
  EXPECT_EQ(read(began[0], &byte, 1), 1);
  may_fork.set_value();
  EXPECT_EQ(ended.get_future().get(), 0);
  EXPECT_EQ(write(end[1], "e", 1), 1);
  ending.join();
  forks.join();
}

}  // namespace
}  // namespace hocket
