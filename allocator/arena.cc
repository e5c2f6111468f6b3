#include "allocator/arena.h"

#include <sys/random.h>

#include <algorithm>

#include "csrc/base/check.h"

namespace hocket {

ArenaChunkId Arena::NewId() {
  ArenaChunkId id = 0;
  while (id == 0) {
    const ssize_t drawn = getrandom(&id, sizeof id, 0);
    HOCKET_CHECK(drawn == sizeof id) << "getrandom gave " << drawn << " bytes";
  }
  return id;
}

std::size_t Arena::free_chunks() const {
  return std::count_if(members_.begin(), members_.end(), [](const Member& m) { return !m.position; });
}

Arena::Member* Arena::Find(ArenaChunkId id) {
  // The last ones leave first.
  const auto found =
      std::find_if(members_.rbegin(), members_.rend(), [id](const Member& m) { return m.id == id; });
  return found == members_.rend() ? nullptr : &*found;
}

void Arena::Add(ArenaChunkId id, Chunk chunk, bool created_here) {
  HOCKET_CHECK(id != 0 && Find(id) == nullptr) << "arena chunk " << id << " is known already";
  members_.push_back({.id = id, .created_here = created_here, .position = {}, .chunk = std::move(chunk)});
}

Arena::Member* Arena::FirstFree() {
  const auto found =
      std::find_if(members_.begin(), members_.end(), [](const Member& m) { return !m.position; });
  return found == members_.end() ? nullptr : &*found;
}

Arena::Member* Arena::LastFree() {
  const auto found =
      std::find_if(members_.rbegin(), members_.rend(), [](const Member& m) { return !m.position; });
  return found == members_.rend() ? nullptr : &*found;
}

void Arena::Place(Member& member, Region::Position position) {
  HOCKET_CHECK(!member.position && !member.chunk) << "arena chunk " << member.id << " is placed already";
  member.position = position;
}

void Arena::Return(ArenaChunkId id, Chunk chunk) {
  Member* member = Find(id);
  HOCKET_CHECK(member != nullptr && member->position) << "arena chunk " << id << " is not placed";
  member->position.reset();
  member->chunk = std::move(chunk);
}

Chunk Arena::Remove(ArenaChunkId id) {
  Member* member = Find(id);
  HOCKET_CHECK(member != nullptr) << "arena chunk " << id << " is unknown";
  Chunk chunk = std::move(member->chunk);
  members_.erase(members_.begin() + (member - members_.data()));
  return chunk;
}

void Arena::CheckInvariants(const Region& region) const {
  Bytes placed = 0;
  for (const Member& member : members_) {
    HOCKET_CHECK(static_cast<bool>(member.chunk) != member.position.has_value())
        << "arena chunk " << member.id;
    if (!member.position) continue;
    placed += region.chunk_size();
    HOCKET_CHECK(region.arena_id(*member.position) == member.id)
        << "arena chunk " << member.id << " is not at position " << *member.position;
  }
  HOCKET_CHECK(placed == region.BytesIn(Region::State::kArena)) << placed;
}

}  // namespace hocket
