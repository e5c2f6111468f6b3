// A place for every transient allocation of a step that repeats itself.
//
//   a step as it was written down  ->  lifetimes  ->  packing.h  ->  places, as offsets in the region
//   the same step again            ->  each allocation, aligned with the sequence, gets its place
//
// While a plan is followed it has the region's free memory up to its footprint on a lease (block_map.h):
// giving out a place is a table look-up, and freeing it another. No two places overlap while their blocks
// live as long as they did when the step was written down. A block that lives longer, or came out of order,
// is a *stray*: a place that overlaps a stray is not given out. So a step that deviates is never wrong; what
// gets no place here is served by best fit in the memory outside the lease.
//
// Some have their place in persistent memory, at home or as lodgers (homes.h). The plan only names it: the
// block is persistent memory's own, and where the place is not free, best fit must serve.
//
// Only allocations on the stream with the most bytes have places; those of others are served by best fit.
// Knows no device memory, only numbers. Not thread-safe: the allocator's lock guards it.
#ifndef HOCKET_ALLOCATOR_PLAN_H_
#define HOCKET_ALLOCATOR_PLAN_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "allocator/alignment.h"
#include "allocator/block_map.h"
#include "allocator/extents.h"
#include "allocator/homes.h"

namespace hocket {

class Plan {
 public:
  explicit Plan(std::vector<StepEntry> step);

  const std::vector<StepEntry>& step() const { return step_; }
  // The stream whose allocations have places.
  Stream stream() const { return stream_; }
  // The step that begins so may be this one.
  bool BeginsLike(const std::vector<StepEntry>& begun) const;

  // --- places ---
  // Places all, around extents that are taken by others (sorted, not overlapping), unless the present places
  // are outside them already. Without `may_move`, and after a few times, the places stay, and those that are
  // taken are not given out. REQUIRES: no lease.
  void PlaceAround(const std::vector<Extent>& taken, bool may_move = true);
  // There are places, and they are outside these extents.
  bool FitsAround(const std::vector<Extent>& taken) const;
  // Some places are taken by others, and all stay where they are.
  bool stuck() const { return blocked_ && packings_ >= kPackings; }
  // Where the last place ends.
  Bytes footprint() const { return footprint_; }
  // The offsets that places which may be given out cover: sorted, neither overlapping nor touching.
  const std::vector<Extent>& covered() const { return covered_; }

  // --- homes (homes.h) ---
  // It is not known where the survivors lie: whoever sees it in a step of the plan should say so.
  bool WantsHomes() const { return !homes_ && homings_ < kHomings; }
  // nullopt: that cannot be said now. True: the places change. REQUIRES: WantsHomes(), no lease.
  bool SetHomes(std::optional<Homes> homes);
  const std::optional<Homes>& homes() const { return homes_; }
  // The next step is an odd one, or an even one. After a step that was followed that is known.
  void SetOdd(bool odd) { odd_ = odd; }
  // Of the allocation that was answered last: its place in persistent memory.
  DevicePtr home() const { return home_; }
  // That was not free.
  void Missed();
  // The step has ended, and was the plan's in every place.
  void Followed();

  // --- a lease ---
  // Begins and ends with each turn, so all of this takes no time to speak of as long as the base and the
  // places stay, every place was given out, and none is occupied at its end; otherwise a look at each place.
  //
  // Places are given out from now on, at `base` + offset. No block lives.
  void BeginLease(DevicePtr base);
  // The blocks that live, in order of address; no place is given out any more.
  std::vector<Block> EndLease();
  bool leased() const { return base_ != 0; }
  // Calls `f` for the addresses of every place that was given out in this lease, of several together if all
  // were.
  void ForEachUsed(absl::FunctionRef<void(DevicePtr address, Bytes size)> f) const;

  // The sequence begins again, `begun` allocations of it having been served elsewhere; blocks of the step
  // before may live on.
  void BeginStep(std::size_t begun = 0);
  struct Answer {
    bool known = false;      // the allocation answers to one of the plan's
    bool survives = false;   // which outlived its step
    bool deviates = false;   // it should have a place, or answers to nothing
    bool at_home = false;    // its place is home(), in persistent memory, and to be taken there
    Block* block = nullptr;  // its place, taken; nullptr: best fit must serve, if it is not at home
  };
  // REQUIRES: leased.
  Answer Next(Bytes size, Stream stream);
  // Allocations of this step that answered to none of the plan's, or found their place taken.
  std::size_t deviations() const { return deviations_; }
  // Every allocation so far was the plan's, and nothing is missing.
  bool Finished() const { return alignment_.exact() && alignment_.cursor() == step_.size(); }

  // --- blocks ---
  // The live block that starts at `address`; nullptr: none.
  Block* Find(DevicePtr address);
  // The live block that contains it. Looks at all.
  Block* Around(DevicePtr address);
  bool Owns(const Block* block) const {
    return block >= blocks_.data() && block < blocks_.data() + blocks_.size();
  }
  // REQUIRES: Owns(block), and it lives.
  void Free(Block* block);
  // In no order.
  void ForEachBlock(absl::FunctionRef<void(const Block&)> f) const;
  Bytes live_bytes() const { return live_bytes_; }

  // For Plans: when this one was used, and how often it was made for the same allocations.
  std::uint64_t last_use = 0;
  int version = 1;

  // Aborts, naming the first invariant that does not hold.
  void CheckInvariants() const;

 private:
  using Index = std::uint32_t;
  static constexpr Index kNone = ~Index{0};
  static constexpr int kPackings = 8;  // then the places stay
  static constexpr int kHomings = 8;   // then there are no homes
  static constexpr int kLong = 64;     // after so many steps with homes it begins to count anew
  static constexpr int kMisses = 3;    // steps in a row that miss a place: then homes are looked for again

  struct Place {
    Bytes offset = 0;
    Index slot = kNone;           // of its address; kNone: it has no place
    bool blocked = false;         // overlaps what is taken by others
    bool stray = false;           // in strays_
    std::uint64_t last_used = 0;  // number of the lease in which it was given out last
  };

  bool HasPlace(Index index) const { return step_[index].stream == stream_ && !step_[index].survives(); }
  // It has its place in persistent memory.
  bool HasHome(Index index) const { return !at_.empty() && at_[index][odd_] != 0; }
  bool IsIn(const std::vector<Extent>& taken, const Place& place) const;
  void Pack(const std::vector<Extent>& taken);
  void ForgetHomes();
  // Which places may be given out has changed.
  void CountUsable();
  // Every block gets its address.
  void MoveBlocks(DevicePtr base);
  // The sequence begins again, and no block of the step before lives.
  void Restart(std::size_t begun);
  // Blocks whose end was planned before `now` and that live are strays.
  void PassEnds(std::uint32_t now);
  void GoBack(Index to, Index mistake);
  void AddStray(Index index);
  // Forgets strays that are gone. True if one that lives overlaps the place.
  bool MeetsStray(Index index);

  // Constant after construction.
  std::vector<StepEntry> step_;
  Stream stream_ = nullptr;
  std::vector<Index> ends_;  // entries with a place, in the order in which they are freed

  // Of the present packing.
  std::vector<Place> places_;                // of each entry
  std::vector<Extent> taken_;                // around which it was made
  absl::flat_hash_map<Bytes, Index> slots_;  // offset -> slot: places at one address share a slot
  std::vector<Extent> covered_;
  std::size_t usable_ = 0;  // places that may be given out
  Bytes footprint_ = 0;
  bool blocked_ = false;  // some place is
  int packings_ = 0;

  // Places in persistent memory, of survivors and lodgers.
  std::optional<Homes> homes_;
  std::vector<EvenAndOdd> at_;  // of each entry; 0: none. Empty: of none
  int homings_ = 0;
  int followed_ = 0;     // steps since homes were set
  int misses_ = 0;       // steps in a row
  bool missed_ = false;  // in the present step
  bool odd_ = false;
  DevicePtr home_ = 0;  // of the last answer, if that is at home

  // For the places at one base. Between leases all blocks are free and no slot is occupied.
  DevicePtr blocks_base_ = 0;    // 0: of no base
  std::vector<Block> blocks_;    // of each entry; free: not given out
  std::vector<Index> occupant_;  // of each slot

  // Of the present lease.
  DevicePtr base_ = 0;
  std::uint64_t lease_ = 0;  // its number, from 1
  std::size_t used_ = 0;     // places given out in it
  std::vector<Index> strays_;
  Bytes live_bytes_ = 0;

  // Of the present step.
  Alignment alignment_;
  std::size_t next_end_ = 0;  // in ends_
  std::size_t deviations_ = 0;
};

}  // namespace hocket

#endif  // HOCKET_ALLOCATOR_PLAN_H_
