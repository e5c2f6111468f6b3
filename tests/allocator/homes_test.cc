#include "allocator/homes.h"

#include <gtest/gtest.h>

#include "allocator/plan.h"

namespace hocket {
namespace {

constexpr DevicePtr kA = 0x10000000, kB = kA + 4_MiB, kC = kB + 4_MiB;

// An activation between two gradients, which are freed at the begin of the next step.
const std::vector<StepEntry> kStep = {
    {.size = 6_MiB, .born = 0, .freed = 3}, {.size = 4_MiB, .born = 1}, {.size = 4_MiB, .born = 2}};

// Does `room` have this memory at this time for nobody?
bool IsFree(const Room& room, DevicePtr address, Bytes size, std::uint32_t time) {
  if (address + size > room.size) return false;
  for (const Stay& stay : room.taken) {
    if (address < stay.place + stay.size && stay.place < address + size && stay.begin <= time &&
        time < stay.end)
      return false;
  }
  return true;
}

TEST(HomesTest, AHomeIsEmptyUntilItsOwnerIsBornAgain) {
  const auto homes = Homes::Of(kStep, {{1, 0, {kA, kA}}, {2, 1, {kB, kB}}}, {}, {});
  ASSERT_TRUE(homes);
  for (const Room& room : homes->rooms()) {
    EXPECT_TRUE(IsFree(room, kA, 4_MiB, 0));
    EXPECT_FALSE(IsFree(room, kB, 4_MiB, 0)) << "the old one is still there";
    EXPECT_FALSE(IsFree(room, kA, 4_MiB, 1)) << "born";
    EXPECT_TRUE(IsFree(room, kB, 4_MiB, 1));
    EXPECT_FALSE(IsFree(room, kA - 512, 512, 1)) << "nobody's home";
    EXPECT_FALSE(IsFree(room, kC, 512, 1));
  }
  EXPECT_FALSE(homes->IsOdd([](DevicePtr) { return true; }));
}

TEST(HomesTest, WhatIsAlwaysEmptyBesideHomesCanBeHad) {
  const auto homes = Homes::Of(kStep, {{1, 0, {kA, kA}}}, {{kB, 2_MiB}}, {});
  ASSERT_TRUE(homes);
  EXPECT_TRUE(IsFree(homes->rooms()[0], kA + 2_MiB, 4_MiB, 0));
  EXPECT_TRUE(IsFree(homes->rooms()[0], kB, 2_MiB, 9));
}

// The old one is freed only when the new one is there.
TEST(HomesTest, WhatIsKeptUntilTheNextOneIsThereHasTwoHomesInTurn) {
  const auto homes = Homes::Of(kStep, {{1, 2, {kA, kB}}}, {}, {});
  ASSERT_TRUE(homes);
  EXPECT_TRUE(IsFree(homes->rooms()[0], kA, 4_MiB, 0)) << "in the even steps the old one lies in B";
  EXPECT_FALSE(IsFree(homes->rooms()[0], kB, 4_MiB, 0));
  EXPECT_FALSE(IsFree(homes->rooms()[1], kA, 4_MiB, 0));
  EXPECT_TRUE(IsFree(homes->rooms()[1], kB, 4_MiB, 0));
  EXPECT_FALSE(homes->IsOdd([](DevicePtr address) { return address == kB; }));
  EXPECT_TRUE(homes->IsOdd([](DevicePtr address) { return address == kA; }));
}

TEST(HomesTest, ItCannotHaveOneAlone) { EXPECT_FALSE(Homes::Of(kStep, {{1, 2, {kA, kA}}}, {}, {})); }

TEST(HomesTest, WhatWouldOverlapInTheNextStepHasTheHomesOfTheLastOneOnly) {
  // In the step after an odd one the second (freed at 2) would still lie where the first is born at 1.
  const auto homes = Homes::Of(kStep, {{1, 0, {kB, kA}}, {2, 2, {kC, kB}}}, {}, {});
  ASSERT_TRUE(homes);
  EXPECT_EQ(homes->homes()[0].address, (EvenAndOdd{kA, kA}));
  EXPECT_EQ(homes->homes()[1].address, (EvenAndOdd{kB, kB}));
}

TEST(HomesTest, AHomeThatOthersHaveTakenIsNone) {
  const auto homes = Homes::Of(kStep, {{1, 0, {kB, kA}}}, {}, {{kB + 1_MiB, 512}});
  ASSERT_TRUE(homes);
  EXPECT_EQ(homes->homes()[0].address, (EvenAndOdd{kA, kA}));
}

// --- in a plan ------------------------------------------------------------------------------------------

// b, 4 MiB, lies in c's home until c is born; a is too large for it.
const std::vector<StepEntry> kLodging = {{.size = 8_MiB, .born = 0, .freed = 6},
                                         {.size = 4_MiB, .born = 1, .freed = 3},
                                         {.size = 2_MiB, .born = 2, .freed = 5},
                                         {.size = 4_MiB, .born = 4}};

class PlanWithHomesTest : public ::testing::Test {
 protected:
  PlanWithHomesTest() {
    EXPECT_TRUE(plan.SetHomes(Homes::Of(kLodging, {{3, 0, {kA, kB}}}, {}, {})));
    Lease();
  }
  void Lease() {
    plan.PlaceAround({});
    plan.BeginLease(kC);
  }
  Plan plan{kLodging};
};

TEST_F(PlanWithHomesTest, ALodgersPlaceIsItsHostsHome) {
  EXPECT_EQ(plan.footprint(), 10_MiB);
  EXPECT_NE(plan.Next(8_MiB, nullptr).block, nullptr);
  const Plan::Answer lodger = plan.Next(4_MiB, nullptr);
  EXPECT_TRUE(lodger.known && lodger.at_home && !lodger.survives && !lodger.deviates);
  EXPECT_EQ(plan.home(), kA);
  EXPECT_NE(plan.Next(2_MiB, nullptr).block, nullptr);
  const Plan::Answer host = plan.Next(4_MiB, nullptr);
  EXPECT_TRUE(host.survives && host.at_home);
  EXPECT_EQ(plan.home(), kA);
  EXPECT_EQ(plan.deviations(), 0u);
  plan.Followed();
  plan.BeginStep();
  (void)plan.Next(8_MiB, nullptr);
  EXPECT_TRUE(plan.Next(4_MiB, nullptr).at_home);
  EXPECT_EQ(plan.home(), kA) << "the old one has gone from there";
  (void)plan.Next(2_MiB, nullptr);
  EXPECT_TRUE(plan.Next(4_MiB, nullptr).at_home);
  EXPECT_EQ(plan.home(), kB) << "the odd steps' home";
  plan.CheckInvariants();
}

TEST_F(PlanWithHomesTest, WhereHomesAreMissedStepAfterStepTheyAreForgotten) {
  for (int step = 0; step < 3; ++step) {
    EXPECT_FALSE(plan.WantsHomes());
    plan.BeginStep();
    (void)plan.Next(8_MiB, nullptr);
    (void)plan.Next(4_MiB, nullptr);
    plan.Missed();
    plan.Missed();
    EXPECT_EQ(plan.deviations(), 2u);
    (void)plan.EndLease();
    Lease();
  }
  EXPECT_TRUE(plan.WantsHomes());
  EXPECT_EQ(plan.footprint(), 14_MiB) << "all have a place in the lease again";
}

TEST_F(PlanWithHomesTest, AMissNowAndThenIsNone) {
  for (int step = 0; step < 9; ++step) {
    plan.BeginStep();
    step % 3 == 0 ? plan.Followed() : plan.Missed();
    (void)plan.EndLease();
    Lease();
    EXPECT_FALSE(plan.WantsHomes());
  }
}

TEST_F(PlanWithHomesTest, HomesAreLookedForSoManyTimes) {
  Plan other(kLodging);
  int tries = 0;
  for (; other.WantsHomes(); ++tries) EXPECT_FALSE(other.SetHomes(std::nullopt));
  EXPECT_GT(tries, 4);
  EXPECT_LT(tries, 20);
}

TEST_F(PlanWithHomesTest, HomesInWhichNobodyLodgesAreNone) {
  Plan other({{.size = 8_MiB, .born = 0, .freed = 2}, {.size = 4_MiB, .born = 1}});
  EXPECT_FALSE(other.SetHomes(Homes::Of(other.step(), {{1, 0, {kA, kA}}}, {}, {})));
  EXPECT_FALSE(other.WantsHomes());
}

}  // namespace
}  // namespace hocket
