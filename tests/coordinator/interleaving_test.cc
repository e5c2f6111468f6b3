// Every order of events, for small casts (interleaving.h).
#include "tests/coordinator/interleaving.h"

#include <gtest/gtest.h>

namespace hocket::coordinator {
namespace {

// Of each cast, the shortest histories first.
#if defined(__SANITIZE_ADDRESS__)  // twenty times as slow
constexpr size_t kStates = 1'200;
#else
constexpr size_t kStates = 4'000;
#endif

TEST(InterleavingTest, ThreeSingleJobs) { EXPECT_GT(TryEverything({.jobs = 3}, kStates), 10u); }

TEST(InterleavingTest, ThreeJobsThatPassTheirTurnsOn) {
  EXPECT_GT(TryEverything({.jobs = 3, .passes = true}, kStates), 100u);
}

TEST(InterleavingTest, ThreeJobsThatPassTheirTurnsOnAndMayDie) {
  EXPECT_GT(TryEverything({.jobs = 3, .deaths = true, .passes = true}, kStates), 100u);
}

TEST(InterleavingTest, ThreeJobsThatPassTheirTurnsOnToWhomeverAskedLast) {
  EXPECT_GT(TryEverything({.jobs = 3, .deaths = true, .passes = true, .last = true}, kStates), 100u);
}

TEST(InterleavingTest, TwoJobsThatPassTheirTurnsOnAndMayBeStopped) {
  EXPECT_GT(TryEverything({.jobs = 2, .deaths = true, .stops = true, .passes = true}, kStates), 50u);
}

TEST(InterleavingTest, ThreeJobsThatPassTheirTurnsOnAndSpillEachOther) {
  EXPECT_GT(
      TryEverything({.jobs = 3, .persistent = 30, .room = true, .deaths = true, .passes = true, .last = true},
                    kStates),
      500u);
}

TEST(InterleavingTest, TwoJobsThatPassTheirTurnsOnAndHaveNoRoomBesideEachOther) {
  EXPECT_GT(
      TryEverything({.jobs = 2, .persistent = 45, .room = true, .deaths = true, .passes = true}, kStates),
      100u);
}

TEST(InterleavingTest, ThreeJobsThatPassTheirTurnsOnOfWhichOneIsCapped) {
  EXPECT_GT(TryEverything({.jobs = 3, .cap = 0.25, .passes = true}, kStates), 100u);
}

TEST(InterleavingTest, ThreeJobsThatPassTheirTurnsOnBesideAGang) {
  EXPECT_GT(TryEverything({.jobs = 3, .gang = 2, .deaths = true, .passes = true}, kStates), 100u);
}

TEST(InterleavingTest, ThreeSingleJobsThatMayDie) {
  EXPECT_GT(TryEverything({.jobs = 3, .deaths = true}, kStates), 80u);
}

TEST(InterleavingTest, TwoJobsThatSpillEachOther) {
  EXPECT_GT(TryEverything({.jobs = 2, .persistent = 50, .room = true}, kStates), 100u);
}

TEST(InterleavingTest, TwoJobsThatSpillEachOtherInParts) {
  EXPECT_GT(TryEverything({.jobs = 2, .persistent = 50, .room = true, .parts = true}, kStates), 200u);
}

TEST(InterleavingTest, ThreeJobsThatSpillEachOtherInPartsAndMayDie) {
  const Cast cast = {.jobs = 3, .persistent = 30, .room = true, .parts = true, .deaths = true};
  EXPECT_GT(TryEverything(cast, kStates), 1'000u);
}

TEST(InterleavingTest, ThreeJobsThatSpillEachOther) {
  EXPECT_GT(TryEverything({.jobs = 3, .persistent = 30, .room = true}, kStates), 1'000u);
}

TEST(InterleavingTest, ThreeJobsThatRestoreBeforeTheirTurns) {
  EXPECT_GT(TryEverything({.jobs = 3, .persistent = 45, .room = true, .ahead = true}, kStates), 1'000u);
}

TEST(InterleavingTest, ThreeJobsThatRestoreBeforeTheirTurnsAndMayBeStoppedOrDie) {
  const Cast cast = {.jobs = 3, .persistent = 30, .room = true, .ahead = true, .deaths = true, .stops = true};
  EXPECT_GT(TryEverything(cast, kStates), 1'000u);
}

TEST(InterleavingTest, TwoJobsThatSpillEachOtherAndMayDie) {
  EXPECT_GT(TryEverything({.jobs = 2, .persistent = 50, .room = true, .deaths = true}, kStates), 200u);
}

TEST(InterleavingTest, ThreeJobsThatMayBeStoppedBeforeTheyReadTheirGrant) {
  EXPECT_GT(TryEverything({.jobs = 3, .stops = true}, kStates), 30u);
}

TEST(InterleavingTest, TwoJobsThatSpillEachOtherAndMayBeStoppedOrDie) {
  const Cast cast = {.jobs = 2, .persistent = 50, .room = true, .deaths = true, .stops = true};
  EXPECT_GT(TryEverything(cast, kStates), 400u);
}

TEST(InterleavingTest, AGangOfTwoThatMayBeStoppedBesideASingleJob) {
  EXPECT_GT(TryEverything({.jobs = 3, .gang = 2, .stops = true}, kStates), 500u);
}

TEST(InterleavingTest, AGangOfTwoBesideASingleJob) {
  EXPECT_GT(TryEverything({.jobs = 3, .gang = 2}, kStates), 500u);
}

TEST(InterleavingTest, AGangOfTwoBesideASingleJobThatMayDie) {
  EXPECT_GT(TryEverything({.jobs = 3, .gang = 2, .deaths = true}, kStates), 500u);
}

TEST(InterleavingTest, ThreeSingleJobsOfWhichOneIsCapped) {
  EXPECT_GT(TryEverything({.jobs = 3, .stops = true, .cap = 0.1}, kStates), 30u);
}

TEST(InterleavingTest, TwoJobsThatSpillEachOtherOfWhichOneIsCapped) {
  EXPECT_GT(TryEverything({.jobs = 2, .persistent = 50, .room = true, .deaths = true, .cap = 0.1}, kStates),
            200u);
}

TEST(InterleavingTest, ThreeJobsThatSpillEachOtherOfWhichOneHasTimeGuaranteed) {
  const Cast cast = {
      .jobs = 3, .persistent = 45, .room = true, .ahead = true, .deaths = true, .guarantee = 0.6};
  EXPECT_GT(TryEverything(cast, kStates), 1'000u);
}

TEST(InterleavingTest, AGangOfTwoWhoseTimeIsGuaranteedBesideASingleJobThatMayDie) {
  EXPECT_GT(TryEverything({.jobs = 3, .gang = 2, .deaths = true, .guarantee = 0.6}, kStates), 500u);
}

TEST(InterleavingTest, ThreeJobsOfWhichTwoHaveACapTogetherAndOneAGuarantee) {
  const Cast cast = {
      .jobs = 3, .persistent = 45, .room = true, .deaths = true, .guarantee = 0.1, .cap_of_two = 0.2};
  EXPECT_GT(TryEverything(cast, kStates), 1'000u);
}
TEST(InterleavingTest, LongWalksOfJobsWhoseBytesArePausedForTheHoldersSake) {
  EXPECT_GT(Walk({.jobs = 4, .persistent = 30, .room = true, .parts = true, .ahead = true}), 100);
}

TEST(InterleavingTest, LongWalksOfManyJobsOfWhichTwoRunAtTheSameTime) {
  const Cast cast = {.jobs = 6,
                     .persistent = 18,
                     .room = true,
                     .parts = true,
                     .ahead = true,
                     .stops = true,
                     .together = true,
                     .go_on = true,
                     .transient = 5};
  Walk(cast);
}

TEST(InterleavingTest, LongWalksOfAGangBesideJobsThatRunAtTheSameTime) {
  Walk({.jobs = 6,
        .gang = 2,
        .persistent = 18,
        .room = true,
        .stops = true,
        .cap = 0.1,
        .together = true,
        .go_on = true});
}

TEST(InterleavingTest, ThreeJobsOfWhichTwoRunAtTheSameTime) {
  EXPECT_GT(TryEverything({.jobs = 3, .deaths = true, .stops = true, .together = true}, kStates), 500u);
}

TEST(InterleavingTest, ThreeJobsThatSpillEachOtherOfWhichTwoRunAtTheSameTime) {
  const Cast cast = {.jobs = 3,
                     .persistent = 30,
                     .room = true,
                     .ahead = true,
                     .deaths = true,
                     .together = true,
                     .transient = 5};
  EXPECT_GT(TryEverything(cast, kStates), 1'000u);
}

TEST(InterleavingTest, AGangOfTwoBesideSingleJobsThatRunAtTheSameTime) {
  EXPECT_GT(TryEverything({.jobs = 4, .gang = 2, .deaths = true, .together = true}, kStates), 1'000u);
}

TEST(InterleavingTest, ThreeJobsOfWhichOneIsCappedAndTwoRunAtTheSameTime) {
  EXPECT_GT(TryEverything({.jobs = 3, .deaths = true, .cap = 0.1, .together = true}, kStates), 100u);
}

TEST(InterleavingTest, ThreeJobsThatGoOnBesideTheOverdue) {
  EXPECT_GT(TryEverything({.jobs = 3, .deaths = true, .go_on = true}, kStates), 100u);
}

TEST(InterleavingTest, ThreeJobsThatSpillEachOtherAndGoOnBesideTheOverdue) {
  const Cast cast = {
      .jobs = 3, .persistent = 30, .room = true, .deaths = true, .together = true, .go_on = true};
  EXPECT_GT(TryEverything(cast, kStates), 1'000u);
}

TEST(InterleavingTest, TwoThatStandByForOneThatServes) {
  EXPECT_GT(TryEverything({.jobs = 3, .servers = 1, .deaths = true}, kStates), 300u);
}

TEST(InterleavingTest, OneThatStandsByForTwoThatServeAndMayBeStopped) {
  EXPECT_GT(TryEverything({.jobs = 3, .servers = 2, .deaths = true, .stops = true}, kStates), 500u);
}

TEST(InterleavingTest, TwoThatSpillEachOtherAndStandByForOneThatServes) {
  const Cast cast = {
      .jobs = 3, .persistent = 30, .room = true, .ahead = true, .servers = 1, .deaths = true, .transient = 5};
  EXPECT_GT(TryEverything(cast, kStates), 1'000u);
}

TEST(InterleavingTest, AGangOfTwoBesideOneThatServes) {
  EXPECT_GT(TryEverything({.jobs = 4, .gang = 2, .servers = 1, .deaths = true}, kStates), 1'000u);
}

TEST(InterleavingTest, LongWalksOfManyJobsThatStandByForTwoThatServe) {
  Walk({.jobs = 6,
        .persistent = 14,
        .room = true,
        .parts = true,
        .ahead = true,
        .servers = 2,
        .deaths = true,
        .stops = true,
        .together = true,
        .go_on = true,
        .transient = 4});
}

TEST(InterleavingTest, AGangOfTwoOfWhichOneIsCappedBesideASingleJob) {
  EXPECT_GT(TryEverything({.jobs = 3, .gang = 2, .cap = 0.1}, kStates), 500u);
}

}  // namespace
}  // namespace hocket::coordinator
