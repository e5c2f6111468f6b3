// Headroom: what should stay free on a device for what programs take beside their tensors.
#include <gtest/gtest.h>

#include "tests/coordinator/script.h"

namespace hocket::coordinator {
namespace {

using absl::Milliseconds;
using absl::Seconds;

TEST(HeadroomTest, OthersSpillForItAndTheJobGoesOn) {
  Script s = FullDevice();
  s.Says("a", wire::LacksHeadroom{20});
  EXPECT_EQ(s.Told<wire::Spill>("c")->bytes, 20u) << s.Story();
  EXPECT_EQ(s.TimesTold<wire::Room>("a"), 0);
  s.Says("a", wire::LacksHeadroom{25});
  EXPECT_EQ(s.Told<wire::Spill>("b")->bytes, 5u) << "20 are on their way";
  s.Spills("c", 20);
  s.Spills("b", 5);
  EXPECT_EQ(s.TimesTold<wire::Room>("a"), 0) << s.Story();
  s.GivesUp("a");
  EXPECT_EQ(s.Holder(), "b") << s.Story();
}

TEST(HeadroomTest, WhoSpillsAlreadyIsAskedForMoreAfterwards) {
  Script s("fifo", 100);
  s.Joins("a", {.persistent = 30});
  s.Joins("b", {.persistent = 60});
  s.Asks("a");
  s.Asks("b", {.movable = true});
  s.Says("a", wire::LacksHeadroom{10});
  s.Says("a", wire::LacksHeadroom{25});  // ten of them are on their way
  EXPECT_EQ(s.TimesTold<wire::Spill>("b"), 1) << s.Story();
  s.Spills("b", 10);
  EXPECT_EQ(s.Told<wire::Spill>("b")->bytes, 15u) << s.Story();
  s.Spills("b", 15);
  s.Passes(Seconds(5));
  EXPECT_EQ(s.TimesTold<wire::Spill>("b"), 2) << s.Story();
}

// What came back before the job looked is heard of after it: the job looks again.
TEST(HeadroomTest, WhenItWasMadeTheJobHearsOfItAndMaySayWhatLacksStill) {
  Script s = FullDevice();
  s.Says("a", wire::LacksHeadroom{20});
  s.SpillsPart("c", 15);
  EXPECT_EQ(s.TimesTold<wire::HeadroomMade>("a"), 0) << s.Story();
  s.Spills("c", 5);
  ASSERT_EQ(s.TimesTold<wire::HeadroomMade>("a"), 1) << s.Story();
  EXPECT_EQ(s.Told<wire::HeadroomMade>("a")->turn, s.JobOf("a").turn);
  s.Says("a", wire::LacksHeadroom{8});
  EXPECT_EQ(s.Told<wire::Spill>("c")->bytes, 8u) << s.Story();
  s.Spills("c", 8);
  EXPECT_EQ(s.TimesTold<wire::HeadroomMade>("a"), 2) << s.Story();
}

TEST(HeadroomTest, WhereNobodyCanBeMovedItIsLetBe) {
  Script s = FullDevice();
  s.Says("a", wire::LacksHeadroom{20});
  s.Spills("c", 0, /*movable=*/false, "its host memory is full");
  s.Spills("b", 0, /*movable=*/false, "its host memory is full");
  const int orders = s.TimesTold<wire::Spill>("b") + s.TimesTold<wire::Spill>("c");
  s.StandsAtDoors("b");
  s.Passes(Seconds(5));
  EXPECT_EQ(s.TimesTold<wire::Spill>("b") + s.TimesTold<wire::Spill>("c"), orders) << s.Story();
}

TEST(HeadroomTest, WhatComesForItServesAnAllocationThatFindsNoRoomMeanwhile) {
  Script s = FullDevice();
  s.Says("a", wire::LacksHeadroom{20});
  s.NeedsRoom("a", 15);
  EXPECT_EQ(s.TimesTold<wire::Spill>("b"), 0) << "20 are on their way: " << s.Story();
  s.Spills("c", 20);
  EXPECT_TRUE(s.Told<wire::Room>("a")->ok) << s.Story();
}

TEST(HeadroomTest, GuaranteedBytesStay) {
  Script s = FullDevice();
  s.Says("c", SetMemoryGuarantee{30});
  s.Says("b", SetMemoryGuarantee{35});
  s.Says("a", wire::LacksHeadroom{20});
  EXPECT_EQ(s.TimesTold<wire::Spill>("c"), 0) << s.Story();
  EXPECT_EQ(s.Told<wire::Spill>("b")->bytes, 5u) << s.Story();
}

TEST(HeadroomTest, OnlyWhoHasTheTurnIsHeard) {
  Script s = FullDevice();
  s.Says("b", wire::LacksHeadroom{20});
  s.Says("c", wire::LacksHeadroom{20});
  EXPECT_EQ(s.TimesTold<wire::Spill>("b") + s.TimesTold<wire::Spill>("c"), 0) << s.Story();
  EXPECT_EQ(s.Rejection(), "");
}

}  // namespace
}  // namespace hocket::coordinator
