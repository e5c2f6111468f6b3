// The turn comes and goes.
#include <algorithm>
#include <optional>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "csrc/base/say.h"
#include "csrc/base/status_macros.h"
#include "csrc/client/blocking.h"
#include "csrc/client/client_impl.h"

namespace hocket {

// --- taking ---------------------------------------------------------------------------------------

absl::Status ClientImpl::FinishTaking(bool for_step, bool interruptible) {
  absl::Status taken;
  Holdings before, after;
  const Clock::time_point came = Clock::now();
  const std::uint64_t taking = ++takings_;
  taker_ = &threads_.Mine();
  {
    const MutexUnlock unlock(&mutex_);
    before = Held();
    taken = Take(for_step, interruptible);
    after = Held();
  }
  if (takings_ != taking) return absl::IsCancelled(taken) ? taken : absl::OkStatus();  // it has gone back
  turn_.restored += after.restored_total - before.restored_total;
  turn_.ready_ns = Progress::NowNs() - turn_.granted_ns;
  if (!taken.ok()) {
    EndTurn(/*drain_ns=*/0, after);
    return absl::IsAborted(taken) ? absl::OkStatus() : taken;  // it stepped aside, and asks again
  }
  Holds(after);
  mapping_times_.TurnBegan(came, before.spilled > 0);  // nothing is now, or it is on its way
  Admit();
  return absl::OkStatus();
}

// The lane lock first: only its holder may touch the arena.
absl::Status ClientImpl::Take(bool for_step, bool interruptible) {
  const bool had_lane = lane_.held();
  HOCKET_RETURN_IF_ERROR(AcquireLane(interruptible));
  if (!had_lane) LaneIsOurs();
  CachingAllocator* const allocator = allocator_.load(std::memory_order_acquire);
  if (allocator == nullptr) return absl::OkStatus();
  for (;;) {
    Bytes missing = 0;
    const absl::Status restored = allocator->TakeTurn(for_step, &missing);
    if (!absl::IsResourceExhausted(restored)) return restored;
    const wire::NeedRoom need = Lacks(missing, /*restoring=*/true);
    MutexLock lock(&mutex_);
    HOCKET_RETURN_IF_ERROR(AskRoom(need, interruptible));
  }
}

// A handler may have sent the turn back, and not end the wait, or the coordinator wants it back: then there
// is no lane to wait for.
absl::Status ClientImpl::AcquireLane(bool interruptible) {
  std::uint64_t begun;
  {
    MutexLock lock(&mutex_);
    begun = takings_;
  }
  bool interrupted = false;
  const absl::Status acquired = lane_.Acquire([&](bool signal) {
    if (signal && interruptible && Interrupted()) return interrupted = true;
    MutexLock lock(&mutex_);
    return takings_ != begun || turn_.give_back;
  });
  if (!absl::IsCancelled(acquired)) return acquired;
  return interrupted ? absl::CancelledError("interrupted while waiting for the turn")
                     : absl::AbortedError("the turn goes back");
}

// From here on nobody else adopts chunks of the arena. The Grant may have lain unread, or waited for the
// lock, until its coordinator was gone and another one gave turns: whoever had those may have adopted chunks
// that we know, and nobody has told us. While the one that we are connected to lives there is no other, and
// what we know we have from it (see Reconnect()).
void ClientImpl::LaneIsOurs() {
  MutexLock receiving(&receive_mutex_);
  bool knows_arena;
  {
    MutexLock lock(&mutex_);
    turn_.has_lane = true;
    knows_arena = connection_.PeerLives();
  }
  if (!knows_arena) ChangeArena({.chunk = 0});
}

// --- giving ---------------------------------------------------------------------------------------

// REQUIRES: phase giving. False: a graph is being captured, and the turn stays.
bool ClientImpl::Give() {
  bool given;
  std::uint64_t drained = 0;
  {
    const MutexUnlock unlock(&mutex_);
    const std::uint64_t start = Progress::NowNs();
    given = DrainDevice();
    drained = Progress::NowNs();
    given = given && FinishGiving(drained - start);
  }
  if (!given) AbortGive();
  giving_ns_ = given ? Progress::NowNs() - drained : 0;
  return given;
}

// In an allocation that finds no room, perhaps in the midst of a step. False: a thread computes in a step of
// its own, or a graph is being captured, and the turn stays.
bool ClientImpl::GiveForRoom() {
  if (phase_ != Phase::kHeld || !word_.TryGive(StandingInSteps())) return false;
  phase_ = Phase::kGiving;
  progress_.StepsInterrupted();
  if (Give()) return true;
  if (Count(word_.Load()) > 0) progress_.StepsGoOn();
  return false;
}

// False: a graph is being captured. A device that has failed has no work left: that is as good as drained.
bool ClientImpl::DrainDevice() {
  CachingAllocator* const allocator = allocator_.load(std::memory_order_acquire);
  return allocator == nullptr || !absl::IsFailedPrecondition(allocator->Drain());
}

// Returns the word before; none if the capture of a graph has begun, and then nothing has passed. Threads in
// their own code may have queued work since the drain: with the lock held they can free nothing, so after a
// second drain no freed block is in use.
std::optional<Word> ClientImpl::PassMemory() {
  CachingAllocator* const allocator = allocator_.load(std::memory_order_acquire);
  if (allocator == nullptr) return word_.Passed();
  allocator->ShedCache();
  allocator->Lock();
  std::optional<Word> before;
  if (!absl::IsFailedPrecondition(allocator->DrainLocked())) {
    allocator->PassTurn();
    before = word_.Passed();
  }
  allocator->Unlock();
  return before;
}

// False: as PassMemory().
bool ClientImpl::FinishGiving(std::uint64_t drain_ns) {
  if (!PassMemory()) return false;
  const Holdings held = Held();
  MutexLock lock(&mutex_);
  EndTurn(drain_ns, held, /*in_order=*/true);
  return true;
}

// Of whoever waits for it without a Grant. Not where the coordinator has to think first, and where it might
// hear of this turn's end only after that of the next.
std::uint64_t ClientImpl::NumberToPass() const {
  const bool may = turn_.passable && !room_ && !stands_aside_ && !spilling_ && facts_.gang.empty() &&
                   connection_.up() && !connection_.has_queue();
  return may ? turn_.pass : 0;
}

// A question for room goes with the turn: the allocation that asked tries again, and asks for a turn first.
// The next job is woken when the coordinator has been told: so it is heard of this turn's end first.
void ClientImpl::EndTurn(std::uint64_t drain_ns, const Holdings& held, bool in_order) {
  const std::uint64_t wanted = in_order ? NumberToPass() : 0;
  const std::shared_ptr<LanePage> page = wanted != 0 ? lane_.Page() : nullptr;
  const std::uint64_t pass = page ? wanted : 0;
  lane_.Release();
  AnswerRoom(absl::OkStatus());
  const std::uint64_t steps = progress_.steps();
  Holds(held);
  told_movable_ = Movable();
  Tell(wire::TurnOver{.turn = turn_.number,
                      .steps = steps,
                      .turn_steps = steps - turn_.first_step,
                      .drain_ns = drain_ns,
                      .persistent = held.persistent,
                      .spilled = held.spilled,
                      .transient_peak = held.transient_peak,
                      .movable = told_movable_,
                      .why_not_movable = WhyNotMovable(),
                      .ready_ns = turn_.ready_ns,
                      .restored = turn_.restored,
                      .stood_aside = std::exchange(stands_aside_, false),
                      .idle_ns = turn_.idle_ns,
                      .host_left = held.host_left,
                      .passed = pass,
                      .hand_over_ns = turn_.hand_over_ns});
  if (page && !connection_.has_queue()) page->Pass(pass);
  word_.Unask(kAsks | kStandBy);
  stand_by_.reset();
  stop_step_ = 0;
  for_next_step_ = false;
  turn_ = Turn();
  ++takings_;
  taker_left_.reset();
  phase_ = Phase::kNone;
  if (mapping_times_.Next().at != Clock::time_point::max()) Wake();
  NotifyAll();
}

void ClientImpl::AbortGive() {
  word_.AbortGive();
  phase_ = Phase::kHeld;
  NotifyAll();
  ArmIdleCheck();
}

double ClientImpl::ForcedShare() {
  if (!tuning_.spill_at_random) return 1;
  const double drawn = std::uniform_real_distribution<>(-1, 2)(forced_draw_);
  return std::clamp(drawn, 0.0, 1.0);  // a third each: nothing, a part, everything
}

// Whoever asked for it wants to know that nothing was tried.
void ClientImpl::SpillByForce(Bytes wanted) {
  CachingAllocator* const allocator = allocator_.load(std::memory_order_acquire);
  if (allocator == nullptr) return;
  const absl::StatusOr<Bytes> spilled = allocator->Spill(wanted);
  if (!spilled.ok()) Say(absl::StrCat("HOCKET_FORCE_SPILL: not all was moved: ", spilled.status().message()));
}

// HOCKET_FORCE_SPILL: as if somebody had had the turn in between. REQUIRES: the word says giving.
absl::Status ClientImpl::GiveAndTakeBack(Waiter& waiter) {
  phase_ = Phase::kGiving;
  const double share = ForcedShare();
  Word asks = 0;
  bool drained;
  {
    const MutexUnlock unlock(&mutex_);
    std::optional<Word> before;
    if (DrainDevice()) before = PassMemory();
    drained = before.has_value();
    asks = before.value_or(0) & kAsks;
    CachingAllocator* const allocator = allocator_.load(std::memory_order_acquire);
    if (drained && allocator != nullptr) {
      const auto held = static_cast<double>(allocator->Held().persistent);
      SpillByForce(share == 1 ? kEverything : static_cast<Bytes>(share * held));
    }
  }
  if (!drained) {
    AbortGive();
    Enter(waiter);
    return absl::OkStatus();
  }
  word_.Ask(asks);
  turn_.granted_ns = Progress::NowNs();
  phase_ = Phase::kTaking;
  return FinishTaking(/*for_step=*/true, /*interruptible=*/false);
}

}  // namespace hocket
