#include "csrc/emulator/timing/round_robin.h"

#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <vector>

namespace hocket::emulator::timing {
namespace {

constexpr Nanos kSlice = 100;

class Robin {
 public:
  explicit Robin(int shares) : logs_(shares) { robin_.end = shares; }

  void Submit(int share, Nanos work) { robin_.shares[share].submitted += work; }
  void RunUntil(Nanos until, StopAt stop = {}) { Advance(robin_, kSlice, until, stop, logs_.data()); }
  Nanos Received(int share) const { return robin_.shares[share].received; }
  Nanos At(int share, Nanos received) const {
    return ReceivedAt(robin_.shares[share], logs_[share], received);
  }
  Nanos now() const { return robin_.now; }

 private:
  RoundRobin robin_ = {};
  std::vector<ServiceLog> logs_;
};

TEST(RoundRobinTest, OneAloneGetsEverything) {
  Robin robin(3);
  robin.Submit(1, 5000);
  robin.RunUntil(5000);
  EXPECT_EQ(robin.Received(1), 5000);
}

TEST(RoundRobinTest, TwoBusyOnesGetHalfEach) {
  Robin robin(2);
  robin.Submit(0, 1'000'000);
  robin.Submit(1, 1'000'000);
  robin.RunUntil(1000 * kSlice);
  EXPECT_EQ(robin.Received(0), 500 * kSlice);
  EXPECT_EQ(robin.Received(1), 500 * kSlice);
}

TEST(RoundRobinTest, AnIdleOneIsSkipped) {
  Robin robin(3);
  robin.Submit(0, 1'000'000);
  robin.Submit(2, 1'000'000);
  robin.RunUntil(1000 * kSlice);
  EXPECT_EQ(robin.Received(0), 500 * kSlice);
  EXPECT_EQ(robin.Received(1), 0);
  EXPECT_EQ(robin.Received(2), 500 * kSlice);
}

TEST(RoundRobinTest, WhoComesWhileAnotherHasTheSliceWaitsForItsEnd) {
  Robin robin(2);
  robin.Submit(0, 10 * kSlice);
  robin.RunUntil(130);
  robin.Submit(1, kSlice);
  robin.RunUntil(250);
  EXPECT_EQ(robin.Received(0), 200);
  EXPECT_EQ(robin.Received(1), 50);
}

TEST(RoundRobinTest, ASliceEndsWithItsWork) {
  Robin robin(2);
  robin.Submit(0, 30);
  robin.Submit(1, 1000);
  robin.RunUntil(200);
  EXPECT_EQ(robin.Received(0), 30);
  EXPECT_EQ(robin.Received(1), 170);
}

TEST(RoundRobinTest, StopsExactlyWhereAsked) {
  Robin robin(2);
  robin.Submit(0, 1'000'000);
  robin.Submit(1, 1'000'000);
  robin.RunUntil(1'000'000, {.share = 0, .received = 4 * kSlice + 7});
  EXPECT_EQ(robin.Received(0), 4 * kSlice + 7);
  EXPECT_EQ(robin.At(0, 4 * kSlice + 7), robin.now());
}

TEST(RoundRobinTest, WhatTheLogForgotCountsAsReceivedWhenItsOldestEntryBegan) {
  Robin robin(2);
  robin.Submit(0, 1'000'000);
  robin.Submit(1, 1'000'000);
  for (Nanos slice = 1; slice <= 400; ++slice) robin.RunUntil(slice * kSlice);
  EXPECT_EQ(robin.At(0, 200 * kSlice), 400 * kSlice) << "the newest is exact";
  const Nanos forgotten = robin.At(0, 1);
  EXPECT_GT(forgotten, 0);
  EXPECT_EQ(forgotten, robin.At(0, 2));
}

// Random arrivals in random programs, each advanced in one go and in random small steps.
class RandomRobinTest : public testing::TestWithParam<int> {};

struct Arrival {
  Nanos at;
  int share;
  Nanos work;
};

std::vector<Arrival> RandomArrivals(std::mt19937& random, int shares) {
  std::vector<Arrival> arrivals;
  Nanos at = 0;
  for (int i = 0; i < 60; ++i) {
    at += random() % (random() % 4 == 0 ? 2000 : 120);
    arrivals.push_back({at, static_cast<int>(random() % shares), static_cast<Nanos>(random() % 700)});
  }
  return arrivals;
}

TEST_P(RandomRobinTest, AnySplitOfTimeGivesTheSameServiceAndNoneIsLost) {
  std::mt19937 random(GetParam());
  const int shares = 1 + random() % 4;
  Robin whole(shares), split(shares), ticked(shares);
  const std::vector<Arrival> arrivals = RandomArrivals(random, shares);
  Nanos work = 0, idle_until = 0;
  for (const Arrival& arrival : arrivals) {
    whole.RunUntil(arrival.at);
    while (split.now() < arrival.at)
      split.RunUntil(std::min<Nanos>(arrival.at, split.now() + 1 + random() % 150));
    while (ticked.now() < arrival.at) ticked.RunUntil(ticked.now() + 1);
    for (Robin* robin : {&whole, &split, &ticked}) robin->Submit(arrival.share, arrival.work);
    for (int share = 0; share < shares; ++share) {
      ASSERT_EQ(whole.Received(share), split.Received(share)) << "at " << arrival.at;
      ASSERT_EQ(whole.Received(share), ticked.Received(share)) << "at " << arrival.at;
    }
    idle_until = std::max(idle_until, arrival.at) + arrival.work;
    work += arrival.work;
  }
  whole.RunUntil(idle_until);
  Nanos received = 0;
  for (int share = 0; share < shares; ++share) received += whole.Received(share);
  EXPECT_EQ(received, work) << "the engine rested while work was there";
}

TEST_P(RandomRobinTest, ReceivedAtIsWhenItWasReceived) {
  std::mt19937 random(GetParam());
  const int shares = 1 + random() % 4;
  Robin whole(shares), ticked(shares);
  for (int share = 0; share < shares; ++share) {
    const Nanos work = random() % 3000;
    whole.Submit(share, work);
    ticked.Submit(share, work);
  }
  std::vector<Nanos> seen(shares);
  whole.RunUntil(random() % 5000);
  whole.RunUntil(12'000);
  while (ticked.now() < 12'000) {
    ticked.RunUntil(ticked.now() + 1);
    for (int share = 0; share < shares; ++share) {
      if (ticked.Received(share) == seen[share]) continue;
      seen[share] = ticked.Received(share);
      ASSERT_EQ(whole.At(share, seen[share]), ticked.now())
          << "share " << share << ", received " << seen[share];
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomRobinTest, testing::Range(0, 40));

}  // namespace
}  // namespace hocket::emulator::timing
