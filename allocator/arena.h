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

#include <optional>
#include <utility>
#include <vector>

#include "allocator/gate.h"
#include "allocator/region.h"

namespace hocket {

class Arena {
 public:
  // A chunk that its creator has not used for more turns than this is given back.
  static constexpr int kIdleTurns = 16;

  struct Member {
    ArenaChunkId id = 0;
    bool created_here = false;
    int idle_turns = 0;                        // turns of this job in which no block lay in it
    std::optional<Region::Position> position;  // placed there
    Chunk chunk;                               // held while free
  };

  // Drawn at random; never 0.
  static ArenaChunkId NewId();

  std::size_t size() const { return members_.size(); }
  std::size_t free_chunks() const;
  const std::vector<Member>& members() const { return members_; }
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

  // A turn has ended. `used(position)`: a block lay there in this turn. Returns the chunks that this job
  // created and has not needed for more than `idle_turns` turns: the lane may do without them.
  template <typename Used>
  std::vector<ArenaChunkId> EndTurn(Used used, int idle_turns) {
    std::vector<ArenaChunkId> idle;
    for (Member& member : members_) {
      member.idle_turns = member.position && used(*member.position) ? 0 : member.idle_turns + 1;
      if (member.created_here && member.idle_turns > idle_turns) idle.push_back(member.id);
    }
    return idle;
  }

  void CheckInvariants(const Region& region) const;

 private:
  std::vector<Member> members_;  // the longest known first
};

}  // namespace hocket

#endif  // HOCKET_ALLOCATOR_ARENA_H_
