// Three jobs of one lane on a small device, to which operations are done, beside references (blocks.h) that
// know what every block must hold. A world ends the process where anything is not as it must be.
#ifndef HOCKET_TESTS_ALLOCATOR_MODEL_WORLD_H_
#define HOCKET_TESTS_ALLOCATOR_MODEL_WORLD_H_

#include <array>
#include <memory>
#include <optional>
#include <vector>

#include "tests/allocator/model/blocks.h"
#include "tests/allocator/model/operation.h"
#include "tests/allocator/model/teller.h"

namespace hocket::testing {

// What has been done, and to what effect. Plain data, so that another process can read it.
struct Tally {
  std::array<std::uint64_t, 32> by_kind = {};  // operations that applied
  std::uint64_t refused = 0;                   // allocations for which there was no memory
  std::uint64_t returns = 0;                   // of pools to a checkpoint
  std::uint64_t turns_lost = 0;                // while a thread waited for room
  std::uint64_t spared = 0;                    // constant bytes that were not copied again
  std::uint64_t strays_at_spilled = 0;         // which had a job some of whose memory is spilled
  std::uint64_t followed = 0;                  // turns that began with memory on its way
  std::uint64_t gathered = 0;                  // bytes of empty chunks that were mapped elsewhere
  std::uint64_t step_allocations = 0;
  std::uint64_t planned_allocations = 0;
  std::uint64_t lodged_allocations = 0;
  std::uint64_t digest = 0;  // of what all jobs held at all times when the turn passed

  std::uint64_t Of(Kind kind) const { return by_kind[static_cast<std::size_t>(kind)]; }
};

class World {
 public:
  // The process has a small device of its own from now on. REQUIRES: it has used none so far, or one of
  // these. `tally` is borrowed; it is what it must be after each operation.
  explicit World(Tally& tally);
  // Looks at all bytes once more, and at what the device is left with.
  ~World();

  // False: the operation does not apply, and nothing has happened.
  bool Apply(const Operation& operation);
  // The invariants of those whom `operation` was about.
  void Check(const Operation& operation) const;

 private:
  // The answers to a job that asks for room; kRoom's argument.
  enum class Room : std::uint8_t { kOthersAreSpilled, kNone, kTurnPasses, kTurnPassesAndNone };

  struct Job {
    ScriptedGate gate;
    std::unique_ptr<CachingAllocator> allocator;
    std::optional<Blocks> blocks;
    bool expects_strays = false;
    int steps = 0;
    std::vector<std::pair<std::uint32_t, bool>> open_pools;  // and whether they capture
    std::optional<PoolCheckpoint> checkpoint;
    Room room = Room::kOthersAreSpilled;
  };
  // size == 0: the chunk has left the arena.
  struct Message {
    const Job* from;
    ArenaChunkId id;
    Bytes size;
    UniqueFd descriptor;
  };

  void Start(Job& job, bool verify, bool maps);
  void End(Job& job);
  bool ApplyToHolder(Job& job, const Operation& operation);

  bool Malloc(Job& job, Slot slot, Bytes size, StreamNumber stream);
  bool OpenPool(Job& job, std::uint32_t pool, StreamNumber stream, bool captures);
  bool ClosePool(Job& job, std::uint32_t pool);
  bool CheckpointPool(Job& job, std::uint32_t pool);
  bool ReturnToCheckpoint(Job& job);
  bool PassTurn(Job& job, bool spill);
  bool TakeTurn(Job& job, bool follows);
  bool AwaitStage(Job& job, Stage stage, StreamNumber stream);
  void AwaitHolder(Job& job);
  bool Spill(Job& job, Bytes wanted, Bytes part);
  bool Restore(Job& job, Bytes at_most);
  bool DropArena();
  bool Restart(Job& job, bool verify, bool maps, bool leaves);
  bool Stray(Job& job, Slot slot);
  bool Near(Job& job, unsigned calls);
  bool Look(Job& job);

  absl::Status AwaitRoom(Job& job, Bytes wanted);
  // Bytes that jobs without the turn, other than `taker`, gave back.
  Bytes SpillOthers(const Job& taker, Bytes wanted);
  void Deliver();
  void CheckLedger();
  void Count(const Job& job);

  EmulatedGpu& gpu_;
  const Bytes used_before_;
  std::array<Job, kJobs> jobs_;
  Job* holder_ = nullptr;
  std::vector<Message> messages_;
  std::uint64_t starts_ = 0;
  Tally& tally_;
};

}  // namespace hocket::testing

#endif  // HOCKET_TESTS_ALLOCATOR_MODEL_WORLD_H_
