// Gangs of which a rank finds no room: they wait as one, and nobody waits for ever.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <numeric>
#include <random>

#include "tests/coordinator/script.h"

namespace hocket::coordinator {
namespace {

using absl::Milliseconds;
using absl::Seconds;
using testing::AnyOf;
using testing::HasSubstr;

// A gang of a rank on each of two devices, alive.
void Comes(Script& s, const std::string& gang, Part on_first, Part on_second) {
  on_first.meets = on_second.meets = true;
  on_first.device = "gpu0";
  on_second.device = "gpu1";
  s.Joins(gang + "0", on_first);
  s.Joins(gang + "1", on_second);
  s.FormsGang(gang, {gang + "0", gang + "1"});
  s.Lives(gang + "0");
  s.Lives(gang + "1");
}

bool IsOver(const Script& s, const std::string& name) {
  return s.HasFinished(name) || s.WasRefused(name) || s.HasFailed(name);
}

// A single job on the first device trains; the gang's first rank lacks room beside it.
Script AGangThatLacksRoomOnTheFirstDevice() {
  Script s("fifo", 100);
  s.Joins("single", {.persistent = 60, .host = 10, .total_steps = 200, .spill_time = Milliseconds(1)});
  s.Joins("beside", {.device = "gpu1", .total_steps = 2000});
  s.Lives("single");
  s.Lives("beside");
  s.RunsFor(Milliseconds(50));
  Comes(s, "g", {.host = 10, .grows = 70, .total_steps = 50}, {.host = 10, .grows = 20, .total_steps = 50});
  s.RunsFor(Milliseconds(200));
  return s;
}

TEST(GangRoomTest, AGangOfWhichARankFindsNoRoomWaitsAndKeepsNoDeviceFromOthers) {
  Script s = AGangThatLacksRoomOnTheFirstDevice();
  EXPECT_TRUE(s.JobOf("g0").held_out) << s.Story();
  EXPECT_EQ(s.Holder("gpu0"), "single");
  EXPECT_EQ(s.Holder("gpu1"), "beside") << "g1 lacks nothing, and is set aside or waits\n" << s.Story();
  const int turns = s.Turns("single"), beside = s.Turns("beside");
  s.RunsFor(Milliseconds(500));
  EXPECT_EQ(s.Turns("single"), turns) << "it keeps its turn: nobody asks who could use it\n" << s.Story();
  EXPECT_EQ(s.Turns("beside"), beside) << s.Story();
}

TEST(GangRoomTest, ItGoesOnWhenTheOtherEnds) {
  Script s = AGangThatLacksRoomOnTheFirstDevice();
  s.RunsFor(Seconds(60));
  for (const char* job : {"single", "g0", "g1"}) EXPECT_TRUE(s.HasFinished(job)) << job << s.Story();
  EXPECT_GE(s.Finished("g0"), s.Finished("single"));
}

TEST(GangRoomTest, ItGoesOnWhenTheOtherIsKilled) {
  Script s = AGangThatLacksRoomOnTheFirstDevice();
  s.Dies("single");
  s.RunsFor(Seconds(3));
  EXPECT_TRUE(s.HasFinished("g0") && s.HasFinished("g1")) << s.Story();
}

TEST(GangRoomTest, ExplainShowsTheArithmeticOfTheRankThatLacks) {
  Script s = AGangThatLacksRoomOnTheFirstDevice();
  EXPECT_THAT(s.Why("g0"), HasSubstr("it needs 70 B, 40 B are free")) << s.Story();
  EXPECT_THAT(s.Why("g0"), HasSubstr("single holds 60 B, of which 10 B fit into its host memory"));
  EXPECT_THAT(s.Why("g1"),
              AnyOf(HasSubstr("its gang gets no turn while g0 lacks room on gpu0: it needs 70 B"),
                    HasSubstr("has given its turn up in, for want of room (g0)")));
}

// The rank that waits is killed, and its fellow fails with it: nobody waits for either.
TEST(GangRoomTest, ARankThatIsKilledWhileItsGangWaitsLeavesNothingHeld) {
  for (const char* killed : {"g0", "g1"}) {
    Script s = AGangThatLacksRoomOnTheFirstDevice();
    s.Dies(killed);
    s.RunsFor(Seconds(30));
    EXPECT_TRUE(s.HasFinished("single") && s.HasFinished("beside")) << killed << s.Story();
    EXPECT_TRUE(s.core().state().gangs.empty()) << s.Story();
  }
}

// Ranks that share a device: what r0 grew into r1 would lack, for ever.
TEST(GangRoomTest, AFellowsBytesComeBackBeforeOneGrows) {
  Script s("fifo", 100);
  s.Joins("x", {.persistent = 40, .host = 10});
  s.Joins("r0", {.persistent = 30});
  s.Joins("r1", {.persistent = 20, .spilled = 10});
  s.FormsGang("g", {"r0", "r1"});
  s.Asks("r0");
  s.Asks("r1", {.need = 10});
  s.Asks("x", {.movable = true});
  ASSERT_EQ(s.Holder(), "r0, r1") << s.Story();
  s.NeedsRoom("r0", 15, /*restoring=*/false, /*device_free=*/10);
  s.Passes(absl::Milliseconds(500));
  EXPECT_FALSE(s.Told<wire::Room>("r0")) << "that may change: " << s.Story();
  s.Passes(absl::Seconds(1));
  ASSERT_TRUE(s.Told<wire::Room>("r0")) << s.Story();
  EXPECT_THAT(s.Told<wire::Room>("r0")->reason, HasSubstr("its fellow r1 20 B and 10 B that come back first"))
      << s.Story();
  s.NeedsRoom("r0", 10, /*restoring=*/false, /*device_free=*/10);
  s.Spills("x", 10);
  EXPECT_TRUE(s.Told<wire::Room>("r0")->ok) << "there is enough for both: " << s.Story();
}

TEST(GangRoomTest, ARankThatIsStoppedWhileItsGangWaitsGoesOnWithIt) {
  for (const char* stopped : {"g0", "g1"}) {
    Script s = AGangThatLacksRoomOnTheFirstDevice();
    s.Stops(stopped);
    s.RunsFor(Seconds(10));
    EXPECT_TRUE(s.HasFinished("single")) << s.Story();
    s.GoesOn(stopped);
    s.RunsFor(Seconds(60));
    for (const char* job : {"beside", "g0", "g1"})
      EXPECT_TRUE(s.HasFinished(job)) << stopped << job << s.Story();
  }
}

TEST(GangRoomTest, ALateRankFindsItsGangWaitingAndGoesOnWithIt) {
  Script s("fifo", 100);
  s.Joins("single", {.persistent = 60, .host = 10, .total_steps = 200});
  s.Lives("single");
  s.Joins("g0", {.host = 10, .grows = 70, .total_steps = 20, .meets = true});
  s.Joins("g1", {.device = "gpu1", .host = 10, .grows = 70, .total_steps = 20, .meets = true});
  s.FormsGang("g", {"g0", "g1"});
  s.RunsFor(Milliseconds(30));
  s.Lives("g0");
  s.RunsFor(Milliseconds(500));
  ASSERT_TRUE(s.JobOf("g0").held_out) << s.Story();
  s.Lives("g1");
  EXPECT_EQ(s.Holder("gpu1"), "") << "its gang waits\n" << s.Story();
  EXPECT_THAT(s.Why("g1"), HasSubstr("its gang gets no turn while g0 lacks room"));
  s.RunsFor(Seconds(60));
  EXPECT_TRUE(s.HasFinished("g0") && s.HasFinished("g1")) << s.Story();
}

TEST(GangRoomTest, WhatCanNeverBeIsToldNoWithTheArithmetic) {
  Script s("fifo", 100);
  s.Joins("single", {.persistent = 60, .host = 10, .total_steps = 100});
  s.Lives("single");
  s.RunsFor(Milliseconds(50));
  Comes(s, "g", {.grows = 170, .total_steps = 10}, {.grows = 10, .total_steps = 10});
  s.RunsFor(Seconds(20));
  EXPECT_TRUE(s.WasRefused("g0")) << s.Story();
  EXPECT_THAT(s.Told<wire::Room>("g0")->reason, HasSubstr("cannot make room for 170 B"));
  EXPECT_TRUE(s.HasFailed("g1"));
  EXPECT_TRUE(s.HasFinished("single"));
}

// A step in which one rank needs more while the other waits for it in its step.
TEST(GangRoomTest, AFellowInTheMidstOfItsStepIsSetAsideUntilThereIsRoom) {
  Script s("fifo", 100);
  s.Joins("single", {.persistent = 60, .host = 10, .total_steps = 100});
  s.Joins("beside", {.device = "gpu1", .total_steps = 2000});
  Comes(s, "g", {.persistent = 10, .host = 0, .grows = 50, .grows_after = 3, .total_steps = 20},
        {.persistent = 30, .host = 0, .total_steps = 20});
  s.RunsFor(Milliseconds(45));
  s.Lives("single");
  s.Lives("beside");
  s.RunsFor(Milliseconds(400));
  ASSERT_TRUE(s.IsAlive("g0")) << s.Story();
  EXPECT_TRUE(s.JobOf("g0").held_out) << s.Story();
  EXPECT_TRUE(s.JobOf("g1").set_aside) << s.Story();
  EXPECT_EQ(s.Holder("gpu0") + "+" + s.Holder("gpu1"), "single+beside") << s.Story();
  s.RunsFor(Seconds(60));
  for (const char* job : {"single", "beside", "g0", "g1"})
    EXPECT_TRUE(s.HasFinished(job)) << job << s.Story();
}

// Ranks that build their model stand in collectives, and each time that one's fellow asked for the turn the
// holder, who found no room beside the rank's bytes, kept it for the second in which chunks may be unmapped.
// 10 B are free, which others have yet to unmap; `single` has the turn of one device beside a rank that
// waits.
Script SingleHolds() {
  Script s("fair", 100);
  s.Joins("single", {.persistent = 70});
  s.Joins("g0", {.persistent = 20});
  s.Joins("g1", {.device = "gpu1"});
  s.FormsGang("g", {"g0", "g1"});
  s.Asks("g0");
  s.Grows("g0", 1, 10);
  s.Asks("single");
  s.Loses("g0", 1);
  s.GivesUp("g0", {.steps = 0});
  s.Asks("g1");
  return s;
}

TEST(GangRoomTest, WhoFindsNoRoomBesideARankStandsAsideForItsFellowThoughChunksAreBeingUnmapped) {
  Script s = SingleHolds();
  ASSERT_EQ(s.Holder("gpu0"), "single") << s.Story();
  s.NeedsRoom("single", 10);
  for (int tries = 1; tries <= 5;
       ++tries) {  // others' agents have some time to unmap what has left the arena
    s.Passes(Milliseconds(20));
    ASSERT_TRUE(s.Told<wire::Room>("single").has_value()) << s.Story();
    EXPECT_FALSE(s.Told<wire::Room>("single")->step_aside) << s.Story();
    s.NeedsRoom("single", 10);
  }
  s.Passes(Milliseconds(20));
  EXPECT_EQ(s.TimesTold<wire::Room>("single"), 6) << s.Story();
  EXPECT_TRUE(s.Told<wire::Room>("single")->step_aside) << s.Story();
  s.GivesUp("single", {.steps = 0, .stood_aside = true});
  EXPECT_EQ(s.Holder("gpu1"), "g1") << s.Story();
}

TEST(GangRoomTest, WhereTheseWouldNotBeEnoughItStandsAsideAsWell) {
  Script s = SingleHolds();
  ASSERT_EQ(s.Holder("gpu0"), "single") << s.Story();
  s.NeedsRoom("single", 20);
  s.Passes(Milliseconds(120));  // as long as with chunks that would be
  ASSERT_EQ(s.TimesTold<wire::Room>("single"), 1) << s.Story();
  EXPECT_TRUE(s.Told<wire::Room>("single")->step_aside) << s.Story();
  s.GivesUp("single", {.steps = 0, .stood_aside = true});
  EXPECT_EQ(s.Holder("gpu1"), "g1") << s.Story();
}

TEST(GangRoomTest, ANewGangWhoseNeedIsKnownWaitsBeforeItTakesAnything) {
  Script s("fifo", 100);
  s.Joins("single", {.persistent = 60, .host = 10});
  s.Asks("single");
  s.GivesUp("single", {.movable = true});
  s.Joins("g0", {.known = KnownNeed{.persistent = 40, .transient = 20, .host = 10, .runs = 2}});
  s.Joins("g1", {.device = "gpu1", .known = KnownNeed{.persistent = 40, .runs = 2}});
  s.FormsGang("g", {"g0", "g1"});
  s.Asks("g1");
  EXPECT_TRUE(s.JobOf("g1").held_out) << "its fellow would find no room\n" << s.Story();
  EXPECT_THAT(s.Why("g1"), HasSubstr("its gang gets no turn while g0 lacks room on gpu0: it needs 60 B"));
  s.Asks("g0");
  EXPECT_EQ(s.Holder("gpu0") + s.Holder("gpu1"), "") << s.Story();
  s.Dies("single");
  EXPECT_EQ(s.Holder("gpu0"), "g0") << s.Story();
  EXPECT_EQ(s.Holder("gpu1"), "g1") << s.Story();
}

// A rank that lacks nothing is no reason for a newcomer to wait.
TEST(GangRoomTest, NobodyWaitsForAGangOnADeviceWhereItLacksNothing) {
  Script s("fifo", 100);
  s.Joins("single", {.persistent = 60, .host = 10});
  s.Asks("single");
  s.GivesUp("single", {.movable = true});
  s.Joins("g0", {.known = KnownNeed{.persistent = 60, .runs = 2}});
  s.Joins("g1", {.device = "gpu1", .known = KnownNeed{.persistent = 40, .runs = 2}});
  s.FormsGang("g", {"g0", "g1"});
  s.Asks("g0");
  s.Asks("g1");
  ASSERT_TRUE(s.JobOf("g1").held_out) << s.Story();
  s.Joins("new here", {.host = 0});
  s.Joins("new there", {.device = "gpu1", .host = 0});
  s.Asks("new here", {.movable = true});
  s.Asks("new there", {.movable = true});
  EXPECT_EQ(s.Holder("gpu0"), "") << s.Story();
  EXPECT_EQ(s.Holder("gpu1"), "new there") << s.Story();
}

// a lacks on the first device what b holds there, and b on the second what a holds: each has begun, neither
// can be moved. The daemon hung here.
TEST(GangTest, OfTwoGangsThatLackADeviceOneRunsAtATime) {
  for (const bool a_first : {true, false}) {
    for (const auto& [host, grows_after] :
         {std::pair<Bytes, std::uint64_t>{0, 0}, {10, 0}, {100, 0}, {0, 3}, {100, 3}}) {
      Script s("fifo", 100);
      const Part holds{.persistent = 60, .host = host, .total_steps = 20, .spill_time = Milliseconds(1)};
      Part lacks = holds;
      lacks.persistent = 10;
      lacks.grows = 50;
      lacks.grows_after = grows_after;
      const auto a = [&] { Comes(s, "a", lacks, holds); };
      const auto b = [&] { Comes(s, "b", holds, lacks); };
      a_first ? a() : b();
      a_first ? b() : a();
      for (int i = 0; i < 300; ++i) {
        s.RunsFor(Milliseconds(100));
        const std::string first = s.Holder("gpu0"), second = s.Holder("gpu1");
        EXPECT_TRUE(first.empty() || second.empty() || first[0] == second[0])
            << first << " beside " << second;
      }
      int finished = 0;
      for (const char* rank : {"a0", "a1", "b0", "b1"}) {
        EXPECT_TRUE(IsOver(s, rank)) << rank << " waits for ever: " << s.Why(rank) << s.Story();
        finished += s.HasFinished(rank);
      }
      EXPECT_EQ(finished, host == 100 ? 4 : 2) << "host memory " << host << s.Story();
      if (HasFailure()) return;
    }
  }
}

// Their turns are over on both devices at once, and whichever device is looked at first, the other gang fits
// there.
TEST(GangTest, ASingleJobGetsTurnsBesideTwoGangsThatTakeTurns) {
  for (const char* policy : {"fifo", "round-robin", "fair"}) {
    for (const char* device : {"gpu0", "gpu1"}) {
      Script s(policy, 100);
      Comes(s, "a", {.total_steps = 100'000}, {.total_steps = 100'000});
      Comes(s, "b", {.total_steps = 100'000}, {.total_steps = 100'000});
      s.Joins("single", {.device = device, .total_steps = 100'000});
      s.Lives("single");
      s.RunsFor(Seconds(4));
      EXPECT_GT(s.Turns("single"), 2) << policy << device << s.Why("single");
      EXPECT_GT(s.Turns("a0"), 4) << policy << device;
      EXPECT_GT(s.Turns("b1"), 4) << policy << device;
      if (HasFailure()) return;
    }
  }
}

// Whoever they are and in whatever order they come: each ends its steps, is told no, or fails with a fellow.
// More, once, than are tried each time: HOCKET_TEST_SEEDS=9000 coordinator_core_test
TEST(GangRoomTest, NobodyWaitsForEver) {
#if defined(__SANITIZE_ADDRESS__)  // twenty times as slow
  constexpr size_t kSeeds = 30;
#else
  constexpr size_t kSeeds = 150;
#endif
  const char* const more = std::getenv("HOCKET_TEST_SEEDS");
  std::vector<unsigned> seeds(more == nullptr ? kSeeds : static_cast<size_t>(std::atoi(more)));
  std::iota(seeds.begin(), seeds.end(), 0u);
  for (unsigned once_hung :
       {200u, 208u, 548u, 979u, 1176u, 1798u, 1838u, 2410u, 3292u, 3335u, 3559u, 5494u, 7710u})
    seeds.push_back(once_hung);
  size_t finished = 0, refused = 0, waited = 0;
  for (unsigned seed : seeds) {
    std::mt19937 random(seed);
    const auto any = [&](int least, int most) {
      return static_cast<int>(std::uniform_int_distribution(least, most)(random));
    };
    const auto bytes = [&](int least, int most) { return static_cast<Bytes>(any(least, most)); };
    const char* const policies[] = {"fifo", "round-robin", "fair", "srtf"};
    Script s(policies[seed % 4], 100);
    const int devices = any(2, 3);
    std::vector<std::string> names;
    std::map<std::string, Bytes> used;
    const auto joins = [&](const std::string& name, int device, bool meets, std::uint64_t steps) {
      const std::string key = "gpu" + std::to_string(device);
      const Bytes resident = bytes(0, 1) * bytes(0, static_cast<int>(100 - used[key]) / 2);
      used[key] += resident;
      s.Joins(name, {.device = key,
                     .persistent = resident,
                     .host = bytes(0, 1) * bytes(0, 60),
                     .grows = bytes(0, static_cast<int>(100 - resident)),
                     .grows_after = static_cast<std::uint64_t>(any(0, 1) * any(0, 5)),
                     .step = Milliseconds(any(1, 30)),
                     .gap = Milliseconds(any(0, 1) * any(0, 20)),
                     .total_steps = steps,
                     .spill_time = Milliseconds(any(0, 3)),
                     .restore_time = Milliseconds(any(0, 3)),
                     .ahead = any(0, 1) == 1,
                     .meets = meets});
      names.push_back(name);
    };
    for (int g = any(1, 3); g > 0; --g) {
      std::vector<std::string> ranks;
      const auto steps = static_cast<std::uint64_t>(any(1, 40));
      std::vector<int> on(static_cast<size_t>(devices));
      std::iota(on.begin(), on.end(), 0);
      std::shuffle(on.begin(), on.end(), random);
      for (int r = any(2, devices); r > 0; --r) {
        ranks.push_back(std::string(1, static_cast<char>('a' + g)) + std::to_string(r));
        joins(ranks.back(), on[static_cast<size_t>(r - 1)], /*meets=*/true, steps);
      }
      s.FormsGang("g" + std::to_string(g), ranks);
    }
    for (int i = any(0, 2); i > 0; --i)
      joins("single" + std::to_string(i), any(0, devices - 1), /*meets=*/false,
            static_cast<std::uint64_t>(any(1, 60)));
    std::shuffle(names.begin(), names.end(), random);
    for (const std::string& name : names) {
      s.Lives(name);
      s.RunsFor(Milliseconds(any(0, 200)));
      if (any(0, 14) == 0 && s.IsAlive(name)) s.Dies(name);
      if (const std::string& other = names[static_cast<size_t>(any(0, static_cast<int>(names.size()) - 1))];
          any(0, 9) == 0 && s.IsAlive(other)) {
        s.Stops(other);
        s.RunsFor(Seconds(any(0, 3)));
        s.GoesOn(other);
      }
    }
    s.RunsFor(absl::Minutes(20));
    for (const std::string& name : names) {
      EXPECT_FALSE(s.core().state().jobs.contains(s.IdOf(name)))
          << name << " in seed " << seed << ": " << s.Why(name) << "\n"
          << s.Story();
      finished += s.HasFinished(name);
      refused += s.WasRefused(name);
    }
    for (const std::string& said : s.sentences())
      waited += said.find("waits until others") != std::string::npos;
    if (HasFailure()) return;
  }
  EXPECT_GT(finished, 2 * seeds.size());
  EXPECT_GT(refused, seeds.size() / 8);
  EXPECT_GT(waited, seeds.size() / 2);
}

}  // namespace
}  // namespace hocket::coordinator
