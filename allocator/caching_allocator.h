// One process's memory on one device, as PyTorch and the client see it.
//
//   PyTorch  -> Malloc, Free, RecordStream, EmptyCache, Stats        (block layer)
//   client   -> BeginStep, TakeTurn, PassTurn, Spill, arena messages (chunk layer)
//
// A block's address is fixed for its whole life; the memory behind it is not. Blocks lie in two address
// regions that never share a chunk:
//
//   persistent  chunks of this job's own; spilled to host memory and restored at the same addresses
//   transient   chunks of the lane's arena, mapped in every job of the lane; whoever has the turn uses
//               them. A block that is alive when the turn passes (a survivor) keeps its bytes: its
//               chunks are *adopted*, that is, they leave the arena and become this job's own, in
//               place and without a copy (docs/decisions/0002).
//
// Thread-safe. Malloc and Free come from PyTorch on any thread. See allocator/README.md for the states of a
// chunk, what is promised to PyTorch, and what is not done.
#ifndef HOCKET_ALLOCATOR_CACHING_ALLOCATOR_H_
#define HOCKET_ALLOCATOR_CACHING_ALLOCATOR_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "allocator/driver.h"
#include "allocator/gate.h"
#include "allocator/host_clock.h"
#include "allocator/promise.h"
#include "allocator/stage.h"
#include "allocator/stats.h"

namespace hocket {

struct AllocatorOptions {
  int device = 0;          // ordinal, as the driver counts
  Bytes chunk_size = 0;    // 0: chosen from the device's capacity (docs/decisions)
  Bytes memory_limit = 0;  // of this job on this device, resident and spilled; 0: the device's capacity
  Bytes host_budget = 0;   // host memory for spilled bytes; 0: as much as is left free for others
  // What should stay free on the device for what the program takes beside this allocator's memory (streams,
  // libraries' handles, code): others are asked for it (Gate::LacksHeadroom). An allocation does not wait for
  // it, a restore asks once.
  Bytes headroom = 0;
  bool verify = false;       // what is spilled and restored is read back and compared (verifier.h)
  bool shares_arena = true;  // false: no other job will ever map our chunks (one job alone, tests)
  // The blocks are segments of an allocator that caches them: PyTorch's own, over cudaMalloc and cudaFree.
  // Then every block is persistent and may be used on any stream, and Free() does what cudaFree does.
  bool serves_segments = false;
  // Asks that allocator to give back the segments that nothing uses: before another job is asked for room, on
  // the thread in Malloc(), and in ShedCache(). May call Free().
  std::function<void()> shed_cache = nullptr;
  HostClock clock = {};
};

// What a job holds, for the coordinator's ledger.
struct Holdings {
  Bytes persistent = 0;      // private chunks resident on the device, adopted ones included
  Bytes following = 0;       // of it, chunks whose bytes are on their way (SetStage)
  Bytes arena = 0;           // chunks of the lane's arena known here (each is counted once per lane)
  Bytes spilled = 0;         // private chunks whose bytes lie on the host: what must come back first
  Bytes host_left = 0;       // so much more could be spilled
  Bytes chunk = 0;           // of the device: spilled bytes come back in wholes of it
  Bytes transient_peak = 0;  // arena chunks in which a block lay at any time of the last turn
  // Since the start: the most that was alive at a step's end; what lay behind addresses at one time was more.
  Bytes most_held = 0;
  Bytes most_transient = 0;          // at most, by so much, however briefly
  Bytes spilled_total = 0;           // bytes copied to the host since the start (live ones only)
  Bytes restored_total = 0;          // and back
  std::uint64_t host_taking_ns = 0;  // that taking host memory from the system took since the start
  Bytes spared_total = 0;            // constant ones that spills did not copy because the host had them
  Bytes adopted_total = 0;           // bytes of survivors' chunks adopted since the start, and
  Bytes adopted_last = 0;            // of these, at the last hand-over
  Bytes adopted = 0;                 // such chunks that it holds now, resident and spilled
  Bytes gathered_total =
      0;  // bytes of empty chunks mapped elsewhere since the start, before others were taken
  // How often device work was seen, since the start, of a thread that Hocket has not seen while the job was
  // spilled, about to be or on its way. Work that came and went between two looks is not counted.
  std::uint64_t strays = 0;
  bool maps_spilled = false;  // spilled addresses map their host copy: such work is slow, and right
  // Allocations in steps since the start: all, those that a plan placed, and those that deviated from the
  // plan that was followed (for the others none was, or they outlived their step without a home in it).
  std::uint64_t step_allocations = 0;
  std::uint64_t planned_allocations = 0;
  std::uint64_t deviating_allocations = 0;
  // Of the planned ones, those that lie in private chunks while what outlives a step is away.
  std::uint64_t lodged_allocations = 0;
  // Bytes of blocks that outlived the step they were born in, since the start; and of these, of those that
  // lay in persistent memory, as foreseen: nothing of them is to be adopted.
  Bytes survived_total = 0;
  Bytes foreseen_total = 0;
};

// The blocks in use of a graph's private pool, as they were at one moment.
struct PoolCheckpoint {
  struct Block {
    DevicePtr address = 0;
    Bytes size = 0;
    Bytes requested = 0;
    Stream stream = nullptr;
  };
  std::pair<std::uint64_t, std::uint64_t> pool;
  std::vector<Block> blocks;  // in order of address
};

// What a return to a checkpoint did: a block that is in use before and after is in both.
struct PoolDelta {
  std::vector<DevicePtr> freed;
  std::vector<DevicePtr> allocated;
};

// A spill that is told of while it lasts.
struct SpillParts {
  Bytes size = 0;  // of a part; 0: the allocator's choice
  // After each part, with the bytes given back so far and what is held. With the allocator locked.
  std::function<void(Bytes given_back, const Holdings& held)> told = nullptr;
};

class CachingAllocator {
 public:
  // `driver` and `gate` are borrowed and must outlive the allocator. The calling thread's current context,
  // and so its current device, stays what it was. kInvalidArgument: a limit above the device's capacity.
  static absl::StatusOr<std::unique_ptr<CachingAllocator>> Create(Driver& driver,
                                                                  const AllocatorOptions& options,
                                                                  Gate* gate);
  virtual ~CachingAllocator() = default;

  // --- PyTorch's side -----------------------------------------------------------------------------

  // A block of at least `size` bytes (rounded up to 512), usable on `stream` at once. Without the turn it
  // waits for it first. size == 0 gives address 0.
  // kResourceExhausted: PyTorch's out-of-memory text, with who holds what.
  virtual absl::StatusOr<DevicePtr> Malloc(Bytes size, Stream stream) = 0;

  // REQUIRES: `block` came from Malloc() and is not yet freed; aborts with the address otherwise. Never
  // blocks for a turn. A segment (AllocatorOptions::serves_segments): waits until the device is done, and
  // gives chunks that nothing uses back to the driver; while a graph is captured that is left for later.
  virtual void Free(DevicePtr block) = 0;

  // `block` is used on `stream` too: its memory is not reused before that stream has passed this point.
  virtual void RecordStream(DevicePtr block, Stream stream) = 0;

  // The same for a stream of another device, by its ordinal: copies between devices may use the block there.
  // Work on that stream which neither it nor a stream of this device waits for is waited for before memory
  // moves to the host, too, from now until the block is freed. An error: that device cannot be used.
  virtual absl::Status RecordStreamOf(int device, DevicePtr block, Stream stream) = 0;

  // Gives memory that no block uses back to the driver (persistent region) or the lane.
  virtual void EmptyCache() = 0;

  // `address` is one at which only this allocator gives out blocks. Takes no lock, and looks at no block.
  virtual bool Owns(DevicePtr address) const = 0;

  // The block that contains `address`: its start and size. kNotFound when it is not ours.
  virtual absl::StatusOr<std::pair<DevicePtr, Bytes>> BlockOf(DevicePtr address) const = 0;

  // The block that starts at `address` and that PyTorch holds. kNotFound: none does.
  virtual absl::StatusOr<BlockSnapshot> LiveBlock(DevicePtr address) const = 0;

  // Whether some of these bytes lie on the host now.
  virtual bool IsSpilled(DevicePtr address, Bytes size) const = 0;

  // From now on nobody writes to the block that contains `address`, until it is freed (a return to a
  // checkpoint frees, too) or EndConstant(): what spills copy of it stays on the host and is not copied
  // again, as long as host memory suffices. A promise given for it before stays, unless it is broken; one
  // that watches something else is kept beside it. Returns the block's size. kNotFound: no block is there.
  // kInvalidArgument: the promise is about a part of the block. kFailedPrecondition: too many promises are
  // kept beside each other, and now there is none. kUnimplemented: segments, whose owner gives their memory
  // to others without a word here (AllocatorOptions::serves_segments).
  virtual absl::StatusOr<Bytes> DeclareConstant(DevicePtr address,
                                                std::shared_ptr<const Promise> promise) = 0;
  // It may be written to again, as any other. Where there is no block or no promise: nothing.
  virtual void EndConstant(DevicePtr address) = 0;

  // The block that contains `address` need not be back when a turn begins with a step, but when
  // AwaitStage(stage) returns (0: when the turn begins, as every block at first), until it is freed. Its
  // memory comes back in order of stage while the step runs, and until then may be read by device work,
  // slowly, where the driver maps host memory for reading alone; anything else is a fault. Worth declaring
  // where all of a chunk is of later stages: it comes back with the earliest of its blocks. Returns the
  // block's size. kNotFound, kUnimplemented: as for DeclareConstant().
  virtual absl::StatusOr<Bytes> SetStage(DevicePtr address, Stage stage) = 0;
  // Some memory has had a later stage than the first. Takes no lock.
  virtual bool HasStages() const = 0;
  // Waits until memory of stages up to this one is there for work that is queued from now on. If there is
  // something to wait for, also until `stream`, and the streams that this memory was allocated on and
  // recorded for, are done with what they were given before; otherwise constant time, without a lock. An
  // error: some of it cannot be brought back.
  virtual absl::Status AwaitStage(Stage stage, Stream stream) = 0;

  // Private pools, of CUDA graphs and a program's own: allocations on streams for which `filter` holds go to
  // the pool's own persistent chunks until EndAllocateToPool, which ends what was begun last with this pool.
  // `captures`: a graph is captured into it, and until then nothing moves and nothing is waited for. That
  // begins on the stream `captured` as the next that the calling thread does; a capture that has failed there
  // ends it, too: not every PyTorch says so (2.11). nullptr: it is not known on which. Chunks of a pool are
  // kept, and spilled whole, until ReleasePool, which says that nothing uses the pool any more.
  using PoolId = std::pair<std::uint64_t, std::uint64_t>;
  virtual void BeginAllocateToPool(PoolId pool, std::function<bool(Stream)> filter, bool captures,
                                   Stream captured = nullptr) = 0;
  virtual void EndAllocateToPool(PoolId pool) = 0;
  virtual void ReleasePool(PoolId pool) = 0;

  // The pool that the block which contains `address` is of; {0, 0}: none.
  virtual PoolId PoolOf(DevicePtr address) const = 0;

  // The blocks in use of a pool. kNotFound: there is none of this id, or it is released.
  virtual absl::StatusOr<PoolCheckpoint> CheckpointPool(PoolId pool) const = 0;
  // Frees every block of the pool and allocates those of `checkpoint`, at their addresses. No byte changes,
  // and nothing is waited for but, where blocks were used on several streams, the device. Without the turn it
  // waits for that first.
  // kNotFound: as above, or memory of the checkpoint is no longer the pool's. kFailedPrecondition: the device
  // would have to be waited for while a graph is being captured. Nothing has changed then.
  virtual absl::StatusOr<PoolDelta> ReturnToCheckpoint(const PoolCheckpoint& checkpoint) = 0;

  // Two of Stats()'s numbers, without looking at every block.
  virtual Usage InUse() const = 0;
  virtual DeviceStats Stats() const = 0;
  virtual void ResetPeakStats() = 0;
  virtual void ResetAccumulatedStats() = 0;
  virtual std::vector<SegmentSnapshot> Snapshot() const = 0;
  // Whether changes of segments are kept from now on (the newest some thousands) for TakeSegmentChanges(),
  // which gives those since its last call.
  virtual void RecordSegments(bool on) = 0;
  virtual std::vector<SegmentChange> TakeSegmentChanges() = 0;

  // `together`, in words, where it is what a cap of several jobs leaves this one: for the error.
  virtual void SetMemoryLimit(Bytes limit, const std::string& together) = 0;
  void SetMemoryLimit(Bytes limit) { SetMemoryLimit(limit, ""); }
  // What the program allows itself (torch.cuda.set_per_process_memory_fraction). It lifts no other limit.
  virtual void SetOwnLimit(Bytes limit) = 0;
  // The smaller of the two.
  virtual Bytes MemoryLimit() const = 0;
  // The largest Malloc() that could succeed now without anybody's help.
  virtual Bytes LargestFree() const = 0;

  // --- the client's side --------------------------------------------------------------------------
  // Called with the device's context current or not: each call sees to it and leaves it as it was.

  // A step of this job begins or ends; new blocks are placed by prediction in between. Constant time.
  virtual void BeginStep() = 0;
  virtual void EndStep() = 0;

  // Waits until everything this process has queued on the device, on any stream, is done. Blocks without
  // spinning. kFailedPrecondition: a graph is being captured, which a wait would spoil; nothing was waited
  // for. Any other error: the device has failed, and has no work left.
  virtual absl::Status Drain() = 0;
  // The same for a caller that has the lock: no capture begins meanwhile.
  virtual absl::Status DrainLocked() = 0;
  // True if all that was queued is done and no graph is being captured. Does not wait for the device, but for
  // the fraction of a millisecond in which an idle one answers. One that has failed has no work left.
  // REQUIRES: not locked by the caller.
  virtual bool IsIdle() = 0;
  // The driver's error that lasts until the process ends (Driver::LastingError), as far as it was seen here;
  // empty: none. Constant time, without a lock.
  virtual std::string LastingError() const = 0;
  // True while a graph is captured into a pool. Without the lock a capture may begin in the next moment.
  virtual bool Capturing() const = 0;

  // From now on a program that runs ahead of the device is held up in Malloc() so that, as near as can be
  // foreseen, the device needs no longer than this for what is queued: a Drain() takes no longer then. 0: it
  // is not held up (as at first), and Malloc() pays one load for that. What an allocation is followed by is
  // learned from the steps before (pacer.h); what is not known yet is taken for an eighth of `most_queued`.
  // A piece of work that is longer has an eighth in front of it, or as much as the program needs to queue it,
  // if all together is no more than the longest piece (queued_work.h).
  // The work is that of the stream that is allocated on: other streams are held up only as far as that one
  // waits for them. Nothing is done without the turn, while a graph is captured, for segments
  // (AllocatorOptions::serves_segments: what is allocated there says little about the work), and where the
  // driver fails. Constant time, without a lock.
  virtual void SetPace(std::chrono::nanoseconds most_queued) = 0;

  // Calls AllocatorOptions::shed_cache, if there is one, so that less is left to be spilled. The turn is
  // about to pass. REQUIRES: nothing is locked by the caller.
  virtual void ShedCache() {}

  // Locks the allocator: no Malloc or Free runs while it is held. The turn passes only under it.
  virtual void Lock() = 0;
  virtual void Unlock() = 0;

  // The turn is ours (the lane lock is held): everything spilled comes back at its addresses. Where the
  // device is full, chunks of the lane's arena are taken (and announced as lost) before anybody is asked. On
  // kResourceExhausted the device is short of the number of bytes in `*missing`; what came back stays
  // back: ask for room and call again. `for_step`: the turn begins with a step, and memory of later stages
  // (SetStage) has its device memory when this returns, and its bytes later. REQUIRES: not locked by the
  // caller.
  virtual absl::Status TakeTurn(bool for_step, Bytes* missing) = 0;

  // Before the turn: brings back up to `at_most` bytes of spilled chunks into device memory that is free, and
  // returns the bytes of device memory that they take. Takes nothing of the lane's arena, asks nobody, and
  // ends where there is no more room (0 is no error). On a failed copy the chunk at hand stays on the host
  // and the error says why; what came back before stays back.
  // REQUIRES: not locked by the caller; no turn, and no thread that might use the device meanwhile.
  virtual absl::StatusOr<Bytes> RestoreAhead(Bytes at_most) = 0;

  // The turn passes; called with the lock held and the device drained. Adopts the survivors' chunks,
  // learns from them, releases empty private chunks, and forgets stream order (all streams are done).
  // After it, no block of this job lies in the arena.
  virtual void PassTurn() = 0;

  // Moves private resident chunks to the host until `wanted` bytes of device memory are given back or
  // nothing is left to move; returns the bytes given back (0 is no error). On a failed copy or an
  // exhausted host budget the chunk at hand stays resident and the error says why; what was moved before
  // stays moved. kFailedPrecondition: the device has work, seen before anything was copied or, then what was
  // being copied stays where it is, after; or a graph is being captured.
  // REQUIRES: this job does not have the turn, its threads stand at doors and what they queued is done.
  absl::StatusOr<Bytes> Spill(Bytes wanted) { return SpillInParts(wanted, {}); }
  // The same. What one part gives back is free while the next is being copied.
  virtual absl::StatusOr<Bytes> SpillInParts(Bytes wanted, const SpillParts& parts) = 0;

  // A spilled chunk's addresses map its copy on the host, where the driver can (Holdings::maps_spilled), so
  // that device work of a thread that Hocket does not know of is slow there, and right. That takes longer
  // than the copying itself, so it is done when the memory has been given back: a spill leaves addresses at
  // which such work faults, and each call maps some of them. False: none is left, or they cannot be mapped.
  // To be called between a spill and the turn, until it says so; holds the lock for some hundred
  // microseconds.
  virtual bool MapSpilled() = 0;
  // The turn is near: each call takes some of these copies away from their addresses again, which the turn
  // would have to do before their bytes can come back, and at a higher price beside its copies. Not those of
  // later stages (SetStage), which the turn wants there. False: nothing is left to take away, or it is not to
  // be done: such work was seen, or is expected, or would not be seen; or the turn has begun. MapSpilled()
  // finds what was taken away. To be called when that may be.
  virtual bool UnmapSpilled() = 0;
  // There may be (no longer be) such threads: each chunk's copy is mapped before its memory is given back,
  // and a spill takes twice as long. So it is, too, once such work was seen (Holdings::strays). Takes no
  // lock.
  virtual void ExpectStrays(bool expected) = 0;

  // The lane's arena, as messages tell it. Safe at any time: a chunk added is used from the next Malloc
  // on; a chunk dropped is unmapped at once, by the job that has the turn when the device is done with it.
  // The id of a chunk is known at most once. kFailedPrecondition: after LeaveArena().
  virtual absl::Status AddArenaChunk(ArenaChunkId id, Bytes size, UniqueFd descriptor) = 0;
  virtual void DropArenaChunk(ArenaChunkId id) = 0;
  // After a holder died in its turn: its kernels may still write into the arena, so none of its chunks
  // is used again by anybody.
  virtual void DropWholeArena() = 0;
  // This job takes turns no more: all chunks are dropped, and none that others made is taken any more.
  virtual void LeaveArena() = 0;
  // Calls `announce` with each of these arena chunks, or with all if none is named, in the order in which
  // they became known, and with a descriptor of it, if those are wanted: for a job that joins the lane. One
  // that is not known, or has none, comes without. No chunk is lost (Gate::ArenaLost) in between: what was
  // announced before is told to be lost after.
  virtual void ExportArena(absl::Span<const ArenaChunkId> chunks, bool descriptors,
                           absl::FunctionRef<void(ArenaChunkId, Bytes, UniqueFd)> announce) = 0;

  virtual Holdings Held() const = 0;
  // Bytes that the driver has free on the device; none: it does not say.
  virtual std::optional<Bytes> DeviceFree() const = 0;

  // So many bytes fewer are free than should stay so (AllocatorOptions::headroom), by what the driver says
  // now; 0, too, where few lack. Waits for nobody.
  virtual Bytes LackingHeadroom() const = 0;

  // Aborts, naming the first invariant that does not hold.
  virtual void CheckInvariants() const = 0;
};

}  // namespace hocket

#endif  // HOCKET_ALLOCATOR_CACHING_ALLOCATOR_H_
