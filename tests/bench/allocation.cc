// Drives PyTorch's current CUDA allocator: its native one, or what a hocket::Job makes of it (Hocket's, or
// the native one over Hocket's memory where HOCKET_ALLOCATOR=native).
//
//   [hocket emulate --] hocket_allocator_versus_native native|hocket HISTORY
//   [hocket emulate --] hocket_allocator_versus_native native|hocket threads
//
// A history (history.h) is replayed; each pass of its last step is a step of the job. One line on stdin,
// {"steps": N}, runs N of them and is answered by a line of JSON: nanoseconds of all mallocs and frees
// together, of the median and the 99th percentile malloc + free (each timed alone, in a pass of its own), and
// the largest number of reserved bytes.
// "threads": {"threads": N} lets N threads allocate and free at once, sizes and order at random, and is
// answered by the nanoseconds that a call took (all calls of all threads over the time they took together).
// No byte of device memory is touched. What drives it: tests/bench/allocation.py.
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "csrc/torch/hocket.h"
#include "tests/allocator/bench/history.h"

namespace hocket::bench {
namespace {

using c10::cuda::CUDACachingAllocator::CUDAAllocator;

std::int64_t Now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

class Replay {
 public:
  Replay(CUDAAllocator& allocator, Job* job, History history)
      : allocator_(allocator),
        job_(job),
        history_(std::move(history)),
        steady_(history_.Steady()),
        blocks_(history_.blocks) {}

  // The next `count` steps of the history; nanoseconds of their mallocs and frees. `each`: of each, timed
  // alone.
  std::int64_t Run(int count, std::vector<std::int64_t>* each = nullptr) {
    std::int64_t sum = 0;
    for (; count > 0; --count) {
      if (next_ == history_.steps.size()) Extend();
      const Step& step = history_.steps[next_++];
      std::optional<Job::Scope> scope;
      if (job_ != nullptr && step.number >= 0) scope.emplace(job_->Step());
      const std::int64_t start = Now();
      for (const Event& event : step.events) {
        const std::int64_t before = each == nullptr ? 0 : Now();
        Do(event);
        if (each != nullptr) each->push_back(Now() - before);
      }
      sum += Now() - start;
    }
    return sum;
  }

  std::size_t recorded() const { return history_.steps.size(); }
  bool steady() const { return steady_; }  // the last two recorded steps are alike
  std::size_t events() const { return history_.steps.back().events.size(); }

 private:
  void Extend() {
    constexpr int kAhead = 20;
    steady_ ? history_.Repeat(kAhead) : history_.Cycle(kAhead);
    blocks_.resize(history_.blocks);
  }
  void Do(const Event& event) {
    if (event.frees) {
      allocator_.raw_delete(blocks_[event.block]);
    } else {
      blocks_[event.block] = allocator_.raw_alloc_with_stream(event.size, nullptr);
    }
  }

  CUDAAllocator& allocator_;
  Job* const job_;
  History history_;
  const bool steady_;
  std::vector<void*> blocks_;
  std::size_t next_ = 0;
};

std::int64_t Percentile(std::vector<std::int64_t>& sorted, double share) {
  return sorted[static_cast<std::size_t>(share * static_cast<double>(sorted.size() - 1))];
}

// The number of a line {"name": number}, at least 1.
int Number(const std::string& line) {
  return std::max(1, std::atoi(line.substr(line.find(':') + 1).c_str()));
}

constexpr int kCalls = 100'000;

// kCalls calls: blocks of 512 bytes to 4 MiB, most of them small, of which up to 256 live at once.
void AllocateAtRandom(CUDAAllocator& allocator, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<void*> blocks(256);
  for (int i = 0; i < kCalls; ++i) {
    void*& block = blocks[random() % blocks.size()];
    if (block != nullptr) {
      allocator.raw_delete(std::exchange(block, nullptr));
    } else {
      block = allocator.raw_alloc_with_stream(std::size_t{512} << (random() % 14 * (random() % 14) / 13),
                                              nullptr);
    }
  }
  for (void* block : blocks) {
    if (block != nullptr) allocator.raw_delete(block);
  }
}

void AnswerThreads(CUDAAllocator& allocator, Job* job) {
  for (std::string line; std::getline(std::cin, line);) {
    std::optional<Job::Scope> scope;
    if (job != nullptr) scope.emplace(job->Step());
    const int count = Number(line);
    std::vector<std::thread> threads;
    const std::int64_t start = Now();
    for (int i = 0; i < count; ++i) {
      threads.emplace_back([&allocator, i] { AllocateAtRandom(allocator, static_cast<unsigned>(i)); });
    }
    for (std::thread& thread : threads) thread.join();
    std::printf("{\"ns\": %.2f}\n", static_cast<double>(Now() - start) / kCalls / count);
    std::fflush(stdout);
  }
}

void AnswerHistory(CUDAAllocator& allocator, Job* job, const std::string& path) {
  std::ifstream file(path);
  Replay replay(allocator, job, History::Read(file));
  // The recorded steps, and as many again in which what was learned settles.
  replay.Run(static_cast<int>(replay.recorded()));
  const auto reserved = [&] { return allocator.getDeviceStats(0).reserved_bytes[0].peak; };
  const std::int64_t first = reserved();
  replay.Run(40);
  allocator.resetPeakStats(0);
  for (std::string line; std::getline(std::cin, line);) {
    const int steps = Number(line);
    const std::int64_t sum = replay.Run(steps);
    std::vector<std::int64_t> each;
    replay.Run(1, &each);
    std::sort(each.begin(), each.end());
    std::printf(
        "{\"steady\": %s, \"ns\": %lld, \"calls\": %zu, \"p50\": %lld, \"p99\": %lld, \"reserved\": %lld, "
        "\"reserved_first\": %lld}\n",
        replay.steady() ? "true" : "false", static_cast<long long>(sum), steps * replay.events(),
        static_cast<long long>(Percentile(each, 0.5)), static_cast<long long>(Percentile(each, 0.99)),
        static_cast<long long>(reserved()), static_cast<long long>(first));
    std::fflush(stdout);
  }
}

void Main(const std::string& kind, const std::string& what) {
  std::unique_ptr<Job> job;
  if (kind == "hocket") job = std::make_unique<Job>("replay");
  c10::cuda::CUDACachingAllocator::init(c10::cuda::device_count());
  CUDAAllocator& allocator = *c10::cuda::CUDACachingAllocator::get();
  if (what == "threads") {
    AnswerThreads(allocator, job.get());
  } else {
    AnswerHistory(allocator, job.get(), what);
  }
}

}  // namespace
}  // namespace hocket::bench

int main(int argc, char** argv) try {
  if (argc != 3) {
    std::fprintf(stderr, "usage: hocket_allocator_versus_native native|hocket HISTORY|threads < REQUESTS\n");
    return 2;
  }
  hocket::bench::Main(argv[1], argv[2]);
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "hocket_allocator_versus_native: %s\n", error.what());
  return 1;
}
