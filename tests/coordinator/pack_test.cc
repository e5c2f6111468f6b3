// Policy pack: who runs together, how that is tried and measured, and when it ends.
#include "coordinator/policies/pack.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "coordinator/core/limits.h"
#include "tests/coordinator/script.h"

namespace hocket::coordinator {
namespace {

using absl::Milliseconds;
using absl::Minutes;
using absl::Seconds;
using testing::HasSubstr;

class PackTest : public testing::Test {
 protected:
  void Lives(const std::string& name, Part part) {
    s.Joins(name, part);
    s.Lives(name);
  }
  std::uint64_t Steps(std::initializer_list<const char*> names, absl::Duration time) {
    std::uint64_t before = 0, after = 0;
    for (const char* name : names) before += s.Steps(name);
    s.RunsFor(time);
    for (const char* name : names) after += s.Steps(name);
    return after - before;
  }
  // So many seconds of steps have they done, by what a step takes.
  double Done(std::initializer_list<std::pair<const char*, int>> steps_ms) const {
    double seconds = 0;
    for (auto [name, ms] : steps_ms) seconds += ms * 1e-3 * static_cast<double>(s.Steps(name));
    return seconds;
  }
  int Trials() const {  // or more, where a turn was begun together
    return static_cast<int>(std::count_if(s.turns().begin(), s.turns().end(), [](const TurnEnded& turn) {
      return turn.reason.find("beside") != std::string::npos;
    }));
  }
  Script s{"pack"};
};

TEST_F(PackTest, JobsThatUseHalfTheDeviceRunTogether) {
  Lives("a", {.duty = 0.5});
  Lives("b", {.duty = 0.5});
  s.RunsFor(Seconds(5));
  EXPECT_EQ(s.Holder(), "a, b") << s.Story();
  EXPECT_THAT(s.Why("a"), HasSubstr("runs beside b: together they do 2 times what they would in turn"));
  EXPECT_GE(Steps({"a", "b"}, Seconds(10)), 1'990u);  // 1,000 in turn
}

TEST_F(PackTest, JobsThatUseAllOfItAreTriedAndTakeTurns) {
  Lives("a", {});
  Lives("b", {});
  s.RunsFor(Seconds(5));
  EXPECT_EQ(Trials(), 1) << s.Story();
  EXPECT_EQ(s.Holder().find(','), std::string::npos) << s.Story();
  s.RunsFor(Pack::kFirstPause);  // programs change
  EXPECT_EQ(Trials(), 2) << s.Story();
  s.RunsFor(Pack::kFirstPause + Seconds(5));
  EXPECT_EQ(Trials(), 2) << s.Story();
  s.RunsFor(Pack::kFirstPause);
  EXPECT_EQ(Trials(), 3) << s.Story();
}

TEST_F(PackTest, GapsAreFilledByTurnsAsWell) {
  Lives("a", {.gap = Milliseconds(10)});
  Lives("b", {.gap = Milliseconds(10)});
  s.RunsFor(Seconds(5));
  EXPECT_EQ(s.Holder().find(','), std::string::npos) << s.Story();
}

TEST_F(PackTest, AThirdJoinsWhereThreeDoMoreThanTwo) {
  for (const char* job : {"a", "b", "c"}) Lives(job, {.duty = 0.33});
  s.RunsFor(Seconds(10));
  EXPECT_EQ(s.Holder(), "a, b, c") << s.Story();
}

TEST_F(PackTest, ATrialLastsThoughAThirdWaitsAndTheirGapsAreLong) {
  for (const char* job : {"a", "b", "c"}) Lives(job, {.duty = 0.2, .gap = Milliseconds(8)});
  s.Says("a", SetMostTogether{1});
  s.RunsFor(Seconds(2));  // the gaps are known
  s.Says("a", SetMostTogether{3});
  s.RunsFor(Seconds(10));
  EXPECT_EQ(s.Holder(), "a, b, c") << s.Story();
}

TEST_F(PackTest, AThirdTakesTurnsWithTwoWhereThreeDoNoMoreThanTwo) {
  for (const char* job : {"a", "b", "c"}) Lives(job, {.duty = 0.5});
  s.RunsFor(Seconds(20));
  const auto steps = Steps({"a", "b", "c"}, Seconds(10));
  EXPECT_GE(steps, 1'900u) << s.Story();  // 1,000 one after the other
  for (const char* job : {"a", "b", "c"}) EXPECT_GE(Steps({job}, Seconds(10)), 600u) << job << s.Story();
}

TEST_F(PackTest, NoMoreRunTogetherThanPeopleSay) {
  for (const char* job : {"a", "b", "c"}) Lives(job, {.duty = 0.3});
  s.Says("a", SetMostTogether{1});
  s.RunsFor(Seconds(10));
  EXPECT_EQ(Trials(), 0) << s.Story();
  s.Says("a", SetMostTogether{2});
  s.RunsFor(Seconds(10));
  EXPECT_GT(Trials(), 0) << s.Story();
  EXPECT_NE(s.Holder(), "a, b, c") << s.Story();
}

TEST_F(PackTest, FairPartsThem) {
  Lives("a", {.duty = 0.5});
  Lives("b", {.duty = 0.5});
  s.RunsFor(Seconds(5));
  s.Says("a", SetPolicy{"fair"});
  s.RunsFor(Seconds(1));
  EXPECT_EQ(s.Holder().find(','), std::string::npos) << s.Story();
}

// Told to stop at the same time, the two of a turn would do less.
TEST_F(PackTest, StepsOfVeryDifferentLengthsLoseLittleOfTheGain) {
  for (auto [name, ms] : {std::pair{"a", 10}, {"b", 100}, {"c", 1000}})
    Lives(name, {.step = Milliseconds(ms), .duty = 0.5});
  s.Says("a", SetMostTogether{2});
  s.RunsFor(Minutes(2));
  const double before = Done({{"a", 10}, {"b", 100}, {"c", 1000}});
  s.RunsFor(Minutes(2));
  EXPECT_GE(Done({{"a", 10}, {"b", 100}, {"c", 1000}}) - before, 1.7 * 120) << s.Story();
}

// None of them fits into another a whole number of times: those of a turn end one after the other.
TEST_F(PackTest, TurnsLastSoLongThatWaitingForTheLastOneCostsLittle) {
  for (auto [name, ms] : {std::pair{"a", 500}, {"b", 700}, {"c", 900}})
    Lives(name, {.step = Milliseconds(ms), .duty = 0.5, .gap = absl::Microseconds(100)});
  s.Says("a", SetMostTogether{2});
  s.RunsFor(Minutes(5));
  const double before = Done({{"a", 500}, {"b", 700}, {"c", 900}});
  s.RunsFor(Minutes(5));
  EXPECT_GE(Done({{"a", 500}, {"b", 700}, {"c", 900}}) - before, 1.9 * 300)
      << s.Story();  // 1.8 where a turn ends after each step
  s.Says("a", SetSwitchShare{0.5});
  const auto turns = s.turns().size();
  s.RunsFor(Minutes(1));
  EXPECT_GE(s.turns().size() - turns, 60u) << "people may have shorter ones" << s.Story();
}

TEST_F(PackTest, DeviceTimeIsDividedAmongThoseWhoRunTogether) {
  Lives("a", {.duty = 0.5});
  Lives("b", {.duty = 0.5});
  s.Joins("c", {});
  s.FormsGang("g", {"c"});  // beside nobody
  s.Lives("c");
  s.RunsFor(Seconds(120));
  const auto before = s.Steps("c");
  s.RunsFor(Seconds(50));
  EXPECT_NEAR(static_cast<double>(s.Steps("c") - before), 5000 / 3.0, 200) << s.Story();
}

// Two jobs of a user wait who have hardly run and so cannot be guests, and the third would run beside the
// other user's for ever.
TEST_F(PackTest, AGuestDoesNotSpendTheTimeOfItsUserWhileAnotherOfHisJobsIsNext) {
  s.Joins("capped", {.weight = 3, .step = Milliseconds(10)});
  s.Joins("long", {.step = Milliseconds(25)});
  s.Joins("others", {.user = 1001, .step = Milliseconds(7), .gap = Milliseconds(2)});
  s.Joins("guest", {.step = Milliseconds(4), .gap = Milliseconds(1)});
  s.Caps("capped", 0.2);
  for (const char* name : {"capped", "long", "others", "guest"}) s.Lives(name);
  s.RunsFor(Seconds(60));
  EXPECT_NEAR(s.Share("others"), 0.5, 0.05) << s.Story();
  for (const char* name : {"capped", "long", "guest"}) EXPECT_NEAR(s.Share(name), 1.0 / 6, 0.05) << name;
}

TEST_F(PackTest, WhatAStepTakesAloneIsMeasuredAnewNowAndThen) {
  Lives("a", {.duty = 0.5});
  Lives("b", {.duty = 0.5});
  s.RunsFor(Seconds(5));
  const int turns = s.Turns("a");
  s.RunsFor(kAloneGoodFor - Seconds(10));
  EXPECT_EQ(s.Turns("a"), turns) << s.Story();
  s.RunsFor(Seconds(20));
  EXPECT_GT(s.Turns("a"), turns) << s.Story();
  EXPECT_EQ(s.Holder(), "a, b") << s.Story();
}

// Two whose steps take 10 ms alone.
class PackPolicyTest : public testing::Test {
 protected:
  std::vector<JobView> Members() {
    std::vector<JobView> members;
    for (EntityId id : {1, 2}) {
      members.push_back({.id = id, .now = now});
      Estimator alone;
      for (int i = 0; i < Pack::kAlone; ++i) alone.Add(Milliseconds(10));
      members.back().alone = alone;
    }
    return members;
  }
  void Look(double total) {
    std::vector<Pace> paces;
    for (const JobView& member : Members())
      paces.push_back({.job = member, .steps = 10, .time = 2 * Milliseconds(100) / total});
    pack.Measured(paces);
  }
  absl::Time now = absl::UnixEpoch();
  Pack pack;
};

TEST_F(PackPolicyTest, WhatIsNoLongerSoIsSeen) {
  pack.Company(Members());
  for (int i = 0; i < 100; ++i) Look(1.5);
  EXPECT_TRUE(pack.Together(Members()));
  int looks = 0;
  for (; pack.Together(Members()) && looks < 100; ++looks) Look(1.0);
  EXPECT_LE(looks, 10);
}

TEST_F(PackPolicyTest, ATotalThatVariesAroundAGainIsNone) {
  pack.Company(Members());
  for (int i = 0; i < Pack::kLooks; ++i) Look(i % 2 == 0 ? 0.9 : 1.4);
  EXPECT_FALSE(pack.Together(Members()));
}

TEST_F(PackPolicyTest, PausesGrow) {
  absl::Duration pause = Pack::kFirstPause;
  for (int trial = 0; trial < 10; ++trial) {
    ASSERT_TRUE(pack.Together(Members())) << trial;
    pack.Company(Members());
    for (int i = 0; i < Pack::kLooks; ++i) Look(1.0);
    now += pause - Milliseconds(1);
    ASSERT_FALSE(pack.Together(Members())) << trial;
    now += Milliseconds(1);
    pause = std::min(2 * pause, Pack::kLongestPause);
  }
}

TEST_F(PackPolicyTest, ATrialThatIsNeverJudgedEnds) {
  for (int trial = 0; trial <= Pack::kMostTrials; ++trial) {
    ASSERT_TRUE(pack.Together(Members())) << trial;
    pack.Company(Members());
    pack.Company({Members().front()});
  }
  EXPECT_FALSE(pack.Together(Members()));
}

TEST_F(PackPolicyTest, RemembersNoMoreThanSoManySets) {
  std::vector<JobView> members = Members();
  for (EntityId id = 3; id < 3 + 2 * Pack::kMostSets; ++id) {
    members[1].id = id;
    pack.Company(members);
    now += Seconds(1);
    for (JobView& member : members) member.now = now;
  }
  EXPECT_EQ(pack.InCompany(Members()), "whether that pays is being measured");  // forgotten, or never judged
  pack.Forget(1);
}

}  // namespace
}  // namespace hocket::coordinator
