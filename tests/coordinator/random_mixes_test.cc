// Mixes of jobs drawn at random, each played to its end by the simulator, which is the coordinator's own core
// and policies: whatever jobs come together, all of them get done, and none waits for ever.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "absl/strings/str_cat.h"
#include "coordinator/simulator/simulator.h"

namespace hocket::coordinator {
namespace {

constexpr Bytes kCapacity = 16_GiB;
#if defined(__SANITIZE_ADDRESS__)
constexpr unsigned kMixes = 2;
#else
constexpr unsigned kMixes = 20;
#endif

// Of one mix. The same seed gives the same numbers everywhere, which the distributions of <random> do not.
class Dice {
 public:
  explicit Dice(unsigned seed) : random_(seed) {}
  double Between(double least, double most) { return least + (most - least) * (random_() / 4294967296.0); }
  template <typename T>
  T OneOf(std::initializer_list<T> values) {
    return values.begin()[random_() % values.size()];
  }

 private:
  std::mt19937 random_;
};

std::vector<SimulatedJob> Mix(Dice& dice) {
  std::vector<SimulatedJob> jobs(static_cast<size_t>(dice.Between(2, 13)));
  for (size_t i = 0; i < jobs.size(); ++i) {
    SimulatedJob& job = jobs[i];
    job.name = absl::StrCat("job", i);
    job.step_ms = dice.OneOf({5.0, 20.0, 100.0, 700.0, 3000.0}) * dice.Between(0.5, 2);
    job.steps = 1 + static_cast<std::uint64_t>(std::min(dice.Between(0, 400), 600'000 / job.step_ms));
    job.gap_ms = dice.OneOf({0.0, 0.0, 0.0, 5.0, 50.0, 500.0, 2000.0});
    job.away = job.gap_ms > 0 && dice.OneOf({true, false});
    job.arrival_s = dice.OneOf({0.0, 0.0, dice.Between(0, 60)});
    job.startup_s = dice.OneOf({0.0, 0.0, dice.Between(0, 40)});
    const double share = dice.OneOf({0.01, 0.1, 0.3, 0.6, 0.95, 1.0}) * dice.Between(0.5, 1);
    job.persistent = static_cast<Bytes>(share * static_cast<double>(kCapacity));
    job.user = dice.OneOf({0u, 0u, 1000u, 1001u});
    job.weight = dice.OneOf({1.0, 1.0, 2.0, 0.5});
    job.priority = dice.OneOf({"low", "normal", "normal", "high"});
  }
  std::sort(jobs.begin(), jobs.end(), [](const auto& a, const auto& b) { return a.arrival_s < b.arrival_s; });
  return jobs;
}

class RandomMixesTest : public ::testing::TestWithParam<const char*> {};

TEST_P(RandomMixesTest, GetAllDone) {
  for (unsigned seed = 0; seed < kMixes; ++seed) {
    Dice dice(seed);
    const std::vector<SimulatedJob> jobs = Mix(dice);
    SimulationOptions options{.policy = GetParam(), .capacity = kCapacity};
    options.devices = dice.OneOf({1, 1, 2});
    options.starting = dice.OneOf({0, 1, 4});
    options.link = dice.OneOf({5e9, 20e9, 50e9});
    options.hand_over = absl::Microseconds(dice.OneOf({0, 30, 5000}));
    const double one_after_the_other =
        std::accumulate(jobs.begin(), jobs.end(), 0.0, [](double sum, const SimulatedJob& job) {
          return sum + job.startup_s + static_cast<double>(job.steps) * (job.step_ms + job.gap_ms) / 1000;
        });
    options.until = absl::Seconds(60 + 1.3 * one_after_the_other + 10 * static_cast<double>(jobs.size()));
    const SimulationResult result = Simulate(jobs, options);
    for (const SimulatedEnd& job : result.jobs)
      EXPECT_LT(job.end, absl::InfiniteDuration())
          << GetParam() << ", seed " << seed << ": " << job.name << " has done " << job.steps << " steps in "
          << options.until << "; one after the other all take " << one_after_the_other << " s";
  }
}

INSTANTIATE_TEST_SUITE_P(Policies, RandomMixesTest,
                         ::testing::Values("fifo", "round-robin", "fair", "srtf", "priority"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::erase(name, '-');
                           return name;
                         });

}  // namespace
}  // namespace hocket::coordinator
