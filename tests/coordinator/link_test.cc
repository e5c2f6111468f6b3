// What bytes that move for others cost whoever has the turn: learned, shown and bounded.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "coordinator/core/link_sense.h"
#include "tests/coordinator/script.h"

namespace hocket::coordinator {
namespace {

using absl::Milliseconds;
using absl::Seconds;
using testing::HasSubstr;

// --- what a job suffers ---------------------------------------------------------------------------

// A job whose step of 100 ms takes `k` times longer over what the link was busy for others; it has as much
// of the link as it may, where that is more than `most` it has that.
class Sufferer {
 public:
  explicit Sufferer(double k, double noise = 0) : k_(k), noise_(noise) {}

  void Steps(int parts, double most = 0.5, double bound = 0.02) {
    for (int i = 0; i < parts; ++i) {
      const double share = std::min(most, sense.Share(bound));
      const double error = noise_ == 0 ? 0 : std::normal_distribution<double>(0, noise_)(random_);
      const absl::Duration step = base * (1 + k_ * share) * (1 + error);
      sense.Add(step, base * share, bound);
      took_ += step;
      alone_ += base;
      moved_ += share;
    }
  }
  void Becomes(double k) { k_ = k; }
  void CountsAnew() { took_ = alone_ = absl::ZeroDuration(), moved_ = 0; }
  double slowdown() const { return absl::FDivDuration(took_, alone_) - 1; }
  double moved() const { return moved_; }

  LinkSense sense;
  absl::Duration base = Milliseconds(100);

 private:
  double k_;
  const double noise_;
  std::mt19937 random_{7};
  absl::Duration took_, alone_;
  double moved_ = 0;
};

TEST(LinkSenseTest, NothingIsLimitedBeforeAnythingIsKnown) {
  LinkSense sense;
  EXPECT_EQ(sense.Share(0.02), 1);
  EXPECT_FALSE(sense.slowdown().has_value());
}

TEST(LinkSenseTest, WhatOneSuffersIsKnownAfterAFewParts) {
  for (double k : {0.0, 0.3, 1.0, 1.5}) {
    Sufferer job(k);
    job.Steps(8);
    ASSERT_TRUE(job.sense.slowdown().has_value()) << k;
    EXPECT_NEAR(*job.sense.slowdown(), k, 1e-6);
  }
}

TEST(LinkSenseTest, TheShareIsTheBoundOverWhatOneSuffers) {
  Sufferer job(0.5);
  job.Steps(8);
  EXPECT_NEAR(job.sense.Share(0.02), 0.04, 1e-3);
  EXPECT_NEAR(job.sense.Share(0.1), 0.2, 0.02);
  EXPECT_EQ(job.sense.Share(1), 1);
}

TEST(LinkSenseTest, OneThatDoesNotTouchTheLinkIsNotLimited) {
  Sufferer job(0);
  job.Steps(10);
  job.CountsAnew();
  job.Steps(330);
  EXPECT_NEAR(job.moved(), 0.5 * 330 * 32 / 33, 1) << "but for the parts that show what a step takes alone";
}

TEST(LinkSenseTest, TheBoundHoldsWhatEverTheNoise) {
  for (double noise : {0.0, 0.01, 0.05}) {
    Sufferer job(1, noise);
    job.Steps(10);
    job.CountsAnew();
    job.Steps(2000);
    EXPECT_NEAR(job.slowdown(), 0.02, 0.001 + noise / 10) << noise;
  }
}

TEST(LinkSenseTest, ASmallBoundHolds) {
  Sufferer job(1);
  job.Steps(8, 0.5, 0.001);
  job.CountsAnew();
  job.Steps(5000, 0.5, 0.001);
  EXPECT_NEAR(job.slowdown(), 0.001, 0.0001);
  EXPECT_NEAR(*job.sense.slowdown(), 1, 1e-6);
}

TEST(LinkSenseTest, ALongStepNowAndThenMovesNothing) {
  Sufferer job(1);
  job.Steps(8);
  for (int i = 0; i < 3; ++i) {
    job.sense.Add(Seconds(3), Milliseconds(500), 0.02);
    job.sense.Add(Seconds(3), absl::ZeroDuration(), 0.02);
    job.Steps(20);
  }
  EXPECT_NEAR(*job.sense.slowdown(), 1, 1e-6);
}

TEST(LinkSenseTest, AnotherProgramAsItWereIsLearnedAnew) {
  Sufferer job(0);
  job.Steps(100);
  job.base = Milliseconds(300);
  job.Becomes(1);
  job.Steps(100);
  ASSERT_TRUE(job.sense.slowdown().has_value());
  EXPECT_NEAR(*job.sense.slowdown(), 1, 1e-6);
}

TEST(LinkSenseTest, WhoBeginsToCopyIsNoticedAndWhoCeasesTo) {
  Sufferer job(0);
  job.Steps(100);
  job.Becomes(1);
  job.Steps(10);
  EXPECT_NEAR(*job.sense.slowdown(), 1, 1e-6);
  job.Becomes(0);
  job.Steps(1200);
  EXPECT_NEAR(*job.sense.slowdown(), 0, 1e-6);
}

TEST(LinkSenseTest, WhereLittleMovesNothingIsAskedFor) {
  Sufferer job(1);
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(job.sense.Share(0.02), 1);
    job.Steps(1, /*most=*/0.009);
  }
}

// --- in turns -------------------------------------------------------------------------------------

constexpr double kRate = 10e9;
constexpr absl::Duration kStep = Milliseconds(100);

// Three jobs of 3 GiB on a device that holds two of them and a little. Each step is a turn; in each, one is
// spilled and one comes back, as far as it may.
Script ThreeOfWhichTwoFit(double copies, double bound = 0.02) {
  Script s("fifo", 7_GiB);
  s.LinkMoves(kRate);
  s.Sets(SetSwitchShare{1});
  s.Sets(SetLinkBound{bound});
  for (const char* name : {"a", "b", "c"})
    s.Joins(name, {.persistent = *name == 'c' ? Bytes{0} : 3_GiB,
                   .spilled = *name == 'c' ? 3_GiB : Bytes{0},
                   .step = kStep,
                   .copies = copies,
                   .ahead = true});
  for (const char* name : {"a", "b", "c"}) s.Lives(name);
  return s;
}

// How much longer steps took than alone, from the turn `from` on.
double LongerBy(const Script& s, size_t from) {
  absl::Duration took;
  std::uint64_t steps = 0;
  for (size_t i = from; i < s.turns().size(); ++i) {
    took += s.turns()[i].end - s.turns()[i].start - s.turns()[i].ready;
    steps += s.turns()[i].steps;
  }
  return absl::FDivDuration(took, kStep * static_cast<double>(steps)) - 1;
}

Bytes MovedBeside(Script& s) { return s.core().state().devices.begin()->second.beside; }

TEST(LinkTest, OneWhoseStepsCopyIsSlowedDownByTheBoundAtMost) {
  Script s = ThreeOfWhichTwoFit(/*copies=*/1);
  s.RunsFor(Seconds(20));
  const size_t from = s.turns().size();
  const Bytes before = MovedBeside(s);
  s.RunsFor(Seconds(600));
  EXPECT_LE(LongerBy(s, from), 0.02) << s.Story();
  EXPECT_GT(LongerBy(s, from), 0.01) << "what it may be is used";
  EXPECT_GT(MovedBeside(s), before);
  EXPECT_NEAR(*s.JobOf("a").link.sense.slowdown(), 1, 0.1);
}

TEST(LinkTest, WithoutTheBoundItWouldBeMuchMore) {
  Script s = ThreeOfWhichTwoFit(/*copies=*/1, /*bound=*/1);
  s.RunsFor(Seconds(60));
  EXPECT_GT(LongerBy(s, 30), 0.5) << s.Story();
}

TEST(LinkTest, OneWhoseStepsDoNotCopyIsNotLimited) {
  Script s = ThreeOfWhichTwoFit(/*copies=*/0), free = ThreeOfWhichTwoFit(/*copies=*/0, /*bound=*/1);
  s.RunsFor(Seconds(600));
  free.RunsFor(Seconds(600));
  EXPECT_GT(static_cast<double>(MovedBeside(s)), 0.9 * static_cast<double>(MovedBeside(free)));
  EXPECT_LT(LongerBy(s, 0), 1e-3);
}

TEST(LinkTest, TheBoundCanBeChangedWhileJobsRun) {
  Script s = ThreeOfWhichTwoFit(/*copies=*/1);
  s.RunsFor(Seconds(100));
  s.Sets(SetLinkBound{0.2});
  s.RunsFor(Seconds(20));
  size_t from = s.turns().size();
  s.RunsFor(Seconds(300));
  EXPECT_LE(LongerBy(s, from), 0.21) << s.Story();
  EXPECT_GT(LongerBy(s, from), 0.1) << s.Story();
  s.Sets(SetLinkBound{1});
  from = s.turns().size();
  s.RunsFor(Seconds(60));
  EXPECT_GT(LongerBy(s, from), 0.5) << s.Story();
}

// As above, until what moves for b in a's turn is paused; b's bytes are on the host, for a part at least.
Script Paused() {
  Script s = ThreeOfWhichTwoFit(/*copies=*/1);
  const auto paused = [&] {
    const auto& turns = s.core().state().turns;
    return !turns.empty() && turns.begin()->second.link_paused;
  };
  s.RunsFor(Seconds(20));
  for (int i = 0; i < 100'000 && !paused(); ++i) s.RunsFor(absl::Microseconds(100));
  EXPECT_TRUE(paused()) << s.Story();
  return s;
}

TEST(LinkTest, WhatIsPausedGoesOnByItselfOrWithTheNextTurn) {
  Script s = Paused();
  const Bytes before = MovedBeside(s);
  s.RunsFor(Seconds(5));
  EXPECT_GT(MovedBeside(s), before) << s.Story();
  for (const char* name : {"a", "b", "c"}) EXPECT_GT(s.Turns(name), 10) << s.Story();
}

TEST(LinkTest, ANewBoundEndsAPauseAtOnce) {
  Script s = Paused();
  const auto orders = [&] {
    int count = 0;
    for (const char* name : {"a", "b", "c"})
      count += s.TimesTold<wire::Restore>(name) + s.TimesTold<wire::Spill>(name);
    return count;
  };
  const int before = orders();
  s.Sets(SetLinkBound{1});
  EXPECT_GT(orders(), before) << s.Story();
}

TEST(LinkTest, WhenAHolderDiesInAPauseTheNextOneHasItsBytesAtOnce) {
  Script s = Paused();
  const std::string dead = s.Holder();
  s.Dies(dead);
  EXPECT_NE(s.Holder(), "") << s.Story();
  std::map<std::string, int> turns;
  for (const char* name : {"a", "b", "c"}) turns[name] = s.Turns(name);
  s.RunsFor(Seconds(15));
  for (const char* name : {"a", "b", "c"}) {
    if (name == dead) continue;
    EXPECT_GT(s.Turns(name), turns[name] + 5) << s.Story();
  }
}

TEST(LinkTest, WhatTheHolderItselfWaitsForIsNotHeldUpNorCounted) {
  Script s = Paused();
  const std::string holder = s.Holder();
  const Bytes before = MovedBeside(s);
  int spills = 0, told = 0;
  for (const char* name : {"a", "b", "c"}) spills += s.TimesTold<wire::Spill>(name);
  s.NeedsRoom(holder, 2_GiB);
  for (const char* name : {"a", "b", "c"}) told += s.TimesTold<wire::Spill>(name);
  EXPECT_GT(told, spills) << s.Story();
  while (s.TimesTold<wire::Room>(holder) == 0) s.RunsFor(Milliseconds(1));
  EXPECT_LE(MovedBeside(s), before + 64_MiB) << "but for a part that was under way\n" << s.Story();
}

TEST(LinkTest, ExplainSaysWhatItCostsAndWhatItMay) {
  Script s = Paused();
  while (s.Why(s.Holder()).find("others") == std::string::npos) s.RunsFor(Milliseconds(1));
  EXPECT_THAT(s.Why(s.Holder()), HasSubstr("others' bytes have had the link for")) << s.Story();
  EXPECT_THAT(s.Why(s.Holder()), HasSubstr("times as much: they may have it for")) << s.Story();
}

}  // namespace
}  // namespace hocket::coordinator
