// Tells a story without end: draws operations from a seed, and from nothing else. The same seed tells the
// same story everywhere.
//
// Some of what the jobs do is random, some are steps of a loop that repeats itself with a deviation now and
// then, so that plans are made, followed and left.
#ifndef HOCKET_TESTS_ALLOCATOR_MODEL_TELLER_H_
#define HOCKET_TESTS_ALLOCATOR_MODEL_TELLER_H_

#include <array>
#include <deque>
#include <random>
#include <vector>

#include "tests/allocator/model/operation.h"

namespace hocket::testing {

inline constexpr std::uint8_t kJobs = 3;

class Teller {
 public:
  explicit Teller(std::uint64_t seed);

  Operation Next();
  // What a program does of itself: allocations, uses and frees, and steps; by job 0.
  Operation NextCommon();

 private:
  struct Job {
    std::array<std::vector<Operation>, 2> loops;  // training, evaluation
    int steps = 0;                                // how deep
    std::vector<std::uint32_t> open_pools;
  };
  using Arguments = std::array<std::uint32_t, 3>;

  unsigned Draw(unsigned below) { return static_cast<unsigned>(random_() % below); }
  void Tell(Kind kind, std::uint8_t job, Arguments arguments = {}) {
    told_.push_back({kind, job, arguments});
  }
  std::uint32_t DrawSize();
  std::vector<Operation> DrawLoop(std::uint8_t job);

  // Each tells one operation at least.
  void Scene();
  void Rarity();
  void Use();
  void RunLoop();
  void ToggleStep();
  void TogglePool();
  void ClosePools();
  void HandOver();
  void MoveAgainAndAgain();
  void NewProcess(std::uint8_t job);

  std::mt19937_64 random_;
  std::array<Job, kJobs> jobs_;
  std::uint8_t holder_ = 0;     // of the turn, as far as was told
  std::deque<Operation> told_;  // and not handed out yet
};

}  // namespace hocket::testing

#endif  // HOCKET_TESTS_ALLOCATOR_MODEL_TELLER_H_
