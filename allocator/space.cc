#include "allocator/space.h"

#include "csrc/base/check.h"
#include "csrc/base/status_macros.h"

namespace hocket {

absl::StatusOr<std::unique_ptr<Space>> Space::Reserve(const Driver& driver, Bytes chunk_size,
                                                      Position positions) {
  HOCKET_ASSIGN_OR_RETURN(Region region, Region::Reserve(driver, chunk_size, positions));
  return std::unique_ptr<Space>(new Space(std::move(region)));
}

absl::Status Space::Back(Position position, Chunk& chunk, PoolIndex pool, Stream stream, ArenaChunkId id) {
  HOCKET_RETURN_IF_ERROR(region_.Map(position, chunk, id));
  blocks_.Back(position, pool, stream);
  return absl::OkStatus();
}

absl::StatusOr<Chunk> Space::Unback(Position position) {
  HOCKET_CHECK(blocks_.live_blocks(position) == 0) << "position " << position << " is in use";
  HOCKET_ASSIGN_OR_RETURN(Chunk chunk, region_.Unmap(position));
  blocks_.Unback(position);
  return chunk;
}

void Space::Free(Block* block) {
  blocks_.Free(block, [this](Position position) { region_.Forget(position); });
}

std::vector<Space::Position> Space::Positions(Region::State state) const {
  std::vector<Position> positions;
  Bytes left = region_.BytesIn(state);
  for (Position position = 0; left > 0; ++position) {
    if (region_.state(position) != state) continue;
    positions.push_back(position);
    left -= region_.chunk_size();
  }
  return positions;
}

std::vector<Space::Position> Space::EmptyPositions(Region::State state) const {
  std::vector<Position> positions = Positions(state);
  std::erase_if(positions, [this](Position position) { return blocks_.live_blocks(position) > 0; });
  return positions;
}

Spiller::Item Space::ItemFor(Position position) {
  Spiller::Item item{.region = &region_, .position = position, .live = {}};
  if (blocks_.pool(position) == 0) {
    item.live = blocks_.LiveExtents(position);
  } else {
    item.live.push_back({0, region_.chunk_size()});
  }
  return item;
}

Bytes Space::reserved() const {
  return region_.chunk_size() * region_.positions() - region_.BytesIn(Region::State::kEmpty);
}

void Space::CheckInvariants() const {
  region_.CheckInvariants();
  blocks_.CheckInvariants();
  const Position positions = region_.positions();
  for (Position position = 0; position < positions; ++position) {
    const Region::State state = region_.state(position);
    const bool mapped = state == Region::State::kPrivate || state == Region::State::kArena;
    HOCKET_CHECK(blocks_.backed(position) == mapped)
        << "position " << position << ": state " << static_cast<int>(state) << ", backed " << !mapped;
    HOCKET_CHECK(state != Region::State::kEmpty || blocks_.live_blocks(position) == 0)
        << "live blocks without memory at position " << position;
    HOCKET_CHECK(state != Region::State::kSpilled || blocks_.live_blocks(position) > 0 ||
                 blocks_.pool(position) != 0)
        << "a host copy that nobody needs at position " << position;
  }
}

}  // namespace hocket
