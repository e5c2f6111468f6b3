// The chunks of a lane's arena, as far as this process knows them.
//
//                   Add (created here, or imported)
//     (unknown) ----------------------------------> free <--- Return ---+
//         ^                                          |                  |
//         +---- Remove (released, dropped, adopted) -+---- Place ---> placed at a position of the transient
//         region
//         +---- Remove --------------------------------------------------+
//
// A free chunk is held here; a placed one is held by the region it is mapped in. Chunks are given out in the
// order in which they became known, which is the same in all jobs of the lane, so that a job with a small
// peak uses the same first chunks every turn and leaves the later ones alone.
//
// Not thread-safe: the allocator's lock guards it.
#ifndef HOCKET_ALLOCATOR_ARENA_H_
#define HOCKET_ALLOCATOR_ARENA_H_

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "allocator/gate.h"
#include "allocator/region.h"

namespace hocket {

class Arena {
 public:
  // A chunk that its creator has not used for more turns than this is given back.
  static constexpr int kIdleTurns = 16;

  struct Member {
    ArenaChunkId id = 0;
    std::uint64_t number = 0;  // in the order in which they became known
    bool created_here = false;
    std::uint64_t last_used = 0;               // in this turn of the job a block lay in it, or it came
    std::optional<Region::Position> position;  // placed there
    Chunk chunk;                               // held while free
  };

  // Drawn at random; never 0.
  static ArenaChunkId NewId();

  std::size_t size() const { return members_.size(); }
  std::size_t free_chunks() const { return free_.size(); }
  // The longest known first.
  template <typename Function>
  void ForEach(Function f) const {
    for (const auto& [number, member] : members_) f(member);
  }
  // nullptr: unknown.
  Member* Find(ArenaChunkId id);

  // REQUIRES: the id is unknown.
  void Add(ArenaChunkId id, Chunk chunk, bool created_here);
  // The first free chunk that is known; nullptr: none is free.
  Member* FirstFree();
  // The last one: what a job gives up first.
  Member* LastFree();
  // free -> placed; the caller has taken `chunk` out.
  void Place(Member& member, Region::Position position);
  // placed -> free.
  void Return(ArenaChunkId id, Chunk chunk);
  // The chunk leaves the arena; what is returned is empty if it was placed. REQUIRES: the id is known.
  Chunk Remove(ArenaChunkId id);

  // A turn has ended, in which blocks lay in `count_used` of the placed chunks: those of which
  // `used(position)`. Returns the chunks that this job created and has not needed for more than `idle_turns`
  // turns: the lane may do without them. Looks at each only if that may be any.
  template <typename Used>
  std::vector<ArenaChunkId> EndTurn(std::size_t count_used, Used used, int idle_turns) {
    ++turn_;
    if (count_used == size()) all_used_ = turn_;
    if (created_ == 0 || all_used_ == turn_) return {};
    std::vector<ArenaChunkId> idle;
    for (auto& [number, member] : members_) {
      if (member.position && used(*member.position)) member.last_used = turn_;
      const std::uint64_t idle_for = turn_ - std::max(member.last_used, all_used_);
      if (member.created_here && idle_for > static_cast<std::uint64_t>(idle_turns)) idle.push_back(member.id);
    }
    return idle;
  }

  void CheckInvariants(const Region& region) const;

 private:
  std::map<std::uint64_t, Member> members_;  // by number
  absl::flat_hash_map<ArenaChunkId, std::uint64_t> numbers_;
  std::set<std::uint64_t> free_;
  std::uint64_t next_number_ = 0;
  std::size_t created_ = 0;  // how many are created here
  std::uint64_t turn_ = 0;
  std::uint64_t all_used_ = 0;  // in this turn all were
};

}  // namespace hocket

#endif  // HOCKET_ALLOCATOR_ARENA_H_
