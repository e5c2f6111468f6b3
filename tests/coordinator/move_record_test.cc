// What moving a job's bytes was foretold to take, and what it took.
#include "coordinator/core/move_record.h"

#include <gtest/gtest.h>

#include "tests/coordinator/script.h"

namespace hocket::coordinator {
namespace {

using absl::Milliseconds;
using absl::Seconds;

// --- the record -----------------------------------------------------------------------------------

TEST(MoveRecordTest, NothingMovedSaysNothing) {
  const MoveRecord record;
  EXPECT_EQ(record.moves(), 0u);
  EXPECT_FALSE(record.BytesError());
  EXPECT_FALSE(record.TimeError());
}

TEST(MoveRecordTest, DifferencesAddUpWhicheverWayTheyGo) {
  MoveRecord record;
  record.Add({.bytes = 90, .time = Seconds(3)}, {.bytes = 100, .copied = 80, .time = Seconds(2)});
  record.Add({.bytes = 110, .time = Seconds(1)}, {.bytes = 100, .copied = 70, .time = Seconds(2)});
  EXPECT_EQ(record.moves(), 2u);
  EXPECT_EQ(record.moved().bytes, 200u);
  EXPECT_EQ(record.moved().copied, 150u);
  EXPECT_EQ(record.moved().time, Seconds(4));
  EXPECT_EQ(record.foretold_bytes(), 200u);
  EXPECT_DOUBLE_EQ(record.BytesError().value(), 0.1);
  EXPECT_DOUBLE_EQ(record.TimeError().value(), 0.5);
  EXPECT_EQ(record.last_foretold().bytes, 110u);
  EXPECT_EQ(record.last_moved().copied, 70u);
}

TEST(MoveRecordTest, AMoveWhoseTimeWasNotForetoldIsNotHeldAgainstIt) {
  MoveRecord record;
  record.Add({.bytes = 100}, {.bytes = 100, .copied = 100, .time = Seconds(100)});
  EXPECT_FALSE(record.TimeError());
  record.Add({.bytes = 100, .time = Seconds(1)}, {.bytes = 100, .copied = 100, .time = Seconds(2)});
  EXPECT_EQ(record.timed(), 1u);
  EXPECT_EQ(record.timed_time(), Seconds(2));
  EXPECT_EQ(record.moved().time, Seconds(102));
  EXPECT_DOUBLE_EQ(record.TimeError().value(), 0.5);
}

TEST(MoveRecordTest, AnOrderThatBroughtNothingCountsForBytesOnly) {
  MoveRecord record;
  record.Add({.bytes = 100, .time = Seconds(1)}, {.bytes = 100, .copied = 100, .time = Seconds(1)});
  record.Add({.bytes = 50, .time = Seconds(1)}, {.time = Milliseconds(1)});
  EXPECT_EQ(record.moves(), 2u);
  EXPECT_DOUBLE_EQ(record.BytesError().value(), 0.5);
  EXPECT_DOUBLE_EQ(record.TimeError().value(), 0);
  EXPECT_FALSE(record.last_foretold().time);
}

// --- in the core ----------------------------------------------------------------------------------

// On a device of 100 bytes a holds the turn, and b waits and can be moved.
Script AHoldsAndBWaits(Part b) {
  Script s("fifo", 100);
  s.Joins("a", {.persistent = 40});
  s.Joins("b", b);
  s.Asks("a");
  s.Passes(Milliseconds(1));
  s.Asks("b", {.movable = true});
  return s;
}

TEST(MoveRecordTest, AnOrderToSpillIsComparedWithAllOfItsParts) {
  Script s = AHoldsAndBWaits({.persistent = 60});
  s.NeedsRoom("a", 30);
  s.Passes(Seconds(1));
  s.SpillsPart("b", 20);
  EXPECT_EQ(s.JobOf("b").spills.moves(), 0u) << "more is coming\n" << s.Story();
  s.Passes(Seconds(2));
  s.Spills("b", 12);  // whole chunks
  const MoveRecord& first = s.JobOf("b").spills;
  EXPECT_EQ(first.moves(), 1u) << s.Story();
  EXPECT_EQ(first.last_foretold().bytes, 30u);
  EXPECT_FALSE(first.last_foretold().time) << "nothing had moved yet";
  EXPECT_EQ(first.last_moved().bytes, 32u);
  EXPECT_EQ(first.last_moved().copied, 32u) << "it does not say that it was less";
  EXPECT_EQ(first.last_moved().time, Seconds(3));
}

TEST(MoveRecordTest, AMoveIsForetoldByTheRateThatTheLinkHasShown) {
  Script s = AHoldsAndBWaits({.persistent = 60});
  s.NeedsRoom("a", 30);
  s.Passes(Seconds(3));
  s.Spills("b", 30);  // 10 bytes a second
  s.NeedsRoom("a", 20);
  s.Passes(Seconds(1));
  s.Spills("b", 20);
  const MoveRecord& spills = s.JobOf("b").spills;
  ASSERT_EQ(spills.moves(), 2u) << s.Story();
  EXPECT_EQ(spills.last_foretold().time, Seconds(2));
  EXPECT_EQ(spills.timed(), 1u);
  EXPECT_DOUBLE_EQ(spills.TimeError().value(), 1);
  EXPECT_GT(s.core().ForetoldMove(s.JobOf("b"), 10).time, absl::ZeroDuration());
}

TEST(MoveRecordTest, OneThatHasLessThanItIsAskedForIsForetoldToGiveThat) {
  Script s = AHoldsAndBWaits({.persistent = 10});
  s.NeedsRoom("a", 30);
  s.Spills("b", 10);
  EXPECT_EQ(s.JobOf("b").spills.last_foretold().bytes, 10u) << s.Story();
}

// b was moved away in 3 s, and has had the turn for 10 since.
Script BComesBack() {
  Script s = AHoldsAndBWaits({.persistent = 30});
  s.NeedsRoom("a", 30);
  s.Passes(Seconds(3));
  s.Spills("b", 30);
  s.GivesUp("a");
  EXPECT_EQ(s.Holder(), "b") << s.Story();
  s.Passes(Seconds(10));
  return s;
}

TEST(MoveRecordTest, WhatComesBackInATurnIsComparedWithWhatLayOnTheHost) {
  Script s = BComesBack();
  s.Says("b", wire::TurnOver{.turn = s.Told<wire::Grant>("b")->turn,
                             .steps = 1,
                             .turn_steps = 1,
                             .persistent = 30,
                             .ready_ns = 4'000'000'000,
                             .restored = 25});
  const MoveRecord& restores = s.JobOf("b").restores;
  ASSERT_EQ(restores.moves(), 1u) << s.Story();
  EXPECT_EQ(restores.last_foretold().bytes, 30u);
  EXPECT_EQ(restores.last_foretold().time, Seconds(3));
  EXPECT_EQ(restores.last_moved().bytes, 30u);
  EXPECT_EQ(restores.last_moved().copied, 25u);
  EXPECT_EQ(restores.last_moved().time, Seconds(4));
}

TEST(MoveRecordTest, ATurnForWhichNothingComesBackIsNoMove) {
  Script s = AHoldsAndBWaits({.persistent = 30});
  s.GivesUp("a");
  s.GivesUp("b");
  EXPECT_EQ(s.JobOf("b").restores.moves(), 0u) << s.Story();
}

TEST(MoveRecordTest, OneThatStandsAsideForRoomIsNotTimed) {
  Script s = BComesBack();
  s.GivesUp("b", {.ready = Seconds(10), .restored = 10, .stood_aside = true});
  EXPECT_EQ(s.JobOf("b").restores.moves(), 1u);
  EXPECT_EQ(s.JobOf("b").restores.timed(), 0u) << s.Story();
}

TEST(MoveRecordTest, WhatComesBackAheadIsAMoveToo) {
  Script s = AHoldsAndBWaits({.spilled = 30, .ahead = true});
  ASSERT_TRUE(s.Told<wire::Restore>("b")) << s.Story();
  s.Passes(Seconds(5));
  s.Says("b", wire::Restored{.request = s.Told<wire::Restore>("b")->request,
                             .restored = 20,
                             .persistent = 20,
                             .spilled = 10,
                             .took_ns = 2'000'000'000,
                             .copied = 15});
  const MoveRecord& restores = s.JobOf("b").restores;
  ASSERT_EQ(restores.moves(), 1u) << s.Story();
  EXPECT_EQ(restores.last_foretold().bytes, 30u);
  EXPECT_EQ(restores.moved().bytes, 20u);
  EXPECT_EQ(restores.moved().copied, 15u);
  EXPECT_EQ(restores.moved().time, Seconds(2)) << "what it says, not what its message took";
}

TEST(MoveRecordTest, AJobThatJoinsAgainGoesOnWithItsRecord) {
  Script s = AHoldsAndBWaits({.persistent = 60});
  s.NeedsRoom("a", 30);
  s.Spills("b", 30);
  const JobId id = s.IdOf("b");
  const auto joins = [&](bool again) {
    s.Says("b", JobJoins{.join = {.name = "b", .device = "gpu0", .capacity = 100, .rejoin = again, .job = id},
                         .replaces = {id}});
    return s.JobOf("b").spills.moves();
  };
  EXPECT_EQ(joins(/*again=*/true), 1u) << s.Story();
  EXPECT_EQ(joins(/*again=*/false), 0u) << "another job of that process";
}

}  // namespace
}  // namespace hocket::coordinator
