#include "allocator/free_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace hocket {
namespace {

constexpr DevicePtr kBase = 0x7f00'0000'0000;
constexpr Bytes kUnit = kBlockUnit;

class FreeListTest : public testing::Test {
 protected:
  FreeListTest() {
    list_.Insert(4 * kUnit, kBase + 100 * kUnit);
    list_.Insert(4 * kUnit, kBase + 50 * kUnit);
    list_.Insert(9 * kUnit, kBase);
  }
  FreeList list_{kBase};
};

TEST_F(FreeListTest, BestFitIsTheSmallestAndOfEqualOnesTheLowest) {
  EXPECT_EQ(list_.BestFit(3 * kUnit)->address, kBase + 50 * kUnit);
  EXPECT_EQ(list_.BestFit(4 * kUnit)->size, 4 * kUnit);
  EXPECT_EQ(list_.BestFit(5 * kUnit)->address, kBase);
  EXPECT_FALSE(list_.BestFit(10 * kUnit));
}

TEST_F(FreeListTest, LowestFitIsTheLowestThatIsLargeEnough) {
  EXPECT_EQ(list_.LowestFit(kUnit)->address, kBase);
  list_.Erase(9 * kUnit, kBase);
  EXPECT_EQ(list_.LowestFit(kUnit)->address, kBase + 50 * kUnit);
  EXPECT_FALSE(list_.LowestFit(5 * kUnit));
}

TEST_F(FreeListTest, KeepsWhatIsPutInUntilItIsTakenOut) {
  EXPECT_TRUE(list_.Contains(4 * kUnit, kBase + 50 * kUnit));
  EXPECT_FALSE(list_.Contains(4 * kUnit, kBase));
  EXPECT_EQ(list_.Largest(), 9 * kUnit);
  EXPECT_EQ(list_.size(), 3u);
  std::vector<DevicePtr> addresses;
  list_.ForEach([&](const FreeList::Entry& free) { addresses.push_back(free.address); });
  EXPECT_THAT(addresses, testing::ElementsAre(kBase + 50 * kUnit, kBase + 100 * kUnit, kBase));
  list_.Erase(4 * kUnit, kBase + 50 * kUnit);
  EXPECT_FALSE(list_.Contains(4 * kUnit, kBase + 50 * kUnit));
  EXPECT_EQ(list_.BestFit(kUnit)->address, kBase + 100 * kUnit);
}

// Size and address do not run into each other.
TEST(FreeListLimitsTest, ARegionMayHaveTwoTebibytes) {
  constexpr Bytes kMost = FreeList::kMostAddresses;
  FreeList list(kBase);
  list.Insert(kUnit, kBase + kMost - kUnit);
  list.Insert(kMost - kUnit, kBase);
  EXPECT_EQ(list.BestFit(kUnit)->address, kBase + kMost - kUnit);
  EXPECT_EQ(list.BestFit(kUnit)->size, kUnit);
  EXPECT_EQ(list.BestFit(2 * kUnit)->address, kBase);
  EXPECT_EQ(list.Largest(), kMost - kUnit);
}

// As by torch.empty(1 << 50), which a program may catch and live on.
TEST_F(FreeListTest, WhatNoRegionHoldsFitsNowhere) {
  for (const Bytes size : {FreeList::kMostAddresses, Bytes{1} << 50, ~Bytes{0} / kUnit * kUnit}) {
    EXPECT_FALSE(list_.BestFit(size)) << size;
    EXPECT_FALSE(list_.LowestFit(size)) << size;
  }
}

}  // namespace
}  // namespace hocket
