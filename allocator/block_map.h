// The blocks of one region: who has which addresses, and which are free.
//
//   addresses   |-- chunk 0 --|-- chunk 1 --|   (chunk 2)   |-- chunk 3 --|
//   blocks      |aaa|  free  |bbbbbbb| free |  not backed   |   free      |
//
// Best fit over linear addresses: a block may span chunks, is cut from the smallest free block that holds
// it, and is joined with its free neighbours when it is freed. Sizes are multiples of 512 bytes.
//
// Stream order. Memory freed on a stream may be given to that stream again at once, because the new use
// queues behind the old. Another stream may have it only after a wait. So a free block carries the stream
// whose order it is in, or kAnyStream when nothing queued can still touch it (fresh memory, and everything
// after a drain). A freed block takes in free neighbours of its own stream and of no stream.
//
// Pools. Blocks of a graph's private pool lie in chunks of their own: a backed position belongs to
// one pool (0: none), and free blocks of different pools are never joined.
//
// A position is backed (its free bytes can be given out) or not. A position that stops being backed may keep
// live blocks: their bytes are on the host then (region.h, spilled). Freeing such a block gives nothing back
// until the position is backed again.
//
// Knows no driver and no device memory: only numbers. Not thread-safe: the allocator's lock guards it.
#ifndef HOCKET_ALLOCATOR_BLOCK_MAP_H_
#define HOCKET_ALLOCATOR_BLOCK_MAP_H_

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "allocator/extents.h"
#include "allocator/free_list.h"
#include "allocator/promise.h"
#include "allocator/region.h"
#include "allocator/stage.h"
#include "allocator/survivors.h"

namespace hocket {

inline const Stream kAnyStream = reinterpret_cast<Stream>(~std::uintptr_t{0});

using PoolIndex = std::uint32_t;  // 0: no private pool

struct Block {
  // pending: PyTorch has freed it, but a stream it was recorded on may still use it.
  // leased: memory that a plan gives out (plan.h); no block of PyTorch's.
  enum class State : std::uint8_t { kFree, kAllocated, kPending, kLeased };

  DevicePtr address = 0;
  Bytes size = 0;
  Bytes requested = 0;      // before rounding up
  Stream stream = nullptr;  // allocated on; of a free block: in the order of
  PoolIndex pool = 0;
  State state = State::kFree;
  Birth birth;                  // which allocation of which step
  std::vector<Stream> used_on;  // other streams (record_stream)
  Stage stage = 0;
  std::shared_ptr<const Promise>
      promise;  // that it does not change; nullptr: it may. Of an allocated block only

  DevicePtr end() const { return address + size; }
};

// Which of the free blocks that fit is cut: the smallest, or the one at the lowest address. The lowest packs
// what lives long beside each other while nobody knows yet what will (docs/decisions/0001); it looks at every
// one.
enum class Fit { kBest, kLowest };

class BlockMap {
 public:
  using Position = Region::Position;

  // REQUIRES: FreeList::kMostAddresses bytes at most.
  BlockMap(DevicePtr base, Bytes chunk_size, Position positions);

  // --- positions ---
  // The position's addresses are backed from now on; its bytes outside live blocks become free, in the order
  // of `stream`. REQUIRES: not backed.
  void Back(Position position, PoolIndex pool, Stream stream);
  // Its free bytes can no longer be given out. `keep`: its addresses stay taken even without a live block in
  // them (a graph's memory on the host), until Back() or Release(). REQUIRES: backed.
  void Unback(Position position, bool keep = false);
  // As for Unback(), of one that is not backed.
  void Keep(Position position) { places_[position].kept = true; }
  // Kept addresses without live blocks may be taken again. True if that is so now.
  bool Release(Position position);
  bool backed(Position position) const { return places_[position].backed; }
  bool kept(Position position) const { return places_[position].kept; }
  PoolIndex pool(Position position) const { return places_[position].pool; }
  // It is backed, and all of it is free memory, of no pool, that `stream` may use.
  bool IsFreeFor(Position position, Stream stream) const;
  // Blocks (allocated or pending) that lie in it, wholly or in part.
  std::uint32_t live_blocks(Position position) const { return places_[position].live; }
  // The live bytes in it: not empty if live_blocks() > 0.
  std::vector<Extent> LiveExtents(Position position) const;
  // Of them, those of blocks with a promise.
  std::vector<Extent> ConstantExtents(Position position) const;
  // Calls `f` for each block with a promise that lies in the position, wholly or in part.
  void ForEachConstant(Position position, absl::FunctionRef<void(Block&)> f);
  // Adds the streams that its live blocks are used on to `streams`.
  void AddStreams(Position position, std::set<Stream>& streams) const;
  // The earliest of its live blocks; 0: there are none, or a graph's pool has it.
  Stage StageOf(Position position) const;
  // True if a block was placed in it since the last call of ForgetUse().
  bool used(Position position) const { return places_[position].used; }
  // Afterwards only positions with live blocks count as used.
  void ForgetUse();
  // Backed positions of which used() is true.
  Position CountUsed() const;
  // Those with live blocks, in order.
  std::vector<Position> WithLiveBlocks() const;

  // --- blocks ---
  // nullptr: no free block fits. REQUIRES: `size` is a multiple of kBlockUnit and > 0.
  Block* Allocate(Bytes size, Stream stream, PoolIndex pool, Fit fit = Fit::kBest);
  // Exactly these addresses, whatever stream's order they are in. REQUIRES: free memory of the pool.
  Block* AllocateAt(DevicePtr address, Bytes size, Stream stream, PoolIndex pool);
  // The same; nullptr: not all of it is free memory of no pool that `stream` may use.
  Block* AllocateIfFree(DevicePtr address, Bytes size, Stream stream);
  // The block is free; pointers to it are invalid. Positions not backed that have no live block any more are
  // passed to `emptied`.
  void Free(Block* block, absl::FunctionRef<void(Position)> emptied);
  // Everything queued on every stream is done: free memory outside private pools is in no stream's order.
  void ForgetStreamOrder();

  // The live block that contains `address`; nullptr: none, or it is a plan's.
  Block* Find(DevicePtr address);
  const Block* Find(DevicePtr address) const { return const_cast<BlockMap*>(this)->Find(address); }
  const std::map<DevicePtr, Block>& blocks() const { return blocks_; }

  // --- the lease of a plan (plan.h), at most one ---
  // What a lease to `stream` could not have of the memory in use, in order: all but free memory that the
  // stream may use, and positions without memory.
  std::vector<Extent> Taken(Stream stream) const;
  // Takes the free memory below offset `end` that `stream` may use out of the free lists.
  void Lease(Bytes end, Stream stream);
  // Gives it back in the order of that stream, with these blocks in it (in order of address).
  void EndLease(const std::vector<Block>& live);
  // A block lay there since the last call of ForgetUse().
  void MarkUsed(DevicePtr address, Bytes size);

  // Which positions to back so that Allocate(size, stream, pool) succeeds: the fewest, then the lowest.
  struct Growth {
    Position first = 0;
    Position count = 0;
    Stream stream = nullptr;  // for Back()
  };
  // nullopt: no addresses are left.
  std::optional<Growth> PlanGrowth(Bytes size, Stream stream, PoolIndex pool) const;
  // The free memory beside it that the growth counts on: the addresses from the first on to the second,
  // those of the growth included.
  std::pair<DevicePtr, DevicePtr> Reach(const Growth& growth, Stream stream, PoolIndex pool) const;
  // The free block that `address` lies in. REQUIRES: there is one.
  const Block& FreeBlockAt(DevicePtr address) const;

  Bytes live_bytes() const { return live_bytes_; }
  Bytes free_bytes() const { return free_bytes_; }
  Bytes LargestFree() const;

  // Aborts, naming the first invariant that does not hold.
  void CheckInvariants() const;

 private:
  struct Place {
    bool backed = false;
    bool used = false;
    bool kept = false;
    PoolIndex pool = 0;
    std::uint32_t live = 0;
  };
  using FreeKey = std::pair<PoolIndex, Stream>;
  using Blocks = std::map<DevicePtr, Block>;

  Position PositionOf(DevicePtr address) const {
    return static_cast<Position>((address - base_) / chunk_size_);
  }
  DevicePtr AddressOf(Position position) const { return base_ + position * chunk_size_; }
  // Positions [first, last] that [address, address + size) touches.
  std::pair<Position, Position> Span(DevicePtr address, Bytes size) const {
    return {PositionOf(address), PositionOf(address + size - 1)};
  }

  // A block in use, in memory that no block has.
  Block* AddBlock(DevicePtr address, Bytes size, Stream stream, PoolIndex pool);
  // Adds a free block, joined with its neighbours.
  void InsertFree(DevicePtr address, Bytes size, PoolIndex pool, Stream stream);
  void RemoveFree(Blocks::iterator block);
  // The block, which is in no list, becomes free, joined with its neighbours.
  void MakeFree(Blocks::iterator block, Stream stream);
  // The free block's first `size` bytes are in use, the rest stays free.
  Block* Cut(Blocks::iterator free, Bytes size, Stream stream);
  // Those from `address` on are, behind its begin.
  Block* CutMiddle(Blocks::iterator free, DevicePtr address, Bytes size, Stream stream);
  // Into the list of free blocks, and out of it.
  void List(const Block& free);
  void Unlist(const Block& free);
  bool Joins(const Block& block, PoolIndex pool, Stream stream) const;
  const FreeList* FreeOf(PoolIndex pool, Stream stream) const;
  // The free block to cut.
  std::optional<FreeList::Entry> Choose(Bytes size, Stream stream, PoolIndex pool, Fit fit) const;
  void AddLive(const Block& block);
  std::vector<Extent> Extents(Position position, absl::FunctionRef<bool(const Block&)> counts) const;
  // Counts a leased block at the positions that it touches.
  void CountLeased(const Block& block, int change);
  // Free bytes of [begin, end) that no live block covers, as extents of addresses.
  std::vector<std::pair<DevicePtr, Bytes>> Gaps(DevicePtr begin, DevicePtr end) const;
  void ForEachLive(Position position, absl::FunctionRef<void(const Block&)> f) const;
  bool IsEmpty(Position position) const {
    const Place& place = places_[position];
    return !place.backed && !place.kept && place.live == 0;
  }
  // It may be empty now.
  void MayBeEmpty(Position position) { first_empty_ = std::min(first_empty_, position); }
  // The first block that ends behind `address`.
  Blocks::const_iterator FirstEndingAfter(DevicePtr address) const;
  // Bytes of the free block that ends at (or starts at) `address` and that `stream` could use.
  const Block* UsableBefore(DevicePtr address, PoolIndex pool, Stream stream) const;
  const Block* UsableAt(DevicePtr address, PoolIndex pool, Stream stream) const;
  void CheckPlaces() const;

  const DevicePtr base_;
  const Bytes chunk_size_;
  std::vector<Place> places_;
  Position end_of_use_ = 0;           // positions from here on were never backed
  mutable Position first_empty_ = 0;  // none before it can be backed for a growth
  Blocks blocks_;
  absl::flat_hash_map<FreeKey, FreeList> free_;
  Bytes live_bytes_ = 0;
  Bytes free_bytes_ = 0;
  std::vector<DevicePtr> leased_;  // in order
  Stream lease_stream_ = nullptr;
};

}  // namespace hocket

#endif  // HOCKET_ALLOCATOR_BLOCK_MAP_H_
