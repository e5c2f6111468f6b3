// The state word under real threads, for the thread sanitizer. state_word_model_test.cc searches its
// protocol.
#include <atomic>
#include <thread>
#include <vector>

#include "csrc/client/state_word.h"
#include "gtest/gtest.h"

namespace hocket {
namespace {

TEST(StateWordThreadsTest, NoStepLosesTheTurn) {
  constexpr int kRounds = 20000;
  StateWord word;
  std::atomic<int> finished{0};
  std::atomic<bool> turn_is_ours{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < kRounds;) {
        if (word.Begin()) {
          EXPECT_TRUE(turn_is_ours.load(std::memory_order_relaxed));
          ++round;
          (void)word.End();
        } else {
          (void)word.UndoBegin();
          std::this_thread::yield();
        }
      }
      ++finished;
    });
  }
  while (finished < 2) {
    turn_is_ours.store(true, std::memory_order_relaxed);
    word.Granted(1);
    (void)word.End();
    word.Ask(kAskStop);
    while (!word.TryGive()) std::this_thread::yield();
    turn_is_ours.store(false, std::memory_order_relaxed);
    word.Passed();
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace hocket
