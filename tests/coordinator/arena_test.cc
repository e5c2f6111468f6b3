// Who is told of which chunk of a lane's arena, when, and how many descriptors are on their way.
#include "coordinator/core/limits.h"
#include "csrc/wire/ids.h"
#include "gmock/gmock.h"
#include "tests/coordinator/script.h"

namespace hocket::coordinator {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::uint64_t kMostAtOnce = kMostUnheard;

class ArenaTest : public testing::Test {
 protected:
  ArenaTest() {
    s_.Joins("a", {.counts_arena = true});
    s_.Asks("a");
  }

  // The holder's arena has the chunks from `first` on.
  void Grows(std::uint64_t first, std::uint64_t count, bool bare = false) {
    for (std::uint64_t i = first; i < first + count; ++i)
      s_.Says("a", wire::ArenaGrew{.chunk = i, .size = 1, .bare = bare});
  }
  // The holder, with `count` chunks that nobody else knows of; `b` has the turn then.
  void IsKilled(std::uint64_t count) {
    s_.Joins("b", {.counts_arena = true});
    Grows(1, count, /*bare=*/true);
    s_.GivesUp("a");
    s_.HangsUp("a");
    s_.Dies("a");
    s_.Asks("b");
  }
  std::vector<std::uint64_t> Asked(const std::string& exporter) {
    const auto asked = s_.Told<wire::ArenaExport>(exporter);
    return asked ? wire::UnpackIds(asked->chunks) : std::vector<std::uint64_t>();
  }
  // Answers what it was asked last.
  void Exports(const std::string& exporter, const std::string& to) {
    for (const std::uint64_t chunk : Asked(exporter))
      s_.Says(exporter, wire::ArenaGrew{.chunk = chunk, .size = 1, .to_job = s_.IdOf(to)});
  }
  const Device& TheDevice() { return s_.core().state().devices.at("gpu0"); }
  Bytes Counted() { return s_.core().Arena(TheDevice()); }
  Bytes Free() { return s_.core().Free(TheDevice()); }
  void After(absl::Duration time) {
    s_.Passes(time);
    s_.Sets(Tick{});
  }
  void Hears(const std::string& name) {
    s_.Says(name, wire::ArenaHeard{static_cast<std::uint64_t>(s_.TimesTold<wire::ArenaAdd>(name))});
  }

  Script s_;
};

TEST_F(ArenaTest, WhoDoesNotSayThatHeHearsIsToldOfFewChunks) {
  s_.Joins("b", {.counts_arena = true});
  Grows(1, kMostAtOnce + 40);
  EXPECT_EQ(s_.TimesTold<wire::ArenaAdd>("b"), kMostAtOnce) << s_.Story();
  EXPECT_EQ(s_.TimesTold<wire::ArenaExport>("a"), 0);
}

TEST_F(ArenaTest, WhoHearsIsToldOfTheRestInOrderByWhoHasIt) {
  s_.Joins("b", {.counts_arena = true});
  Grows(1, kMostAtOnce + 3);
  Hears("b");
  EXPECT_THAT(Asked("a"), ElementsAre(kMostAtOnce + 1, kMostAtOnce + 2, kMostAtOnce + 3));
  Grows(kMostAtOnce + 4, 1);  // not before those
  EXPECT_EQ(s_.TimesTold<wire::ArenaAdd>("b"), kMostAtOnce) << s_.Story();
  Exports("a", "b");
  EXPECT_THAT(Asked("a"), ElementsAre(kMostAtOnce + 4)) << s_.Story();
  Exports("a", "b");
  EXPECT_EQ(s_.Told<wire::ArenaAdd>("b")->chunk, kMostAtOnce + 4);
  Grows(kMostAtOnce + 5, 1);
  EXPECT_EQ(s_.Told<wire::ArenaAdd>("b")->chunk, kMostAtOnce + 5) << "as it joined: " << s_.Story();
}

TEST_F(ArenaTest, ANewcomerLearnsALargeArenaWithFewChunksOnTheirWayAtATime) {
  constexpr int kChunks = 1'000;
  Grows(1, kChunks);
  s_.Joins("b", {.counts_arena = true});
  int told = 0;
  for (int rounds = 0; told < kChunks && rounds < kChunks; ++rounds) {
    Exports("a", "b");
    EXPECT_LE(s_.TimesTold<wire::ArenaAdd>("b") - told, kMostAtOnce);
    told = s_.TimesTold<wire::ArenaAdd>("b");
    EXPECT_EQ(s_.Told<wire::ArenaAdd>("b")->chunk, static_cast<std::uint64_t>(told));
    Hears("b");
  }
  EXPECT_EQ(told, kChunks);
  EXPECT_LE(s_.TimesTold<wire::ArenaExport>("a"), kChunks / kMostAtOnce + 1);
}

TEST_F(ArenaTest, AChunkToldWithoutItsDescriptorIsAskedFor) {
  s_.Joins("b", {.counts_arena = true});
  Grows(1, 2, /*bare=*/true);
  EXPECT_EQ(s_.TimesTold<wire::ArenaAdd>("b"), 0) << s_.Story();
  EXPECT_THAT(Asked("a"), ElementsAre(1));
  Exports("a", "b");
  EXPECT_THAT(Asked("a"), ElementsAre(2));
  Exports("a", "b");
  EXPECT_EQ(s_.TimesTold<wire::ArenaAdd>("b"), 2);
}

TEST_F(ArenaTest, WhatNobodyCanSendIsDoneWithout) {
  s_.Joins("b", {.counts_arena = true});
  Grows(1, 2, /*bare=*/true);
  s_.Says("a", wire::ArenaGrew{.chunk = 1, .size = 1, .to_job = s_.IdOf("b"), .bare = true});
  EXPECT_THAT(Asked("a"), ElementsAre(2));
  Exports("a", "b");
  EXPECT_EQ(s_.Told<wire::ArenaAdd>("b")->chunk, 2u);
  s_.Loses("a", 1);
  EXPECT_EQ(s_.TimesTold<wire::ArenaDrop>("b"), 0) << "it has never had it";
}

TEST_F(ArenaTest, WhatWasAskedOfOneWhoLeavesOrDoesNotAnswerIsAskedOfAnother) {
  s_.Joins("b", {.counts_arena = true});
  s_.Joins("c", {.counts_arena = true});
  Grows(1, 3);
  s_.GivesUp("a");
  s_.Joins("d", {.counts_arena = true});
  EXPECT_THAT(Asked("a"), ElementsAre(1, 2, 3)) << s_.Story();
  s_.Leaves("a");
  EXPECT_THAT(Asked("b"), ElementsAre(1, 2, 3)) << s_.Story();
  s_.Leaves("b");
  EXPECT_THAT(Asked("c"), ElementsAre(1, 2, 3)) << s_.Story();
  Exports("c", "d");
  EXPECT_EQ(s_.TimesTold<wire::ArenaAdd>("d"), 3);
}

TEST_F(ArenaTest, AChunkThatLeavesWhileItIsAskedForIsNotWaitedFor) {
  s_.Joins("b", {.counts_arena = true});
  Grows(1, 2, /*bare=*/true);
  s_.Loses("a", 1);
  EXPECT_THAT(Asked("a"), ElementsAre(2)) << s_.Story();
}

TEST_F(ArenaTest, AJobThatForgetsTheArenaIsToldOfItAnewOnce) {
  s_.Joins("b", {.counts_arena = true});
  Grows(1, 2);
  const JobId id = s_.IdOf("b");
  const wire::Join join{
      .name = "b", .device = "gpu0", .capacity = 100, .rejoin = true, .job = id, .counts_arena = true};
  s_.Says("b", JobJoins{.join = join, .user = 1000, .replaces = {id}});
  EXPECT_THAT(Asked("a"), ElementsAre(1, 2)) << s_.Story();
  Exports("a", "b");
  Exports("a", "b");
  EXPECT_EQ(s_.TimesTold<wire::ArenaAdd>("b"), 4) << "twice before, twice anew: " << s_.Story();
}

// It could restore into the lane's free chunks, had it known them when it tried.
TEST_F(ArenaTest, WhoLacksRoomForWhatComesBackTriesAgainWhenItHasHeardOfChunks) {
  s_.Joins("b", {.spilled = 40, .counts_arena = true});
  s_.Asks("b");
  Grows(1, kMostAtOnce + 3);
  s_.GivesUp("a");
  s_.NeedsRoom("b", 40, /*restoring=*/true);
  ASSERT_EQ(s_.TimesTold<wire::Room>("b"), 0) << s_.Story();
  Hears("b");
  EXPECT_EQ(s_.TimesTold<wire::Room>("b"), 1) << s_.Story();
  s_.NeedsRoom("b", 10, /*restoring=*/true);
  EXPECT_EQ(s_.TimesTold<wire::Room>("b"), 1) << "it has heard of no more: " << s_.Story();
  Exports("a", "b");
  Hears("b");
  EXPECT_EQ(s_.TimesTold<wire::Room>("b"), 2) << s_.Story();
}

// As the last release does: it does not know which were asked for, nor what it says it has heard.
TEST_F(ArenaTest, AnOlderJobIsToldOfEveryChunkAndExportsEveryOne) {
  s_.Joins("b");
  Grows(1, 100);
  EXPECT_EQ(s_.TimesTold<wire::ArenaAdd>("b"), 100);
  s_.Joins("c");
  for (int rounds = 0; rounds < 2; ++rounds) {
    for (std::uint64_t i = 1; i <= 100; ++i)
      s_.Says("a", wire::ArenaGrew{.chunk = i, .size = 1, .to_job = s_.IdOf("c")});
  }
  EXPECT_EQ(s_.TimesTold<wire::ArenaAdd>("c"), 100) << s_.Story();
}

TEST_F(ArenaTest, NobodyNamesChunksWithoutEnd) {
  Grows(1, kLeastChunks);
  EXPECT_EQ(s_.Rejection(), "") << "a small device's, too";
  Grows(kLeastChunks, 1);  // known already
  EXPECT_EQ(s_.Rejection(), "");
  Grows(kLeastChunks + 1, 1);
  EXPECT_THAT(s_.Rejection(), HasSubstr("ArenaGrew from a, whose lane has 4096 chunks, as many as it may"));
  EXPECT_EQ(Counted(), kLeastChunks);
  EXPECT_EQ(s_.JobOf("a").arena.told.size(), kLeastChunks);
  s_.Loses("a", 1);
  Grows(kLeastChunks + 1, 1);
  EXPECT_EQ(s_.Rejection(), "");
}

TEST(ArenasSizeTest, MoreChunksMayBeOnALargerDevice) {
  Script s("fair", 10'000_MiB);
  s.Joins("a");
  s.Asks("a");
  for (std::uint64_t i = 1; i <= 10'000; ++i) s.Grows("a", i, 1_MiB);
  EXPECT_EQ(s.Rejection(), "");
  s.Grows("a", 10'001, 1_MiB);
  EXPECT_THAT(s.Rejection(), HasSubstr("10000 chunks"));
}

// --- chunks that nobody in the lane knows any more ---------------------------------------------------

// Before it says goodbye it has unmapped all of the arena.
TEST_F(ArenaTest, WhatNobodyWasToldOfIsFreeWhenItsMakerHasLeft) {
  s_.Joins("b", {.counts_arena = true});
  Grows(1, 30);
  Grows(31, 20, /*bare=*/true);
  ASSERT_FALSE(Asked("a").empty()) << s_.Story();
  ASSERT_EQ(Free(), 50u) << s_.Story();
  s_.Leaves("a");
  EXPECT_EQ(Counted(), 30u) << s_.Story();
  EXPECT_EQ(Free(), 70u) << "at once: " << s_.Story();
  s_.Dies("a");
  EXPECT_EQ(Free(), 70u) << s_.Story();
}

// The dead map nothing.
TEST_F(ArenaTest, WhatNobodyWasToldOfIsFreeWhenItsMakerIsDead) {
  s_.Joins("b", {.counts_arena = true});
  Grows(1, 20, /*bare=*/true);
  s_.GivesUp("a");
  s_.Dies("a");
  EXPECT_EQ(Counted(), 0u) << s_.Story();
  EXPECT_EQ(Free(), 100u) << s_.Story();
  s_.Asks("b");
  s_.NeedsRoom("b", 10);  // the driver is slower
  EXPECT_EQ(s_.TimesTold<wire::Room>("b"), 0) << "it may have it soon: " << s_.Story();
}

TEST_F(ArenaTest, TheLastOnesArenaIsNotCountedForTheNext) {
  s_.Joins("b", {.counts_arena = true});
  s_.GivesUp("a");
  s_.Asks("b");
  s_.Says("b", wire::ArenaGrew{.chunk = 1, .size = 60});
  for (const char* name : {"a", "b"}) s_.Leaves(name);
  s_.Joins("c");
  EXPECT_EQ(Free(), 100u) << s_.Story();
}

// Nobody else will say when it unmaps them.
TEST_F(ArenaTest, WhatOneThatHasHungUpKeepsCountsUntilItsProcessEnds) {
  s_.Joins("b", {.counts_arena = true});
  Grows(1, 10);
  Grows(11, 20, /*bare=*/true);
  s_.GivesUp("a");
  s_.HangsUp("a");
  EXPECT_EQ(Counted(), 10u) << s_.Story();
  EXPECT_EQ(Free(), 70u) << s_.Story();
  After(absl::Hours(1));
  EXPECT_EQ(Free(), 70u) << "its process lives: " << s_.Story();
  s_.Dies("a");
  EXPECT_EQ(Free(), 90u) << s_.Story();
}

TEST_F(ArenaTest, WhatOneThatHasHungUpInItsTurnKeepsCountsUntilItsProcessEnds) {
  s_.Joins("b", {.counts_arena = true});
  Grows(1, 20);
  s_.HangsUp("a");
  EXPECT_EQ(Counted(), 0u) << "its kernels may write there: " << s_.Story();
  After(absl::Hours(1));
  EXPECT_EQ(Free(), 80u) << s_.Story();
  s_.Dies("a");
  EXPECT_EQ(Free(), 100u) << s_.Story();
}

// Its driver takes its time over what a killed process had: who needs room meanwhile is not told no.
TEST_F(ArenaTest, WhatAKilledJobHadMappedIsWaitedForAsAllMemoryOfTheDead) {
  IsKilled(60);
  const absl::Time died = s_.now();
  for (; s_.now() < died + 2 * kArenaDropLimit; After(absl::Milliseconds(100))) {
    s_.NeedsRoom("b", 50, /*restoring=*/false, /*device_free=*/40);
    After(absl::Milliseconds(100));
    ASSERT_TRUE(s_.Told<wire::Room>("b")) << s_.Story();
    ASSERT_TRUE(s_.Told<wire::Room>("b")->ok) << s_.Story();
  }
  After(kDeadMemoryLimit);
  s_.NeedsRoom("b", 50, /*restoring=*/false, /*device_free=*/40);
  EXPECT_FALSE(s_.Told<wire::Room>("b")->ok) << s_.Story();
}

// By the ledger nothing more comes: 10 s would be lost, and charged to b as its turn.
TEST_F(ArenaTest, ADeadJobsArenaIsNotWaitedForWhereItWouldNotBeEnough) {
  IsKilled(60);
  s_.NeedsRoom("b", 101, /*restoring=*/false, /*device_free=*/100);
  ASSERT_TRUE(s_.Told<wire::Room>("b")) << s_.Story();
  EXPECT_FALSE(s_.Told<wire::Room>("b")->ok) << s_.Story();
}

// Nobody could tell b of them: it would not be told of later ones either.
TEST_F(ArenaTest, WhatItsMakerHasForgottenIsNeitherCountedNorWaitedFor) {
  s_.Joins("b", {.counts_arena = true});
  Grows(1, 20, /*bare=*/true);
  s_.GivesUp("a");
  s_.Joins("a", {.counts_arena = true, .rejoin = true, .id = s_.IdOf("a")});
  EXPECT_EQ(Counted(), 0u) << s_.Story();
  EXPECT_EQ(Free(), 80u) << "it has yet to hear that it is to unmap them: " << s_.Story();
  After(kArenaDropLimit);
  EXPECT_EQ(Free(), 100u) << s_.Story();
  s_.Asks("a");
  Grows(21, 1);
  ASSERT_EQ(s_.TimesTold<wire::ArenaAdd>("b"), 1) << s_.Story();
  EXPECT_EQ(s_.Told<wire::ArenaAdd>("b")->chunk, 21u);
}

TEST_F(ArenaTest, WhatIsLeftInALaneThatItsMakerDoesNotComeBackToIsNotCounted) {
  s_.Joins("b", {.counts_arena = true});
  Grows(1, 20, /*bare=*/true);
  s_.GivesUp("a");
  s_.Joins(
      "a",
      {.counts_arena = true, .rejoin = true, .id = s_.IdOf("a"), .lane_lock = "/run/test/lane-gpu0-1.lock"});
  ASSERT_EQ(s_.JobOf("a").lane, 1) << s_.Story();
  EXPECT_EQ(Counted(), 0u) << s_.Story();
  After(kArenaDropLimit);
  EXPECT_EQ(Free(), 100u) << s_.Story();
}

// It tells them anew, and they are not free meanwhile.
TEST_F(ArenaTest, AHoldersChunksCountAgainWhenItHasJoinedAgain) {
  s_.Joins("b", {.counts_arena = true});
  Grows(1, 20, /*bare=*/true);
  s_.Joins("a", {.counts_arena = true,
                 .rejoin = true,
                 .id = s_.IdOf("a"),
                 .holds_turn = true,
                 .turn = s_.JobOf("a").turn});
  ASSERT_TRUE(s_.Holds("a")) << s_.Story();
  EXPECT_LE(Free(), 80u) << s_.Story();
  Grows(1, 20, /*bare=*/true);
  After(kArenaDropLimit);
  EXPECT_EQ(Free(), 80u) << s_.Story();
}

TEST_F(ArenaTest, TheArenasSizeIsThatOfItsChunksHoweverLargeTheySay) {
  Grows(1, 3);
  const Device& device = s_.core().state().devices.at("gpu0");
  EXPECT_EQ(s_.core().Arena(device), 3u);
  s_.Says("a", wire::ArenaGrew{.chunk = 9, .size = ~Bytes{0}});
  EXPECT_EQ(s_.core().Arena(device), ~Bytes{0});
  s_.Loses("a", 9);
  EXPECT_EQ(s_.core().Arena(device), 3u);
}

}  // namespace
}  // namespace hocket::coordinator
