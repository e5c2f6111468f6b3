#include "allocator/headroom.h"

#include <gtest/gtest.h>

#include <optional>

namespace hocket {
namespace {

// A device of which so much is free.
struct Device {
  std::optional<Bytes> free;
  mutable int asked = 0;
  std::optional<Bytes> operator()() const {
    ++asked;
    return free;
  }
};

TEST(HeadroomTest, WhatLacksIsAskedForAndAgainWhenAnEighthMoreLacks) {
  Headroom headroom(100);
  Device device{.free = 70};
  EXPECT_EQ(headroom.LackingAfter(10, device), 30u);
  device.free = 59;
  EXPECT_EQ(headroom.LackingAfter(10, device), 0u) << "it was asked for";
  device.free = 58;
  EXPECT_EQ(headroom.LackingAfter(1, device), 42u);
  headroom.Renew();
  EXPECT_EQ(headroom.LackingAfter(0, device), 42u);
}

TEST(HeadroomTest, WhatOthersHaveGivenAndWasTakenTooIsAskedForAgain) {
  Headroom headroom(100);
  Device device{.free = 20};
  EXPECT_EQ(headroom.LackingAfter(10, device), 80u);
  device.free = 100;  // they have given 80
  EXPECT_EQ(headroom.LackingAfter(0, device), 0u);
  device.free = 60;
  EXPECT_EQ(headroom.LackingAfter(40, device), 40u);
}

TEST(HeadroomTest, OfALittleThatLacksAtLeastAnEighthIsAskedFor) {
  Headroom headroom(100);
  Device device{.free = 89};
  EXPECT_EQ(headroom.LackingAfter(10, device), 0u);
  device.free = 88;
  EXPECT_EQ(headroom.LackingAfter(1, device), 12u);
}

TEST(HeadroomTest, WhatLacksNowDoesNotDependOnWhatWasAskedFor) {
  Headroom headroom(100);
  Device device{.free = 70};
  EXPECT_EQ(headroom.LackingAfter(10, device), 30u);
  EXPECT_EQ(headroom.LackingWhere(70), 30u);
  EXPECT_EQ(headroom.LackingWhere(89), 0u) << "less than an eighth";
  EXPECT_EQ(headroom.LackingWhere(1000), 0u);
  EXPECT_EQ(Headroom(0).LackingWhere(0), 0u);
}

TEST(HeadroomTest, NothingLacksWhereAsMuchIsFree) {
  Headroom headroom(100);
  Device device{.free = 100};
  EXPECT_EQ(headroom.LackingAfter(10, device), 0u);
  device.free = 50;
  EXPECT_EQ(headroom.LackingAfter(1, device), 50u);
}

TEST(HeadroomTest, TheDriverIsAskedWhenHalfOfWhatWasFreeAboveItHasBeenTaken) {
  Headroom headroom(100);
  Device device{.free = 1100};
  EXPECT_EQ(headroom.LackingAfter(10, device), 0u);
  EXPECT_EQ(device.asked, 1);
  for (int i = 0; i < 49; ++i) EXPECT_EQ(headroom.LackingAfter(10, device), 0u);
  EXPECT_EQ(device.asked, 1);
  device.free = 40;  // others have taken more meanwhile
  EXPECT_EQ(headroom.LackingAfter(10, device), 60u);
  EXPECT_EQ(device.asked, 2);
}

TEST(HeadroomTest, OnlyWhatIsAboveItCanBeSpared) {
  Headroom headroom(100);
  Device device{.free = 119};
  EXPECT_FALSE(headroom.CanSpare(20, device));
  device.free = 120;
  EXPECT_TRUE(headroom.CanSpare(20, device));
  device.free = 100;
  EXPECT_FALSE(headroom.CanSpare(20, device));
  device.free = 10;
  EXPECT_FALSE(headroom.CanSpare(20, device));
}

TEST(HeadroomTest, OfNoneNothingLacksAndTheDriverIsNotAsked) {
  Headroom headroom(0);
  Device device{.free = 0};
  EXPECT_EQ(headroom.LackingAfter(10, device), 0u);
  EXPECT_TRUE(headroom.CanSpare(10, device));
  EXPECT_EQ(device.asked, 0);
}

TEST(HeadroomTest, ADriverThatDoesNotSayIsNoReasonToStop) {
  Headroom headroom(100);
  Device device;
  EXPECT_EQ(headroom.LackingAfter(10, device), 0u);
  EXPECT_TRUE(headroom.CanSpare(10, device));
}

}  // namespace
}  // namespace hocket
