// A holder's pauses are for those whose memory is on the device (coordinator/core/pauses.cc).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/coordinator/script.h"

namespace hocket::coordinator {
namespace {

using absl::Milliseconds;
using absl::Seconds;
using testing::HasSubstr;

constexpr absl::Duration kCost = Milliseconds(20);          // of a's bytes
constexpr absl::Duration kPause = Milliseconds(30);         // of a, too short to move them there and back
constexpr absl::Duration kQuantum = Milliseconds(20 * 49);  // 20 ms * (1 / 0.02 - 1)

// Each has had three turns for which bytes were moved, and pauses after them.
void HavePaid(Script& s, std::initializer_list<const char*> jobs) {
  for (const char* job : jobs) {
    for (int i = 0; i < 3; ++i) {
      s.Asks(job);
      s.GivesUp(job, {.ready = kCost, .restored = 50});
      s.Passes(kPause);
    }
  }
}

// Asked to give its turn up now, or in its next pause, however short.
bool IsAsked(const Script& s, const std::string& job, int before) {
  return s.TimesTold<wire::Yield>(job) > before && s.Told<wire::Yield>(job)->idle_ns == 0;
}

// `job` has the turn, and bytes were moved for it: it keeps it for a quantum, and no longer, when `moved`
// asks.
void KeepsForAQuantum(Script& s, const std::string& job) {
  const int before = s.TimesTold<wire::Yield>(job);
  s.Asks("moved", {.need = 60, .spilled = 60});
  s.Passes(kQuantum / 2);
  EXPECT_FALSE(IsAsked(s, job, before)) << s.Story();
  s.Passes(kQuantum);
  EXPECT_TRUE(IsAsked(s, job, before)) << s.Story();
}

// `a` pauses between its steps, and bytes were moved for each of its turns; `there` has all its memory on the
// device, `moved` has it on the host. `a` has the turn, and the two others have asked for it, `moved` first.
struct PausesTest : testing::Test {
  PausesTest() {
    s.Joins("a", {.heeds_idle = true});
    s.Joins("there");
    s.Joins("moved");
    s.Asks("moved");
    s.GivesUp("moved");
    HavePaid(s, {"there", "a"});
    s.Asks("a");
    began = s.now();
    s.Asks("moved", {.need = 60, .spilled = 60});
    s.Asks("there");
  }

  void GivesUpForAPause() { s.GivesUp("a", {.ready = kCost, .restored = 50}); }

  Script s{"fifo"};
  absl::Time began;
};

TEST_F(PausesTest, AreForWhoseMemoryIsThereThoughAnotherAskedFirst) {
  EXPECT_TRUE(s.Told<wire::Yield>("a")) << s.Story();
  GivesUpForAPause();
  EXPECT_TRUE(s.Holds("there")) << s.Story();
}

TEST_F(PausesTest, NobodyForWhomBytesWouldMoveHasTheDeviceMeanwhile) {
  GivesUpForAPause();
  s.GivesUp("there");
  EXPECT_FALSE(s.Holds("moved")) << s.Story();
  EXPECT_THAT(s.Why("moved"), HasSubstr("kept free for a, whose memory was moved there"));
  s.Asks("a");
  EXPECT_TRUE(s.Holds("a")) << s.Story();
  EXPECT_THAT(s.Why("moved"), HasSubstr("memory was moved for a and stays for at most"));
}

TEST_F(PausesTest, AStayIsAsLongAsTheTurnWouldHaveBeen) {
  while (s.now() < began + kQuantum - kPause) {
    GivesUpForAPause();
    s.GivesUp("there");
    s.Passes(kPause);
    ASSERT_FALSE(s.Holds("moved")) << s.Story();
    s.Asks("there");
    s.Asks("a");
    if (s.Holds("there")) s.GivesUp("there");
    ASSERT_TRUE(s.Holds("a")) << s.Story();
  }
  s.Passes(kPause);
  s.GivesUp("a");
  EXPECT_TRUE(s.Holds("moved")) << s.Story();
}

TEST_F(PausesTest, NoStayFollowsFromAnother) {
  for (int i = 0; i < 20; ++i) {  // pauses of both are known
    GivesUpForAPause();
    s.GivesUp("there", {.ready = kCost, .restored = 50});
    s.Passes(kPause);
    s.Asks("a");
    s.Asks("there");
  }
  GivesUpForAPause();
  ASSERT_TRUE(s.Holds("there")) << s.Story();
  s.Passes(2 * kCost + Milliseconds(1));  // the stay of `a` is over, and not the quantum of `there`
  s.Asks("a");
  s.GivesUp("there", {.ready = kCost, .restored = 50});
  EXPECT_TRUE(s.Holds("moved")) << s.Story();
}

// Between two epochs it paused for a second: that is not to hide that it pauses after each step.
TEST(StayTest, WhosePausesDifferLendsThemToo) {
  Script s("fifo");
  s.Joins("a");
  s.Joins("there");
  s.Joins("moved");
  s.Asks("moved");
  s.GivesUp("moved");
  HavePaid(s, {"there", "a"});
  s.Passes(Seconds(1));
  s.Asks("a");
  ASSERT_EQ(s.JobOf("a").gap.Lower(), absl::ZeroDuration()) << "or this tests nothing";
  s.Asks("there");
  s.GivesUp("a", {.ready = kCost, .restored = 50});
  s.Passes(kPause);
  s.Asks("a");
  if (s.Holds("there")) s.GivesUp("there");
  ASSERT_TRUE(s.Holds("a")) << s.Story();
  const int before = s.TimesTold<wire::Yield>("a");
  s.Asks("there");
  s.Passes(Milliseconds(10));
  EXPECT_TRUE(IsAsked(s, "a", before)) << s.Story();
}

// Whoever does not pause himself kept the device for as long as moving his own bytes would have paid for.
TEST(StayTest, WhoHasTheDeviceInItGivesItBackAfterTheStepThoughHeDoesNotPause) {
  Script s("fifo");
  s.Joins("a");
  s.Joins("there");
  s.Joins("moved");
  s.Asks("moved");
  s.GivesUp("moved");
  for (int i = 0; i < 3; ++i) {
    s.Asks("there");
    s.GivesUp("there", {.ready = kCost, .restored = 50});
  }
  HavePaid(s, {"a"});
  s.Asks("a");
  s.Asks("moved", {.need = 60, .spilled = 60});
  s.Asks("there");
  s.GivesUp("a", {.ready = kCost, .restored = 50});
  ASSERT_TRUE(s.Holds("there")) << s.Story();
  s.Passes(kPause);
  EXPECT_FALSE(s.Told<wire::Yield>("there") && s.Told<wire::Yield>("there")->now) << "nobody can have it";
  s.Asks("a");
  s.Passes(Milliseconds(1));
  ASSERT_TRUE(s.Told<wire::Yield>("there")) << s.Story();
  EXPECT_TRUE(s.Told<wire::Yield>("there")->now) << s.Story();
}

TEST_F(PausesTest, AStayEndsWhereItsJobIsAwayForAsLongAsItsBytesTakeThereAndBack) {
  GivesUpForAPause();
  s.GivesUp("there");
  s.Passes(2 * kCost - Milliseconds(1));
  EXPECT_FALSE(s.Holds("moved")) << s.Story();
  s.Passes(Milliseconds(2));
  EXPECT_TRUE(s.Holds("moved")) << s.Story();
}

TEST_F(PausesTest, AStayEndsWithItsJob) {
  GivesUpForAPause();
  s.GivesUp("there");
  s.Dies("a");
  EXPECT_TRUE(s.Holds("moved")) << s.Story();
}

TEST_F(PausesTest, AStayEndsWhereItsJobIsPaused) {
  GivesUpForAPause();
  s.GivesUp("there");
  s.Pauses("a");
  EXPECT_TRUE(s.Holds("moved")) << s.Story();
}

// A checkpoint is written, the data comes from a slow disk: nobody knows how long it will be.
struct LongPausesTest : testing::Test {
  // `a` has the turn, and bytes were moved for it; those of `moved`, who waits, are on the host.
  void Begins(bool heeds_idle) {
    s.Joins("a", {.heeds_idle = heeds_idle});
    s.Joins("moved");
    HavePaid(s, {"moved", "a"});
    s.Asks("a");
    before = s.TimesTold<wire::Yield>("a");
    s.Asks("moved", {.need = 60, .spilled = 60});
  }

  Script s{"fifo"};
  int before = 0;
};

TEST_F(LongPausesTest, TheTurnLastsThroughShortOnesAndIsGivenUpInOneLongerThanTheBytesTake) {
  Begins(/*heeds_idle=*/true);
  s.Passes(Milliseconds(100));
  ASSERT_EQ(s.TimesTold<wire::Yield>("a"), before + 1) << s.Story();
  EXPECT_FALSE(s.Told<wire::Yield>("a")->now);
  EXPECT_EQ(s.Told<wire::Yield>("a")->idle_ns, static_cast<std::uint64_t>(ToInt64Nanoseconds(2 * kCost)));
  EXPECT_THAT(s.Why("moved"), HasSubstr("(or until it has not used it for 40ms)"));
  s.Passes(kQuantum);
  EXPECT_EQ(s.Told<wire::Yield>("a")->idle_ns, 0u) << "now in any, and after a step" << s.Story();
  EXPECT_TRUE(s.Told<wire::Yield>("a")->now);
}

TEST_F(LongPausesTest, WhoDoesNotKnowOfThemIsNotAsked) {
  Begins(/*heeds_idle=*/false);
  s.Passes(Milliseconds(100));
  EXPECT_EQ(s.TimesTold<wire::Yield>("a"), before) << s.Story();
}

TEST_F(LongPausesTest, AfterOneTheOthersHaveTheDevice) {
  Begins(/*heeds_idle=*/true);
  s.Passes(Milliseconds(100));
  ASSERT_TRUE(s.Holds("a") && !s.Holds("moved")) << s.Story();
  s.GivesUp("a", {.ready = kCost, .restored = 50, .idle = 2 * kCost});
  EXPECT_TRUE(s.Holds("moved")) << s.Story();
}

// Or it would give the turn up in each of its usual ones, and bytes would move for each step.
TEST_F(LongPausesTest, SuchAPauseSaysNothingOfTheUsualOnes) {
  Begins(/*heeds_idle=*/true);
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(s.Holds("a")) << s.Story();
    s.Passes(Milliseconds(100));
    ASSERT_GT(s.Told<wire::Yield>("a")->idle_ns, 0u) << "not in a usual pause" << s.Story();
    s.GivesUp("a", {.steps = 4, .ready = kCost, .restored = 50, .idle = 2 * kCost});
    s.Passes(Seconds(1));
    s.GivesUp("moved", {.ready = kCost, .restored = 60});
    s.Asks("a");
    s.Asks("moved", {.need = 60, .spilled = 60});
  }
}

// Who pauses that long after each step gives the turn up at once, as soon as that is known.
TEST_F(LongPausesTest, UnlessItIsAUsualOne) {
  Begins(/*heeds_idle=*/true);
  for (int i = 0; i < 20; ++i) {
    s.Passes(Milliseconds(100));
    s.GivesUp("a", {.ready = kCost, .restored = 50, .idle = 2 * kCost});
    s.Passes(Seconds(1));
    s.GivesUp("moved", {.ready = kCost, .restored = 60});
    s.Asks("a");
    s.Asks("moved", {.need = 60, .spilled = 60});
  }
  s.Passes(Milliseconds(100));
  EXPECT_EQ(s.Told<wire::Yield>("a")->idle_ns, 0u) << s.Story();
}

// --- what a turn costs ------------------------------------------------------------------------------

TEST_F(PausesTest, WhatIsHadInAnothersPausesSaysNothingOfTurnsOutsideOfThem) {
  for (int i = 0; i < 20; ++i) {
    GivesUpForAPause();
    s.GivesUp("there");
    s.Passes(kPause);
    s.Asks("a");
    s.Asks("there");
  }
  s.Dies("a");
  ASSERT_TRUE(s.Holds("moved")) << s.Story();
  s.GivesUp("moved");
  ASSERT_TRUE(s.Holds("there")) << s.Story();
  KeepsForAQuantum(s, "there");
}

TEST_F(LongPausesTest, ACostThatIsNewIsBelievedAtOnce) {
  s.Joins("a", {.heeds_idle = true});
  s.Joins("moved");
  s.Asks("moved");
  s.GivesUp("moved");
  for (int i = 0; i < 5; ++i) {  // it has the device for itself
    s.Asks("a");
    s.GivesUp("a");
  }
  s.Asks("a");
  s.GivesUp("a", {.ready = kCost, .restored = 50});
  s.Asks("a");
  KeepsForAQuantum(s, "a");
}

// `a` has the turn, and `moved` is asked to spill for it.
struct NewMemoryTest : testing::Test {
  static constexpr Bytes kBytes = 63'000'000'000;  // a fast link's, in a second

  NewMemoryTest() {
    s.Joins("a", {.persistent = kBytes});
    s.Joins("moved", {.persistent = kBytes});
    s.Asks("moved");
    s.GivesUp("moved", {.movable = true});
    s.Asks("a");
    s.NeedsRoom("a", kBytes);
  }
  absl::Duration CostOfTurn(absl::Duration ready) {
    s.GivesUp("a", {.ready = ready});
    return *s.JobOf("a").switch_cost;
  }
  double LinkRate() { return s.core().state().devices.begin()->second.link.bytes_per_s(); }

  Script s{"fifo", 2 * kBytes};
};

TEST_F(NewMemoryTest, TakingItIsNoCostOfATurn) {
  s.Passes(Seconds(21));
  s.SpillsIntoNewMemory("moved", kBytes, Seconds(18));
  EXPECT_EQ(LinkRate(), 0) << "it was idle";
  EXPECT_EQ(CostOfTurn(Seconds(21)), Seconds(3));
}

TEST_F(NewMemoryTest, WhereItTakesLittleTheSpillSaysTheLinksRate) {
  s.Passes(Seconds(10));
  s.SpillsIntoNewMemory("moved", kBytes, Seconds(1));
  EXPECT_NEAR(LinkRate(), 6.3e9, 1);
  EXPECT_EQ(CostOfTurn(Seconds(10)), Seconds(9));
}

// All of them moved while memory was taken for those that followed; and nobody is believed that he took it
// for longer than he had.
TEST_F(NewMemoryTest, ATurnCostsWhatAFastLinkTakesForItsBytes) {
  s.Passes(Seconds(5));
  s.SpillsIntoNewMemory("moved", kBytes, absl::Hours(1));
  EXPECT_EQ(CostOfTurn(Seconds(5)), Seconds(1));
}

// Of somebody who does not say that he has taken and pinned host memory for its bytes.
TEST_F(LongPausesTest, AFirstCostGivesWayToOneThatIsMuchLess) {
  s.Joins("a");
  s.Joins("moved");
  s.Asks("moved");
  s.GivesUp("moved");
  for (absl::Duration cost : {20 * kCost, kCost}) {
    s.Asks("a");
    s.GivesUp("a", {.ready = cost, .restored = 50});
  }
  s.Asks("a");
  KeepsForAQuantum(s, "a");
}

TEST_F(LongPausesTest, MuchMoreThanTheLinkTakesAtItsBestIsNoUsualCost) {
  s.Joins("a", {.persistent = 50});
  s.Joins("moved", {.persistent = 50});
  s.Asks("moved");
  s.GivesUp("moved", {.movable = true});
  s.Asks("a");
  s.NeedsRoom("a", 50);
  s.Passes(kCost);
  s.Spills("moved", 50);  // 50 bytes in 20 ms
  s.GivesUp("a", {.ready = 50 * kCost, .restored = 50});
  EXPECT_EQ(*s.JobOf("a").switch_cost, 2 * 2 * kCost) << "50 bytes out and 50 in, at half of that";
}

// --- who is spilled where jobs pause ------------------------------------------------------------------

// `a` has the turn of a full device and lacks room, `near` and `far` can be moved, and `far` would have its
// turn after `near`: it has had more of the device. Both pause for `pause` between two steps.
struct WhoIsSpilledTest : testing::Test {
  void Fills(absl::Duration pause, Bytes spilled = 0) {
    s.Joins("a");
    s.Joins("near", {.persistent = 50 - spilled, .spilled = spilled});
    s.Joins("far", {.persistent = 50});
    for (const char* job : {"near", "far", "a"}) {
      for (int i = 0; i < 4; ++i) {
        s.Asks(job);
        s.Passes(job[0] == 'f' ? Seconds(2) : Seconds(1));
        s.GivesUp(job);
        s.Passes(pause);
      }
    }
  }

  Script s{"fair"};
};

TEST_F(WhoIsSpilledTest, WhoIsInAUsualPauseGoesByItsTurn) {
  Fills(Seconds(2));
  s.Asks("far");
  s.Passes(Milliseconds(10));
  s.GivesUp("far");
  s.Asks("near");
  s.GivesUp("near");
  s.StandsAtDoors("near");
  s.StandsAtDoors("far");
  s.Asks("a");
  s.Asks("far");
  s.NeedsRoom("a", 10);
  EXPECT_EQ(s.TimesTold<wire::Spill>("far"), 1) << s.Story();
  EXPECT_EQ(s.TimesTold<wire::Spill>("near"), 0) << s.Story();
}

TEST_F(WhoIsSpilledTest, OneThatIsAwayForLongerIsFirst) {
  Fills(Milliseconds(20));
  s.StandsAtDoors("near");
  s.StandsAtDoors("far");
  s.Passes(Seconds(5));
  s.Asks("a");
  s.Asks("far");
  s.NeedsRoom("a", 10);
  EXPECT_EQ(s.TimesTold<wire::Spill>("near"), 1) << s.Story();
  EXPECT_EQ(s.TimesTold<wire::Spill>("far"), 0) << s.Story();
}

// Of whom nothing was taken may have the pauses of `a`.
TEST_F(WhoIsSpilledTest, WhoHasSpilledAlreadyGivesTheRestFirst) {
  Fills(Milliseconds(20), /*spilled=*/20);
  s.Asks("a");
  s.Asks("near", {.need = 20});
  s.StandsAtDoors("near");
  s.Asks("far");
  s.StandsAtDoors("far");
  s.NeedsRoom("a", 25);
  EXPECT_EQ(s.TimesTold<wire::Spill>("near"), 1) << s.Story();
  EXPECT_EQ(s.TimesTold<wire::Spill>("far"), 0) << s.Story();
}

TEST_F(WhoIsSpilledTest, WhoGivesSomeAlreadyGivesTheRestThen) {
  Fills(Milliseconds(20));
  s.Asks("a");
  s.Asks("near");
  s.Asks("far");
  s.StandsAtDoors("near");
  s.StandsAtDoors("far");
  s.Says("a", wire::LacksHeadroom{10});
  ASSERT_EQ(s.Told<wire::Spill>("far")->bytes, 10u) << s.Story();
  s.NeedsRoom("a", 30);
  EXPECT_EQ(s.TimesTold<wire::Spill>("near"), 0) << s.Story();
  s.Spills("far", 10);
  EXPECT_EQ(s.TimesTold<wire::Spill>("near"), 0) << s.Story();
  EXPECT_EQ(s.TimesTold<wire::Spill>("far"), 2) << s.Story();
  s.Spills("far", s.Told<wire::Spill>("far")->bytes);
  EXPECT_TRUE(s.Told<wire::Room>("a")->ok) << s.Story();
}

// Steps of 50 ms and pauses of 200, and two of three fit: with the pauses unused the device would work for a
// fifth of the time.
TEST(PausesSceneTest, ThreeThatLoadDataShareADeviceOnWhichTwoFit) {
  for (const char* policy : {"fair", "fifo", "round-robin", "priority"}) {
    Script s(policy);
    for (const char* job : {"a", "b", "c"}) {
      s.Joins(job, {.persistent = job[0] == 'c' ? 0 : 40ull,
                    .spilled = job[0] == 'c' ? 40ull : 0,
                    .step = Milliseconds(50),
                    .gap = Milliseconds(200),
                    .spill_time = Milliseconds(150),
                    .restore_time = Milliseconds(150)});
      s.Lives(job);
    }
    s.RunsFor(Seconds(120));
    absl::Duration worked;
    std::map<std::string, std::uint64_t> steps;
    for (const TurnEnded& turn : s.turns()) {
      worked += Milliseconds(50) * static_cast<std::int64_t>(turn.steps);
      steps[turn.name] += turn.steps;
    }
    EXPECT_GT(worked, Seconds(120) * 0.3) << policy;
    for (const char* job : {"a", "b", "c"}) EXPECT_GT(steps[job], 100u) << policy << " " << job;
  }
}

}  // namespace
}  // namespace hocket::coordinator
