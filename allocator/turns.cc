// The client's side of the allocator: turns, spill and restore, the lane's arena.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "allocator/allocator_impl.h"
#include "allocator/event.h"
#include "csrc/base/check.h"
#include "csrc/base/status_macros.h"

namespace hocket {
namespace {

constexpr std::size_t kRememberedTurns = 16;
constexpr Bytes kParts = 128, kLeastPart = 8_MiB, kNoParts = 32_MiB;  // docs/decisions/0017
constexpr Bytes kQueued = 16_MiB;                                     // docs/decisions/0042
constexpr Bytes kQueuedBeside = 8_MiB;  // while others restore: docs/decisions/0045
// How long an idle device may take to say so: the answer is asked for while others allocate, or with nothing
// else to do. The second is several time slices of other processes' contexts (guessed, not measured).
constexpr auto kGlance = std::chrono::microseconds(200);
constexpr auto kLongLook = std::chrono::milliseconds(20);

// The device, as who waits for it reads it (Drain()): not a capture's error, nor that of full memory.
bool HasFailed(const absl::Status& error) { return absl::IsInternal(error); }

}  // namespace

// An event recorded in the context spoils every capture there, so it is recorded under the lock: PyTorch
// opens a pool before it begins a capture.
absl::Status AllocatorImpl::Drain() {
  const InContext in_context(driver_, context_);
  ScopedEvent event(driver_);
  absl::Status recorded;
  {
    MutexLock lock(&mutex_);
    HOCKET_RETURN_IF_ERROR(NoCapture());
    recorded = event.RecordOn(context_);
    if (!recorded.ok() && !absl::IsFailedPrecondition(recorded)) return driver_.Synchronize();
  }
  return recorded.ok() ? event.WaitEagerly() : recorded;
}

absl::Status AllocatorImpl::DrainLocked() {
  mutex_.AssertHeld();
  HOCKET_RETURN_IF_ERROR(NoCapture());
  return WaitForDevice();
}

absl::Status AllocatorImpl::NoCapture() {
  ForgetFailedCaptures();
  if (!Capturing()) return absl::OkStatus();
  return absl::FailedPreconditionError("a CUDA graph is being captured");
}

// kFailedPrecondition: a capture that Hocket has not been told of.
absl::Status AllocatorImpl::WaitForDevice() {
  const InContext in_context(driver_, context_);
  ScopedEvent event(driver_);
  const absl::Status recorded = event.RecordOn(context_);
  if (absl::IsFailedPrecondition(recorded)) return recorded;
  return recorded.ok() ? event.WaitEagerly() : driver_.Synchronize();
}

// Under the lock for the same reason as Drain(), and waits without it, too.
bool AllocatorImpl::IsIdle() {
  const InContext in_context(driver_, context_);
  ScopedEvent event(driver_);
  {
    MutexLock lock(&mutex_);
    if (!NoCapture().ok()) return false;
    if (const absl::Status recorded = RecordBehindWork(event); !recorded.ok()) return HasFailed(recorded);
  }
  const absl::StatusOr<bool> done = event.DoneWithin(kGlance);
  return done.ok() ? *done : HasFailed(done.status());
}

// A driver that has no event for all streams says nothing of those that the default one does not wait for.
absl::Status AllocatorImpl::RecordBehindWork(ScopedEvent& event) {
  const absl::Status recorded = event.RecordOn(context_);
  sees_all_streams_ = recorded.ok();
  return absl::IsUnimplemented(recorded) ? event.RecordOnDefaultStream() : recorded;
}

absl::Status AllocatorImpl::BeginLook(ScopedEvent& event) {
  const InContext in_context(driver_, context_);
  return RecordBehindWork(event);
}

absl::StatusOr<bool> AllocatorImpl::SeesWork(ScopedEvent& event) {
  const InContext in_context(driver_, context_);
  HOCKET_ASSIGN_OR_RETURN(const bool done, event.DoneWithin(kLongLook));
  return !done;
}

absl::StatusOr<bool> AllocatorImpl::LookForWork() {
  ScopedEvent event(driver_);
  HOCKET_RETURN_IF_ERROR(BeginLook(event));
  return SeesWork(event);
}

absl::Status AllocatorImpl::CheckIdle(const char* when) { return CheckNone(LookForWork(), when); }

absl::Status AllocatorImpl::CheckNone(const absl::StatusOr<bool>& work, const char* when) {
  if (!work.ok()) {
    return absl::FailedPreconditionError(
        absl::StrCat("it cannot be seen whether the device has work of this job: ", work.status().message()));
  }
  // Where the look says nothing of some streams, they are at least done now.
  if (!*work) return sees_all_streams_ ? absl::OkStatus() : WaitForDevice();
  return absl::FailedPreconditionError(
      absl::StrCat("the device has work of this job, or of a thread that Hocket has not seen before", when));
}

bool AllocatorImpl::NoteStray() {
  if (Capturing()) return true;
  const absl::StatusOr<bool> work = LookForWork();
  if (work.ok() && *work) ++totals_.strays;
  return work.value_or(true);
}

// During a capture nothing can be waited for, and whoever captures is at the beginning of his work.
void AllocatorImpl::AwaitStrays() {
  if (Capturing()) return;
  const auto spilled = [](const Space& space) { return space.region().BytesIn(Region::State::kSpilled); };
  if (spilled(*persistent_) + spilled(*transient_) == 0) return;
  const bool idle = !NoteStray() && sees_all_streams_;
  if (!idle && !WaitForDevice().ok()) return;
  persistent_->DropUnneeded();
  transient_->DropUnneeded();
}

absl::Status AllocatorImpl::AmongStrays(absl::FunctionRef<absl::Status()> restore) {
  AwaitStrays();
  const Bytes before = totals_.restored_total;
  const absl::Status restored = restore();
  // One that came while bytes were on their way back may have looked too early.
  if (totals_.restored_total > before && sent_.empty()) (void)NoteStray();
  return restored;
}

bool AllocatorImpl::Capturing() const { return captures_ > 0; }

void AllocatorImpl::ShedCache() {
  if (shed_cache_) shed_cache_();
}

// --- turns ----------------------------------------------------------------------------------------------

absl::Status AllocatorImpl::TakeTurn(bool for_step, Bytes* missing) {
  MutexLock lock(&mutex_);
  const InContext in_context(driver_, context_);
  headroom_.Renew();
  const Bytes spilled = persistent_->spilled() + transient_->spilled();
  *missing = 0;
  HOCKET_RETURN_IF_ERROR(ReceiveAll());  // of a call that lacked room
  if (in_vain_ >= kOnceInVain) headroom_.Spend();
  const bool follows = for_step && MayFollow();
  absl::Status sent;
  absl::Status restored = AmongStrays([&]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    if (!follows) return RestoreAll(kLastStage, [] {});
    return RestoreAll(0, [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS { sent = SendAll(); });
  });
  if (restored.ok()) restored = sent;
  if (restored.ok() && spilled > 0) AskForHeadroom(0);
  *missing = persistent_->spilled() + transient_->spilled();
  const bool nearer = *missing < std::min(least_missing_, spilled);
  least_missing_ = *missing == 0 ? kNothingTried : std::min(least_missing_, *missing);
  in_vain_ = nearer || *missing == 0 ? 0 : in_vain_ + 1;
  CountReserved();  // chunks of the arena may have taken another place
  in_turn_ = restored.ok();
  return restored;
}

absl::Status AllocatorImpl::RestoreAll(Stage last, absl::FunctionRef<void()> meanwhile) {
  HOCKET_RETURN_IF_ERROR(persistent_->region().AbandonRestores());
  HOCKET_RETURN_IF_ERROR(transient_->region().AbandonRestores());
  const std::vector<Position> transient = transient_->PositionsToRestore(last);
  const std::vector<Position> persistent = persistent_->PositionsToRestore(last);
  bool full = false;
  const auto new_chunk = [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return ChunkForRestore(full); };
  HOCKET_RETURN_IF_ERROR(RestoreSome(*persistent_, persistent, new_chunk, [&] {
                           if (transient.empty()) meanwhile();
                         }).status);
  if (transient.empty()) return absl::OkStatus();
  return RestoreSome(*transient_, transient, new_chunk, meanwhile).status;
}

// The arena is the holder's meanwhile.
absl::StatusOr<Bytes> AllocatorImpl::RestoreAhead(Bytes at_most) {
  MutexLock lock(&mutex_);
  const InContext in_context(driver_, context_);
  std::size_t left = at_most / chunk_size_;
  HOCKET_RETURN_IF_ERROR(ReceiveAll());  // of a turn that lacked room
  headroom_.Renew();
  const auto new_chunk = [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return ChunkBesideHeadroom(); };
  const auto restore = [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    absl::Status stopped;
    for (Space* space : {persistent_.get(), transient_.get()}) {
      if (left == 0 || !stopped.ok()) break;
      HOCKET_RETURN_IF_ERROR(space->region().AbandonRestores());
      std::vector<Position> positions = space->PositionsToRestore();
      if (positions.size() > left) positions.resize(left);
      const Spiller::Outcome outcome = RestoreSome(*space, positions, new_chunk, [] {});
      left -= outcome.done;
      stopped = outcome.status;
    }
    return stopped;
  };
  const absl::Status stopped = AmongStrays(restore);
  CountReserved();
  if (!stopped.ok() && !absl::IsResourceExhausted(stopped)) return stopped;
  return (at_most / chunk_size_ - left) * chunk_size_;
}

Spiller::Outcome AllocatorImpl::RestoreSome(Space& space, absl::Span<const Position> positions,
                                            absl::FunctionRef<absl::StatusOr<Chunk>()> new_chunk,
                                            absl::FunctionRef<void()> meanwhile) {
  BlockMap& blocks = space.blocks();
  const auto constant = [&](Position position) { return blocks.ConstantExtents(position); };
  const auto back = [&](Position position) { blocks.Back(position, blocks.pool(position), kAnyStream); };
  const Spiller::Outcome outcome =
      spiller_->Restore(space.region(), positions,
                        {.new_chunk = new_chunk, .constant = constant, .back = back, .meanwhile = meanwhile});
  totals_.restored_total += outcome.copied;
  return outcome;
}

absl::StatusOr<Chunk> AllocatorImpl::ChunkBesideHeadroom() {
  if (!headroom_.CanSpare(chunk_size_, [this] { return DeviceFree(); }))
    return absl::ResourceExhaustedError("what is free should stay so, for what programs take beside tensors");
  return Chunk::Create(driver_, device_, chunk_size_);
}

// Nothing but the arena is left to take from when the others have been spilled: so all of it can be taken, or
// a job with little transient and much persistent memory could wait for ever behind one of the other kind.
absl::StatusOr<Chunk> AllocatorImpl::ChunkForRestore(bool& full) {
  if (!full || !ArenaHasFree()) {
    absl::StatusOr<Chunk> chunk = ChunkBesideHeadroom();
    full = absl::IsResourceExhausted(chunk.status());
    if (!full || !ArenaHasFree()) return chunk;
    // It would be made again in the step, out of the headroom: others are asked first.
    if (in_vain_ < kOnceInVain && DeviceFree().value_or(0) >= chunk_size_) return chunk;
  }
  return TakeFromArena();
}

bool AllocatorImpl::ArenaHasFree() {
  if (arena_.LastFree() == nullptr) UnplaceEmptyArena();
  return arena_.LastFree() != nullptr;
}

void AllocatorImpl::PassTurn() {
  mutex_.AssertHeld();
  in_turn_ = false;
  const InContext in_context(driver_, context_);
  (void)Receive(sent_.size());  // what cannot be is spilled still
  EndLease();
  headroom_.TurnEnds();
  totals_.transient_peak = std::max(std::exchange(turn_peak_, Bytes{0}), ArenaInUse());
  turn_peaks_.push_back(totals_.transient_peak);
  if (turn_peaks_.size() > kRememberedTurns) turn_peaks_.erase(turn_peaks_.begin());
  AllStreamsPassed(kLongLook);  // what another device uses still is a survivor
  AdoptSurvivors();
  ReleaseEmptyPrivate(*persistent_);
  ReleaseEmptyPrivate(*transient_);
  TrimArena(Arena::kIdleTurns);
  steps_since_tidy_ = 0;
  transient_->blocks().ForgetUse();
  CountReserved();
}

void AllocatorImpl::AdoptSurvivors() {
  const Bytes before = totals_.adopted_total;
  for (const Position position : transient_->blocks().WithLiveBlocks()) {
    if (transient_->region().state(position) != Region::State::kArena) continue;
    Adopt(position);
    totals_.adopted_total += chunk_size_;
  }
  totals_.adopted_last = totals_.adopted_total - before;
}

void AllocatorImpl::Adopt(Position position) {
  const ArenaChunkId id = transient_->region().arena_id(position);
  transient_->region().Adopt(position);
  (void)arena_.Remove(id);
  Lost(id);
}

void AllocatorImpl::Lost(ArenaChunkId id) {
  if (shares_arena_) gate_->ArenaLost(id);
}

// What is used of the region, without this job's own: few, as a rule.
Bytes AllocatorImpl::ArenaInUse() const {
  Bytes chunks = transient_->blocks().CountUsed();
  for (const Position position : transient_->region().Positions(Region::State::kPrivate)) {
    if (transient_->blocks().used(position)) --chunks;
  }
  return chunks * chunk_size_;
}

Bytes AllocatorImpl::ArenaSurplus() const {
  Bytes needed = ArenaInUse();
  for (const Bytes peak : turn_peaks_) needed = std::max(needed, peak);
  const Bytes all = arena_.size() * chunk_size_;
  return all - std::min(all, needed);
}

Chunk AllocatorImpl::TakeFromArena() {
  const ArenaChunkId id = arena_.LastFree()->id;
  Chunk chunk = arena_.Remove(id);
  Lost(id);
  return chunk;
}

void AllocatorImpl::TrimArena(int idle_turns) {
  const auto used = [this](Position position) { return transient_->blocks().used(position); };
  for (const ArenaChunkId id : arena_.EndTurn(ArenaInUse() / chunk_size_, used, idle_turns)) {
    const std::optional<Position> position = arena_.Find(id)->position;
    if (position) {
      absl::StatusOr<Chunk> chunk = transient_->Unback(*position);
      if (!chunk.ok()) continue;
      arena_.Return(id, *std::move(chunk));
    }
    (void)arena_.Remove(id);
    Lost(id);
  }
}

// --- spill ----------------------------------------------------------------------------------------------

absl::StatusOr<Bytes> AllocatorImpl::SpillInParts(Bytes wanted, const SpillParts& parts) {
  MutexLock lock(&mutex_);
  if (!NoCapture().ok()) {
    return absl::FailedPreconditionError(
        "cannot spill while a CUDA graph is captured: its memory must stay in place");
  }
  const InContext in_context(driver_, context_);
  HOCKET_RETURN_IF_ERROR(AwaitElsewhere(kLongLook));
  if (!sent_.empty()) HOCKET_RETURN_IF_ERROR(spiller_->AwaitSent());  // of a turn that lacked room
  HOCKET_RETURN_IF_ERROR(CheckIdle(""));
  EndLease();
  AllStreamsPassed(kLongLook);
  if (pending_.AnyElsewhere()) return UsedElsewhere();
  const Bytes before = persistent_->resident() + transient_->resident();
  const auto given_back = [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    return before - (persistent_->resident() + transient_->resident());
  };
  ReleaseEmptyPrivate(*persistent_);
  ReleaseEmptyPrivate(*transient_);
  for (Space* space : {persistent_.get(), transient_.get()}) (void)space->region().AbandonRestores();
  AbandonSent([&] { return given_back() >= wanted; });
  persistent_->DropUnneeded();
  transient_->DropUnneeded();
  CountReserved();
  Bytes told = 0;
  for (Space* space : {transient_.get(), persistent_.get()}) {
    std::vector<Position> positions = space->Positions(Region::State::kPrivate);
    const Bytes lacking = wanted - std::min(wanted, given_back());
    const Bytes chunks = lacking / chunk_size_ + (lacking % chunk_size_ != 0 ? 1 : 0);
    positions.resize(std::min<Bytes>(positions.size(), chunks));
    // Chunks are given back while others are copied, also where nobody wants to hear of it.
    const Bytes bytes = positions.size() * chunk_size_;
    const Bytes least = bytes > kNoParts ? kLeastPart : kNoParts;
    const Bytes part_told = parts.size != 0 ? parts.size : std::max(bytes / kParts, least);
    const Bytes queued = parts.told ? kQueuedBeside : kQueued;
    const std::size_t in_part = std::max<Bytes>(std::min(part_told, queued) / chunk_size_, 1);
    const auto contents = [&](Position position) { return space->ContentsOf(position); };
    const auto moved = [&](Position position) ABSL_NO_THREAD_SAFETY_ANALYSIS {
      space->blocks().Unback(position, /*keep=*/!PoolIsReleased(space->blocks().pool(position)));
    };
    const auto part_done = [&](const Spiller::Moved& part) ABSL_NO_THREAD_SAFETY_ANALYSIS {
      totals_.spilled_total += part.copied;
      totals_.spared_total += part.spared;
      if (!parts.told || given_back() < told + part_told) return;
      told = given_back();
      parts.told(told, HeldLocked());
    };
    // Whoever Hocket knows of had nothing on the device when the first look was made, and stands at a door.
    std::optional<ScopedEvent> behind_work;
    absl::Status began;
    const auto look = [&]()
                          ABSL_NO_THREAD_SAFETY_ANALYSIS { began = BeginLook(behind_work.emplace(driver_)); };
    const auto was_idle = [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
      const absl::StatusOr<bool> work = began.ok() ? SeesWork(*behind_work) : began;
      // Who captures without a word is one, too.
      totals_.strays += work.value_or(absl::IsFailedPrecondition(work.status())) ? 1 : 0;
      return CheckNone(work,
                       ", and has had it while memory was copied to the host: what may have changed stays");
    };
    HOCKET_RETURN_IF_ERROR(spiller_->Spill(space->region(), positions, in_part,
                                           {.contents = contents,
                                            .look = look,
                                            .was_idle = was_idle,
                                            .moved = moved,
                                            .part_done = part_done,
                                            .map_at_once = MapsAtOnce()}));
  }
  return given_back();
}

void AllocatorImpl::ExpectStrays(bool expected) { expects_strays_ = expected; }

bool AllocatorImpl::MapsAtOnce() const { return verifies_ || expects_strays_ || totals_.strays > 0; }

bool AllocatorImpl::MapSpilled() {
  constexpr Position kTogether = 4;  // whoever wants the lock meanwhile waits for so many
  MutexLock lock(&mutex_);
  const InContext in_context(driver_, context_);
  // What follows its turn may only be read meanwhile (Region::StartArrival): that is prepared here, too. Who
  // writes there is none of the program's steps.
  const auto some = [](Space& space) {
    return space.region().MapSome(kTogether,
                                  [&](Position position) { return space.blocks().StageOf(position) == 0; });
  };
  return some(*persistent_) || some(*transient_);
}

// Work that begins after the look finds nothing, as it does where bytes come back.
bool AllocatorImpl::UnmapSpilled() {
  constexpr Position kTogether = 4;
  MutexLock lock(&mutex_);
  // A turn may have begun since the caller looked: what the device has then is the job's own.
  if (in_turn_ || !sent_.empty() || MapsAtOnce()) return false;
  const InContext in_context(driver_, context_);
  if (NoteStray() || !sees_all_streams_) return false;
  // What follows its turn is read there until it has come (Region::StartArrival): it would be mapped again.
  const auto some = [](Space& space) {
    return space.region().UnmapSome(kTogether,
                                    [&](Position position) { return space.blocks().StageOf(position) == 0; });
  };
  return some(*persistent_) || some(*transient_);
}

// --- the lane's arena -----------------------------------------------------------------------------------

absl::Status AllocatorImpl::AddArenaChunk(ArenaChunkId id, Bytes size, UniqueFd descriptor) {
  MutexLock lock(&mutex_);
  if (left_arena_) return absl::FailedPreconditionError("this job has left the arena");
  if (size != chunk_size_) {
    return absl::InvalidArgumentError(
        absl::StrCat("an arena chunk of ", FormatBytes(size), " was offered; this job's are ",
                     FormatBytes(chunk_size_), ".\n  Give all jobs of a device the same HOCKET_CHUNK_SIZE."));
  }
  if (id == 0 || arena_.Find(id) != nullptr) {
    return absl::AlreadyExistsError(absl::StrCat("arena chunk ", id, " is known already"));
  }
  const InContext in_context(driver_, context_);
  HOCKET_ASSIGN_OR_RETURN(Chunk chunk, Chunk::Import(driver_, device_, size, descriptor));
  arena_.Add(id, std::move(chunk), /*created_here=*/false);
  return absl::OkStatus();
}

void AllocatorImpl::DropArenaChunk(ArenaChunkId id) {
  MutexLock lock(&mutex_);
  Drop({id});
}

void AllocatorImpl::DropWholeArena() {
  MutexLock lock(&mutex_);
  DropAll();
}

void AllocatorImpl::LeaveArena() {
  MutexLock lock(&mutex_);
  left_arena_ = true;
  DropAll();
}

void AllocatorImpl::DropAll() {
  std::vector<ArenaChunkId> ids;
  arena_.ForEach([&](const Arena::Member& member) { ids.push_back(member.id); });
  Drop(ids);
}

// Without the turn nothing of this job runs on the device.
void AllocatorImpl::Drop(const std::vector<ArenaChunkId>& ids) {
  const InContext in_context(driver_, context_);
  const bool placed =
      std::any_of(ids.begin(), ids.end(), [this](ArenaChunkId id) ABSL_NO_THREAD_SAFETY_ANALYSIS {
        const Arena::Member* member = arena_.Find(id);
        return member != nullptr && member->position;
      });
  const bool done = !placed || !HoldsTurn() || (!Capturing() && WaitForDevice().ok());
  if (placed && done) ClearVacated();
  for (const ArenaChunkId id : ids) Drop(id, done);
  CountReserved();
}

void AllocatorImpl::Drop(ArenaChunkId id, bool device_done) {
  const Arena::Member* member = arena_.Find(id);
  if (member == nullptr) return;
  if (member->position) {
    EndLease();
    const Position position = *member->position;
    if (transient_->blocks().live_blocks(position) > 0) {
      transient_->region().Adopt(position);  // it stays mapped as memory of this job
    } else if (!device_done || !transient_->Unback(position).ok()) {
      transient_->Vacate(position);  // it may be another job's: nothing of ours is ever to lie in it
    }
  }
  (void)arena_.Remove(id);
}

UniqueFd AllocatorImpl::Export(const Arena::Member& member) const {
  const Chunk& chunk = member.position ? transient_->region().chunk(*member.position) : member.chunk;
  absl::StatusOr<UniqueFd> descriptor = chunk.Export();
  return descriptor.ok() ? *std::move(descriptor) : UniqueFd();
}

void AllocatorImpl::ExportArena(absl::Span<const ArenaChunkId> chunks, bool descriptors,
                                absl::FunctionRef<void(ArenaChunkId, Bytes, UniqueFd)> announce) {
  MutexLock lock(&mutex_);
  const InContext in_context(driver_, context_);
  const auto each = [&](const Arena::Member& member) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    announce(member.id, chunk_size_, descriptors ? Export(member) : UniqueFd());
  };
  if (chunks.empty()) return arena_.ForEach(each);
  for (const ArenaChunkId id : chunks) {
    const Arena::Member* const member = arena_.Find(id);
    if (member == nullptr) {
      announce(id, chunk_size_, UniqueFd());
    } else {
      each(*member);
    }
  }
}

}  // namespace hocket
