// A lane's arena as the coordinator knows it: which chunks there are, and who has been told of which.
//
// Each chunk has a number, in the order in which they joined, and every job is told in that order: it uses
// the first chunks that it knows, so all of the lane use the same ones. A job that reads slowly, is stopped
// or has no allocator yet must not fill up with descriptors, nor the coordinator: no more ArenaAdds are on
// their way to it than kMostUnheard (limits.h). What it is not told when it happens it is told later, by
// somebody who has the chunk (ArenaExport), a few at a time. Nobody keeps a descriptor for it meanwhile
// (docs/decisions/0040).
#ifndef HOCKET_COORDINATOR_CORE_ARENA_H_
#define HOCKET_COORDINATOR_CORE_ARENA_H_

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <set>

#include "absl/numeric/int128.h"
#include "coordinator/core/events.h"
#include "csrc/base/bytes.h"

namespace hocket::coordinator {

class LaneArena {
 public:
  using Chunk = std::uint64_t;   // the id that its maker gave it
  using Number = std::uint64_t;  // never given twice

  bool empty() const { return chunks_.empty(); }
  std::size_t count() const { return chunks_.size(); }
  bool Has(Chunk chunk) const { return chunks_.contains(chunk); }
  // Jobs may name as many bytes as they like: what a number does not hold is not counted.
  Bytes size() const {
    return static_cast<Bytes>(std::min<absl::uint128>(bytes_, std::numeric_limits<Bytes>::max()));
  }

  // Returns its number, which is the old one if it is known.
  Number Add(Chunk chunk, Bytes size) {
    const auto [entry, is_new] = chunks_.try_emplace(chunk, Entry{.number = next_});
    if (is_new) order_.emplace(next_++, chunk);
    bytes_ += size;
    bytes_ -= std::exchange(entry->second.size, size);
    return entry->second.number;
  }
  // False: it is not known.
  bool Remove(Chunk chunk) {
    const auto entry = chunks_.find(chunk);
    if (entry == chunks_.end()) return false;
    bytes_ -= entry->second.size;
    order_.erase(entry->second.number);
    chunks_.erase(entry);
    return true;
  }
  void Clear() {
    chunks_.clear();
    order_.clear();
    bytes_ = 0;
  }

  Bytes SizeOf(Chunk chunk) const { return chunks_.at(chunk).size; }
  // By number.
  const std::map<Number, Chunk>& in_order() const { return order_; }

 private:
  struct Entry {
    Number number = 0;
    Bytes size = 0;
  };
  std::map<Chunk, Entry> chunks_;
  std::map<Number, Chunk> order_;
  Number next_ = 0;
  absl::uint128 bytes_ = 0;
};

// What one job knows of it.
struct KnownArena {
  std::set<LaneArena::Chunk> told;   // or it has told us
  LaneArena::Number next = 0;        // it has been told all before this one, or it was asked for them
  std::set<LaneArena::Chunk> asked;  // of `exporter`, on its behalf, and not answered
  JobId exporter = 0;
  // ArenaAdds on this connection.
  std::uint64_t sent = 0;
  std::uint64_t heard = 0;
  std::uint64_t tried = 0;  // those of them that it had heard of when it was last told to try for room
};

}  // namespace hocket::coordinator

#endif  // HOCKET_COORDINATOR_CORE_ARENA_H_
