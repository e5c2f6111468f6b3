#include "allocator/block_map.h"

#include <gtest/gtest.h>

namespace hocket {
namespace {

constexpr DevicePtr kBase = 0x10000000;
constexpr Bytes kChunk = 2_MiB;
const Stream kOne = reinterpret_cast<Stream>(0x10);
const Stream kTwo = reinterpret_cast<Stream>(0x20);

class BlockMapTest : public ::testing::Test {
 protected:
  ~BlockMapTest() override { map.CheckInvariants(); }

  DevicePtr Allocate(Bytes size, Stream stream = kOne, PoolIndex pool = 0) {
    const Block* block = map.Allocate(size, stream, pool);
    map.CheckInvariants();
    return block == nullptr ? 0 : block->address;
  }
  void Free(DevicePtr address) {
    map.Free(map.Find(address), [this](Region::Position position) { emptied.push_back(position); });
    map.CheckInvariants();
  }

  BlockMap map{kBase, kChunk, 16};
  std::vector<Region::Position> emptied;
};

TEST_F(BlockMapTest, GivesNothingWithoutMemory) { EXPECT_EQ(Allocate(512), 0u); }

TEST_F(BlockMapTest, CutsFromTheSmallestFreeBlockThatFits) {
  map.Back(0, 0, kAnyStream);
  map.Back(2, 0, kAnyStream);
  map.Back(3, 0, kAnyStream);
  EXPECT_EQ(Allocate(1_MiB), kBase);
  EXPECT_EQ(Allocate(3_MiB), kBase + 2 * kChunk) << "the block spans two chunks";
  EXPECT_EQ(Allocate(1_MiB), kBase + 1_MiB)
      << "the rest of chunk 0 and that of chunk 3 fit equally: the lower";
}

TEST_F(BlockMapTest, TakesTheAddressesItIsTold) {
  for (Region::Position position : {0, 1}) map.Back(position, 3, kAnyStream);
  const DevicePtr first = Allocate(1_MiB, kOne, 3), second = Allocate(1_MiB, kTwo, 3);
  Free(first);
  Free(second);
  // Of what both streams freed, and of fresh memory in both chunks.
  const Block* block = map.AllocateAt(kBase + 512_KiB, kChunk, kTwo, 3);
  map.CheckInvariants();
  EXPECT_EQ(block->address, kBase + 512_KiB);
  EXPECT_EQ(block->size, kChunk);
  EXPECT_EQ(map.live_blocks(1), 1u);
  EXPECT_EQ(Allocate(512_KiB, kOne, 3), kBase) << "what is left before it is in its stream's order";
  EXPECT_EQ(map.free_bytes(), kChunk - 512_KiB);
}

TEST_F(BlockMapTest, TakesFreeAddressesAndNoOthers) {
  for (Region::Position position : {0, 1}) map.Back(position, 0, kAnyStream);
  map.Back(2, 3, kAnyStream);
  const auto take = [this](Bytes offset, Bytes size, Stream stream) {
    const Block* block = map.AllocateIfFree(kBase + offset, size, stream);
    map.CheckInvariants();
    return block != nullptr && block->address == kBase + offset && block->size == size;
  };
  EXPECT_TRUE(take(512_KiB, 512_KiB, kOne)) << "of the midst of a free block";
  EXPECT_TRUE(take(0, 512_KiB, kOne)) << "all of one";
  EXPECT_TRUE(take(1_MiB, 512_KiB, kTwo)) << "its begin";
  EXPECT_FALSE(take(512_KiB, 512_KiB, kOne)) << "in use";
  EXPECT_FALSE(take(1_MiB, 1_MiB, kOne)) << "the first half is in use";
  EXPECT_FALSE(take(kChunk + 1_MiB, kChunk, kOne)) << "its end is a pool's";
  Free(kBase + 1_MiB);
  EXPECT_FALSE(take(1_MiB, 512_KiB, kOne)) << "another stream's";
  EXPECT_FALSE(take(1_MiB, 1_MiB, kOne)) << "some of it is another stream's";
  EXPECT_TRUE(take(1_MiB, 1_MiB, kTwo));
  Free(kBase + 512_KiB);
  EXPECT_TRUE(take(kChunk, kChunk, kTwo)) << "up to where a pool's memory begins";
  EXPECT_FALSE(take(2 * kChunk, 512, kOne)) << "a pool's";
  EXPECT_FALSE(take(3 * kChunk, 512, kOne)) << "no memory is behind it";
}

TEST_F(BlockMapTest, TakesFreeAddressesAcrossFreeBlocks) {
  for (Region::Position position : {0, 1}) map.Back(position, 0, kAnyStream);
  Free(Allocate(kChunk, kOne));  // in that stream's order
  map.Unback(1);
  map.Back(1, 0, kAnyStream);  // in none's: a block of its own
  EXPECT_EQ(map.blocks().size(), 2u);
  const Block* block = map.AllocateIfFree(kBase + 1_MiB, kChunk, kOne);
  map.CheckInvariants();
  ASSERT_NE(block, nullptr);
  EXPECT_EQ(block->address, kBase + 1_MiB);
  EXPECT_EQ(map.AllocateIfFree(kBase, 1_MiB, kTwo), nullptr);
}

TEST_F(BlockMapTest, AddressesInUseAreNotTaken) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  map.Back(0, 0, kAnyStream);
  const DevicePtr block = Allocate(1_MiB);
  EXPECT_DEATH(map.AllocateAt(block + 512_KiB, 1_MiB, kOne, 0), "no free memory of pool 0");
  EXPECT_DEATH(map.AllocateAt(block + 1_MiB, 1_MiB, kOne, 1), "no free memory of pool 1");
}

TEST_F(BlockMapTest, FreedNeighboursAreOneBlockAgain) {
  map.Back(0, 0, kAnyStream);
  const DevicePtr a = Allocate(512_KiB), b = Allocate(512_KiB), c = Allocate(512_KiB);
  Free(a);
  Free(c);
  Free(b);
  EXPECT_EQ(map.LargestFree(), kChunk);
  EXPECT_EQ(map.blocks().size(), 1u);
}

TEST_F(BlockMapTest, AFreedBlockTakesInItsStreamsMemoryBeyondFreshMemory) {
  map.Back(0, 0, kAnyStream);
  map.Back(2, 0, kAnyStream);
  const DevicePtr a = Allocate(kChunk), b = Allocate(kChunk);
  Free(b);
  map.Back(1, 0, kAnyStream);  // fresh memory beside what the stream has freed
  Free(a);
  EXPECT_EQ(map.LargestFree(), 3 * kChunk);
}

TEST_F(BlockMapTest, AnotherStreamDoesNotGetWhatOneStreamFreed) {
  map.Back(0, 0, kAnyStream);
  const DevicePtr block = Allocate(kChunk, kOne);
  Free(block);
  EXPECT_EQ(Allocate(kChunk, kTwo), 0u);
  map.ForgetStreamOrder();
  EXPECT_EQ(Allocate(kChunk, kTwo), block);
}

TEST_F(BlockMapTest, PoolsNeverShareABlock) {
  map.Back(0, 0, kAnyStream);
  map.Back(1, 1, kAnyStream);
  EXPECT_EQ(Allocate(3_MiB, kOne, 1), 0u);
  EXPECT_EQ(Allocate(kChunk, kOne, 1), kBase + kChunk);
  EXPECT_EQ(Allocate(kChunk, kOne, 1), 0u) << "the memory outside the pool is not the pool's";
}

TEST_F(BlockMapTest, GrowsBehindAFreeTailByTheFewestChunks) {
  map.Back(0, 0, kAnyStream);
  Allocate(1_MiB);
  const auto growth = map.PlanGrowth(3_MiB, kOne, 0);
  ASSERT_TRUE(growth);
  EXPECT_EQ(growth->first, 1u);
  EXPECT_EQ(growth->count, 1u);
  map.Back(1, 0, growth->stream);
  EXPECT_EQ(Allocate(3_MiB), kBase + 1_MiB);
}

TEST_F(BlockMapTest, GrowsIntoTheHoleBetweenTwoFreeParts) {
  for (const Region::Position position : {0, 2}) map.Back(position, 0, kAnyStream);
  const auto growth = map.PlanGrowth(3 * kChunk, kOne, 0);
  ASSERT_TRUE(growth);
  EXPECT_EQ(growth->first, 1u);
  EXPECT_EQ(growth->count, 1u);
}

TEST_F(BlockMapTest, GrowsInFrontOfAFreeHead) {
  map.Back(4, 0, kAnyStream);
  map.Back(0, 0, kAnyStream);
  const DevicePtr first = Allocate(kChunk);
  ASSERT_EQ(first, kBase);
  const auto growth = map.PlanGrowth(2 * kChunk, kOne, 0);
  ASSERT_TRUE(growth);
  EXPECT_EQ(growth->count, 1u);
  map.Back(growth->first, 0, growth->stream);
  EXPECT_NE(Allocate(2 * kChunk), 0u);
}

TEST_F(BlockMapTest, AnotherStreamsFreeTailIsNoHelpForGrowth) {
  map.Back(0, 0, kAnyStream);
  Free(Allocate(kChunk, kOne));
  const auto growth = map.PlanGrowth(3_MiB, kTwo, 0);
  ASSERT_TRUE(growth);
  EXPECT_EQ(growth->count, 2u);
}

TEST_F(BlockMapTest, SaysWhenAddressesRunOut) {
  EXPECT_FALSE(map.PlanGrowth(17 * kChunk, kOne, 0));
  for (int bits = 32; bits < 64; ++bits) EXPECT_FALSE(map.PlanGrowth(Bytes{1} << bits, kOne, 0)) << bits;
}

TEST_F(BlockMapTest, APositionThatIsNotBackedKeepsItsLiveBlocksAndNothingElse) {
  map.Back(0, 0, kAnyStream);
  map.Back(1, 0, kAnyStream);
  const DevicePtr a = Allocate(1_MiB), b = Allocate(2_MiB);
  map.Unback(0);
  map.CheckInvariants();
  EXPECT_EQ(map.free_bytes(), 1_MiB);
  EXPECT_EQ(Allocate(1_MiB), kBase + 3_MiB);

  Free(b);
  EXPECT_EQ(map.free_bytes(), 1_MiB) << "only the half of it that is backed";
  EXPECT_TRUE(emptied.empty());
  Free(a);
  EXPECT_EQ(emptied, std::vector<Region::Position>{0});
}

TEST_F(BlockMapTest, BackingAgainFreesExactlyTheBytesOutsideLiveBlocks) {
  map.Back(0, 0, kAnyStream);
  const DevicePtr a = Allocate(512_KiB), b = Allocate(512_KiB);
  map.Unback(0);
  Free(a);
  map.Back(0, 0, kAnyStream);
  map.CheckInvariants();
  EXPECT_EQ(map.free_bytes(), kChunk - 512_KiB);
  ASSERT_EQ(map.LiveExtents(0).size(), 1u);
  EXPECT_EQ(map.LiveExtents(0)[0].offset, b - kBase);
}

TEST_F(BlockMapTest, NeighbouringLiveBlocksAreOneExtent) {
  map.Back(0, 0, kAnyStream);
  Allocate(1_KiB);
  const DevicePtr gap = Allocate(1_KiB);
  Allocate(1_KiB);
  Allocate(1_KiB);
  Free(gap);
  const std::vector<Extent> extents = map.LiveExtents(0);
  ASSERT_EQ(extents.size(), 2u);
  EXPECT_EQ(extents[1].offset, 2_KiB);
  EXPECT_EQ(extents[1].size, 2_KiB);
}

TEST_F(BlockMapTest, FindsTheBlockAroundAnAddress) {
  map.Back(0, 0, kAnyStream);
  const DevicePtr a = Allocate(4_KiB);
  EXPECT_EQ(map.Find(a + 4095)->address, a);
  EXPECT_EQ(map.Find(a + 4096), nullptr);
  EXPECT_EQ(map.Find(kBase - 1), nullptr);
}

}  // namespace
}  // namespace hocket
