// Under `priority` the device is kept free, while production waits, for an opportunistic job that comes back
// shortly after production has asked (coordinator/policies/priority.h).
#include <gtest/gtest.h>

#include <random>

#include "tests/coordinator/script.h"

namespace hocket::coordinator {
namespace {

using absl::Milliseconds;
using absl::Seconds;

// Muri's gpt2 and dqn (tests/experiments/e5.py): the small one is ready again 48 ms after the large one has
// begun its next step of 410 ms.
constexpr absl::Duration kLife = Seconds(120);
constexpr absl::Duration kCycle = Milliseconds(426);

class AwaitedTest : public testing::Test {
 protected:
  AwaitedTest() {
    s_.Joins("production", {.priority = "high", .step = Milliseconds(410), .gap = Milliseconds(16)});
  }

  void SmallOneJoins(const std::string& name) {
    s_.Joins(name, {.step = Milliseconds(8), .gap = Milliseconds(482)});
    s_.Lives(name);
  }

  double ProductionKeeps() const {
    return static_cast<double>(s_.Steps("production")) * absl::FDivDuration(kCycle, kLife);
  }

  Script s_{"priority"};
};

TEST_F(AwaitedTest, ASmallJobThatIsBackSoonNeedNotWaitForAWholeStep) {
  SmallOneJoins("small");
  s_.Lives("production");
  s_.RunsFor(kLife);
  const double in_each_second_gap = absl::FDivDuration(kLife, 2 * kCycle);
  EXPECT_GE(static_cast<double>(s_.Steps("small")), 1.08 * in_each_second_gap) << s_.Story();
  EXPECT_GE(ProductionKeeps(), 0.98 - absl::FDivDuration(kCycle, kLife))
      << s_.Story();  // one is not over yet
}

// Each would be worth it alone; together they would spend what others of their steps need.
TEST_F(AwaitedTest, OfSeveralNoneIsWaitedFor) {
  SmallOneJoins("small");
  SmallOneJoins("another");
  s_.Lives("production");
  s_.RunsFor(kLife);
  EXPECT_GE(ProductionKeeps(), 0.995) << s_.Story();
}

// It has come back in time for so long that it is believed, and then comes at any time: what it is waited
// for in vain is paid, too.
TEST_F(AwaitedTest, WaitingInVainIsPaidOutOfTheBound) {
  for (unsigned seed = 1; seed <= 8; ++seed) {
    Script s("priority");
    s.Joins("production", {.priority = "high", .step = Milliseconds(410), .gap = Milliseconds(16)});
    s.Joins("small", {.step = Milliseconds(8), .gap = Milliseconds(482)});
    s.Lives("production");
    std::mt19937 random(seed);
    const absl::Time begin = s.now();
    for (int step = 0; s.now() < begin + kLife; ++step) {
      const int late = step < 50 || step % 3 == 0 ? 0 : std::uniform_int_distribution<int>(0, 600)(random);
      s.RunsFor(Milliseconds(482 + late));
      s.Asks("small");
      while (!s.Holds("small")) s.RunsFor(Milliseconds(1));
      s.RunsFor(Milliseconds(8));
      s.GivesUp("small");
    }
    const double alone = absl::FDivDuration(s.now() - begin, kCycle);
    EXPECT_GE(static_cast<double>(s.Steps("production")), 0.977 * alone) << "seed " << seed << s.Story();
  }
}

// Killed between two steps, when it was expected.
TEST_F(AwaitedTest, ADeadOneIsNotWaitedFor) {
  SmallOneJoins("small");
  s_.Lives("production");
  for (int kills = 0; kills < 20; ++kills) {
    s_.RunsFor(Seconds(30) + Milliseconds(23 * kills));
    s_.Dies("small");
    s_.RunsFor(Milliseconds(1));
    if (s_.Holder().empty()) s_.RunsFor(Milliseconds(17));  // it was production's gap
    EXPECT_EQ(s_.Holder(), "production") << s_.Story();
    SmallOneJoins("small");
  }
}

}  // namespace
}  // namespace hocket::coordinator
