// One region with the blocks in it: the place where chunk layer and block layer meet.
//
// Keeps the two views of a position in step: a position is backed (block_map.h) exactly when a chunk is
// mapped there and its bytes are all there (region.h: private or arena); a spilled position has live blocks.
//
// Not thread-safe: the allocator's lock guards it.
#ifndef HOCKET_ALLOCATOR_SPACE_H_
#define HOCKET_ALLOCATOR_SPACE_H_

#include <memory>
#include <set>
#include <vector>

#include "allocator/block_map.h"
#include "allocator/region.h"
#include "allocator/spill.h"

namespace hocket {

class Space {
 public:
  using Position = Region::Position;

  static absl::StatusOr<std::unique_ptr<Space>> Reserve(const Driver& driver, Bytes chunk_size,
                                                        Position positions);

  Region& region() { return region_; }
  const Region& region() const { return region_; }
  BlockMap& blocks() { return blocks_; }
  const BlockMap& blocks() const { return blocks_; }

  // Maps `chunk` (taken only on success) and gives its bytes to the blocks.
  absl::Status Back(Position position, Chunk& chunk, PoolIndex pool, Stream stream, ArenaChunkId id = 0);
  // Takes an empty position's chunk away. REQUIRES: backed, no live block in it, no device work uses it.
  absl::StatusOr<Chunk> Unback(Position position);
  // The chunk of an empty position lies at `to` from now on, its bytes in the order of `stream`; the old
  // addresses are taken until ClearVacated(). REQUIRES: no live block in it, and `stream` could use its free
  // memory; `to` is empty and not taken.
  absl::Status Move(Position from, Position to, Stream stream);
  // The chunk of an empty position is used no more; the old addresses are taken until ClearVacated().
  // REQUIRES: no live block in it; nothing is kept of it on the host.
  void Vacate(Position position);
  // Positions whose chunks have moved away or are used no more, the longest ago first.
  const std::vector<Position>& vacated() const { return vacated_; }
  // The first `count` of them can be used again. REQUIRES: device work that was queued when they were vacated
  // is over.
  void ClearVacated(std::size_t count);
  void ClearVacated() { ClearVacated(vacated_.size()); }
  // Frees the block; host copies that it was the last to need go too.
  void Free(Block* block);
  // The block changes no more (promise.h).
  void BeginConstant(Block& block, std::shared_ptr<const Promise> promise);
  // Or may again: what the host has kept of the chunks that it lies in goes. Without a promise: nothing.
  void EndConstant(Block& block);
  // Nothing needs the host copy at `position` any more. A mapped one stays until DropUnneeded().
  void Drop(Position position);
  // REQUIRES: no device work is under way.
  void DropUnneeded();

  // Positions in `state`, in order of address; with or without live blocks in them.
  std::vector<Position> Positions(Region::State state) const;
  std::vector<Position> EmptyPositions(Region::State state) const;
  // Spilled positions of stages up to `last` that something needs and that have no arrival, in order of stage
  // and address.
  std::vector<Position> PositionsToRestore(Stage last = kLastStage) const;
  // What has to be copied to spill `position`: its live bytes; of a private pool's chunk all of it (a
  // graph uses memory that is free to the allocator). Promises that are broken end.
  Spiller::Contents ContentsOf(Position position);

  // Bytes behind addresses, on the device or on the host.
  Bytes reserved() const;
  // Of them, this job's own on the device.
  Bytes resident() const {
    return region_.BytesIn(Region::State::kPrivate) + region_.BytesIn(Region::State::kRestoring) +
           region_.arriving();
  }
  // And on the host alone, where something needs them.
  Bytes spilled() const;
  // Nobody needs what is spilled at `position`, and it has not been dropped yet.
  bool IsUnneeded(Position position) const;

  void CheckInvariants() const;

 private:
  explicit Space(Region region)
      : region_(std::move(region)), blocks_(region_.address(), region_.chunk_size(), region_.positions()) {}

  Region region_;
  BlockMap blocks_;
  std::set<Position> unneeded_;  // spilled, their copies mapped
  std::vector<Position> vacated_;
};

}  // namespace hocket

#endif  // HOCKET_ALLOCATOR_SPACE_H_
