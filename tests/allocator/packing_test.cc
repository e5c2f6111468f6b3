#include "allocator/packing.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace hocket
