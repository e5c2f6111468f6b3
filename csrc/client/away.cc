// Threads that say that they do not use the device for a while, and those that say when they do: the others'
// time is as if they stood at a door.
#include <optional>

#include "csrc/base/status_macros.h"
#include "csrc/client/blocking.h"
#include "csrc/client/client_impl.h"

namespace hocket {

// While the turn is held nobody needs to know, but one who waits for it.
void ClientImpl::BeginAway() {
  ThreadRecord* const me = in_child_.load() ? nullptr : threads_.Seen();
  if (me == nullptr || me->helper || me->away || me->depth > 0) return;
  std::optional<Blocking> blocking;
  if (!word_.HoldsTurn()) blocking.emplace(*me);
  MutexLock lock(&mutex_);
  if (outside_) return;
  me->away = true;
  ++at_doors_.threads;
  if (!blocking) {
    if (MayGiveIdle() && GivesAtOnce() && Count(word_.Load()) == 0) {
      SetIdleCheck();
      idle_check_at_ = idle_since_;
      Wake();
    }
    return;
  }
  Arrive();
  TellIfMovable();
}

absl::Status ClientImpl::EndAway() {
  ThreadRecord* const me = in_child_.load() ? nullptr : threads_.Seen();
  if (me == nullptr || !me->away || me->visits) return absl::OkStatus();
  return ReturnFromAway(*me, /*returns=*/true);
}

// Between two uses a visitor is away. What it is about to use may be on its way to the host just now: so it
// is counted first, as one that stands at no door.
absl::Status ClientImpl::BeginUse() {
  if (in_child_.load()) return absl::OkStatus();
  ThreadRecord* me = threads_.Seen();
  const bool is_new = me == nullptr;
  if (is_new) {
    me = &threads_.Mine();
    me->visits = !me->helper && !me->ended;
  }
  if (me->helper) return BeginHelpersUse(*me);
  const bool begins = me->visits && (is_new || me->away);
  return begins ? ReturnFromAway(*me, /*returns=*/false) : absl::OkStatus();
}

bool ClientImpl::EndUse() {
  if (in_child_.load()) return true;
  ThreadRecord* const me = threads_.Seen();
  if (me == nullptr) return false;
  if (me->uses) EndHelpersUse(*me);
  if (me->visits && !me->away) BeginAway();
  return !me->visits;
}

// Nobody counts a helper, but for as long as it uses the device here. Between its turn and that instant the
// turn may pass, and bytes move.
absl::Status ClientImpl::BeginHelpersUse(ThreadRecord& me) {
  const Blocking blocking(me);
  MutexLock lock(&mutex_);
  while (!outside_ && phase_ != Phase::kHeld && !AwaitResident())
    HOCKET_RETURN_IF_ERROR(WaitAtDoor(/*step=*/false, /*returns=*/false));
  me.uses = true;
  ++helpers_at_work_;
  return absl::OkStatus();
}

void ClientImpl::EndHelpersUse(ThreadRecord& me) {
  const Blocking blocking(me);
  MutexLock lock(&mutex_);
  me.uses = false;
  if (--helpers_at_work_ > 0) return;
  Arrive();
  TellIfMovable();
}

absl::Status ClientImpl::ReturnFromAway(ThreadRecord& me, bool returns) {
  if (ComesBackInTurn(me)) return absl::OkStatus();
  const Blocking blocking(me);
  MutexLock lock(&mutex_);
  if (!AwaitResident()) return WaitAtDoor(/*step=*/false, returns);
  ComeBack(me);
  return absl::OkStatus();
}

bool ClientImpl::ComesBackInTurn(ThreadRecord& me) {
  MutexLock lock(&mutex_);
  if (phase_ != Phase::kHeld || outside_) return false;
  ComeBack(me);
  return true;
}

// In the same instant in which it may use the device, or comes to another door: nobody is counted twice.
void ClientImpl::ComeBack(ThreadRecord& me) {
  if (!me.away.exchange(false)) return;
  --at_doors_.threads;
  if (me.parked.exchange(false)) --parked_;
}

// True: all bytes are on the device, and stay there when the calling thread comes back now. False: for that a
// turn is needed.
bool ClientImpl::AwaitResident() {
  for (;;) {
    while (spilling_ || phase_ == Phase::kGiving) changed_.Wait(&mutex_);
    if (outside_ || phase_ >= Phase::kGranted) return phase_ == Phase::kHeld && !outside_;
    const std::uint64_t spills = spills_;
    const Holdings held = HeldUnlocked();
    const bool undisturbed = !outside_ && !spilling_ && spills_ == spills && phase_ <= Phase::kAsked;
    if (undisturbed) return held.spilled == 0;
  }
}

}  // namespace hocket
