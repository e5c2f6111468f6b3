// A range of device addresses, divided into positions of one chunk each, and what lies behind them.
//
//            Map(chunk)                    FinishSpill(copies)
//    empty -------------> private -------------------------------> spilled
//    |  ^ ^                |   ^  ^                                 |  ^  |
//    |  | +----- Unmap ----+   |  |                    StartRestore |  |  |
//    |  |                      |  +------- FinishRestore -- restoring  |  |
//    |  |                Adopt |                               +-------+  |
//    |  |                      |                          AbandonRestore  |
//    |  +-- Unmap ---------- arena                                        |
//    +----- Map(chunk, id) ---^       empty <------------- Forget --------+
//
//   empty      addresses without memory
//   private    a chunk of this job's own
//   arena      a chunk of the lane's arena, named by its id
//   spilled    no device memory; the bytes that matter lie on the host. Where host memory can be mapped, it
//              can lie behind the addresses meanwhile (MapCopies, MapSome): device work that touches them is
//              slow, and right. Otherwise it faults
//   restoring  a chunk is mapped and its bytes are on their way back; the host copy is still there
//
// A spilled position may have an *arrival*: a chunk which its bytes are copied into at other addresses, while
// device work is under way that does not need them yet. Until they have arrived and the chunk takes its place
// (FinishArrival: spilled -> private), device work may read the host copy behind the position's addresses, if
// it can be mapped for reading alone; otherwise there is nothing behind them. Either way nothing can be
// written there and be lost.
//
// An empty position may be *vacated*: its chunk lies at another position now (Move), or is used here no more
// (Vacate), and until Clear() its addresses reach that chunk, too, for device work that was queued before.
// Nothing else can lie there meanwhile.
//
// The host has two copies of a spilled chunk: one of the bytes that may change, which is dropped when they
// are back, and one of those that do not (promise.h), which can be kept, so that the next spill need not make
// it again. While the chunk is private nothing but time depends on what is kept: it may be dropped at any
// moment. Where host memory can be mapped, both copies lie in one chunk of it, and what is kept is that
// chunk.
//
// A call that fails leaves the position as it was. The region owns the chunks behind its addresses
// and the host copies; it knows nothing of blocks, and does not copy (spill.h does).
//
// Not thread-safe: the allocator's lock guards it.
#ifndef HOCKET_ALLOCATOR_REGION_H_
#define HOCKET_ALLOCATOR_REGION_H_

#include <cstdint>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "allocator/extents.h"
#include "allocator/gate.h"
#include "allocator/handles.h"
#include "allocator/host_memory.h"
#include "allocator/stats.h"
#include "csrc/base/status_macros.h"

namespace hocket {

// Bytes of a chunk on the host: its extents, one behind the other; or, in memory that can be mapped at the
// chunk's addresses, where they are in it.
struct HostCopy {
  HostBlock memory;
  std::shared_ptr<const HostChunk> chunk;  // the copies of the same chunk share it
  std::vector<Extent> extents;
  std::uint64_t checksum = 0;  // of all of it; where a Verifier looks only

  explicit operator bool() const { return memory || chunk != nullptr; }

  // Calls `f(extent, bytes)`, the bytes being its copy's, for each extent until one returns an error.
  template <typename Function>
  absl::Status ForEach(Function f) const {
    std::byte* packed = memory.data();
    for (const Extent& extent : extents) {
      HOCKET_RETURN_IF_ERROR(f(extent, chunk ? chunk->data() + extent.offset : packed));
      packed += extent.size;
    }
    return absl::OkStatus();
  }
};

// What the host has of a chunk.
struct HostCopies {
  HostCopy changing;
  HostCopy constant;
  bool mapped = false;     // their chunk, at the spilled addresses
  bool read_only = false;  // if so: nothing can be written there

  // nullptr: they cannot be mapped.
  const HostChunk* chunk() const { return (changing.chunk ? changing : constant).chunk.get(); }
};

class Region {
 public:
  using Position = std::uint32_t;
  enum class State : std::uint8_t { kEmpty, kPrivate, kArena, kSpilled, kRestoring };

  // `driver` is borrowed and must outlive the region.
  static absl::StatusOr<Region> Reserve(const Driver& driver, Bytes chunk_size, Position positions);
  // Unmaps whatever is mapped.
  ~Region();
  Region(Region&&) = default;
  Region& operator=(Region&&) = delete;

  Bytes chunk_size() const { return chunk_size_; }
  Position positions() const { return static_cast<Position>(places_.size()); }
  DevicePtr address() const { return range_.address(); }
  bool Contains(DevicePtr address) const { return range_.Contains(address); }
  Position PositionOf(DevicePtr address) const {
    return static_cast<Position>((address - range_.address()) / chunk_size_);
  }
  DevicePtr AddressOf(Position position) const { return range_.address() + position * chunk_size_; }

  State state(Position position) const { return places_[position].state; }
  // The arena chunk at `position`; 0: none.
  ArenaChunkId arena_id(Position position) const { return places_[position].arena_id; }
  // REQUIRES: something is mapped at `position`.
  const Chunk& chunk(Position position) const { return places_[position].chunk; }
  // REQUIRES: spilled or restoring; private: what is kept.
  const HostCopies& host_copies(Position position) const { return places_[position].copies; }

  // In order of address. REQUIRES: not kEmpty.
  const std::set<Position>& Positions(State state) const { return in_[static_cast<int>(state)]; }
  // Device bytes in each state.
  Bytes BytesIn(State state) const { return counts_[static_cast<int>(state)] * chunk_size_; }

  // empty -> private, or -> arena if `id` is not 0. Takes `chunk` only on success. REQUIRES: not vacated.
  absl::Status Map(Position position, Chunk& chunk, ArenaChunkId id = 0);
  // private or arena -> empty. The chunk goes to the caller. REQUIRES: no device work uses it.
  absl::StatusOr<Chunk> Unmap(Position position);
  // arena -> private, in place.
  void Adopt(Position position);
  // private or arena -> empty and vacated; `to`, which was empty and not vacated -> what `from` was, with its
  // chunk. REQUIRES: nothing is kept on the host. Device work that is queued may use the old addresses.
  absl::Status Move(Position from, Position to);
  // The same without another position: this job's handle of the chunk is given up.
  void Vacate(Position from);
  bool vacated(Position position) const { return places_[position].vacated; }
  // vacated -> not vacated. REQUIRES: no device work uses the addresses.
  absl::Status Clear(Position position);

  // Positions move in runs: as many as there are copies or chunks, from `first` on.
  //
  // private -> spilled: unmaps and releases the chunks. Takes `copies` only on success. REQUIRES: their bytes
  // have arrived; nothing is kept.
  absl::Status FinishSpill(Position first, absl::Span<HostCopies> copies);
  // Maps the copies of these spilled positions, where that can be; not `may_write`: for reading alone, if the
  // driver can. An error: there is nothing behind the addresses, as before.
  absl::Status MapCopies(Position first, Position count, bool may_write = true);
  // The same of at most `at_most` spilled positions that lie one behind the other, and have nothing behind
  // their addresses yet. False: there are none. What the driver refuses is not tried again.
  bool MapSome(Position at_most, absl::FunctionRef<bool(Position)> may_write);
  // And back: takes away the mapped copies of at most `at_most` spilled positions that lie one behind the
  // other, have no arrival, and of which `may` is true. False: there are none. What the driver refuses is not
  // tried again before something is mapped again. REQUIRES: no device work uses mapped copies.
  bool UnmapSome(Position at_most, absl::FunctionRef<bool(Position)> may);
  // spilled -> restoring. Takes `chunks` only on success. REQUIRES: no device work uses mapped copies.
  absl::Status StartRestore(Position first, absl::Span<Chunk> chunks);
  // restoring -> private: drops the host copies, or keeps that of the constant bytes, if these are still the
  // `constant` ones. REQUIRES: the bytes have arrived.
  void FinishRestore(Position position, const std::vector<Extent>& constant);
  // restoring -> spilled; the chunk goes to the caller.
  absl::StatusOr<Chunk> AbandonRestore(Position position);
  // Where a driver did not let that be: all that are restoring still. REQUIRES: nothing is being copied.
  absl::Status AbandonRestores();
  // Begins an arrival of each of these spilled positions. On an error `chunks` may be gone, and those that
  // have one are to be abandoned.
  // REQUIRES: no device work that is queued writes to mapped copies.
  absl::Status StartArrival(Position first, absl::Span<Chunk> chunks);
  // Where the bytes have to be copied to; 0: there is no arrival.
  DevicePtr arrival(Position position) const {
    return places_[position].arrival.chunk ? aliases_.address() + position * chunk_size_ : 0;
  }
  // spilled -> private; the rest is as for FinishRestore(). On an error all are spilled, and to be abandoned;
  // so they are where one was abandoned before, in vain.
  // REQUIRES: the bytes have arrived; no device work uses mapped copies.
  absl::Status FinishArrival(Position first, absl::Span<const std::vector<Extent>> constant);
  // There is no arrival any more, and the position is as spilled as before. REQUIRES: nothing is being copied
  // for it. An error: to be tried again.
  absl::Status AbandonArrival(Position position);
  // Device memory of arrivals.
  Bytes arriving() const { return arrivals_ * chunk_size_; }

  // spilled or restoring -> empty: nothing alive is left in it. REQUIRES: no arrival; nothing is being
  // copied; no device work uses a mapped copy.
  absl::Status Forget(Position position);

  // What is kept of a private position, if it is of these extents; otherwise it is dropped.
  HostCopy TakeKept(Position position, const std::vector<Extent>& constant);
  // If the position is private, nothing is kept of it.
  void DropKept(Position position);
  // Drops what is kept of the last private position of which something is. False: nothing is kept of any.
  bool DropLastKept();

  // From now on remembers which positions cease or begin to be empty, the newest some thousands; or no
  // longer, and forgets them.
  void RecordChanges(bool on);
  // Those since the last call, in order; neighbours that change one after the other are one.
  std::vector<SegmentChange> TakeChanges();

  // Aborts, naming the first invariant that does not hold.
  void CheckInvariants() const;

 private:
  struct Arrival {
    Chunk chunk;
    bool there = false;      // mapped where the bytes are copied to
    bool abandoned = false;  // in vain so far: its bytes may be anything
  };
  struct Place {
    State state = State::kEmpty;
    ArenaChunkId arena_id = 0;
    Chunk chunk;           // private, arena, restoring
    HostCopies copies;     // spilled, restoring; private: only what is kept, of the constant bytes
    Arrival arrival;       // spilled
    bool vacated = false;  // empty
  };

  Region(const Driver& driver, Range range, Bytes chunk_size, Position positions)
      : driver_(&driver), range_(std::move(range)), chunk_size_(chunk_size), places_(positions) {
    counts_[static_cast<int>(State::kEmpty)] = positions;
  }

  // The place at `position`, which must be in `state`.
  Place& Require(Position position, State state);
  void Enter(Place& place, State state);
  void Remember(const Place& place, bool came);
  absl::StatusOr<Chunk> TakeChunk(Position position, State next);
  // Calls `f(first, count)` for each run within [first, first + count) of places of which `of` is true, until
  // one returns an error.
  template <typename Of, typename Function>
  absl::Status ForEachRun(Position first, Position count, Of of, Function f);
  // The first spilled position from `first` on of which `of` is true, and how many are that lie there one
  // behind the other; none: positions() and 0.
  template <typename Of>
  std::pair<Position, Position> FindRun(Position first, Position at_most, Of of) const;
  // Those copies that are. On an error what has been done is undone, if that is possible.
  absl::Status UnmapCopies(Position first, Position count);
  // The same, and nothing is undone.
  absl::Status TryMapCopies(Position first, Position count, bool may_write);
  absl::Status TryUnmapCopies(Position first, Position count);
  // Device work may read mapped copies and not write to them, or finds nothing there.
  absl::Status ForbidWrites(Position first, Position count);
  void DropArrival(Place& place);
  void KeepConstant(Place& place, const std::vector<Extent>& constant);

  const Driver* driver_;
  Range range_;
  Range aliases_;  // of the same size, from the first arrival on: where chunks are that arrive
  Bytes chunk_size_;
  std::vector<Place> places_;
  Bytes counts_[5] = {};
  std::set<Position> in_[5];  // of each state but kEmpty
  Bytes arrivals_ = 0;
  Position to_map_ = 0;    // no spilled position before it waits for MapSome()
  Position to_unmap_ = 0;  // and none is for UnmapSome()
  bool records_changes_ = false;
  std::vector<SegmentChange> changes_;
};

}  // namespace hocket

#endif  // HOCKET_ALLOCATOR_REGION_H_
