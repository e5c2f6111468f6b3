// Threads allocate, use and free while the turn comes and goes. Meant for the thread sanitizer as much as for
// its own expectations.
#include <gtest/gtest.h>

#include <condition_variable>
#include <cstring>
#include <mutex>
#include <random>
#include <shared_mutex>
#include <thread>

#include "tests/allocator/job.h"

namespace hocket {
namespace {

using testing::EmulatedGpu;
using testing::Job;
using testing::kEverything;

class ThreadsTest : public ::testing::Test {
 protected:
  ThreadsTest() {
    job.gate.await_turn = [this] {
      std::unique_lock<std::mutex> lock(turn);
      turn_came.wait(lock, [this] { return job.gate.holds_turn.load(); });
      return absl::OkStatus();
    };
  }

  // Away and back, with everything spilled in between.
  void HandOver() {
    ASSERT_TRUE(job.allocator->Drain().ok());
    job.allocator->Lock();
    job.allocator->PassTurn();
    job.gate.holds_turn = false;
    job.allocator->Unlock();
    ASSERT_TRUE(job.allocator->Spill(kEverything).ok());
    Bytes missing = 0;
    ASSERT_TRUE(job.allocator->TakeTurn(&missing).ok());
    job.allocator->CheckInvariants();
    const std::lock_guard<std::mutex> lock(turn);
    job.gate.holds_turn = true;
    turn_came.notify_all();
  }

  // Steps: between doors this thread may touch its memory.
  void Train(unsigned seed) {
    std::mt19937 random(seed);
    std::vector<std::pair<DevicePtr, Bytes>> kept;
    const auto value = static_cast<unsigned char>(seed);
    for (int step = 0; step < kSteps; ++step) {
      const std::shared_lock<std::shared_mutex> lock(door);
      for (int i = 0; i < 10; ++i) {
        const Bytes size = 1 + random() % 200'000;
        const DevicePtr block = *job.allocator->Malloc(size, nullptr);
        std::memset(gpu.Host(block), value, size);
        kept.emplace_back(block, size);
      }
      while (kept.size() > 15) {
        const auto [block, size] = kept[random() % kept.size()];
        EXPECT_EQ(*gpu.Host(block), value);
        EXPECT_EQ(*gpu.Host(block + size - 1), value);
        job.allocator->Free(block);
        std::erase(kept, std::pair(block, size));
      }
    }
    for (const auto& [block, size] : kept) job.allocator->Free(block);
  }

  // Allocations at any time; they block while the turn is away.
  void Interfere(unsigned seed) {
    std::mt19937 random(seed);
    for (int i = 0; i < 10 * kSteps; ++i) {
      const DevicePtr block = *job.allocator->Malloc(1 + random() % 500'000, nullptr);
      (void)job.allocator->Stats();
      (void)job.allocator->BlockOf(block);
      job.allocator->Free(block);
    }
  }

  static constexpr int kSteps = 60;
  EmulatedGpu& gpu = EmulatedGpu::Get();
  Job job;
  std::mutex turn;
  std::condition_variable turn_came;
  std::shared_mutex door;  // held shared in steps
};

TEST_F(ThreadsTest, ThreadsAllocateAndFreeWhileTheTurnComesAndGoes) {
  std::vector<std::thread> threads;
  for (unsigned seed : {1, 2}) threads.emplace_back([this, seed] { Train(seed); });
  for (unsigned seed : {3, 4}) threads.emplace_back([this, seed] { Interfere(seed); });
  for (int i = 0; i < 40; ++i) {
    const std::lock_guard<std::shared_mutex> lock(door);
    HandOver();
  }
  for (std::thread& thread : threads) thread.join();
  job.allocator->CheckInvariants();
  EXPECT_EQ(job.allocator->Stats().allocated_bytes[kAggregate].current, 0);
}

}  // namespace
}  // namespace hocket
