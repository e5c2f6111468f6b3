// The one implementation of CachingAllocator; its header is caching_allocator.h.
//
//   allocator_impl.cc   PyTorch's side: malloc, free, growth, what is done when memory runs out
//   pools.cc            private pools of CUDA graphs
//   elsewhere.cc        streams of other devices that use this one's memory
//   gather.cc           empty chunks of the transient region, mapped where they are needed
//   planned.cc          steps, and placing by plan
//   turns.cc            the client's side: turns, spill and restore, the lane's arena
//   stages.cc           memory that comes back while the turn lasts
//   report.cc           what it says of itself: statistics, snapshot, out-of-memory text, invariants
//
// Lock order: the allocator's mutex, then whatever Gate::ArenaGrew() and ArenaLost() take. Nothing is held
// while a thread waits for the turn or for room.
#ifndef HOCKET_ALLOCATOR_ALLOCATOR_IMPL_H_
#define HOCKET_ALLOCATOR_ALLOCATOR_IMPL_H_

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "allocator/arena.h"
#include "allocator/caching_allocator.h"
#include "allocator/event.h"
#include "allocator/headroom.h"
#include "allocator/host_memory.h"
#include "allocator/in_context.h"
#include "allocator/pacer.h"
#include "allocator/pending_frees.h"
#include "allocator/plans.h"
#include "allocator/space.h"
#include "allocator/spill.h"
#include "allocator/survivors.h"
#include "csrc/base/mutex.h"

namespace hocket {

class AllocatorImpl final : public CachingAllocator {
 public:
  static absl::StatusOr<std::unique_ptr<CachingAllocator>> Create(Driver& driver,
                                                                  const AllocatorOptions& options,
                                                                  Gate* gate);
  ~AllocatorImpl() override;

  absl::StatusOr<DevicePtr> Malloc(Bytes size, Stream stream) override;
  void Free(DevicePtr block) override;
  void RecordStream(DevicePtr block, Stream stream) override;
  absl::Status RecordStreamOf(int device, DevicePtr block, Stream stream) override;
  void EmptyCache() override;
  bool Owns(DevicePtr address) const override;
  absl::StatusOr<std::pair<DevicePtr, Bytes>> BlockOf(DevicePtr address) const override;
  absl::StatusOr<BlockSnapshot> LiveBlock(DevicePtr address) const override;
  bool IsSpilled(DevicePtr address, Bytes size) const override;
  absl::StatusOr<Bytes> DeclareConstant(DevicePtr address, std::shared_ptr<const Promise> promise) override;
  void EndConstant(DevicePtr address) override;
  absl::StatusOr<Bytes> SetStage(DevicePtr address, Stage stage) override;
  bool HasStages() const override { return has_stages_; }
  absl::Status AwaitStage(Stage stage, Stream stream) override;
  void BeginAllocateToPool(PoolId pool, std::function<bool(Stream)> filter, bool captures,
                           Stream captured) override;
  void EndAllocateToPool(PoolId pool) override;
  void ReleasePool(PoolId pool) override;
  PoolId PoolOf(DevicePtr address) const override;
  absl::StatusOr<PoolCheckpoint> CheckpointPool(PoolId pool) const override;
  absl::StatusOr<PoolDelta> ReturnToCheckpoint(const PoolCheckpoint& checkpoint) override;
  Usage InUse() const override;
  DeviceStats Stats() const override;
  void ResetPeakStats() override;
  void ResetAccumulatedStats() override;
  std::vector<SegmentSnapshot> Snapshot() const override;
  void RecordSegments(bool on) override;
  std::vector<SegmentChange> TakeSegmentChanges() override;
  using CachingAllocator::SetMemoryLimit;
  void SetMemoryLimit(Bytes limit, const std::string& together) override;
  void SetOwnLimit(Bytes limit) override;
  Bytes MemoryLimit() const override;
  Bytes LargestFree() const override;

  void BeginStep() override;
  void EndStep() override;
  absl::Status Drain() override;
  absl::Status DrainLocked() override;
  bool IsIdle() override;
  std::string LastingError() const override { return driver_.LastingError(); }
  bool Capturing() const override;
  void SetPace(std::chrono::nanoseconds most_queued) override { pacer_.SetPace(most_queued); }
  void ShedCache() override;
  void Lock() override ABSL_NO_THREAD_SAFETY_ANALYSIS { mutex_.Lock(); }
  void Unlock() override ABSL_NO_THREAD_SAFETY_ANALYSIS { mutex_.Unlock(); }
  absl::Status TakeTurn(bool for_step, Bytes* missing) override;
  absl::StatusOr<Bytes> RestoreAhead(Bytes at_most) override;
  void PassTurn() override;
  absl::StatusOr<Bytes> SpillInParts(Bytes wanted, const SpillParts& parts) override;
  bool MapSpilled() override;
  bool UnmapSpilled() override;
  void ExpectStrays(bool expected) override;
  absl::Status AddArenaChunk(ArenaChunkId id, Bytes size, UniqueFd descriptor) override;
  void DropArenaChunk(ArenaChunkId id) override;
  void DropWholeArena() override;
  void LeaveArena() override;
  void ExportArena(absl::Span<const ArenaChunkId> chunks, bool descriptors,
                   absl::FunctionRef<void(ArenaChunkId, Bytes, UniqueFd)> announce) override;
  Holdings Held() const override;
  std::optional<Bytes> DeviceFree() const override;
  Bytes LackingHeadroom() const override;
  void CheckInvariants() const override;

 private:
  using Position = Region::Position;

  // One Malloc() on its way.
  struct Request {
    Bytes asked = 0;
    Bytes size = 0;  // rounded up
    Stream stream = nullptr;
    Space* space = nullptr;    // where it is to lie; nullptr: not decided yet
    Block* planned = nullptr;  // a plan has placed it
    bool deviates = false;     // from the plan that is followed
    PoolIndex pool = 0;
    Fit fit = Fit::kBest;
    Birth birth;
    Bytes missing = 0;         // device bytes that the last attempt could not get
    bool over_limit = false;   // it failed at the job's own limit: nobody else can help
    bool has_shed = false;     // the allocator above has given back what it can
    bool last_resort = false;  // nobody gives room: take whatever the arena can spare
  };

  struct Pool {
    PoolId id;
    bool released = false;
  };
  struct OpenPool {
    PoolIndex index;
    std::function<bool(Stream)> filter;
    bool captures;
    Stream captured;         // by the capture that begins on it; nullptr: not known
    std::thread::id captor;  // begins it as the next that it does
    bool begun = false;      // it was seen
  };

  AllocatorImpl(Driver& driver, const AllocatorOptions& options, Gate* gate, ContextHandle context,
                Bytes capacity);
  absl::Status Reserve(bool verify);

  bool HoldsTurn() const { return gate_ == nullptr || gate_->HoldsTurn(); }

  // --- allocator_impl.cc ---
  // One attempt with the turn; `turn_lost`: there is none any more.
  absl::StatusOr<DevicePtr> Attempt(Request& request, bool* turn_lost);
  void Decide(Request& request) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // In the first step nothing is known: what is as large as a parameter is taken for its gradient or its
  // optimizer's state, as long as there are no more of them than there should be.
  bool LooksPersistent(Bytes size) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<Block*> Place(Request& request) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<Block*> PlaceInCache(Request& request) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Grow(Request& request) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // What is said where the job's own limit leaves no room.
  absl::Status AtTheLimit() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // With a free chunk of the arena, else the last of `gathered`, else a new one.
  absl::Status BackTransient(Position position, Stream stream, std::vector<Position>& gathered)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status BackWithNewArenaChunk(Position position, Stream stream) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // In a job's first steps: whether the arena's last free chunk is one that this job has made; if need be,
  // empty ones are taken from their places, which waits for the device.
  bool ArenaCanSpare() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Of the driver. Where less than the headroom stays free others are asked for it.
  absl::StatusOr<Chunk> NewChunk() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Of the driver, unless that would leave less than the headroom.
  absl::StatusOr<Chunk> ChunkBesideHeadroom() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // `taken` bytes have been: see Headroom.
  void AskForHeadroom(Bytes taken) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // A chunk for private memory: from the driver, else one that the lane's arena can spare. In the first steps
  // the other way round.
  absl::StatusOr<Chunk> NewPrivateChunk(bool any_of_arena) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Waits for all device work, then gives back what no block uses.
  void FreeCache() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // REQUIRES: no device work is under way. Of other devices', what has been waited for at most so long.
  void AllStreamsPassed(Clock::duration patience = kAsLongAsItTakes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Private chunks that no block and no graph needs.
  std::vector<Position> Releasable(const Space& space) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ReleaseEmptyPrivate(Space& space) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void UnplaceEmptyArena() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Space& SpaceOf(DevicePtr address) const;
  Block* FindBlock(DevicePtr address) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The block that contains `address`, in its space and no plan's; nullptr: none.
  Block* FindInSpace(DevicePtr address) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // For the verifier.
  std::string ConstantAt(DevicePtr address) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Drops the host's copy of some constant memory that is on the device; false: there is none.
  bool DropKept();
  static bool InForkedChild();
  void FreeNow(DevicePtr block) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void FreeSegment(Block& segment) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // --- elsewhere.cc ---
  // Now, or when the streams that it was recorded on have passed.
  void FreeAfterStreams(Block& block) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Other devices' streams that blocks in use are recorded on are done. kFailedPrecondition: not within
  // `patience`; another error: that cannot be known.
  absl::Status AwaitElsewhere(Clock::duration patience) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  static absl::Status UsedElsewhere();

  // --- pools.cc ---
  bool PoolIsReleased(PoolIndex pool) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // 0: no pool of this id is known.
  PoolIndex Find(PoolId id) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  PoolIndex FindOrAdd(PoolId id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The first index that is that of no pool, or of a released one without memory.
  PoolIndex UnusedPool() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // A pool that is known and not released.
  absl::StatusOr<PoolIndex> Require(PoolId id) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<PoolDelta> Return(const PoolCheckpoint& checkpoint) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether other work of the device than that of one stream may still use the pool's memory.
  bool MustWait(PoolIndex pool, const PoolCheckpoint& checkpoint) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool IsMemoryOf(PoolIndex pool, const PoolCheckpoint::Block& block) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // --- gather.cc ---
  // Up to `most` positions of the transient region whose chunks could lie elsewhere for what `stream` is
  // given next: of those for which not `stays`.
  std::vector<Position> Gatherable(Stream stream, std::size_t most, absl::FunctionRef<bool(Position)> stays)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Those that the growth needs beyond the arena's free chunks, and does not count on as they lie.
  std::vector<Position> GatherableFor(const BlockMap::Growth& growth, Stream stream)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Moves the chunk at the last of them; it is none of them any more. False: there is none, or it cannot be
  // mapped.
  bool Gather(std::vector<Position>& gathered, Position to, Stream stream)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Not too many are vacated; if need be, after a wait for the device.
  bool MayVacate() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // A step begins.
  void PayForGathering() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // REQUIRES: no device work is under way.
  void ClearVacated() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Those that no device work can use any more, without waiting for it.
  void PollVacated() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // --- planned.cc ---
  // A block that the present step's plan places, or what it says of it.
  Plan::Answer AskPlan(Bytes size, Stream stream) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Puts memory behind the plan's places and lends it to the plan; false: there is not enough.
  bool Lease(Plan& plan, bool may_move) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool BackPlaces(const Plan& plan) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // A step of the plan has ended: where its survivors lie.
  void LearnHomes(Plan& plan) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Of free persistent memory what lies in chunks with blocks.
  void AddInUsedChunks(const Block& free, std::vector<Extent>& extents) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool IsBacked(DevicePtr address, Bytes size) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The place in persistent memory that the plan has just named; nullptr: it is not free.
  Block* TakeHome(const Request& request) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Chunks that have been given back come behind it again. False: none is missing, or can be had.
  bool BackHome(DevicePtr address, Bytes size) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Takes the arena's chunks away from empty positions that a plan does not need.
  void UnplaceOutside(const std::vector<bool>& needed) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // No hand-over has given back what the job no longer uses: does it now, where that is worth a wait for the
  // device. `arena_too`: and what has not been used of the arena since the last ForgetUse().
  void Tidy(bool arena_too) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // What spills have not needed for a while.
  void ReturnHostMemory() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // What Tidy() would give back: releasable private chunks; arena chunks created here in which no block has
  // lain since then.
  Bytes UnusedPrivate() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Bytes UnusedArena() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The region is whole again: to be called before anything looks at its positions. In mid-step the plan is
  // left for the rest of the step: what it has placed cannot be aligned with it again, and whoever ends a
  // lease then needs its memory.
  void EndLease() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // --- turns.cc ---
  absl::Status WaitForDevice();
  // Whether there is work on the device, queued by whom ever. An error: that cannot be seen (a capture that
  // Hocket has not been told of, or a driver that fails).
  absl::StatusOr<bool> LookForWork() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The same in two steps: what was queued before the first is seen by the second, which comes when all else
  // that was queued then should be done.
  absl::Status BeginLook(ScopedEvent& event) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<bool> SeesWork(ScopedEvent& event) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status RecordBehindWork(ScopedEvent& event) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // OK where there is none.
  absl::Status CheckIdle(const char* when) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status CheckNone(const absl::StatusOr<bool>& work, const char* when)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // No thread of this job that Hocket knows of works now: counts whoever does. False: nobody does.
  bool NoteStray() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Strays are to be expected: spilled memory has its copy behind its addresses at all times.
  bool MapsAtOnce() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Before other memory lies at spilled addresses, work that uses what is mapped there now must be over.
  void AwaitStrays() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // What `restore` says, which brings bytes back: after AwaitStrays(), and whoever works then is counted.
  absl::Status AmongStrays(absl::FunctionRef<absl::Status()> restore) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status NoCapture() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool GoesOn(OpenPool& capture) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ForgetFailedCaptures() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Chunks that the arena holds beyond what this job used of it in its recent turns.
  Bytes ArenaSurplus() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Takes the arena's last free chunk for this job. REQUIRES: one is free.
  Chunk TakeFromArena() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Of stages up to `last`. Calls `meanwhile` once, when all their copies are queued, if they could be.
  absl::Status RestoreAll(Stage last, absl::FunctionRef<void()> meanwhile)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Of `space`, as many of these positions as `new_chunk` gives chunks for.
  Spiller::Outcome RestoreSome(Space& space, absl::Span<const Position> positions,
                               absl::FunctionRef<absl::StatusOr<Chunk>()> new_chunk,
                               absl::FunctionRef<void()> meanwhile) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // `full`: the driver had no chunk before, and need not be asked as long as the arena has one.
  absl::StatusOr<Chunk> ChunkForRestore(bool& full) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether a chunk of the arena is free; if need be, an empty one is taken from its place.
  bool ArenaHasFree() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Lost(ArenaChunkId id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void AdoptSurvivors() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Gives back the chunks that this job created and has not used for more than so many turns.
  void TrimArena(int idle_turns) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // No descriptor: it cannot be had.
  UniqueFd Export(const Arena::Member& member) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void DropAll() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Drop(const std::vector<ArenaChunkId>& ids) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Drop(ArenaChunkId id, bool device_done) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Adopt(Position position) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Bytes ArenaInUse() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // In the midst of a turn: what of the arena is used is seen anew from here on.
  void ForgetArenaUse() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // --- stages.cc ---
  // A spilled position whose bytes are on their way.
  struct Sent {
    Space* space = nullptr;
    Position position = 0;
    Stage stage = 0;
    std::shared_ptr<ScopedEvent> arrived;  // nullptr: they have
  };
  std::atomic<bool> has_stages_{false};
  bool MayFollow() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Sends all that is spilled. Of what has no chunk, and what is behind it, nothing is on its way.
  absl::Status SendAll() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // How many of the first, for which `may`, lie one behind the other in one space.
  template <typename May>
  static std::size_t RunOf(absl::Span<const Sent> sent, May may);
  absl::Status Send(absl::Span<Sent> run, bool& full) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The first that were sent, of stages up to `last`, with this event behind them.
  absl::Span<const Sent> FirstOf(const std::shared_ptr<ScopedEvent>& event, Stage last) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The first `count` that were sent take their places. False: some has not; it is as spilled as before, or
  // its arrival lasts. REQUIRES: they have arrived, and no device work uses what is mapped there.
  bool Receive(std::size_t count) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool ReceiveRun(absl::Span<const Sent> run) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // All of it, after waiting for the device. An error: some of it has an arrival still.
  absl::Status ReceiveAll() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // What was sent is spilled as before, the last stages first, until it is `enough`; what nobody needs any
  // more in any case. REQUIRES: it has arrived, and nobody waits for it.
  void AbandonSent(absl::FunctionRef<bool()> enough) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SentChanged() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // --- report.cc ---
  void CountAllocated(const Block& block) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CountFreed(const Block& block) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);     // PyTorch gave it back
  void CountInactive(const Block& block) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);  // and no stream uses it
  // What was born in the step that is under way and lives.
  Bytes& BornBeside(const Block& block) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CountSurvivors() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);  // its step has ended
  void CountReserved() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // What is counted only now and then; counting changes nothing else.
  void CountPools() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CountSplits() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Bytes Reserved() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Holdings HeldLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // PyTorch's text, with who holds what; `others` is what the gate said.
  absl::Status OutOfMemory(const Request& request, const absl::Status& cause, const absl::Status& others);

  // Constant after construction.
  Driver& driver_;
  Gate* const gate_;  // nullptr: no turns
  const ContextHandle context_;
  const int device_;
  const Bytes capacity_;
  const bool shares_arena_;
  const bool serves_segments_;
  const std::function<void()> shed_cache_;
  Bytes chunk_size_;
  std::unique_ptr<HostMemory> host_;
  std::unique_ptr<Space> persistent_;
  std::unique_ptr<Space> transient_;
  std::unique_ptr<Spiller> spiller_;

  Pacer pacer_;  // has a lock of its own, and is called without the other
  mutable Mutex mutex_;
  Arena arena_ ABSL_GUARDED_BY(mutex_);
  std::vector<Sent> sent_ ABSL_GUARDED_BY(mutex_);  // in order of stage
  // The first stage of sent_, for those who hold the lock or not; kNothingSent: none.
  static constexpr Stage kNothingSent = kLastStage + 1;
  std::atomic<Stage> first_sent_{kNothingSent};
  // Behind all that may use the first `vacated_before_` of the transient region's vacated positions; nullptr:
  // not recorded.
  std::unique_ptr<ScopedEvent> vacated_passed_ ABSL_GUARDED_BY(mutex_);
  std::size_t vacated_before_ ABSL_GUARDED_BY(mutex_) = 0;
  std::size_t gathered_unpaid_ ABSL_GUARDED_BY(mutex_) = 0;  // chunks
  bool sees_all_streams_ ABSL_GUARDED_BY(mutex_) = false;    // the last look for work
  bool in_turn_ ABSL_GUARDED_BY(mutex_) = true;              // the job may have work on the device
  const bool verifies_;
  std::atomic<bool> expects_strays_{false};
  Survivors survivors_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<Bytes, int> look_alikes_ ABSL_GUARDED_BY(mutex_);  // first step: how many more, by size
  Plans plans_ ABSL_GUARDED_BY(mutex_);
  Plan* plan_ ABSL_GUARDED_BY(mutex_) = nullptr;  // the one that has the lease
  static constexpr int kFirstSteps = 3;
  int steps_ended_ ABSL_GUARDED_BY(mutex_) = 0;           // with allocations; no more than kFirstSteps
  int steps_since_tidy_ ABSL_GUARDED_BY(mutex_) = 0;      // or a hand-over
  bool may_follow_plan_ ABSL_GUARDED_BY(mutex_) = false;  // in this step
  bool lodgers_came_ ABSL_GUARDED_BY(mutex_) = false;     // since the last Tidy() of the arena
  PendingFrees pending_ ABSL_GUARDED_BY(mutex_);
  // By the address of a block in use: streams of other devices that it is recorded on. Empty, as a rule.
  absl::flat_hash_map<DevicePtr, std::vector<StreamElsewhere>> used_elsewhere_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<int, ContextHandle> other_contexts_ ABSL_GUARDED_BY(mutex_);  // by device
  std::vector<Pool> pools_ ABSL_GUARDED_BY(mutex_);                                 // index: PoolIndex - 1
  std::vector<OpenPool> open_pools_ ABSL_GUARDED_BY(mutex_);
  std::atomic<int> captures_{0};  // how many of open_pools_ capture, for those who hold the lock or not
  Headroom headroom_ ABSL_GUARDED_BY(mutex_);
  // The least that calls of TakeTurn() in a row have lacked, and how many of them came no nearer: after one,
  // room has been asked for, and nobody gave any. Then the arena and the headroom are taken.
  static constexpr Bytes kNothingTried = ~Bytes{0};
  static constexpr int kOnceInVain = 1;
  Bytes least_missing_ ABSL_GUARDED_BY(mutex_) = kNothingTried;
  int in_vain_ ABSL_GUARDED_BY(mutex_) = 0;
  Bytes told_limit_ ABSL_GUARDED_BY(mutex_);
  Bytes own_limit_ ABSL_GUARDED_BY(mutex_);
  Bytes limit_ ABSL_GUARDED_BY(mutex_);  // the smaller of the two
  std::string limit_together_ ABSL_GUARDED_BY(mutex_);
  bool left_arena_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<Bytes> turn_peaks_ ABSL_GUARDED_BY(mutex_);  // arena bytes used, of the last turns
  Bytes turn_peak_ ABSL_GUARDED_BY(mutex_) = 0;            // of this one, until its use was forgotten last
  Bytes most_alive_ ABSL_GUARDED_BY(mutex_) = 0;           // at a step's end
  // Born in this step, and not freed: of the transient region, and of the persistent one.
  Bytes born_transient_ ABSL_GUARDED_BY(mutex_) = 0;
  Bytes born_persistent_ ABSL_GUARDED_BY(mutex_) = 0;
  Bytes most_reserved_ ABSL_GUARDED_BY(mutex_) = 0;  // at any time; PyTorch's peaks can be reset
  mutable DeviceStats stats_ ABSL_GUARDED_BY(mutex_);
  Holdings totals_ ABSL_GUARDED_BY(mutex_);  // only the sums since the start
};

}  // namespace hocket

#endif  // HOCKET_ALLOCATOR_ALLOCATOR_IMPL_H_
