#include "allocator/arena.h"

#include <sys/random.h>

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

Arena::Member* Arena::Find(ArenaChunkId id) {
  const auto found = numbers_.find(id);
  return found == numbers_.end() ? nullptr : &members_.at(found->second);
}

void Arena::Add(ArenaChunkId id, Chunk chunk, bool created_here) {
  HOCKET_CHECK(id != 0 && numbers_.try_emplace(id, next_number_).second)
      << "arena chunk " << id << " is known already";
  free_.insert(next_number_);
  members_.emplace_hint(members_.end(), next_number_,
                        Member{.id = id,
                               .number = next_number_,
                               .created_here = created_here,
                               .last_used = turn_,
                               .position = {},
                               .chunk = std::move(chunk)});
  ++next_number_;
  created_ += created_here ? 1 : 0;
}

Arena::Member* Arena::FirstFree() { return free_.empty() ? nullptr : &members_.at(*free_.begin()); }

Arena::Member* Arena::LastFree() { return free_.empty() ? nullptr : &members_.at(*free_.rbegin()); }

void Arena::Place(Member& member, Region::Position position) {
  HOCKET_CHECK(!member.position && !member.chunk) << "arena chunk " << member.id << " is placed already";
  member.position = position;
  free_.erase(member.number);
}

void Arena::Return(ArenaChunkId id, Chunk chunk) {
  Member* member = Find(id);
  HOCKET_CHECK(member != nullptr && member->position) << "arena chunk " << id << " is not placed";
  member->position.reset();
  member->chunk = std::move(chunk);
  free_.insert(member->number);
}

Chunk Arena::Remove(ArenaChunkId id) {
  Member* member = Find(id);
  HOCKET_CHECK(member != nullptr) << "arena chunk " << id << " is unknown";
  Chunk chunk = std::move(member->chunk);
  const std::uint64_t number = member->number;
  created_ -= member->created_here ? 1 : 0;
  free_.erase(number);
  members_.erase(number);
  numbers_.erase(id);
  return chunk;
}

void Arena::CheckInvariants(const Region& region) const {
  Bytes placed = 0;
  std::size_t created = 0;
  HOCKET_CHECK(numbers_.size() == members_.size()) << numbers_.size() << " ids, " << members_.size();
  for (const auto& [number, member] : members_) {
    HOCKET_CHECK(static_cast<bool>(member.chunk) != member.position.has_value())
        << "arena chunk " << member.id;
    HOCKET_CHECK(member.number == number && numbers_.at(member.id) == number)
        << "arena chunk " << member.id << " is listed as another";
    HOCKET_CHECK(free_.contains(number) != member.position.has_value())
        << "arena chunk " << member.id << " is listed as free, or not";
    created += member.created_here ? 1 : 0;
    if (!member.position) continue;
    placed += region.chunk_size();
    HOCKET_CHECK(region.arena_id(*member.position) == member.id)
        << "arena chunk " << member.id << " is not at position " << *member.position;
  }
  HOCKET_CHECK(created == created_) << created << " created here, counted " << created_;
  HOCKET_CHECK(placed == region.BytesIn(Region::State::kArena)) << placed;
}

}  // namespace hocket
