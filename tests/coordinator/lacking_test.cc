// Jobs that find no room wait until others have given some back, and nobody waits in vain.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <random>

#include "coordinator/core/lack.h"
#include "tests/coordinator/script.h"

namespace hocket::coordinator {
namespace {

using absl::Milliseconds;
using absl::Seconds;
using testing::HasSubstr;

TEST(RoomSumTest, WhoWantsWhatCanBeHadNowOrLaterIsTold) {
  RoomSum sum{.free = 10, .returning = 5, .others = {{.job = 1, .resident = 40, .gives = 15}}};
  sum.wanted = 30;
  EXPECT_EQ(sum.outlook(), Outlook::kNow) << "10 are free, 5 come back, and 15 are given";
  sum.wanted = 31;
  EXPECT_EQ(sum.outlook(), Outlook::kNever) << "the other keeps the rest";
  sum.others[0].comes_back = true;
  EXPECT_EQ(sum.outlook(), Outlook::kLater);
  sum.wanted = 55;
  EXPECT_EQ(sum.outlook(), Outlook::kLater) << "when it ends, all of it comes back";
  sum.wanted = 56;
  EXPECT_EQ(sum.outlook(), Outlook::kNever);
}

TEST(RoomSumTest, NamedBytesDoNotWrap) {
  const RoomSum sum{.wanted = std::numeric_limits<Bytes>::max(),
                    .free = std::numeric_limits<Bytes>::max(),
                    .returning = std::numeric_limits<Bytes>::max(),
                    .others = {{.resident = std::numeric_limits<Bytes>::max(),
                                .gives = std::numeric_limits<Bytes>::max()}}};
  EXPECT_EQ(sum.Now(), std::numeric_limits<Bytes>::max());
  EXPECT_EQ(sum.outlook(), Outlook::kNow);
}

TEST(ShortageTest, TriesInVainAreFartherAndFartherApart) {
  Shortage lack;
  const absl::Time now = absl::UnixEpoch();
  TriedInVain(lack, 7, 0, now);
  EXPECT_EQ(lack.retry_at, now + Seconds(1));
  TriedInVain(lack, 7, 0, now);
  EXPECT_EQ(lack.retry_at, now + Seconds(2));
  for (int i = 0; i < 20; ++i) TriedInVain(lack, 7, 0, now);
  EXPECT_EQ(lack.retry_at, now + Seconds(60));
}

// The first trains: 60 bytes, of which its host memory takes 10. The second builds a model of 70 on a device
// of 100, and lacks room.
Script TwoThatDoNotFit() {
  Script s("fifo", 100);
  s.Joins("first", {.persistent = 60, .host = 10, .total_steps = 200, .spill_time = Milliseconds(1)});
  s.Joins("second", {.host = 10, .grows = 70, .total_steps = 50});
  s.Lives("first");
  s.RunsFor(Milliseconds(50));
  s.Lives("second");
  s.RunsFor(Milliseconds(200));
  return s;
}

TEST(LackingTest, WhoFindsNoRoomWaitsAndTheOthersGoOnAsIfItDidNotAsk) {
  Script s = TwoThatDoNotFit();
  EXPECT_TRUE(s.JobOf("second").held_out) << s.Story();
  EXPECT_EQ(s.Holder(), "first");
  const int turns = s.Turns("first");
  s.RunsFor(Milliseconds(500));
  EXPECT_EQ(s.Turns("first"), turns) << "it keeps its turn: nobody asks who could use it\n" << s.Story();
}

TEST(LackingTest, ItGoesOnWhenTheOtherEnds) {
  Script s = TwoThatDoNotFit();
  s.RunsFor(Seconds(30));
  EXPECT_TRUE(s.HasFinished("first")) << s.Story();
  EXPECT_TRUE(s.HasFinished("second")) << s.Story();
  EXPECT_GE(s.Finished("second"), s.Finished("first"));
}

TEST(LackingTest, ItGoesOnWhenTheOtherIsKilled) {
  Script s = TwoThatDoNotFit();
  ASSERT_TRUE(s.Holds("first"));
  s.Dies("first");
  s.RunsFor(Milliseconds(600));
  EXPECT_TRUE(s.HasFinished("second")) << s.Story();
}

TEST(LackingTest, ExplainShowsTheArithmetic) {
  Script s = TwoThatDoNotFit();
  EXPECT_THAT(s.Why("second"), HasSubstr("it needs 70 B, 50 B are free")) << s.Story();
  EXPECT_THAT(s.Why("second"), HasSubstr("first holds 50 B, of which 0 B fit into its host memory"));
}

TEST(LackingTest, WhatCanNeverBeIsToldNoAtOnceWithTheArithmetic) {
  Script s("fifo", 100);
  s.Joins("first", {.persistent = 60, .host = 10});
  s.Joins("second", {.grows = 170});
  s.Lives("first");
  s.RunsFor(Milliseconds(50));
  s.Lives("second");
  s.RunsFor(Seconds(3));
  EXPECT_TRUE(s.WasRefused("second")) << s.Story();
  EXPECT_THAT(s.Told<wire::Room>("second")->reason, HasSubstr("cannot make room for 170 B"));
  EXPECT_THAT(s.Told<wire::Room>("second")->reason, HasSubstr("first"));
}

// The first needs 30 beside its 60 in each step, and its host memory takes all. The second would not: with 10
// of its own (and something to spare) the first could not go on.
TEST(LackingTest, WhoHasDoneNoStepDoesNotKeepOthersFromTheirs) {
  Script s("fifo", 100);
  s.Joins("first", {.persistent = 60});
  s.Joins("second", {.persistent = 4, .host = 0});
  s.Asks("first");
  s.GivesUp("first", {.movable = true, .transient = 30});
  s.Asks("second", {.movable = true});
  s.Asks("first", {.movable = true});
  s.NeedsRoom("second", 6);
  EXPECT_EQ(s.TimesTold<wire::Spill>("first"), 0) << s.Story();
  EXPECT_TRUE(s.Told<wire::Room>("second")->step_aside) << s.Story();
  s.GivesUp("second", {.steps = 0, .movable = true, .stood_aside = true});
  s.Asks("second", {.need = 6});
  EXPECT_EQ(s.Holder(), "first");
  EXPECT_TRUE(s.JobOf("second").held_out) << s.Story();
  s.GivesUp("first", {.transient = 20});
  s.Asks("first");
  s.Passes(Seconds(2));
  s.GivesUp("first", {.movable = true, .transient = 20});
  EXPECT_EQ(s.Holder(), "second") << "it needs less now, and there is room for both\n" << s.Story();
}

TEST(LackingTest, ANewOneWhoseNeedIsKnownWaitsBeforeItTakesAnything) {
  Script s("fifo", 100);
  s.Joins("first", {.persistent = 60, .host = 10});
  s.Joins("second", {.known = KnownNeed{.persistent = 40, .transient = 20, .host = 10, .runs = 2}});
  s.Asks("first");
  s.GivesUp("first", {.movable = true});
  s.Asks("second");
  EXPECT_TRUE(s.JobOf("second").held_out) << s.Story();
  EXPECT_THAT(s.Why("second"),
              HasSubstr("it needs 60 B (40 B that stay and 20 B in a step, by 2 earlier run(s))"));
  s.Dies("first");
  EXPECT_EQ(s.Holder(), "second") << s.Story();
}

TEST(LackingTest, ANewOneWhoseNeedFitsBesideWhatStaysBegins) {
  Script s("fifo", 100);
  s.Joins("first", {.persistent = 60, .host = 60});
  s.Joins("second", {.known = KnownNeed{.persistent = 40, .transient = 20, .host = 40, .runs = 2}});
  s.Asks("first");
  s.GivesUp("first", {.movable = true});
  s.Asks("second");
  EXPECT_EQ(s.Holder(), "second") << s.Story();
}

// The third could take the room for which the second waits.
TEST(LackingTest, NobodyBeginsBeforeOneThatCameEarlierAndLacksRoom) {
  Script s("fifo", 100);
  s.Joins("first", {.persistent = 60, .host = 10});
  s.Joins("second", {.known = KnownNeed{.persistent = 60, .runs = 1}});
  s.Joins("third", {.host = 0});
  s.Asks("first");
  s.GivesUp("first", {.movable = true});
  s.Asks("second");
  s.Asks("third", {.movable = true});
  EXPECT_TRUE(s.JobOf("third").held_out) << s.Story();
  EXPECT_THAT(s.Why("third"), HasSubstr("one that came before it lacks room, too, and goes first"));
  s.Dies("first");
  EXPECT_EQ(s.Holder(), "second") << s.Story();
}

// What was told before was told between its peaks; and another coordinator was told nothing of them.
TEST(LackingTest, ALastWordTellsWhatTheRunNeededAtMost) {
  Script s("fifo", 1000);
  s.Joins("job", {.persistent = 60});
  s.Asks("job");
  s.GivesUp("job", {.transient = 20});
  s.Says("job", wire::Leave{.keeps_running = true, .most_held = 700, .most_transient = 250});
  EXPECT_EQ(s.JobOf("job").most_held, 700u);
  EXPECT_EQ(s.JobOf("job").most_transient, 250u);
  s.Says("job", wire::Leave{.most_held = 900, .most_transient = 900});
  EXPECT_EQ(s.JobOf("job").most_held, 700u) << "it has left already";
}

// Of what was told before, parts may have been counted on both sides, at different times.
TEST(LackingTest, ALastWordIsBelievedAboutWhatWasThereAtOneTime) {
  Script s("fifo", 1000);
  s.Joins("job", {.persistent = 60});
  s.Asks("job");
  s.GivesUp("job", {.transient = 50});
  s.Says("job", wire::Leave{.keeps_running = true, .most_held = 40, .most_transient = 35});
  EXPECT_EQ(s.JobOf("job").most_held, 60u);
  EXPECT_EQ(s.JobOf("job").most_transient, 15u);
}

TEST(LackingTest, ALastWordThatSaysNothingOfItChangesNothing) {
  Script s("fifo", 1000);
  s.Joins("older", {.persistent = 60});
  s.Asks("older");
  s.GivesUp("older", {.transient = 20});
  s.Says("older", wire::Leave{.keeps_running = true});
  EXPECT_EQ(s.JobOf("older").most_held, 60u);
  EXPECT_EQ(s.JobOf("older").most_transient, 20u);
}

TEST(LackingTest, ANewOneDoesNotWaitForOneThatHasLeftAndKeepsItsMemory) {
  Script s("fifo", 100);
  s.Joins("first", {.persistent = 60, .host = 0});
  s.Joins("second", {.known = KnownNeed{.persistent = 60, .runs = 1}});
  s.Asks("first");
  s.GivesUp("first", {.movable = true});
  s.Asks("second");
  s.Leaves("first");
  EXPECT_TRUE(s.JobOf("second").held_out) << "its process may be about to end\n" << s.Story();
  s.Passes(Seconds(11));
  EXPECT_EQ(s.Holder(), "second") << s.Story();
}

// Each has half of what it needs, and cannot be moved: one of them has to give up.
TEST(LackingTest, OfTwoThatWaitForEachOtherTheLaterOneIsToldNo) {
  Script s("fifo", 100);
  s.Joins("first", {.persistent = 40, .host = 0, .grows = 30, .total_steps = 10});
  s.Joins("second", {.persistent = 40, .host = 0, .grows = 30, .total_steps = 10});
  s.Lives("first");
  s.Lives("second");
  s.RunsFor(Seconds(10));
  EXPECT_TRUE(s.HasFinished("first")) << s.Story();
  EXPECT_TRUE(s.WasRefused("second")) << s.Story();
}

// Whoever they are and in whatever order they come: each ends its steps, or is told no.
TEST(LackingTest, NobodyWaitsForEver) {
#if defined(__SANITIZE_ADDRESS__)  // twenty times as slow
  constexpr unsigned kSeeds = 60;
#else
  constexpr unsigned kSeeds = 300;
#endif
  for (unsigned seed = 0; seed < kSeeds; ++seed) {
    std::mt19937 random(seed);
    const auto any = [&](int least, int most) {
      return static_cast<Bytes>(std::uniform_int_distribution(least, most)(random));
    };
    const char* const policies[] = {"fifo", "round-robin", "fair", "srtf"};
    Script s(policies[seed % 4], 100);
    std::vector<std::string> names;
    Bytes used = 0;
    for (Bytes i = any(2, 5); i > 0; --i) {
      names.push_back("job" + std::to_string(i));
      const Bytes resident = any(0, 1) * any(0, static_cast<int>(100 - used) / 2);
      used += resident;
      s.Joins(names.back(), {.persistent = resident,
                             .host = any(0, 1) * any(0, 60),
                             .grows = any(0, static_cast<int>(120 - resident)),
                             .step = Milliseconds(any(1, 30)),
                             .gap = Milliseconds(any(0, 1) * any(0, 20)),
                             .total_steps = any(1, 60),
                             .spill_time = Milliseconds(any(0, 3)),
                             .restore_time = Milliseconds(any(0, 3)),
                             .ahead = any(0, 1) == 1});
    }
    for (const std::string& name : names) {
      s.Lives(name);
      s.RunsFor(Milliseconds(any(0, 200)));
      if (any(0, 9) == 0) s.Dies(name);
    }
    s.RunsFor(absl::Minutes(20));
    for (const std::string& name : names) {
      EXPECT_FALSE(s.core().state().jobs.contains(s.IdOf(name)))
          << name << " in seed " << seed << ": " << s.Why(name) << "\n"
          << s.Story();
    }
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace hocket::coordinator
