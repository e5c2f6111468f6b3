// Nobody has foreseen it: a production job asks, or needs room, after any pause. Under `priority` it waits
// for one step of the others at most, and room is made of what they hold.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "tests/coordinator/script.h"

namespace hocket::coordinator {
namespace {

using absl::Milliseconds;
using absl::Seconds;

constexpr int kOthers = 3;

std::string Other(int i) { return "o" + std::to_string(i); }

std::uint64_t StepsOfOthers(const Script& s) {
  std::uint64_t steps = 0;
  for (int i = 0; i < kOthers; ++i) steps += s.Steps(Other(i));
  return steps;
}

class BurstTest : public testing::TestWithParam<int> {
 protected:
  absl::Duration Between(int least_ms, int most_ms) {
    return Milliseconds(std::uniform_int_distribution<int>(least_ms, most_ms)(random_));
  }
  // Mostly short, now and then very long: nothing that could be learned.
  absl::Duration Pause() {
    return Milliseconds(std::exp(std::uniform_real_distribution<double>(0, std::log(5000.0))(random_)));
  }
  std::mt19937 random_{static_cast<unsigned>(GetParam())};
};

TEST_P(BurstTest, ProductionThatAsksWaitsForOneStepOfTheOthersAtMost) {
  Script s("priority");
  for (int i = 0; i < kOthers; ++i) {
    s.Joins(Other(i), {.step = Between(5, 200), .gap = i == 0 ? Between(1, 20) : absl::ZeroDuration()});
    s.Lives(Other(i));
  }
  s.Joins("production", {.priority = "high"});
  s.RunsFor(Seconds(5));  // their steps are known
  for (int burst = 0; burst < 60; ++burst) {
    s.RunsFor(Pause());
    const std::uint64_t before = StepsOfOthers(s);
    s.Asks("production");
    while (!s.Holds("production")) s.RunsFor(Milliseconds(1));
    ASSERT_LE(StepsOfOthers(s) - before, 1u) << "burst " << burst << s.Story();
    const int steps = std::uniform_int_distribution<int>(1, 8)(random_);
    s.RunsFor(Milliseconds(10) * steps);
    s.GivesUp("production", {.steps = static_cast<std::uint64_t>(steps), .movable = true});
  }
}

// The other production job is between two steps; they wait for the turn.
TEST_P(BurstTest, RoomForProductionIsMadeOfWhatTheOthersHold) {
  Script s("priority", 100);
  s.Joins("production", {.priority = "high", .persistent = 10});
  s.Joins("second", {.priority = "high", .persistent = 30});
  for (int i = 0; i < kOthers; ++i) s.Joins(Other(i), {.persistent = 20});
  for (const std::string name : {"second", "o0", "o1", "o2"}) s.StandsAtDoors(name);
  std::vector<std::string> order = {"o0", "o1", "o2", "second"};
  std::shuffle(order.begin(), order.end(), random_);
  s.Asks("production");
  const auto who_waits = random_() % 16;
  for (size_t i = 0; i < order.size(); ++i) {
    if ((who_waits >> i) % 2 == 1)
      s.Asks(order[i], {.movable = true, .persistent = s.JobOf(order[i]).persistent});
  }
  const Bytes wanted = std::uniform_int_distribution<Bytes>(1, 60)(random_);
  s.NeedsRoom("production", wanted);
  Bytes asked = 0;
  for (int i = 0; i < kOthers; ++i) {
    if (const auto order = s.Told<wire::Spill>(Other(i))) asked += std::min<Bytes>(order->bytes, 20);
  }
  EXPECT_GE(asked, wanted) << s.Story();
  EXPECT_EQ(s.TimesTold<wire::Spill>("second"), 0) << s.Story();
}

INSTANTIATE_TEST_SUITE_P(Walks, BurstTest, testing::Range(1, 41));

}  // namespace
}  // namespace hocket::coordinator
