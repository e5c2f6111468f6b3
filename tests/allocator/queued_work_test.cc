#include "allocator/queued_work.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <string>
#include <vector>

namespace hocket {
namespace {

using std::chrono::nanoseconds;
using namespace std::chrono_literals;

constexpr nanoseconds kLimit = 800us;

// What a program does after an allocation of so many bytes: it thinks, queues so much work, and thinks again.
struct Piece {
  Bytes size = 0;
  nanoseconds work{0};
  nanoseconds host{0};
  nanoseconds host_then{0};
};
using Pieces = std::vector<Piece>;

// A program and a device, in numbers. An allocation and a launch take no time of the host's, so it is as far
// ahead as it may be; what the device has passed it sees when it must wait.
class Scene : public ::testing::Test {
 protected:
  Scene() { queued_work.SetLimit(kLimit); }

  void Allocate(Piece piece) {
    if (queued_work.Allocates(piece.size, nullptr, now)) {
      ++marks;
      queued_work.Marked(/*device_waited=*/may_have_waited, now);
      placed.push_back(std::max(now, done));
      may_have_waited = false;
    }
    while (queued_work.passed() < queued_work.MustPass()) Pass();
    if (const auto until = queued_work.MustAwait()) {
      now = std::max(now, std::min(*until, placed.front()));
    }
    queued_work.GoesOn(now);
    now += piece.host;
    idle += std::max(now - done, nanoseconds{0});
    may_have_waited |= now > done;
    done = std::max(now, done) + piece.work;
    most = std::max(most, done - now);
    now += piece.host_then;
    longest_run = std::max(longest_run, placed.size());
  }
  // The device passes the oldest mark.
  void Pass() {
    now = std::max(now, placed.front());
    queued_work.Passed(placed.front() - last_passed, now);
    last_passed = placed.front();
    placed.pop_front();
  }
  void Step(const Pieces& pieces) {
    queued_work.BeginStep();
    marks = 0;
    most = idle = nanoseconds{0};
    for (const Piece& piece : pieces) Allocate(piece);
  }

  QueuedWork queued_work;
  nanoseconds now{0};              // the host's
  nanoseconds done{0};             // when the device has done what is queued
  std::deque<nanoseconds> placed;  // when the device passes each mark that was not seen to be passed
  nanoseconds last_passed{0};
  bool may_have_waited = false;  // the device, since the last mark
  nanoseconds most{0};           // queued, in this step
  nanoseconds idle{0};           // of the device, in this step
  std::size_t longest_run = 0;   // marks not passed
  int marks = 0;                 // of this step
};

Pieces Alike(int count, nanoseconds work) {
  Pieces pieces;
  for (int i = 1; i <= count; ++i) pieces.push_back({Bytes{512} * static_cast<Bytes>(i), work});
  return pieces;
}

TEST_F(Scene, TheFirstStepHasAMarkAtEachAllocationAndFewPiecesQueued) {
  Step(Alike(100, 1ms));
  EXPECT_EQ(marks, 100);
  EXPECT_LE(most, 8 * 1ms) << "what is not known is taken for an eighth of the limit";
}

TEST_F(Scene, OneStepIsEnoughToLearnFrom) {
  const Pieces pieces = Alike(400, 10us);
  Step(pieces);
  ASSERT_EQ(marks, 400);
  Step(pieces);
  EXPECT_LE(most, kLimit);
  EXPECT_LE(marks, 400 / 20 + 1) << "200 us are a quarter of the limit";
  EXPECT_GE(marks, 400 / 20 - 1);
}

TEST_F(Scene, WhatIsQueuedStaysWithinTheLimitWhateverTheWork) {
  Pieces pieces;
  for (int i = 1; i <= 300; ++i) {
    pieces.push_back({Bytes{512} * static_cast<Bytes>(i % 7 + 1), std::chrono::microseconds(i * 37 % 101)});
  }
  Step(pieces);
  for (int step = 0; step < 5; ++step) {
    Step(pieces);
    EXPECT_LE(most, kLimit) << step;
    EXPECT_GE(most, kLimit * 3 / 4) << "nor is the program held up more than it must be";
  }
}

TEST_F(Scene, ABigPieceHasLittleOfTheSmallOnesInFrontOfIt) {
  Pieces pieces = Alike(100, 5us);
  pieces[60].work = 3ms;
  pieces[60].host = 50us;
  for (int step = 0; step < 4; ++step) Step(pieces);
  EXPECT_GE(most, 3ms) << "alone it is more than the limit";
  EXPECT_LE(most, 3ms + kLimit / 8);
  EXPECT_EQ(idle, 0us);
}

TEST_F(Scene, WhatFollowsABigPieceIsQueuedWhileItRuns) {
  Pieces pieces = Alike(100, 5us);
  pieces[60].work = 3ms;
  for (int i = 61; i < 70; ++i) pieces[i].host = 60us;
  for (int step = 0; step < 4; ++step) Step(pieces);
  EXPECT_EQ(idle, 0us) << "540 us of the host's, while the limit's 800 are left of it";
  EXPECT_LE(most, 3ms + kLimit / 8);
}

TEST_F(Scene, ABigPieceRunsSinceItWasQueued) {
  Pieces pieces = Alike(100, 50us);
  pieces[60].work = 3ms;
  for (int step = 0; step < 3; ++step) Step(pieces);
  pieces[60].host = 3ms;  // this time
  Step(pieces);
  EXPECT_LE(most, 3ms + kLimit / 8);
}

TEST_F(Scene, AHostThatThinksBeforeItQueuesMuchDoesSoWhileTheDeviceHasWork) {
  Pieces pieces = Alike(400, 10us);
  pieces[200].work = 4ms;  // the longest
  pieces[300] = {.size = pieces[300].size, .work = 2ms, .host = 1500us};
  Step(pieces);
  EXPECT_GT(idle, 1ms);
  for (int step = 0; step < 12; ++step) {
    Step(pieces);
    EXPECT_LE(most, 4ms + kLimit / 8) << step;
  }
  // When it begins to think, what is queued is the limit, less what lies between two marks.
  EXPECT_LE(idle, 1500us - kLimit + kLimit / 4);
}

TEST_F(Scene, NoMoreThanTheLongestPieceIsQueuedForAHostThatThinksAfterwards) {
  Pieces pieces = Alike(400, 10us);
  pieces[200].work = 1ms;  // the longest
  pieces[300].work = 900us;
  pieces[300].host_then = 3ms;
  Step(pieces);
  Step(pieces);
  EXPECT_LE(most, 900us + kLimit) << "once, before it is known that the device has not waited for the host";
  for (int step = 0; step < 12; ++step) {
    Step(pieces);
    EXPECT_LE(most, 1ms + kLimit / 8) << step;
  }
}

TEST_F(Scene, APieceThatFillsTheLimitIsNotQueuedBehindOthers) {
  Pieces pieces = Alike(100, 5us);
  pieces[60].work = 700us;
  Step(pieces);
  Step(pieces);
  EXPECT_LE(most, kLimit);
}

TEST_F(Scene, AStepOfOtherShapesIsAsAFirstOne) {
  Step(Alike(100, 10us));
  Step(Alike(100, 10us));
  Pieces other = Alike(100, 1ms);
  for (Piece& piece : other) piece.size += 100'000;
  Step(other);
  EXPECT_EQ(marks, 100);
  EXPECT_LE(most, 8 * 1ms + kLimit) << "with what the step before has left";
  Step(other);
  EXPECT_LE(most, 2 * 1ms) << "behind one of which nothing was known when it was queued";
  Step(other);
  EXPECT_GE(most, 1ms);
  EXPECT_LE(most, 1ms + kLimit / 8);
}

TEST_F(Scene, WhatFollowsAnInsertedAllocationIsStillKnown) {
  Pieces pieces = Alike(400, 10us);
  Step(pieces);
  pieces.insert(pieces.begin() + 200, {Bytes{7777}, 10us});
  Step(pieces);
  EXPECT_LE(marks, 400 / 20 + 3);
  EXPECT_LE(most, kLimit);
}

TEST_F(Scene, AShortStepIsLearnedThoughItsMarksArePassedManyStepsLater) {
  const Pieces pieces = {{512, 1us}, {1024, 1us}};
  for (int step = 0; step < 20; ++step) Step(pieces);
  EXPECT_EQ(marks, 0) << "two microseconds need no mark";
}

TEST_F(Scene, MemoryIsBoundedHoweverLongAStepIs) {
  std::size_t most_kept = 0;
  Bytes size = 512;
  for (int step = 0; step < 3; ++step) {
    queued_work.BeginStep();
    for (int i = 0; i < 100'000; ++i) {
      Allocate({size, 1us});
      most_kept = std::max(most_kept, queued_work.kept());
    }
  }
  EXPECT_LE(most_kept, 3 * kLongestStep);
  EXPECT_LE(longest_run, 33u);
}

TEST_F(Scene, WithoutAnyWorkMarksAreStillFewAndPassed) {
  const Pieces pieces = Alike(10'000, 0us);
  Step(pieces);
  Step(pieces);
  Step(pieces);
  EXPECT_LE(marks, 10'000 / 256 + 1);
  EXPECT_GE(marks, 10'000 / 256 - 1) << "what lies between two marks is kept until they are passed";
  EXPECT_LE(longest_run, 33u);
}

// --- what the device's time between two marks says ------------------------------------------------------

// One allocation a step, each with a mark; the device passes it at once.
class LearningTest : public ::testing::Test {
 protected:
  LearningTest() { queued_work.SetLimit(1us); }
  // What is foreseen of the next step, when this one took so long.
  nanoseconds After(nanoseconds elapsed, bool device_waited) {
    queued_work.BeginStep();
    EXPECT_TRUE(queued_work.Allocates(512, nullptr, 0ns));
    queued_work.Marked(device_waited, 0ns);
    queued_work.Passed(elapsed, 0ns);
    return queued_work.Queued();
  }
  QueuedWork queued_work;
};

TEST_F(LearningTest, LessIsBelievedAtOnce) {
  After(0us, true);
  EXPECT_EQ(After(1ms, true), 1ms);
  EXPECT_EQ(After(10us, true), 10us);
}

TEST_F(LearningTest, MoreIsBelievedByHalfWhenTheDeviceCannotHaveWaited) {
  After(0us, true);
  After(10us, false);
  EXPECT_EQ(After(30us, false), 20us);
}

TEST_F(LearningTest, WhatTheDeviceHasWaitedIsNotTakenForWork) {
  After(0us, true);
  After(10us, true);
  for (int step = 0; step < 100; ++step) {
    ASSERT_EQ(After(step % 5 == 0 ? 12us : 1ms, true), step < 7 ? 10us : 12us) << step;
  }
}

TEST_F(LearningTest, NorIsTheHostsTimeWhichTheDeviceMayHaveWaited) {
  After(0us, true);
  After(10us, false);
  for (int step = 0; step < 100; ++step) {
    queued_work.GoesOn(0ns);
    queued_work.BeginStep();
    EXPECT_TRUE(queued_work.Allocates(512, nullptr, 1ms));
    queued_work.Marked(true, 1ms);
    queued_work.Passed(1005us, 1ms);
    ASSERT_EQ(queued_work.Queued(), 10us) << step;
  }
}

TEST_F(LearningTest, WithoutItsMarksNothingIsLearnedAndNobodyIsHeldUp) {
  After(0us, true);
  After(10us, true);
  queued_work.BeginStep();
  ASSERT_TRUE(queued_work.Allocates(512, nullptr, 0ns));
  queued_work.Marked(true, 0ns);
  queued_work.Forget();
  EXPECT_EQ(queued_work.MustPass(), 0u);
  EXPECT_EQ(After(1s, false), 10us) << "the first mark has none before it";
}

}  // namespace
}  // namespace hocket
