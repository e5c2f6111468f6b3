// Threads of one job do what programs do (model/teller.h), with every byte known, while the turn comes and
// goes. Meant for the thread sanitizer as much as for its own expectations.
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <random>
#include <shared_mutex>
#include <thread>

#include "tests/allocator/job.h"
#include "tests/allocator/model/blocks.h"
#include "tests/allocator/model/teller.h"

namespace hocket {
namespace {

using testing::Blocks;
using testing::Job;
using testing::kEverything;
using testing::Kind;
using testing::Operation;
using testing::Teller;

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr int kOperations = 1'500;
#else
constexpr int kOperations = 20'000;
#endif

// HOCKET_THREADS_OPERATIONS: how many for each thread.
int Operations() {
  static const char* const wanted = std::getenv("HOCKET_THREADS_OPERATIONS");
  return wanted == nullptr ? kOperations : std::atoi(wanted);
}

// First come, first served: a std::mutex may go to the same thread again and again while others wait.
class Entrance {
 public:
  void lock() {
    std::unique_lock<std::mutex> held(mutex_);
    const std::uint64_t mine = last_++;
    moved_.wait(held, [&] { return mine == served_; });
  }
  void unlock() {
    const std::lock_guard<std::mutex> held(mutex_);
    ++served_;
    moved_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable moved_;
  std::uint64_t last_ = 0, served_ = 0;
};

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
    ASSERT_TRUE(job.allocator->TakeTurn(/*for_step=*/false, &missing).ok());
    job.allocator->CheckInvariants();
    const std::lock_guard<std::mutex> lock(turn);
    job.gate.holds_turn = true;
    turn_came.notify_all();
  }

  // What one thread does; with the door held it may touch bytes. One block in eight is everybody's.
  void Train(unsigned seed) {
    Teller teller(seed);
    std::mt19937 random(seed);
    Blocks own(*job.allocator, seed);
    int steps = 0;
    for (int done = 0; done < Operations() || hand_overs < kHandOvers;) {
      std::unique_lock<Entrance> queue(entrance);
      const std::shared_lock<std::shared_mutex> lock(door);
      queue.unlock();
      for (int end = done + 20; done < end; ++done) {
        const Operation operation = teller.NextCommon();
        if (operation.kind == Kind::kBeginStep) {
          job.allocator->BeginStep();
          ++steps;
        } else if (operation.kind == Kind::kEndStep) {
          job.allocator->EndStep();
          --steps;
        } else if (random() % 8 != 0) {
          Apply(own, operation);
        } else {
          const std::lock_guard<std::mutex> alone(commons);
          Apply(common, operation);
        }
      }
    }
    const std::shared_lock<std::shared_mutex> lock(door);
    for (; steps > 0; --steps) job.allocator->EndStep();
    FreeAll(own);
    --training;
  }
  static void Apply(Blocks& blocks, const Operation& operation) {
    const auto [first, second, third] = operation.arguments;
    switch (operation.kind) {
      case Kind::kMalloc:
        blocks.Free(first, /*verify=*/true);
        ASSERT_TRUE(blocks.Malloc(first, second, third).ok());
        return;
      case Kind::kFree:
        return (void)blocks.Free(first, /*verify=*/true);
      case Kind::kRead:
        return (void)blocks.Read(first, second);
      case Kind::kWrite:
        return (void)blocks.Write(first, second);
      default:
        return (void)blocks.Record(first, second);
    }
  }
  static void FreeAll(Blocks& blocks) {
    for (testing::Slot slot = 0; slot < Blocks::kSlots; ++slot) blocks.Free(slot, /*verify=*/true);
  }

  // Allocations at any time; they block while the turn is away.
  void Interfere(unsigned seed) {
    std::mt19937 random(seed);
    for (int i = 0; i < Operations() / 10; ++i) {
      const DevicePtr block = *job.allocator->Malloc(1 + random() % 500'000, nullptr);
      (void)job.allocator->Stats();
      (void)job.allocator->BlockOf(block);
      job.allocator->Free(block);
    }
  }

  static constexpr int kHandOvers = 40;
  Job job;
  std::atomic<int> hand_overs = 0;
  std::atomic<int> training = 4;  // threads
  std::mutex commons;
  Blocks common{*job.allocator, /*owner=*/100};  // guarded by commons
  std::mutex turn;
  std::condition_variable turn_came;
  Entrance entrance;       // to the door: who wants it alone is not kept out for ever by those who share it
  std::shared_mutex door;  // held shared where bytes are touched
};

TEST_F(ThreadsTest, ThreadsKeepTheirBytesWhileTheTurnComesAndGoes) {
  std::vector<std::thread> threads;
  for (int seed = training; seed > 0; --seed)
    threads.emplace_back([this, seed] { Train(static_cast<unsigned>(seed)); });
  for (unsigned seed : {5, 6}) threads.emplace_back([this, seed] { Interfere(seed); });
  for (; hand_overs < kHandOvers || training > 0; ++hand_overs) {
    const std::lock_guard<Entrance> queue(entrance);
    const std::lock_guard<std::shared_mutex> lock(door);
    HandOver();
  }
  for (std::thread& thread : threads) thread.join();
  FreeAll(common);
  job.allocator->CheckInvariants();
  EXPECT_EQ(job.allocator->Stats().allocated_bytes[kAggregate].current, 0);
}

}  // namespace
}  // namespace hocket
