#include "tests/allocator/model/world.h"

#include <algorithm>
#include <cstdlib>

#include "csrc/base/check.h"

namespace hocket::testing {
namespace {

// A device in small: what is tried is the order of things, and bytes that move only take time.
constexpr Bytes kChunk = 64_KiB;

EmulatedGpu& SmallDevice() {
  setenv("HOCKET_EMULATOR_MEMORY", "5MiB", /*overwrite=*/1);
  setenv("HOCKET_EMULATOR_GRANULARITY", "64KiB", /*overwrite=*/1);
  return EmulatedGpu::Get();
}

}  // namespace

World::World(Tally& tally) : gpu_(SmallDevice()), used_before_(gpu_.used()), tally_(tally) {
  for (Job& job : jobs_) Start(job, /*verify=*/false, /*maps=*/&job != &jobs_.back());
}

World::~World() {
  for (Job& job : jobs_) {
    if (&job == holder_) job.blocks->VerifyAll();
  }
  for (Job& job : jobs_) End(job);
  messages_.clear();
  HOCKET_CHECK(gpu_.used() == used_before_) << gpu_.used() << " bytes in use, " << used_before_ << " before";
}

void World::Start(Job& job, bool verify, bool maps) {
  gpu_.SetMapsHostMemory(maps);
  job.gate.holds_turn = false;
  job.gate.await_turn = [this, &job] {
    return TakeTurn(job, /*follows=*/false) ? absl::OkStatus()
                                            : absl::FailedPreconditionError("a graph is being captured");
  };
  job.gate.await_room = [this, &job](Bytes wanted) { return AwaitRoom(job, wanted); };
  job.gate.grew = [this, &job](ArenaChunkId id, Bytes size, UniqueFd descriptor) {
    messages_.push_back({&job, id, size, std::move(descriptor)});
  };
  job.gate.lost = [this, &job](ArenaChunkId id) { messages_.push_back({&job, id, 0, {}}); };
  auto made = CachingAllocator::Create(
      gpu_.driver(), {.chunk_size = kChunk, .host_budget = 1_GiB, .verify = verify}, &job.gate);
  HOCKET_CHECK(made.ok()) << made.status().message();
  job.allocator = *std::move(made);
  job.blocks.emplace(*job.allocator, ++starts_);
  job.expects_strays = starts_ % 2 == 0;
  job.allocator->ExpectStrays(job.expects_strays);
}

void World::End(Job& job) {
  Count(job);
  job.blocks.reset();
  job.allocator.reset();
  job.steps = 0;
  job.open_pools.clear();
  job.checkpoint.reset();
  job.room = Room::kOthersAreSpilled;
}

void World::Count(const Job& job) {
  tally_.step_allocations += job.allocator->Held().step_allocations;
  tally_.planned_allocations += job.allocator->Held().planned_allocations;
  tally_.lodged_allocations += job.allocator->Held().lodged_allocations;
  tally_.spared += job.allocator->Held().spared_total;
  tally_.gathered += job.allocator->Held().gathered_total;
}

// --- operations -----------------------------------------------------------------------------------------

bool World::Apply(const Operation& operation) {
  Job& job = jobs_[operation.job];
  const auto [first, second, third] = operation.arguments;
  const bool applied = [&] {
    switch (operation.kind) {
      case Kind::kMalloc:
        return Malloc(job, first, second, third);
      case Kind::kFree:  // a thread out of turn frees too
        return job.blocks->Free(first, /*verify=*/&job == holder_);
      case Kind::kRecord:
        return job.blocks->Record(first, second);
      case Kind::kBeginStep:
        job.allocator->BeginStep();
        return ++job.steps > 0;
      case Kind::kEndStep:
        if (job.steps == 0) return false;
        job.allocator->EndStep();
        return --job.steps >= 0;
      case Kind::kEmptyCache:
        job.allocator->EmptyCache();
        return true;
      case Kind::kTakeTurn:
        return TakeTurn(job, first != 0);
      case Kind::kSpill:
        return &job != holder_ && Spill(job, first * kChunk, second * kChunk);
      case Kind::kRestore:
        return &job != holder_ && Restore(job, first * kChunk);
      case Kind::kDeclare:
        return job.blocks->Declare(first);
      case Kind::kStage:
        return job.blocks->SetStage(first, second);
      case Kind::kDeliver:
        Deliver();
        return true;
      case Kind::kRoom:
        job.room = static_cast<Room>(first);
        return true;
      case Kind::kLimit:
        job.allocator->SetMemoryLimit(first == 0 ? ~Bytes{0} : first * kChunk);
        return true;
      case Kind::kDropArena:
        return DropArena();
      case Kind::kRestart:
        return Restart(job, first != 0, second != 0, /*leaves=*/false);
      case Kind::kLeave:
        return Restart(job, first != 0, second != 0, /*leaves=*/true);
      case Kind::kStray:
        return Stray(job, first);
      case Kind::kNear:
        return Near(job, first);
      case Kind::kLook:
        return Look(job);
      case Kind::kSkipWaits:
        gpu_.SkipEvery("EventSynchronize");
        return true;
      default:
        return &job == holder_ && ApplyToHolder(job, operation);
    }
  }();
  tally_.by_kind[static_cast<std::size_t>(operation.kind)] += applied ? 1 : 0;
  return applied;
}

bool World::ApplyToHolder(Job& job, const Operation& operation) {
  const auto [first, second, third] = operation.arguments;
  switch (operation.kind) {
    case Kind::kRead:
      return job.blocks->Read(first, second);
    case Kind::kWrite:
      return job.blocks->Write(first, second);
    case Kind::kAwait:
      return AwaitStage(job, first, second);
    case Kind::kOpenPool:
      return OpenPool(job, first, second, third != 0);
    case Kind::kClosePool:
      return ClosePool(job, first);
    case Kind::kReleasePool:
      if (std::any_of(job.open_pools.begin(), job.open_pools.end(),
                      [pool = first](const auto& open) { return open.first == pool; })) {
        return false;
      }
      job.allocator->ReleasePool({0, first});
      return true;
    case Kind::kCheckpointPool:
      return CheckpointPool(job, first);
    case Kind::kReturnToCheckpoint:
      return ReturnToCheckpoint(job);
    case Kind::kPassTurn:
      return PassTurn(job, first != 0);
    default:
      return job.blocks->Corrupt(first);
  }
}

void World::Check(const Operation& operation) const {
  for (const Job& job : jobs_) {
    if (&job != &jobs_[operation.job] && !operation.IsRare()) continue;
    job.allocator->CheckInvariants();
    const Bytes allocated = job.allocator->InUse().allocated;
    HOCKET_CHECK(allocated == job.blocks->rounded_bytes())
        << allocated << " bytes allocated, and blocks of " << job.blocks->rounded_bytes() << " are in use";
  }
}

bool World::Malloc(Job& job, Slot slot, Bytes size, StreamNumber stream) {
  job.blocks->Free(slot, /*verify=*/&job == holder_);
  const absl::Status status = job.blocks->Malloc(slot, size, stream);
  if (status.ok()) return true;
  const bool turn_cannot_come = &job != holder_ && absl::IsFailedPrecondition(status);
  HOCKET_CHECK(absl::IsResourceExhausted(status) || turn_cannot_come) << status.message();
  ++tally_.refused;
  return true;
}

bool World::OpenPool(Job& job, std::uint32_t pool, StreamNumber stream, bool captures) {
  job.open_pools.emplace_back(pool, captures);
  job.allocator->BeginAllocateToPool(
      {0, pool}, [wanted = StreamOf(stream)](Stream asked) { return asked == wanted; }, captures);
  return true;
}

bool World::ClosePool(Job& job, std::uint32_t pool) {
  const auto open = std::find_if(job.open_pools.rbegin(), job.open_pools.rend(),
                                 [pool](const auto& candidate) { return candidate.first == pool; });
  if (open == job.open_pools.rend()) return false;
  job.open_pools.erase(std::next(open).base());
  job.allocator->EndAllocateToPool({0, pool});
  return true;
}

bool World::CheckpointPool(Job& job, std::uint32_t pool) {
  const auto made = job.allocator->CheckpointPool({0, pool});
  if (made.ok()) job.checkpoint = *made;
  return made.ok();
}

bool World::ReturnToCheckpoint(Job& job) {
  if (!job.checkpoint) return false;
  job.blocks->VerifyAll();
  const auto delta = job.allocator->ReturnToCheckpoint(*job.checkpoint);
  if (!delta.ok()) return false;  // released meanwhile, or one is open: nothing has changed
  ++tally_.returns;
  for (const DevicePtr freed : delta->freed) job.blocks->Remove(freed);
  for (const PoolCheckpoint::Block& block : job.checkpoint->blocks) {
    StreamNumber stream = 0;
    while (StreamOf(stream) != block.stream) ++stream;
    const Slot slot = job.blocks->FirstEmpty();
    if (slot == Blocks::kSlots) {
      job.allocator->Free(block.address);
    } else {
      job.blocks->Add(slot, block.address, block.requested, stream);
    }
  }
  return true;
}

// --- turns ----------------------------------------------------------------------------------------------

bool World::PassTurn(Job& job, bool spill) {
  if (job.allocator->Capturing()) return false;
  HOCKET_CHECK(job.allocator->Drain().ok()) << "no drain";
  job.allocator->Lock();
  job.allocator->PassTurn();
  job.gate.holds_turn = false;
  job.allocator->Unlock();
  holder_ = nullptr;
  job.allocator->CheckInvariants();
  if (spill) Spill(job, ~Bytes{0}, 0);
  Deliver();
  CheckLedger();
  return true;
}

bool World::AwaitStage(Job& job, Stage stage, StreamNumber stream) {
  if (job.allocator->Capturing()) return false;
  const absl::Status there = job.allocator->AwaitStage(stage, StreamOf(stream));
  HOCKET_CHECK(there.ok()) << there.message();
  return true;
}

bool World::TakeTurn(Job& job, bool follows) {
  if (holder_ != nullptr && !PassTurn(*holder_, /*spill=*/false)) return false;
  for (int tries = 0;; ++tries) {
    Bytes missing = 0;
    const absl::Status taken = job.allocator->TakeTurn(follows, &missing);
    job.allocator->CheckInvariants();
    if (taken.ok()) break;
    HOCKET_CHECK(tries < 3) << taken.message();
    SpillOthers(job, missing);
  }
  const Holdings held = job.allocator->Held();
  tally_.followed += held.following > 0 ? 1 : 0;
  // What follows can be read early only there.
  if (!held.maps_spilled) AwaitStage(job, kLastStage, 0);
  Deliver();
  holder_ = &job;
  job.gate.holds_turn = true;
  job.blocks->VerifyAll();
  return true;
}

bool World::Spill(Job& job, Bytes wanted, Bytes part) {
  AwaitHolder(job);
  const auto freed = job.allocator->SpillInParts(wanted, {.size = part});
  HOCKET_CHECK(freed.ok()) << freed.status().message();
  job.allocator->CheckInvariants();
  return *freed > 0;
}

// What follows the holder is copied meanwhile. The jobs are processes of their own elsewhere, and see no work
// but theirs.
void World::AwaitHolder(Job& job) {
  if (holder_ == nullptr || holder_->allocator->Held().following == 0) return;
  HOCKET_CHECK(job.allocator->Drain().ok()) << "no drain";
}

bool World::Restore(Job& job, Bytes at_most) {
  const auto back = job.allocator->RestoreAhead(at_most);
  HOCKET_CHECK(back.ok()) << back.status().message();
  job.allocator->CheckInvariants();
  return *back > 0;
}

absl::Status World::AwaitRoom(Job& job, Bytes wanted) {
  const absl::Status none = absl::ResourceExhaustedError("nobody can be moved");
  const Room answer = std::exchange(job.room, Room::kOthersAreSpilled);
  if (answer == Room::kNone) return none;
  if (answer == Room::kOthersAreSpilled || job.allocator->Capturing()) {
    return SpillOthers(job, wanted) > 0 ? absl::OkStatus() : none;
  }
  ++tally_.turns_lost;
  PassTurn(job, /*spill=*/true);
  Job& next = &job == &jobs_.back() ? jobs_.front() : *(&job + 1);
  TakeTurn(next, /*follows=*/false);
  return answer == Room::kTurnPasses ? absl::OkStatus() : none;
}

Bytes World::SpillOthers(const Job& taker, Bytes wanted) {
  Deliver();
  Bytes freed = 0;
  for (Job& job : jobs_) {
    if (&job == &taker || &job == holder_ || freed > wanted) continue;
    AwaitHolder(job);
    const Bytes missing = wanted - freed;
    const auto given = job.allocator->SpillInParts(missing + 1, {.size = missing / kChunk % 4 * kChunk});
    HOCKET_CHECK(given.ok()) << given.status().message();
    freed += *given;
    job.allocator->CheckInvariants();
  }
  return freed;
}

// --- the lane -------------------------------------------------------------------------------------------

// What the coordinator passes on between the jobs, in order.
void World::Deliver() {
  for (const Message& message : messages_) {
    for (Job& job : jobs_) {
      if (&job == message.from) continue;
      if (message.size == 0) {
        job.allocator->DropArenaChunk(message.id);
      } else {
        const absl::Status added =
            job.allocator->AddArenaChunk(message.id, message.size, message.descriptor.Duplicate());
        // A chunk that has left the arena meanwhile may find the device full; its loss is the next message.
        HOCKET_CHECK(added.ok() || absl::IsResourceExhausted(added)) << added.message();
      }
    }
  }
  messages_.clear();
}

// The arena is empty of blocks now and known to all.
void World::CheckLedger() {
  const Bytes arena = jobs_[0].allocator->Held().arena;
  Bytes sum = used_before_ + arena;
  for (const Job& job : jobs_) {
    const Holdings held = job.allocator->Held();
    HOCKET_CHECK(held.arena == arena)
        << "one job knows an arena of " << held.arena << ", another of " << arena;
    sum += held.persistent;
    for (const Bytes bytes : {held.arena, held.persistent, held.spilled, held.spilled_total}) {
      tally_.digest = tally_.digest * 31 + bytes;
    }
  }
  HOCKET_CHECK(gpu_.used() == sum) << gpu_.used() << " bytes in use, and the jobs hold " << sum;
}

bool World::DropArena() {
  Deliver();
  for (Job& job : jobs_) job.allocator->DropWholeArena();
  return true;
}

bool World::Restart(Job& job, bool verify, bool maps, bool leaves) {
  const bool in_turn = &job == holder_;
  if (leaves) {
    if (in_turn && !PassTurn(job, /*spill=*/false)) return false;
    Deliver();
    job.allocator->LeaveArena();
    job.allocator->CheckInvariants();
  }
  Deliver();
  if (&job == holder_) holder_ = nullptr;
  End(job);
  messages_.clear();
  Start(job, verify, maps);
  if (in_turn && !leaves) return DropArena();  // its kernels may still write there
  Job& other = &job == &jobs_.front() ? jobs_.back() : jobs_.front();
  other.allocator->ExportArena(
      {}, /*descriptors=*/true, [&](ArenaChunkId id, Bytes size, UniqueFd descriptor) {
        const absl::Status added = job.allocator->AddArenaChunk(id, size, std::move(descriptor));
        HOCKET_CHECK(added.ok()) << added.message();
      });
  return true;
}

bool World::Stray(Job& job, Slot slot) {
  const Holdings held = job.allocator->Held();
  if (&job == holder_ || (held.spilled > 0 && !held.maps_spilled)) return false;
  // Where they are expected a spill has mapped everything.
  while (!job.expects_strays && job.allocator->MapSpilled()) job.allocator->CheckInvariants();
  // Otherwise what follows its turn is there for reading alone.
  const bool strayed = job.blocks->Stray(slot, held.spilled == 0 || job.expects_strays);
  tally_.strays_at_spilled += strayed && held.spilled > 0 ? 1 : 0;
  return strayed;
}

bool World::Near(Job& job, unsigned calls) {
  if (&job == holder_) return false;
  while (job.allocator->MapSpilled()) job.allocator->CheckInvariants();
  bool unmapped = false;
  for (; calls > 0 && job.allocator->UnmapSpilled(); --calls) unmapped = true;
  return unmapped;
}

bool World::Look(Job& job) {
  const Usage usage = job.allocator->InUse();
  const DeviceStats stats = job.allocator->Stats();
  const auto& blocks = job.blocks->by_address();
  HOCKET_CHECK(static_cast<std::size_t>(stats.allocation[kAggregate].current) == blocks.size())
      << stats.allocation[kAggregate].current << " blocks counted, " << blocks.size() << " are in use";
  Bytes reserved = 0, allocated = 0;
  for (const SegmentSnapshot& segment : job.allocator->Snapshot()) {
    reserved += segment.total_size;
    for (const auto& block : segment.blocks) {
      if (!block.allocated) continue;
      const auto known = blocks.find(block.address);
      HOCKET_CHECK(known != blocks.end() && known->second.second.size == block.requested_size)
          << "the snapshot has a block that nobody has, at 0x" << std::hex << block.address;
      allocated += block.size;
    }
  }
  HOCKET_CHECK(reserved == usage.reserved) << "segments of " << reserved << ", reserved " << usage.reserved;
  HOCKET_CHECK(allocated == usage.allocated) << "blocks of " << allocated << ", counted " << usage.allocated;
  for (const auto& [address, held] : blocks) {
    const Bytes inside = held.second.size - 1;
    const auto found = job.allocator->BlockOf(address + inside);
    HOCKET_CHECK(found.ok() && found->first == address && found->second > inside)
        << "the block at 0x" << std::hex << address << " is not found by its last byte";
  }
  return true;
}

}  // namespace hocket::testing
