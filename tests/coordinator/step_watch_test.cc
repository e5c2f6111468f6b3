// When steps that have become slower are noticed, and what is no reason.
#include "coordinator/core/step_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "tests/coordinator/script.h"

namespace hocket::coordinator {
namespace {

using absl::Milliseconds;
using testing::HasSubstr;
using testing::Not;

class StepWatchTest : public testing::Test {
 protected:
  // Steps of so many milliseconds, a tenth more or less. Returns after how many it was noticed; 0: it was
  // not.
  int Steps(int count, double ms, std::uint64_t at_once = 1) {
    for (int i = 1; i <= count; ++i) {
      now += Milliseconds(ms) * static_cast<double>(at_once);
      if (watch.Add(Milliseconds(ms * noise_(random_)), at_once, now)) return i;
    }
    return 0;
  }
  StepWatch watch;
  absl::Time now = absl::UnixEpoch();

 private:
  std::mt19937 random_{1};
  std::uniform_real_distribution<double> noise_{0.9, 1.1};
};

TEST_F(StepWatchTest, AFifthMoreIsNoticedWithinFiftySteps) {
  EXPECT_EQ(Steps(1000, 100), 0);
  EXPECT_FALSE(watch.slowdown());
  const int after = Steps(50, 120);
  EXPECT_GT(after, 5);
  ASSERT_TRUE(watch.slowdown());
  EXPECT_NEAR(watch.slowdown()->factor(), 1.2, 0.06);
  EXPECT_EQ(watch.slowdown()->since, now);
  EXPECT_EQ(watch.noticed(), 1u);
}

TEST_F(StepWatchTest, TwiceAsMuchIsNoticedSooner) {
  Steps(100, 100);
  EXPECT_LE(Steps(50, 200), 5);
}

TEST_F(StepWatchTest, ItIsNoticedOnce) {
  Steps(100, 100);
  EXPECT_GT(Steps(50, 150), 0);
  EXPECT_EQ(Steps(1000, 150), 0);
  EXPECT_NEAR(watch.slowdown()->factor(), 1.5, 0.08) << "and known better when it has lasted";
  EXPECT_NEAR(absl::ToDoubleMilliseconds(watch.slowdown()->before), 100, 6);
}

TEST_F(StepWatchTest, ItIsOverWhenStepsAreAsBefore) {
  Steps(100, 100);
  Steps(100, 150);
  ASSERT_TRUE(watch.slowdown());
  EXPECT_EQ(Steps(200, 100), 0);
  EXPECT_FALSE(watch.slowdown());
}

TEST_F(StepWatchTest, SingleLongStepsAreNoReason) {
  Steps(100, 100);
  for (int i = 0; i < 50; ++i) {
    EXPECT_EQ(Steps(1, 1000), 0) << i;
    EXPECT_EQ(Steps(20, 100), 0) << i;
  }
}

TEST_F(StepWatchTest, FirstStepsAreNotWhatItTookBefore) {
  Steps(10, 500);
  Steps(30, 100);
  EXPECT_GT(Steps(50, 130), 0);
}

TEST_F(StepWatchTest, LittleMoreIsNoReason) {
  Steps(100, 100);
  EXPECT_EQ(Steps(1000, 107), 0);
}

TEST_F(StepWatchTest, WhoBecomesFasterIsComparedWithThat) {
  Steps(100, 100);
  EXPECT_EQ(Steps(500, 60), 0);
  EXPECT_GT(Steps(50, 80), 0);
}

TEST_F(StepWatchTest, ManyStepsOfATurnCountForMore) {
  Steps(40, 100, 16);
  EXPECT_LE(Steps(20, 130, 16), 7);
}

TEST_F(StepWatchTest, OneTurnWithALongPauseIsNoReason) {
  Steps(40, 100, 16);
  EXPECT_EQ(Steps(1, 400, 16), 0);
  EXPECT_EQ(Steps(40, 100, 16), 0);
}

TEST_F(StepWatchTest, NoTimeAndNoStepsSayNothing) {
  Steps(100, 100);
  EXPECT_FALSE(watch.Add(absl::ZeroDuration(), 1, now));
  EXPECT_FALSE(watch.Add(Milliseconds(1e6), 0, now));
  EXPECT_EQ(Steps(100, 100), 0);
}

// In the core: steps of turns in which nobody ran beside it.
TEST(SlowerTest, IsSaidInTheLogAndExplained) {
  Script s("fair");
  s.Joins("train");
  const auto turns = [&](int count, double ms) {
    for (int i = 0; i < count; ++i) {
      s.Asks("train");
      s.Passes(Milliseconds(ms));
      s.GivesUp("train");
    }
  };
  turns(60, 100);
  EXPECT_THAT(s.Why("train"), Not(HasSubstr("its steps take"))) << s.Why("train");
  turns(30, 150);
  EXPECT_THAT(s.Why("train"), HasSubstr("its steps take 150 ms, 1.50 times the 100 ms")) << s.Why("train");
  ASSERT_FALSE(s.sentences().empty());
  EXPECT_THAT(s.sentences().back(), HasSubstr("Another program on the GPU"));
  const size_t said = s.sentences().size();
  turns(100, 150);
  EXPECT_EQ(s.sentences().size(), said);
  turns(300, 100);
  EXPECT_THAT(s.Why("train"), Not(HasSubstr("its steps take"))) << s.Why("train");
}

}  // namespace
}  // namespace hocket::coordinator
