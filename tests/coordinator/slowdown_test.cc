// How much longer a job takes than alone: scripted turns, exact values.
#include "coordinator/core/slowdown.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/coordinator/script.h"

namespace hocket::coordinator {
namespace {

using absl::Milliseconds;
using absl::Minutes;
using absl::Seconds;
using testing::DoubleNear;
using testing::Optional;

class FirstComeTogether final : public Policy {
 public:
  bool Before(const JobView& a, const JobView& b) const override { return a.asked < b.asked; }
  std::string Reason(const JobView&) const override { return "is next"; }
  bool RunsSeveral() const override { return true; }
  bool Together(const std::vector<JobView>&) const override { return together; }
  static inline bool together = false;
};

class SlowdownTest : public testing::Test {
 protected:
  SlowdownTest() {
    FirstComeTogether::together = false;
    for (const char* name : {"a", "b"}) s.Joins(name);
  }
  std::optional<double> Of(const std::string& name) {
    s.Says(name, Tick{});
    return s.core().SlowdownOf(s.IdOf(name), s.JobOf(name).steps);
  }
  // Alone, from its asking on.
  void Runs(const std::string& name, absl::Duration time, GiveUp how = {}) {
    s.Asks(name);
    s.Passes(time);
    s.GivesUp(name, how);
  }
  static auto Is(double factor) { return Optional(DoubleNear(factor, 1e-6)); }
  Script s{[](const std::string&) { return std::make_unique<FirstComeTogether>(); }, 100};
};

TEST_F(SlowdownTest, WhoIsAloneLosesNothing) {
  s.Passes(Seconds(3));  // before it asks for the first time
  Runs("a", Milliseconds(100), {.steps = 10});
  s.Passes(Milliseconds(40));  // its own gap
  Runs("a", Milliseconds(60), {.steps = 6, .idle = Milliseconds(5)});
  EXPECT_THAT(Of("a"), Is(1));
}

TEST_F(SlowdownTest, NothingIsKnownBeforeAStep) {
  EXPECT_EQ(Of("a"), std::nullopt);
  s.Asks("a");
  s.Asks("b");
  s.Passes(Seconds(1));
  EXPECT_EQ(Of("a"), std::nullopt);
  EXPECT_EQ(Of("b"), std::nullopt);
}

// 60 ms of waiting, 10 until its bytes are back and it runs, 30 of steps, 20 of its own gap.
TEST_F(SlowdownTest, WaitsHandOversAndRestoresAreLostAndGapsAreNot) {
  s.Asks("a");
  s.Asks("b");
  s.Passes(Milliseconds(60));
  s.GivesUp("a", {.steps = 2});
  s.Passes(Milliseconds(40));
  s.GivesUp("b", {.steps = 3, .ready = Milliseconds(10), .restored = 7});
  s.Passes(Milliseconds(20));
  EXPECT_THAT(Of("b"), Is(120.0 / 50));
  EXPECT_THAT(Of("a"), Is(1)) << "it waited for nobody";
}

TEST_F(SlowdownTest, WhatLastsNowCounts) {
  Runs("b", Milliseconds(50));
  s.Asks("a");
  s.Asks("b");
  s.Passes(Milliseconds(25));
  EXPECT_THAT(Of("b"), Is(75.0 / 50));
  s.GivesUp("a");
  s.Passes(Milliseconds(25));
  EXPECT_THAT(Of("b"), Is(100.0 / 75)) << "in its turn";
}

// A step of a takes 10 ms alone, one of b 20. Together they need 80 ms for four of a and two of b.
TEST_F(SlowdownTest, StepsBesideOthersCountAsThoseAlone) {
  Runs("a", Milliseconds(10));
  Runs("b", Milliseconds(20));
  FirstComeTogether::together = true;
  s.Asks("a");
  s.Asks("b");
  ASSERT_EQ(s.Holder(), "a, b") << s.Story();
  s.Passes(Milliseconds(80));
  s.GivesUp("a", {.steps = 4});
  s.GivesUp("b", {.steps = 2});
  EXPECT_THAT(Of("a"), Is((10 + 20 + 80) / (10 + 20 + 40.0))) << "the 20 are its own gap";
  EXPECT_THAT(Of("b"), Is((20 + 80) / (20 + 40.0)));
  s.Asks("a");
  s.Asks("b");
  s.Passes(Milliseconds(40));
  EXPECT_THAT(Of("a"), Is((10 + 20 + 120) / (10 + 20 + 60.0))) << "as slow as it was beside b";
}

TEST_F(SlowdownTest, BesideOthersWithoutAStepAloneNothingIsKnownForTenMinutes) {
  for (const char* name : {"a", "b"}) Runs(name, Milliseconds(5), {.steps = 0});
  FirstComeTogether::together = true;
  s.Asks("a");
  s.Asks("b");
  ASSERT_EQ(s.Holder(), "a, b") << s.Story();
  s.Passes(Milliseconds(80));
  s.GivesUp("a", {.steps = 4});
  EXPECT_EQ(Of("a"), std::nullopt);
  s.Passes(Minutes(11));
  EXPECT_THAT(Of("a"), Is(1));
}

TEST_F(SlowdownTest, ATurnForWhichThereWasNoRoomIsLost) {
  Runs("a", Milliseconds(30));
  Runs("a", Milliseconds(15), {.steps = 0, .stood_aside = true});
  EXPECT_THAT(Of("a"), Is(45.0 / 30));
}

TEST_F(SlowdownTest, OnlyTheLastTenMinutesCount) {
  s.Asks("a");
  s.Asks("b");
  s.Passes(Seconds(60));
  s.GivesUp("a");
  s.Passes(Seconds(30));
  s.GivesUp("b");
  EXPECT_THAT(Of("b"), Is(3));
  s.Passes(Minutes(11));
  EXPECT_THAT(Of("b"), Is(1));
}

TEST_F(SlowdownTest, APauseIsNobodysCost) {
  Runs("b", Milliseconds(50));
  s.Asks("a");
  s.Asks("b");
  s.Passes(Milliseconds(10));
  s.Pauses("b");
  s.Passes(Seconds(100));
  EXPECT_THAT(Of("b"), Is(60.0 / 50));
  s.Resumes("b");
  s.Passes(Milliseconds(15));
  EXPECT_THAT(Of("b"), Is(75.0 / 50));
}

// It is long over when its part ends: most of it lies before the window.
TEST(SlowdownOfTimeTest, ALongPartIsSharedOutOverTheWindow) {
  Slowdown slowdown;
  const absl::Time begin = absl::UnixEpoch() + absl::Hours(1);
  slowdown.Add(begin, begin + absl::Hours(2), absl::Hours(1));
  EXPECT_THAT(slowdown.Factor(begin + absl::Hours(2)), Optional(DoubleNear(2, 1e-9)));
  EXPECT_EQ(slowdown.Factor(begin + absl::Hours(3)), std::nullopt)
      << "nothing is known of the last ten minutes";
}

TEST(SlowdownOfTimeTest, AllLostIsNoNumber) {
  Slowdown slowdown;
  slowdown.Add(absl::UnixEpoch(), absl::UnixEpoch() + Seconds(5), Seconds(5));
  EXPECT_EQ(slowdown.Factor(absl::UnixEpoch() + Seconds(5)), std::nullopt);
}

}  // namespace
}  // namespace hocket::coordinator
