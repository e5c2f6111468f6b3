// What the client does with the device's memory on others' behalf: room, spills, the lane's arena, reports.
#include <cerrno>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "csrc/base/cannot.h"
#include "csrc/base/say.h"
#include "csrc/base/status_macros.h"
#include "csrc/client/blocking.h"
#include "csrc/client/client_impl.h"
#include "csrc/wire/ids.h"

namespace hocket {
namespace {

constexpr auto kRoomPause = std::chrono::milliseconds(100);
// Chunks that wait to be told of, each with a descriptor, of the 1,024 that a process may have, as a rule.
constexpr std::size_t kMostUntold = 64;
constexpr auto kBetweenMappings = std::chrono::microseconds(200);  // in which others get the allocator's lock
constexpr std::chrono::nanoseconds kLongestForeseen = std::chrono::hours(1);
constexpr auto kReads = std::chrono::milliseconds(20);  // a coordinator that is well

}  // namespace

Holdings ClientImpl::Held() const {
  CachingAllocator* const allocator = allocator_.load(std::memory_order_acquire);
  return allocator == nullptr ? Holdings() : allocator->Held();
}

void ClientImpl::Holds(const Holdings& held) {
  progress_.Holds(held);
  strays_harm_ = held.strays > 0 && !held.maps_spilled;
}

Holdings ClientImpl::HeldUnlocked() {
  const MutexUnlock unlock(&mutex_);
  return Held();
}

// --- room -----------------------------------------------------------------------------------------

// (The doors' counts are handed on by reference.)
absl::Status ClientImpl::AwaitRoom(Bytes bytes) ABSL_NO_THREAD_SAFETY_ANALYSIS {
  const Blocking blocking(threads_.Mine());
  const wire::NeedRoom need = Lacks(bytes, /*restoring=*/false);
  MutexLock lock(&mutex_);
  ComeBack(threads_.Mine());
  Door door(threads_.Mine(), at_doors_);
  return AskRoom(need, /*interruptible=*/true);
}

wire::NeedRoom ClientImpl::Lacks(Bytes bytes, bool restoring) const {
  wire::NeedRoom need{.bytes = bytes, .restoring = restoring};
  const CachingAllocator* const allocator = allocator_.load(std::memory_order_acquire);
  if (allocator == nullptr) return need;
  const std::optional<Bytes> free = allocator->DeviceFree();
  if (!free) return need;
  const Holdings held = allocator->Held();
  need.says_free = true;
  need.device_free = *free;
  need.persistent = held.persistent;
  need.spilled = held.spilled;
  return need;
}

void ClientImpl::LacksHeadroom(Bytes bytes) {
  MutexLock lock(&mutex_);
  turn_.passable = false;
  if (!outside_ && hears_headroom_) Tell(wire::LacksHeadroom{.bytes = bytes});
}

void ClientImpl::On(const wire::HeadroomMade& made, UniqueFd descriptor) {
  const CachingAllocator* const allocator = allocator_.load(std::memory_order_acquire);
  const Bytes lacking = allocator == nullptr ? 0 : allocator->LackingHeadroom();
  MutexLock lock(&mutex_);
  const bool in_turn = phase_ == Phase::kTaking || phase_ == Phase::kHeld;
  if (lacking > 0 && in_turn && turn_.number == made.turn && !outside_)
    Tell(wire::LacksHeadroom{.bytes = lacking});
}

// While bytes come back nothing but an interruption is an answer, and kAborted: others first, or a handler
// has sent the turn back. It waits, it never fails. An allocation whose turn has passed is answered at once:
// it tries again, and asks for a turn first. Without a coordinator it waits for the next one: the Join brings
// it the question (SendJoin()).
absl::Status ClientImpl::AskRoom(wire::NeedRoom need, bool interruptible) {
  const bool restoring = need.restoring;
  const std::uint64_t turn = turn_.number, taking = takings_;
  while (room_ || (!restoring && phase_ == Phase::kGiving)) {
    need.says_free = false;  // what it has found before is no longer so
    HOCKET_RETURN_IF_ERROR(Sleep(interruptible));
  }
  const auto gone_back = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return restoring && takings_ != taking ? absl::AbortedError("the turn has gone back") : absl::OkStatus();
  };
  HOCKET_RETURN_IF_ERROR(gone_back());
  if (outside_) return absl::ResourceExhaustedError("this job has left Hocket: nobody makes room for it");
  if (!restoring && (phase_ != Phase::kHeld || turn_.number != turn)) return absl::OkStatus();
  ThreadRecord& me = threads_.Mine();
  me.room = ++rooms_;
  room_ = RoomRequest{.bytes = need.bytes, .restoring = restoring, .number = me.room};
  turn_.passable = false;
  Tell(need);
  if (!connection_.up() && !info_.coordinated && (restoring || RoomPatienceIsOver()))
    AnswerRoomAlone(absl::UnavailableError("each attempt was in vain"));
  const absl::Status waited = AwaitAnswer(me, interruptible);
  const bool mine = IsMyQuestion(std::exchange(me.room, 0));
  if (mine && !room_->answered) room_->abandoned = true;
  if (!mine || room_->abandoned) return waited.ok() ? gone_back() : waited;
  const RoomRequest asked = *std::exchange(room_, std::nullopt);
  NotifyAll();
  const absl::Status& answer = waited.ok() ? asked.answer : waited;
  if (absl::IsCancelled(answer) || (!answer.ok() && !restoring)) return answer;
  const bool aside = answer.ok() && asked.step_aside;
  if (aside && StepAsideFor(asked)) return restoring ? absl::AbortedError("others first") : absl::OkStatus();
  if (aside || !answer.ok()) changed_.WaitUntil(&mutex_, Clock::now() + kRoomPause);
  // The question is asked again, and may be answered at once each time.
  if (AsksIfInterrupted(interruptible)) HOCKET_RETURN_IF_ERROR(AskIfInterrupted(/*now=*/false));
  return gone_back();
}

// Somebody waits for the turn, and there is no room until he has had it: perhaps he cannot be moved because
// one of his threads waits for one that waits for the turn. False: it cannot be given now.
bool ClientImpl::StepAsideFor(const RoomRequest& asked) {
  stands_aside_ = true;
  if (asked.restoring) return true;
  lacked_ = asked.bytes;
  if (GiveForRoom()) return true;
  stands_aside_ = false;
  lacked_ = 0;
  return false;
}

// Also until somebody else has had it (interruptions.cc).
absl::Status ClientImpl::AwaitAnswer(const ThreadRecord& me, bool interruptible) {
  while (IsMyQuestion(me.room) && !room_->answered) HOCKET_RETURN_IF_ERROR(Sleep(interruptible));
  return absl::OkStatus();
}

void ClientImpl::AnswerRoom(absl::Status answer) {
  if (!room_ || room_->answered) return;
  if (room_->abandoned) {
    room_.reset();
    return NotifyAll();
  }
  room_->answered = true;
  room_->answer = std::move(answer);
  NotifyAll();
}

// "No" is the end of a program, so that is not said before many attempts were in vain: a daemon that is
// restarted is back in seconds. Until then each attempt in vain is an occasion to look for room once more:
// another job may have ended.
void ClientImpl::AnswerRoomAlone(const absl::Status& why) {
  if (room_ && !room_->restoring && !RoomPatienceIsOver()) return AnswerRoom(absl::OkStatus());
  AnswerRoom(absl::ResourceExhaustedError(
      absl::StrCat("no coordinator that would make room could be had for ",
                   std::chrono::duration_cast<std::chrono::seconds>(WithoutCoordinator()).count(),
                   " s: ", std::string(why.message()))));
}

Clock::duration ClientImpl::WithoutCoordinator() const {
  return lost_at_ == Clock::time_point::max() ? Clock::duration::zero() : Clock::now() - lost_at_;
}

bool ClientImpl::RoomPatienceIsOver() const {
  return lost_at_ != Clock::time_point::max() && WithoutCoordinator() >= tuning_.room_patience;
}

void ClientImpl::On(const wire::Room& room, UniqueFd descriptor) {
  MutexLock lock(&mutex_);
  if (room_ && !room_->answered) room_->step_aside = room.step_aside;
  AnswerRoom(room.ok ? absl::OkStatus() : absl::ResourceExhaustedError(room.reason));
}

// --- spills ---------------------------------------------------------------------------------------

void ClientImpl::On(const wire::Spill& spill, UniqueFd descriptor) {
  wire::Spilled answer{.request = spill.request};
  const bool began = BeginSpill(&answer.why_not);
  if (began) TrySpill(spill.bytes, answer);
  const Holdings held = Held();
  MutexLock lock(&mutex_);
  if (began) {
    spilling_ = false;
    NotifyAll();
  }
  TellSpilled(answer, held);
  if (began) LeaveMappingToAgent();
}

// Not at once: who gets the memory maps it now, and a turn that comes soon has nothing to unmap.
void ClientImpl::LeaveMappingToAgent() {
  mapping_times_.Spilled(Clock::now());
  Wake();
}

// Nothing is taken away under the program's own code: a signal's handler may be reading it.
Clock::time_point ClientImpl::MaySeeToMappingAt() const {
  const MappingTimes::Due due = mapping_times_.Next();
  const bool may = !outside_ && !spilling_ && phase_ <= Phase::kAsked &&
                   (due.action == MappingTimes::Action::kMap || AllAtDoors());
  return may ? due.at : Clock::time_point::max();
}

// A little, then the agent listens again. The turn may come meanwhile: it brings back what is mapped, and
// what is not.
void ClientImpl::SeeToMapping() {
  MappingTimes::Action action;
  const Clock::time_point begin = Clock::now();
  {
    MutexLock lock(&mutex_);
    if (begin < MaySeeToMappingAt()) return;
    action = mapping_times_.Next().action;
    mapping_times_.Begins(action);
    mapping_ = action;
  }
  CachingAllocator* const allocator = allocator_.load(std::memory_order_acquire);
  const bool maps = action == MappingTimes::Action::kMap;
  const bool more = allocator != nullptr && (maps ? allocator->MapSpilled() : allocator->UnmapSpilled());
  const Clock::time_point end = Clock::now();
  MutexLock lock(&mutex_);
  mapping_.reset();
  mapping_times_.Did(action, end - begin, more, end + kBetweenMappings);
  NotifyAll();
}

void ClientImpl::TellSpilled(wire::Spilled& answer, const Holdings& held) {
  Holds(held);
  answer.persistent = held.persistent;
  answer.spilled = held.spilled;
  answer.host_left = held.host_left;
  answer.host_taking_ns = held.host_taking_ns - std::exchange(host_taking_told_ns_, held.host_taking_ns);
  answer.movable = told_movable_ = phase_ <= Phase::kAsked && Movable();
  Tell(answer);
}

// REQUIRES: BeginSpill() said yes.
void ClientImpl::TrySpill(Bytes wanted, wire::Spilled& answer) {
  CachingAllocator* const allocator = allocator_.load(std::memory_order_acquire);
  if (allocator == nullptr) return;
  const Holdings before = Held();
  PartsTold told{.spilled_total = before.spilled_total};
  const absl::StatusOr<Bytes> freed = allocator->SpillInParts(wanted, PartsOf(wanted, answer, told));
  const Holdings after = Held();
  const Bytes all = freed.ok() ? *freed : before.persistent - std::min(before.persistent, after.persistent);
  answer.freed = all - std::min(all, told.freed);
  answer.copied = after.spilled_total - told.spilled_total;
  if (!freed.ok()) answer.why_not = std::string(freed.status().message());
}

// Whoever needs the room copies his bytes in while the next part is copied out. The last part is not told of
// here.
SpillParts ClientImpl::PartsOf(Bytes wanted, const wire::Spilled& answer, PartsTold& told) {
  MutexLock lock(&mutex_);
  if (!hears_parts_) return {};
  return {.size = tuning_.part,
          .told = [this, wanted, &answer, &told](Bytes given_back, const Holdings& held) {
            if (given_back <= told.freed || given_back >= wanted) return;
            wire::Spilled part = answer;
            part.freed = given_back - std::exchange(told.freed, given_back);
            part.copied = held.spilled_total - std::exchange(told.spilled_total, held.spilled_total);
            part.more = true;
            MutexLock lock(&mutex_);
            TellSpilled(part, held);
          }};
}

bool ClientImpl::BeginSpill(std::string* why_not) {
  MutexLock lock(&mutex_);
  while (spilling_) changed_.Wait(&mutex_);
  if (outside_) {
    *why_not = "it has left";
  } else {
    *why_not = phase_ > Phase::kAsked ? "it has the turn" : WhyNotMovable();
  }
  spilling_ = why_not->empty();
  spills_ += spilling_ ? 1 : 0;
  return spilling_;
}

// --- before the turn ------------------------------------------------------------------------------

// Where that is not possible any more, the turn brings them back.
void ClientImpl::On(const wire::Restore& order, UniqueFd descriptor) {
  CachingAllocator* const allocator = allocator_.load(std::memory_order_acquire);
  wire::Restored answer{.request = order.request};
  const bool began = BeginRestore();
  if (began && allocator != nullptr) {
    const std::uint64_t start = Progress::NowNs();
    const Holdings before = Held();
    const absl::StatusOr<Bytes> restored = allocator->RestoreAhead(order.bytes);
    const Holdings after = Held();
    answer.restored =
        restored.ok() ? *restored : after.persistent - std::min(after.persistent, before.persistent);
    answer.took_ns = Progress::NowNs() - start;
    answer.copied = after.restored_total - before.restored_total;
  }
  const Holdings held = Held();
  answer.persistent = held.persistent;
  answer.spilled = held.spilled;
  answer.piece = held.chunk;
  MutexLock lock(&mutex_);
  if (began) {
    spilling_ = false;
    NotifyAll();
  }
  Holds(held);
  Tell(answer);
}

// What follows its turn has to be mapped by then, so there the agent goes by its own times, in which it does
// that first.
void ClientImpl::On(const wire::Near& near, UniqueFd descriptor) {
  const CachingAllocator* const allocator = allocator_.load(std::memory_order_acquire);
  if (allocator != nullptr && allocator->HasStages()) return;
  MutexLock lock(&mutex_);
  if (phase_ != Phase::kAsked || near.wait != waits_) return;
  const std::chrono::nanoseconds in(std::min<std::uint64_t>(near.in_ns, kLongestForeseen.count()));
  mapping_times_.IsNear(Clock::now() + in);
}

// Whoever is in the program's own code (a signal's handler, or what comes after Ctrl-C) may be reading what
// is on the host: at its addresses it would find chunks into which its bytes are still being copied.
bool ClientImpl::BeginRestore() {
  MutexLock lock(&mutex_);
  while (spilling_) changed_.Wait(&mutex_);
  if (outside_ || phase_ != Phase::kAsked || !AllAtDoors()) return false;
  spilling_ = true;
  return true;
}

void ClientImpl::SpillEverything() {
  if (allocator_.load(std::memory_order_acquire) == nullptr) return;
  spilling_ = true;
  ++spills_;
  {
    const MutexUnlock unlock(&mutex_);
    SpillByForce(kEverything);
  }
  spilling_ = false;
  told_movable_ = false;  // what was told is no longer so
  NotifyAll();
  LeaveMappingToAgent();
}

void ClientImpl::TellMovable(const Holdings& held) {
  told_movable_ = true;
  Tell(wire::Spilled{
      .persistent = held.persistent, .spilled = held.spilled, .movable = true, .host_left = held.host_left});
}

// --- the arena ------------------------------------------------------------------------------------
//
// However many chunks an arena has, few descriptors of it are open at a time: the coordinator sends no more
// than are heard of (ArenaHeard), and asks for few in one ArenaExport; while it does not read, what grows
// here is told without (docs/decisions/0040).

void ClientImpl::ArenaGrew(ArenaChunkId chunk, Bytes size, UniqueFd descriptor) {
  MutexLock lock(&mutex_);
  turn_.passable = false;
  if (outside_) return;
  if (fills_arena_) {
    if (!reader_stalls_) connection_.AwaitReader(kMostUntold, kReads);
    reader_stalls_ = connection_.queued() > kMostUntold;
    if (reader_stalls_) descriptor.Reset();
  }
  const bool bare = !descriptor;  // before it is given away
  Tell(wire::ArenaGrew{.chunk = chunk, .size = size, .bare = bare}, std::move(descriptor));
}

void ClientImpl::ArenaLost(ArenaChunkId chunk) {
  MutexLock lock(&mutex_);
  turn_.passable = false;
  if (!outside_) Tell(wire::ArenaLost{.chunk = chunk});
}

void ClientImpl::On(const wire::ArenaAdd& add, UniqueFd descriptor) {
  ChangeArena({.chunk = add.chunk, .size = add.size, .descriptor = std::move(descriptor), .add = true});
}

void ClientImpl::On(const wire::ArenaDrop& drop, UniqueFd descriptor) { ChangeArena({.chunk = drop.chunk}); }

// With receive_mutex_ held, so that no thread obeys a Grant that came after the change before it is made.
// Also before there is an allocator: SetAllocator() sees to it. It is said again when the job joins again.
void ClientImpl::On(const wire::Limit& limit, UniqueFd descriptor) {
  receive_mutex_.AssertHeld();
  Bytes capacity;
  {
    MutexLock lock(&mutex_);
    facts_.memory_limit = limit.together.empty() ? limit.memory : limit.own;
    capacity = facts_.capacity;
  }
  limit_ = {.bytes = limit.memory != 0 ? limit.memory : capacity, .together = limit.together};
  if (CachingAllocator* const allocator = allocator_.load(std::memory_order_acquire))
    allocator->SetMemoryLimit(limit_->bytes, limit_->together);
}

// Changes that come before the allocator wait for it: SetAllocator() makes them.
void ClientImpl::ChangeArena(ArenaChange change) {
  receive_mutex_.AssertHeld();
  CachingAllocator* const allocator = allocator_.load(std::memory_order_acquire);
  if (allocator != nullptr) return MakeArenaChange(*allocator, std::move(change));
  if (change.add) return arena_changes_.push_back(std::move(change));
  // What waits here to be made known keeps the memory of a chunk that others may have given back.
  arena_heard_ += std::erase_if(
      arena_changes_, [&](const ArenaChange& add) { return change.chunk == 0 || add.chunk == change.chunk; });
}

void ClientImpl::MakeArenaChange(CachingAllocator& allocator, ArenaChange change) {
  {
    MutexLock lock(&mutex_);
    if (outside_) return;
  }
  if (change.add) {
    ++arena_heard_;
    if (!change.descriptor) return SayLostDescriptor();
    // A chunk that cannot be mapped here is one that this job does without.
    (void)allocator.AddArenaChunk(change.chunk, change.size, std::move(change.descriptor));
  } else if (change.chunk == 0) {
    allocator.DropWholeArena();
  } else {
    allocator.DropArenaChunk(change.chunk);
  }
}

// The process has as many as it may: the job does without those chunks, and takes more of the device for it.
void ClientImpl::SayLostDescriptor() {
  if (std::exchange(said_lost_descriptor_, true)) return;
  errno = EMFILE;
  Say(absl::StrCat("this job uses less of its lane's shared memory, and needs more of its own: ",
                   Cannot("take a descriptor of it").message()));
}

void ClientImpl::TellArenaHeard() {
  if (arena_heard_ == arena_heard_told_) return;
  arena_heard_told_ = arena_heard_;
  MutexLock lock(&mutex_);
  Tell(wire::ArenaHeard{.count = arena_heard_});
}

// With the allocator locked meanwhile, so that what has left the arena is not told of after that.
void ClientImpl::On(const wire::ArenaExport& request, UniqueFd descriptor) {
  const auto tell = [&](ArenaChunkId chunk, Bytes size, UniqueFd fd) {
    MutexLock lock(&mutex_);
    const bool bare = !fd;
    Tell(wire::ArenaGrew{.chunk = chunk, .size = size, .to_job = request.to_job, .bare = bare},
         std::move(fd));
  };
  const std::vector<ArenaChunkId> chunks = wire::UnpackIds(request.chunks);
  CachingAllocator* const allocator = allocator_.load(std::memory_order_acquire);
  if (allocator != nullptr) return allocator->ExportArena(chunks, !request.bare, tell);
  for (const ArenaChunkId chunk : chunks) tell(chunk, 0, UniqueFd());
}

// --- reports --------------------------------------------------------------------------------------

void ClientImpl::ReportIfChanged() {
  const Holdings held = Held();
  MutexLock lock(&mutex_);
  Holds(held);
  if (!info_.joined || outside_) return;
  if (room_ && !room_->restoring && RoomPatienceIsOver())
    AnswerRoomAlone(absl::UnavailableError("the one that is there takes nobody in"));
  // The last thread that stood at no door may have ended, which tells nobody. (Before its first turn a job
  // has nothing that could be moved.)
  const bool may_be_moved = phase_ == Phase::kAsked || (phase_ == Phase::kNone && progress_.turns() > 0);
  if (may_be_moved && !spilling_ && !told_movable_ && Movable()) TellMovable(held);
  const bool same = held.persistent == reported_.persistent && held.spilled == reported_.spilled;
  if (same) return;
  reported_ = held;
  Tell(wire::Report{.persistent = held.persistent, .spilled = held.spilled, .steps = progress_.steps()});
}

}  // namespace hocket
