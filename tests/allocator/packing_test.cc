#include "allocator/packing.h"

#include <gtest/gtest.h>

#include <array>
#include <random>

namespace hocket {
namespace {

bool AtTheSameTime(const Lifetime& a, const Lifetime& b) { return a.begin < b.end && b.begin < a.end; }

void ExpectNoOverlap(const std::vector<Lifetime>& blocks, const std::vector<Extent>& taken,
                     const Packing& packing) {
  const auto overlap = [](Bytes a, Bytes a_size, Bytes b, Bytes b_size) {
    return a < b + b_size && b < a + a_size;
  };
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const Bytes at = packing.offsets[i];
    EXPECT_LE(at + blocks[i].size, packing.footprint);
    for (const Extent& extent : taken) {
      EXPECT_FALSE(overlap(at, blocks[i].size, extent.offset, extent.size)) << "block " << i << " is taken";
    }
    for (std::size_t j = 0; j < i; ++j) {
      if (!AtTheSameTime(blocks[i], blocks[j])) continue;
      EXPECT_FALSE(overlap(at, blocks[i].size, packing.offsets[j], blocks[j].size)) << i << " and " << j;
    }
  }
}

TEST(PackingTest, NothingNeedsNothing) { EXPECT_EQ(Pack({}).footprint, 0u); }

TEST(PackingTest, BlocksThatFollowEachOtherShareAPlace) {
  const std::vector<Lifetime> blocks = {{1_MiB, 0, 5}, {1_MiB, 5, 9}, {1_MiB, 9, 10}};
  EXPECT_EQ(Pack(blocks).footprint, 1_MiB);
}

TEST(PackingTest, ALargeBlockThatComesLateStillLiesLow) {
  // In the order of time the small ones would lie where the large one needs its place.
  const std::vector<Lifetime> blocks = {{1_MiB, 0, 4}, {1_MiB, 1, 9}, {2_MiB, 5, 9}};
  EXPECT_EQ(Pack(blocks).footprint, 3_MiB);
}

TEST(PackingTest, WhatIsTakenIsLeftAlone) {
  const std::vector<Lifetime> blocks = {{2_MiB, 0, 3}, {1_MiB, 0, 3}};
  const std::vector<Extent> taken = {{1_MiB, 1_MiB}};
  const Packing packing = Pack(blocks, taken);
  ExpectNoOverlap(blocks, taken, packing);
  EXPECT_EQ(packing.offsets[1], 0u) << "the hole is used";
  EXPECT_EQ(packing.footprint, 4_MiB);
}

TEST(PackingTest, RandomLivesNeverOverlap) {
  std::mt19937 random(7);
  for (int round = 0; round < 20; ++round) {
    std::vector<Lifetime> blocks;
    for (int i = 0; i < 200; ++i) {
      const auto begin = static_cast<std::uint32_t>(random() % 300);
      const Bytes size = random() % 3 == 0 ? 512 * (1 + random() % 8) : 512 * (1 + random() % 40'000);
      blocks.push_back({size, begin, begin + 1 + static_cast<std::uint32_t>(random() % 60)});
    }
    const std::vector<Extent> taken = {{512 * (random() % 1000), 1_MiB}, {20_MiB, 3_MiB}};
    const Packing packing = Pack(blocks, taken);
    ExpectNoOverlap(blocks, taken, packing);
    EXPECT_GE(packing.footprint, LivePeak(blocks));
  }
}

TEST(PackingTest, TheLivePeakCountsWhatIsAliveAtOnce) {
  const std::vector<Lifetime> blocks = {{1_MiB, 0, 5}, {2_MiB, 4, 9}, {4_MiB, 9, 10}};
  EXPECT_EQ(LivePeak(blocks), 4_MiB);
}

// --- lodgers --------------------------------------------------------------------------------------------

// 8 MiB of others, who are away from 10 to 20.
const Room kRoom = {.taken = {{0, 8_MiB, 0, 10}, {0, 8_MiB, 20, kForEver}}, .size = 8_MiB};

TEST(ChooseLodgersTest, WhoIsThereAtThePeakLodgesWhereOthersAreAway) {
  const std::vector<Lifetime> blocks = {{16_MiB, 0, 30}, {6_MiB, 12, 18}, {4_MiB, 11, 19}};
  const std::vector<Lodger> lodgers = ChooseLodgers(blocks, {kRoom});
  ASSERT_EQ(lodgers.size(), 1u) << "the largest that fits, and no other beside it";
  EXPECT_EQ(lodgers[0].block, 1u);
  EXPECT_EQ(lodgers[0].places, std::vector<Bytes>{0});
}

TEST(ChooseLodgersTest, NobodyLodgesWhereTheOwnerComesTooEarlyOrLeavesTooLate) {
  EXPECT_TRUE(ChooseLodgers({{{6_MiB, 9, 18}}}, {kRoom}).empty());
  EXPECT_TRUE(ChooseLodgers({{{6_MiB, 12, 21}}}, {kRoom}).empty());
  EXPECT_EQ(ChooseLodgers({{{6_MiB, 10, 20}}}, {kRoom}).size(), 1u);
}

TEST(ChooseLodgersTest, ALodgerHasAPlaceInEveryRoom) {
  const Room narrow = {.taken = {{0, 4_MiB, 0, kForEver}}, .size = 8_MiB};
  EXPECT_TRUE(ChooseLodgers({{{6_MiB, 12, 18}}}, {kRoom, narrow}).empty());
  const std::vector<Lodger> lodgers = ChooseLodgers({{{4_MiB, 12, 18}}}, {kRoom, narrow});
  ASSERT_EQ(lodgers.size(), 1u);
  EXPECT_EQ(lodgers[0].places, (std::vector<Bytes>{0, 4_MiB}));
}

TEST(ChooseLodgersTest, WhatIsHardlyLessIsNotWorthIt) {
  const std::vector<Lifetime> blocks = {{4096_MiB, 0, 30}, {6_MiB, 12, 18}};
  EXPECT_TRUE(ChooseLodgers(blocks, {kRoom}).empty());
}

TEST(ChooseLodgersTest, LodgersOfRandomLivesOverlapNobodyAndLowerThePeak) {
  std::mt19937 random(11);
  std::size_t lodged = 0;
  for (int round = 0; round < 20; ++round) {
    std::vector<Lifetime> blocks;
    for (int i = 0; i < 150; ++i) {
      const auto begin = static_cast<std::uint32_t>(random() % 300);
      blocks.push_back(
          {512 * (1 + random() % 40'000), begin, begin + 1 + static_cast<std::uint32_t>(random() % 60)});
    }
    std::array<Room, 2> rooms;
    for (Room& room : rooms) {
      for (Bytes place = 0; place < 60_MiB; place += 2_MiB) {
        const auto left = static_cast<std::uint32_t>(random() % 200);
        room.taken.push_back({place, 2_MiB, 0, left});
        room.taken.push_back({place, 2_MiB, left + static_cast<std::uint32_t>(random() % 200), kForEver});
      }
      room.size = 60_MiB;
    }
    const std::vector<Lodger> lodgers = ChooseLodgers(blocks, rooms);
    std::vector<bool> lodges(blocks.size());
    for (const Lodger& lodger : lodgers) lodges[lodger.block] = true;
    std::vector<Lifetime> rest;
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      if (!lodges[i]) rest.push_back(blocks[i]);
    }
    EXPECT_LE(LivePeak(rest), LivePeak(blocks) - (lodgers.empty() ? 0 : 1));
    lodged += lodgers.size();
    for (std::size_t r = 0; r < rooms.size(); ++r) {
      std::vector<Stay> all = rooms[r].taken;
      for (const Lodger& lodger : lodgers) {
        const Lifetime& block = blocks[lodger.block];
        EXPECT_LE(lodger.places[r] + block.size, rooms[r].size);
        for (const Stay& stay : all) {
          const bool beside =
              stay.place >= lodger.places[r] + block.size || lodger.places[r] >= stay.place + stay.size;
          EXPECT_TRUE(beside || stay.begin >= block.end || block.begin >= stay.end);
        }
        all.push_back({lodger.places[r], block.size, block.begin, block.end});
      }
    }
  }
  EXPECT_GT(lodged, 20u);
}

}  // namespace
}  // namespace hocket
