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

// What a program does after an allocation of so many bytes.
struct Piece {
  Bytes size = 0;
  nanoseconds work{0};
};
using Pieces = std::vector<Piece>;

// A program and a device that never runs dry, in numbers. The device passes a mark only when the program has
// to wait for it: that is as far ahead as one can be.
class Scene : public ::testing::Test {
 protected:
  Scene() { queued_work.SetLimit(kLimit); }

  void Allocate(Piece piece) {
    if (queued_work.Allocates(piece.size, nullptr)) {
      ++marks;
      queued_work.Marked(/*device_waited=*/false);
      ahead.push_back(nanoseconds{0});
    }
    while (queued_work.passed() < queued_work.MustPass()) Pass();
    (ahead.empty() ? before_oldest : ahead.back()) += piece.work;
    most = std::max(most, Ahead());
    longest_run = std::max(longest_run, ahead.size());
  }
  // The device passes the oldest mark.
  void Pass() {
    queued_work.Passed(before_oldest);
    before_oldest = ahead.front();
    ahead.pop_front();
  }
  void Step(const Pieces& pieces) {
    queued_work.BeginStep();
    marks = 0;
    most = nanoseconds{0};
    for (const Piece& piece : pieces) Allocate(piece);
  }
  // Queued behind the newest mark that was passed.
  nanoseconds Ahead() const {
    nanoseconds sum = before_oldest;
    for (const nanoseconds work : ahead) sum += work;
    return sum;
  }

  QueuedWork queued_work;
  std::deque<nanoseconds> ahead;  // behind each mark that was not passed
  nanoseconds before_oldest{0};   // behind the newest that was
  nanoseconds most{0};            // Ahead(), in this step
  std::size_t longest_run = 0;    // marks not passed
  int marks = 0;                  // of this step
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

TEST_F(Scene, ABigPieceHasNothingOfTheSmallOnesInFrontOfIt) {
  Pieces pieces = Alike(100, 5us);
  pieces[60].work = 3ms;
  Step(pieces);
  Step(pieces);
  EXPECT_EQ(most, 3ms) << "alone it is more than the limit";
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
  EXPECT_EQ(most, 1ms);
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
    EXPECT_TRUE(queued_work.Allocates(512, nullptr));
    queued_work.Marked(device_waited);
    queued_work.Passed(elapsed);
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

TEST_F(LearningTest, WithoutItsMarksNothingIsLearnedAndNobodyIsHeldUp) {
  After(0us, true);
  After(10us, true);
  queued_work.BeginStep();
  ASSERT_TRUE(queued_work.Allocates(512, nullptr));
  queued_work.Marked(true);
  queued_work.Forget();
  EXPECT_EQ(queued_work.MustPass(), 0u);
  EXPECT_EQ(After(1s, false), 10us) << "the first mark has none before it";
}

}  // namespace
}  // namespace hocket
