// When spilled memory is mapped at its addresses, and when it is taken away before a turn.
#include "csrc/client/mapping_times.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>

namespace hocket {
namespace {

using std::chrono::milliseconds;

// A job that waits, spilled, again and again; its agent does what is due at once, each part of it in a
// millisecond.
class Waiting {
 public:
  struct Near {
    milliseconds said_after{0}, in{0};
  };
  explicit Waiting(int parts = 10) : parts_(parts) {}

  // Since the wait began: a line for the first and the last part of each of the agent's works, "map 50..60".
  std::string For(milliseconds wait, milliseconds spilled_after = milliseconds(0),
                  std::optional<Near> near = std::nullopt) {
    const MappingTimes::Time asked = now_;
    said_.clear();
    mapped_ = 0;
    times_.Asked(asked);
    if (near && near->said_after < spilled_after) IsNear(asked, *near);
    Works(asked, asked + spilled_after);
    times_.Spilled(now_);
    if (near && near->said_after >= spilled_after) IsNear(asked, *near);
    Works(asked, asked + wait);
    times_.TurnBegan(now_, /*moved=*/true);
    return said_;
  }
  int mapped() const { return mapped_; }  // parts, when the turn came
  MappingTimes& times() { return times_; }
  MappingTimes::Time now() const { return now_; }

 private:
  void IsNear(MappingTimes::Time asked, const Near& near) {
    Works(asked, asked + near.said_after);
    times_.IsNear(now_ + near.in);
  }
  void Works(MappingTimes::Time asked, MappingTimes::Time until) {
    for (auto due = times_.Next(); due.at < until; due = times_.Next()) {
      now_ = std::max(now_, due.at);
      const bool maps = due.action == MappingTimes::Action::kMap;
      times_.Begins(due.action);
      const bool works = maps ? mapped_ < parts_ : mapped_ > 0;
      if (works) mapped_ += maps ? 1 : -1;
      if (works && (maps ? mapped_ == 1 : mapped_ == parts_ - 1)) Say(asked, maps ? "map" : "unmap", " ");
      if (works && (maps ? mapped_ == parts_ : mapped_ == 0)) Say(asked, "", "..");
      now_ += milliseconds(works ? 1 : 0);
      times_.Did(due.action, milliseconds(works ? 1 : 0), works, now_);
    }
    now_ = std::max(now_, until);
  }
  void Say(MappingTimes::Time asked, const std::string& what, const std::string& between) {
    if (!what.empty() && !said_.empty()) said_ += ", ";
    said_ += what + between + std::to_string(std::chrono::duration_cast<milliseconds>(now_ - asked).count());
  }

  const int parts_;
  MappingTimes times_{milliseconds(50)};
  MappingTimes::Time now_ = MappingTimes::Time(std::chrono::hours(1));
  int mapped_ = 0;
  std::string said_;
};

TEST(MappingTimesTest, TheFirstTimeItIsMappedUntilTheTurn) {
  Waiting job;
  EXPECT_EQ(job.For(milliseconds(400)), "map 50..59");
  EXPECT_EQ(job.mapped(), 10);
}

TEST(MappingTimesTest, ItIsTakenAwayBeforeATurnThatComesAfterAsLongAsTheLast) {
  Waiting job;
  job.For(milliseconds(400));
  EXPECT_EQ(job.For(milliseconds(400)), "map 50..59, unmap 340..349")
      << "50 ms before, and the time that it takes";
  EXPECT_EQ(job.mapped(), 0);
}

TEST(MappingTimesTest, ATurnThatComesSoonerFindsItMapped) {
  Waiting job;
  job.For(milliseconds(400));
  EXPECT_EQ(job.For(milliseconds(300)), "map 50..59");
}

TEST(MappingTimesTest, WhenTheTurnDoesNotComeItIsMappedAgainAndStaysSo) {
  Waiting job;
  job.For(milliseconds(400));
  EXPECT_EQ(job.For(milliseconds(5000)), "map 50..59, unmap 340..349, map 450..459");
  EXPECT_EQ(job.mapped(), 10);
}

TEST(MappingTimesTest, WhereTheTurnComesSoonItIsNotMappedAtAll) {
  Waiting job;
  job.For(milliseconds(140));
  EXPECT_EQ(job.For(milliseconds(140)), "");
  EXPECT_EQ(job.For(milliseconds(1000)), "map 190..199") << "unless it does not come";
}

TEST(MappingTimesTest, OfWaitsThatDifferALittleTheShortestAndTheLongestCount) {
  Waiting job;
  job.For(milliseconds(500)), job.For(milliseconds(400)), job.For(milliseconds(600));
  EXPECT_EQ(job.For(milliseconds(5000)), "map 50..59, unmap 340..349, map 650..659");
}

TEST(MappingTimesTest, AWaitUnlikeTheLastCountsNoMore) {
  Waiting job;
  job.For(milliseconds(3000)), job.For(milliseconds(400));
  EXPECT_EQ(job.For(milliseconds(5000)), "map 50..59, unmap 340..349, map 450..459");
}

TEST(MappingTimesTest, LongWaitsMayDifferByAnEighth) {
  Waiting job;
  job.For(milliseconds(80'000)), job.For(milliseconds(90'000));
  EXPECT_EQ(job.For(milliseconds(200'000)), "map 50..59, unmap 74990..74999, map 95000..95009");
  Waiting other;
  other.For(milliseconds(80'000)), other.For(milliseconds(91'000));
  EXPECT_EQ(other.For(milliseconds(85'000)), "map 50..59") << "as after the last alone: 91 s";
}

TEST(MappingTimesTest, OnlyTheLastThreeCount) {
  Waiting job;
  job.For(milliseconds(400)), job.For(milliseconds(500)), job.For(milliseconds(500)),
      job.For(milliseconds(500));
  EXPECT_EQ(job.For(milliseconds(500)), "map 50..59, unmap 440..449");
}

TEST(MappingTimesTest, WhatIsSpilledWhenTheTurnIsNearIsNotMapped) {
  Waiting job;
  job.For(milliseconds(400));
  EXPECT_EQ(job.For(milliseconds(400), /*spilled_after=*/milliseconds(360)), "");
}

TEST(MappingTimesTest, AWaitInWhichNothingWasMovedForeseesNothing) {
  Waiting job;
  job.times().Asked(job.now());
  job.times().TurnBegan(job.now() + milliseconds(10), /*moved=*/false);
  EXPECT_EQ(job.For(milliseconds(400)), "map 50..59");
}

// Waits of any length: the coordinator knows what the job cannot.
TEST(MappingTimesTest, ItIsTakenAwayWhenTheTurnIsSaidToBeNear) {
  Waiting job;
  job.For(milliseconds(400)), job.For(milliseconds(3000));
  EXPECT_EQ(job.For(milliseconds(1000), milliseconds(0), {{milliseconds(900)}}),
            "map 50..59, unmap 900..909");
  EXPECT_EQ(job.mapped(), 0);
  EXPECT_EQ(job.For(milliseconds(1000), milliseconds(0), {{milliseconds(200), milliseconds(750)}}),
            "map 50..59, unmap 890..899")
      << "50 ms before it can come, and the time that it takes";
  EXPECT_EQ(job.For(milliseconds(8000), milliseconds(0), {{milliseconds(900)}}),
            "map 50..59, unmap 900..909, map 5900..5909")
      << "it hangs, whose turn it is";
}

TEST(MappingTimesTest, WhatIsSpilledAfterTheTurnWasSaidToBeNearIsNotMapped) {
  Waiting job;
  EXPECT_EQ(job.For(milliseconds(400), milliseconds(30), {{milliseconds(20)}}), "");
}

TEST(MappingTimesTest, OfAnotherWaitThatSaysNothing) {
  Waiting job;
  job.For(milliseconds(40), milliseconds(0), {{milliseconds(30)}});
  EXPECT_EQ(job.For(milliseconds(400)), "map 90..99") << "as after a wait of 40 ms: not near for 5 s";
}

// A job that is spilled while it does not wait, and then asks.
TEST(MappingTimesTest, WhatWasMappedBeforeTheWaitIsTakenAwayWhereItIsShort) {
  MappingTimes times{milliseconds(50)};
  const MappingTimes::Time start{std::chrono::hours(1)};
  times.Asked(start);
  times.TurnBegan(start + milliseconds(5), /*moved=*/true);
  times.Spilled(start);
  times.Begins(MappingTimes::Action::kMap);
  times.Did(MappingTimes::Action::kMap, milliseconds(1), /*more=*/false, start + milliseconds(60));
  EXPECT_EQ(times.Next().at, MappingTimes::Time::max()) << "nobody waits";
  times.Asked(start + milliseconds(500));
  EXPECT_EQ(times.Next().action, MappingTimes::Action::kUnmap);
  EXPECT_LE(times.Next().at, start + milliseconds(500));
}

}  // namespace
}  // namespace hocket
