// The turn comes and goes.
#include <utility>

#include "csrc/base/status_macros.h"
#include "csrc/client/blocking.h"
#include "csrc/client/client_impl.h"

namespace hocket {

// --- taking ---------------------------------------------------------------------------------------

absl::Status ClientImpl::FinishTaking(bool interruptible) {
  absl::Status taken;
  Holdings before, after;
  {
    const MutexUnlock unlock(&mutex_);
    before = Held();
    taken = Take(interruptible);
    after = Held();
    if (!taken.ok()) lane_.Release();
  }
  turn_.restored += after.restored_total - before.restored_total;
  turn_.ready_ns = Progress::NowNs() - turn_.granted_ns;
  if (!taken.ok()) {
    EndTurn(/*drain_ns=*/0, after);
    return taken;
  }
  progress_.Holds(after);
  Admit();
  return absl::OkStatus();
}

// The lane lock first: only its holder may touch the arena.
absl::Status ClientImpl::Take(bool interruptible) {
  HOCKET_RETURN_IF_ERROR(lane_.Acquire(interruptible ? Interrupted : std::function<bool()>()));
  CachingAllocator* const allocator = allocator_.load(std::memory_order_acquire);
  if (allocator == nullptr) return absl::OkStatus();
  for (;;) {
    Bytes missing = 0;
    const absl::Status restored = allocator->TakeTurn(&missing);
    if (!absl::IsResourceExhausted(restored)) return restored;
    HOCKET_RETURN_IF_ERROR(AskRoom(missing, /*restoring=*/true, interruptible));
  }
}

// --- giving ---------------------------------------------------------------------------------------

// REQUIRES: phase giving. False: a graph is being captured, and the turn stays.
bool ClientImpl::Give() {
  bool drained;
  {
    const MutexUnlock unlock(&mutex_);
    const std::uint64_t start = Progress::NowNs();
    drained = DrainDevice();
    if (drained) FinishGiving(Progress::NowNs() - start);
  }
  if (!drained) AbortGive();
  return drained;
}

// A device that has failed has no work left: what the drain returns then does not matter here.
bool ClientImpl::DrainDevice() {
  CachingAllocator* const allocator = allocator_.load(std::memory_order_acquire);
  if (allocator == nullptr) return true;
  if (allocator->Capturing()) return false;
  (void)allocator->Drain();
  return true;
}

// Returns the word before. Threads in their own code may have queued work since the drain: with the lock
// held they can free nothing, so after a second drain no freed block is in use.
Word ClientImpl::PassMemory() {
  CachingAllocator* const allocator = allocator_.load(std::memory_order_acquire);
  if (allocator == nullptr) return word_.Passed();
  allocator->Lock();
  (void)allocator->Drain();
  allocator->PassTurn();
  const Word before = word_.Passed();
  allocator->Unlock();
  return before;
}

void ClientImpl::FinishGiving(std::uint64_t drain_ns) {
  PassMemory();
  lane_.Release();
  const Holdings held = Held();
  MutexLock lock(&mutex_);
  EndTurn(drain_ns, held);
}

void ClientImpl::EndTurn(std::uint64_t drain_ns, const Holdings& held) {
  const std::uint64_t steps = progress_.steps();
  told_movable_ = AllAtDoors();
  Tell(wire::TurnOver{.turn = turn_.number,
                      .steps = steps,
                      .turn_steps = steps - turn_.first_step,
                      .drain_ns = drain_ns,
                      .persistent = held.persistent,
                      .spilled = held.spilled,
                      .arena = held.arena,
                      .transient_peak = held.transient_peak,
                      .movable = told_movable_,
                      .why_not_movable = WhyNotMovable(),
                      .ready_ns = turn_.ready_ns,
                      .restored = turn_.restored});
  word_.Unask(kAsks);
  stop_step_ = 0;
  turn_ = Turn();
  phase_ = Phase::kNone;
  progress_.Holds(held);
  NotifyAll();
}

void ClientImpl::AbortGive() {
  word_.AbortGive();
  phase_ = Phase::kHeld;
  NotifyAll();
  ArmIdleCheck();
}

// HOCKET_FORCE_SPILL: as if somebody had had the turn in between. REQUIRES: the word says giving.
absl::Status ClientImpl::GiveAndTakeBack(Waiter& waiter) {
  phase_ = Phase::kGiving;
  Word asks = 0;
  bool drained;
  {
    const MutexUnlock unlock(&mutex_);
    drained = DrainDevice();
    if (drained) {
      asks = PassMemory() & kAsks;
      if (CachingAllocator* a = allocator_.load(std::memory_order_acquire)) (void)a->Spill(kEverything);
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
  return FinishTaking(/*interruptible=*/false);
}

}  // namespace hocket
