#include "allocator/space.h"

#include <algorithm>
#include <utility>

#include "csrc/base/check.h"
#include "csrc/base/status_macros.h"

namespace hocket {
namespace {

// `all` without `taken`. Both in order.
std::vector<Extent> Without(const std::vector<Extent>& taken, std::vector<Extent> all) {
  if (taken.empty()) return all;
  std::vector<Extent> rest;
  auto next = taken.begin();
  for (const Extent& extent : all) {
    const Bytes end = extent.end();
    Bytes from = extent.offset;
    for (; next != taken.end() && next->offset < end; ++next) {
      if (next->offset > from) rest.push_back({from, next->offset - from});
      from = std::max(from, next->offset + next->size);
      if (from > end) break;  // it may reach into the next one
    }
    if (from < end) rest.push_back({from, end - from});
  }
  return rest;
}

}  // namespace

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

absl::Status Space::Move(Position from, Position to, Stream stream) {
  HOCKET_CHECK(blocks_.IsFreeFor(from, stream)) << "position " << from << " is not free for that stream";
  HOCKET_RETURN_IF_ERROR(region_.Move(from, to));
  blocks_.Unback(from, /*keep=*/true);
  blocks_.Back(to, blocks_.pool(from), stream);
  vacated_.push_back(from);
  return absl::OkStatus();
}

void Space::Vacate(Position position) {
  HOCKET_CHECK(blocks_.live_blocks(position) == 0) << "position " << position << " is in use";
  region_.Vacate(position);
  blocks_.Unback(position, /*keep=*/true);
  vacated_.push_back(position);
}

void Space::ClearVacated(std::size_t count) {
  std::vector<Position> still;
  for (const Position position : absl::MakeSpan(vacated_).first(count)) {
    if (region_.Clear(position).ok()) {
      (void)blocks_.Release(position);
    } else {
      still.push_back(position);  // tried again the next time
    }
  }
  vacated_.erase(vacated_.begin(), vacated_.begin() + static_cast<std::ptrdiff_t>(count));
  vacated_.insert(vacated_.begin(), still.begin(), still.end());
}

void Space::BeginConstant(Block& block, std::shared_ptr<const Promise> promise) {
  EndConstant(block);
  block.promise = std::move(promise);
}

void Space::EndConstant(Block& block) {
  if (block.promise == nullptr) return;
  block.promise = nullptr;
  const Position last = region_.PositionOf(block.end() - 1);
  for (Position position = region_.PositionOf(block.address); position <= last; ++position) {
    region_.DropKept(position);
  }
}

void Space::Free(Block* block) {
  EndConstant(*block);
  blocks_.Free(block, [this](Position position) { Drop(position); });
}

// PyTorch frees what queued work still uses, as long as nobody else gets it.
void Space::Drop(Position position) {
  const bool in_use = region_.host_copies(position).mapped || region_.arrival(position) != 0;
  if (!in_use && region_.Forget(position).ok()) return;
  blocks_.Keep(position);
  unneeded_.insert(position);
}

void Space::DropUnneeded() {
  std::erase_if(unneeded_, [this](Position position) {
    if (region_.arrival(position) != 0 || !region_.Forget(position).ok()) return false;
    (void)blocks_.Release(position);
    return true;
  });
}

std::vector<Space::Position> Space::PositionsToRestore(Stage last) const {
  std::vector<std::pair<Stage, Position>> found;
  for (const Position position : region_.Positions(Region::State::kSpilled)) {
    if (IsUnneeded(position) || region_.arrival(position) != 0) continue;
    const Stage stage = blocks_.StageOf(position);
    if (stage <= last) found.emplace_back(stage, position);
  }
  std::sort(found.begin(), found.end());
  std::vector<Position> positions;
  for (const auto& [stage, position] : found) positions.push_back(position);
  return positions;
}

Bytes Space::spilled() const {
  const auto without_arrival = std::count_if(unneeded_.begin(), unneeded_.end(), [this](Position position) {
    return region_.arrival(position) == 0;
  });
  return region_.BytesIn(Region::State::kSpilled) + region_.BytesIn(Region::State::kRestoring) -
         region_.arriving() - static_cast<Bytes>(without_arrival) * region_.chunk_size();
}

bool Space::IsUnneeded(Position position) const { return unneeded_.contains(position); }

std::vector<Space::Position> Space::Positions(Region::State state) const {
  const std::set<Position>& positions = region_.Positions(state);
  return {positions.begin(), positions.end()};
}

std::vector<Space::Position> Space::EmptyPositions(Region::State state) const {
  std::vector<Position> positions = Positions(state);
  std::erase_if(positions, [this](Position position) { return blocks_.live_blocks(position) > 0; });
  return positions;
}

Spiller::Contents Space::ContentsOf(Position position) {
  blocks_.ForEachConstant(position, [this](Block& block) {
    if (block.promise->Broken()) EndConstant(block);
  });
  Spiller::Contents contents{.changing = {{.offset = 0, .size = region_.chunk_size()}},
                             .constant = blocks_.ConstantExtents(position)};
  if (blocks_.pool(position) == 0) contents.changing = blocks_.LiveExtents(position);
  contents.changing = Without(contents.constant, std::move(contents.changing));
  return contents;
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
                 blocks_.pool(position) != 0 || IsUnneeded(position))
        << "a host copy that nobody needs at position " << position;
    const bool listed = std::find(vacated_.begin(), vacated_.end(), position) != vacated_.end();
    HOCKET_CHECK(region_.vacated(position) == listed) << "position " << position << " is vacated, or not";
    HOCKET_CHECK(!listed || blocks_.kept(position))
        << "position " << position << " is vacated, and its addresses can be taken";
    if (state != Region::State::kPrivate) continue;
    const std::vector<Extent>& kept = region_.host_copies(position).constant.extents;
    HOCKET_CHECK(kept.empty() || Without(blocks_.ConstantExtents(position), kept).empty())
        << "a host copy of bytes that may change was kept at position " << position;
  }
}

}  // namespace hocket
