// Steps, and the doors at which threads wait for the turn.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "csrc/base/status_macros.h"
#include "csrc/client/blocking.h"
#include "csrc/client/client_impl.h"
#include "csrc/client/door.h"

namespace hocket {

absl::Status ClientImpl::BeginStep(bool guessed) {
  ThreadRecord& me = threads_.Mine();
  if (me.depth > 0) return BeginNested(me, guessed);
  me.visits = false;
  if (me.away) {
    HOCKET_RETURN_IF_ERROR(WaitForTurn(/*step=*/true));
  } else if (!word_.Begin()) {
    HOCKET_RETURN_IF_ERROR(BeginSlow());
  }
  me.depth = 1;
  me.guessed = guessed;
  if (guessed) guessed_.fetch_add(1);
  if (CachingAllocator* allocator = allocator_.load(std::memory_order_acquire)) allocator->BeginStep();
  me.begun = progress_.StepBegun();
  return absl::OkStatus();
}

void ClientImpl::EndStep(bool count) {
  ThreadRecord& me = threads_.Mine();
  if (me.depth == 0 || --me.depth > 0) return;
  if (CachingAllocator* allocator = allocator_.load(std::memory_order_acquire)) allocator->EndStep();
  progress_.StepEnded(me.begun, count);
  if (std::exchange(me.guessed, false)) guessed_.fetch_sub(1);
  // What was allocated in the step says nothing about what comes after it.
  if (allocated_.load(std::memory_order_relaxed)) allocated_.store(false, std::memory_order_relaxed);
  const Duty duty = word_.End();
  if (duty != Duty::kNone) EndSlow(duty);
}

absl::Status ClientImpl::BeginSlow() {
  // Whoever counted this thread among those in a step looks again after WaitForTurn(), or is told here.
  if (word_.UndoBegin() != Duty::kNone) {
    MutexLock lock(&mutex_);
    ArmIdleCheck();
  }
  return WaitForTurn(/*step=*/true);
}

void ClientImpl::EndSlow(Duty duty) {
  if (duty == Duty::kTellAgent) {
    MutexLock lock(&mutex_);
    LookAtStandBy();
    return ArmIdleCheck();
  }
  const Blocking blocking(threads_.Mine());
  MutexLock lock(&mutex_);
  if (phase_ != Phase::kHeld) return;
  if (StopReached() && word_.TryGive()) {
    phase_ = Phase::kGiving;
    (void)Give();
  } else {
    ArmIdleCheck();
  }
}

bool ClientImpl::HoldsTurn() const {
  if (!word_.HoldsTurn() && !GoesOnCapturing()) return false;
  ThreadRecord& me = threads_.Mine();
  if (me.away) return false;  // AwaitTurn() ends that
  me.visits = false;
  if (!allocated_.load(std::memory_order_relaxed)) allocated_.store(true, std::memory_order_relaxed);
  return true;
}

absl::Status ClientImpl::AwaitTurn() {
  threads_.Mine().visits = false;
  return WaitForTurn(/*step=*/false);
}

void ClientImpl::WhileBlocked(absl::FunctionRef<void()> wait) {
  const Blocking blocking(threads_.Mine());
  wait();
}

absl::Status ClientImpl::WaitForTurn(bool step, bool interruptible) {
  const Blocking blocking(threads_.Mine());
  MutexLock lock(&mutex_);
  return WaitAtDoor(step, /*returns=*/false, interruptible);
}

// REQUIRES: inside a Blocking. (The doors' counts are handed on by reference.)
absl::Status ClientImpl::WaitAtDoor(bool step, bool returns,
                                    bool interruptible) ABSL_NO_THREAD_SAFETY_ANALYSIS {
  ThreadRecord& me = threads_.Mine();
  me.asked = Clock::now();
  ComeBack(me);
  DropTurnTakenHere();
  Door door(me, at_doors_);
  Waiter waiter{.door = door, .step = step, .returns = returns, .interruptible = interruptible};
  waiters_.push_back(&waiter);
  const absl::Status status = WaitAsWaiter(waiter);
  if (!waiter.admitted) StepAside(waiter);
  return status;
}

absl::Status ClientImpl::WaitAsWaiter(Waiter& waiter) {
  Arrive();
  while (!waiter.admitted) {
    if (StandsBy(waiter)) {
      if (MayTellStoodBy()) {
        DrainAndTell();
      } else {
        HOCKET_RETURN_IF_ERROR(Sleep(waiter.interruptible));
      }
    } else if (outside_ || phase_ == Phase::kHeld) {
      HOCKET_RETURN_IF_ERROR(EnterOrGive(waiter));
    } else if (phase_ == Phase::kNone && !spilling_) {
      Ask();
    } else if (phase_ == Phase::kGranted && !spilling_) {
      HOCKET_RETURN_IF_ERROR(TakeGrantedTurn(waiter));
    } else {
      HOCKET_RETURN_IF_ERROR(Sleep(waiter.interruptible));
    }
  }
  return absl::OkStatus();
}

// Without the turn: what was not movable may be so from now on. A job that is about to ask for the turn says
// it with that.
void ClientImpl::Arrive() {
  if (outside_ || spilling_ || phase_ > Phase::kAsked || !Movable()) return;
  if (tuning_.force_spill) SpillEverything();
  if (phase_ == Phase::kAsked) TellIfMovable();
}

void ClientImpl::TellIfMovable() {
  const auto due = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return !told_movable_ && !outside_ && !spilling_ && phase_ <= Phase::kAsked && Movable();
  };
  if (!due()) return;
  const Holdings held = HeldUnlocked();
  if (due()) TellMovable(held);
}

void ClientImpl::Ask() {
  const Holdings held = HeldUnlocked();
  if (phase_ != Phase::kNone || spilling_ || outside_) return;
  phase_ = Phase::kAsked;
  TellWait(held);
  mapping_times_.Asked(Clock::now());
  if (mapping_times_.Next().at != Clock::time_point::max()) Wake();  // perhaps sooner than it looks
  if (connection_.up()) return;
  reconnect_at_ = Clock::now();  // if there is still no coordinator, it may be done alone
  Wake();
}

void ClientImpl::TellWait(const Holdings& held) {
  promise_.reset();  // it was of the Wait before
  wire::Wait wait{.need = held.spilled + lacked_,
                  .gang_step = progress_.steps(),
                  .number = ++waits_,
                  .heeds_pass = lane_.Page() != nullptr};
  if (!told_movable_ && Movable()) {
    if (!hears_movable_) TellMovable(held);
    wait.movable = told_movable_ = true;
    wait.persistent = held.persistent;
    wait.spilled = held.spilled;
    wait.host_left = held.host_left;
  }
  asked_ns_ = Progress::NowNs();
  Tell(wait);
}

absl::Status ClientImpl::EnterOrGive(Waiter& waiter) {
  // What it would touch is not there, and nobody brings it back: it stays until the process is gone.
  while (stranded_) changed_.Wait(&mutex_);
  if (outside_) {
    Enter(waiter);
    return absl::OkStatus();
  }
  if (waiter.step && tuning_.force_spill && Count(word_.Load()) == 0 && Movable()) {
    if (word_.TryGive()) return GiveAndTakeBack(waiter);
  }
  if (!MustGive(waiter.step)) {
    Enter(waiter);
    return absl::OkStatus();
  }
  if (!word_.TryGive()) return Sleep(waiter.interruptible);  // the last to end its step gives
  phase_ = Phase::kGiving;
  if (!Give()) Enter(waiter);
  return absl::OkStatus();
}

void ClientImpl::Enter(Waiter& waiter) {
  waiter.admitted = true;
  waiter.door.Leave();
  waiters_.remove(&waiter);
  if (!waiter.step) return;
  for_next_step_ = false;
  word_.Enter();
}

bool ClientImpl::StopReached() const {
  const bool asked = (word_.Load() & kAskStop) != 0;
  return asked && (stop_step_ == 0 || progress_.steps() >= stop_step_);
}

bool ClientImpl::MustGive(bool step) const {
  const Word word = word_.Load();
  if (!step) return !transition::HoldsTurn(word);
  if (for_next_step_) return false;
  const bool boundary_of_implicit = (word & kImplicit) != 0 && (word & kAsks) != 0 && facts_.gang.empty() &&
                                    turn_.shorter_pauses == Clock::duration::zero();
  return StopReached() || boundary_of_implicit;
}

// Who stands in the midst of a step goes on in it, and may be anywhere: then all bytes come first.
absl::Status ClientImpl::TakeGrantedTurn(const Waiter& waiter) {
  phase_ = Phase::kTaking;
  progress_.TurnTaken();
  return FinishTaking(waiter.step && Count(word_.Load()) == 0, waiter.interruptible);
}

// Everybody who waits goes in: steps are counted in the same instant in which the turn becomes ours.
void ClientImpl::Admit() {
  const auto steps = std::count_if(waiters_.begin(), waiters_.end(), [](Waiter* w) { return w->step; });
  for_next_step_ =
      steps == 0 && std::any_of(waiters_.begin(), waiters_.end(), [](Waiter* w) { return w->returns; });
  for (Waiter* waiter : waiters_) {
    waiter->admitted = true;
    waiter->door.Leave();
  }
  waiters_.clear();
  allocated_.store(true, std::memory_order_relaxed);
  phase_ = Phase::kHeld;
  lacked_ = 0;
  turn_.held_since = Clock::now();
  if (Count(word_.Load()) > 0) progress_.StepsGoOn();
  word_.Granted(static_cast<Word>(steps));
  NotifyAll();
  SetGuessedCheck();
  if (steps == 0) ArmIdleCheck();
}

void ClientImpl::StepAside(Waiter& waiter) {
  waiters_.remove(&waiter);
  while (spilling_) changed_.Wait(&mutex_);
  if (!waiters_.empty()) return NotifyAll();  // one of them may read now
  if (phase_ == Phase::kGranted) ReturnUnwantedTurn();
}

// Who waited for it was interrupted.
void ClientImpl::ReturnUnwantedTurn() {
  const Holdings held = HeldUnlocked();
  if (phase_ == Phase::kGranted && waiters_.empty()) EndTurn(/*drain_ns=*/0, held);
}

// --- sleeping at the door -------------------------------------------------------------------------

absl::Status ClientImpl::Sleep(bool interruptible) {
  const bool asks = AsksIfInterrupted(interruptible);
  const Clock::duration limit = asks ? Clock::duration(kInterruptPause) : Connection::kNoLimit;
  bool signal = false;
  if (MayAwaitPass()) {
    signal = AwaitPass(limit);
  } else if (MayRead()) {
    signal = ReadAtDoor(limit) == Connection::Woken::kBySignal;
  } else if (asks) {
    changed_.WaitUntil(&mutex_, Clock::now() + limit);
  } else {
    changed_.Wait(&mutex_);
  }
  return asks ? AskIfInterrupted(/*now=*/signal) : absl::OkStatus();
}

// While it waits for the Grant, one thread reads in the agent's place: so the Grant wakes one thread, not two
// one after the other.
bool ClientImpl::MayRead() const {
  return phase_ == Phase::kAsked && !spilling_ && !reading_ && !left_to_agent_ && !AwaitsPage() &&
         connection_.up();
}

Connection::Woken ClientImpl::ReadAtDoor(Clock::duration limit) {
  reading_ = true;
  const MutexUnlock unlock(&mutex_);
  const Connection::Woken woken = connection_.AwaitAtDoor(limit);
  ReceiveGrant();
  return woken;
}

bool ClientImpl::AwaitsPage() const { return promise_ && promise_->page; }

bool ClientImpl::MayAwaitPass() const { return phase_ == Phase::kAsked && AwaitsPage() && !awaited_; }

// The bell is looked at before anybody can ring it for what changes from here on.
bool ClientImpl::AwaitPass(Clock::duration limit) {
  const std::shared_ptr<LanePage> page = promise_->page;
  const auto passed = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return promise_ && promise_->page == page && page->passed() == promise_->grant.pass;
  };
  bool signal = false;
  if (const std::uint32_t bell = page->bell(); !passed()) {
    awaited_ = page;
    const MutexUnlock unlock(&mutex_);
    signal = page->Await(bell, limit);
  }
  awaited_.reset();
  if (!passed()) return signal;
  wire::Grant grant = promise_->grant;
  grant.passed = true;
  Granted(grant);
  return signal;
}

void ClientImpl::NotifyAll() {
  changed_.NotifyAll();
  if (reading_) connection_.WakeDoor();
  if (awaited_) awaited_->Ring();
}

// One of autograd's threads that stands at a door stands there for the thread that waits for it.
bool ClientImpl::AllAtDoors() const {
  if (helpers_at_work_ > at_doors_.helpers_at_work) return false;
  return at_doors_.threads + (at_doors_.helpers > 0 ? 1 : 0) >= threads_.known();
}

// How many of the threads that are in a step stand at a door there. One of autograd's stands for the one that
// waits for it; which one that is cannot be known (docs/decisions/0011 says what that may cost).
Word ClientImpl::StandingInSteps() const {
  const Word in_steps = static_cast<Word>(at_doors_.in_steps);
  const bool helped = at_doors_.helpers > 0 && in_steps + 1 == Count(word_.Load());
  return helped ? in_steps + 1 : in_steps;
}

std::string ClientImpl::LastingError() const {
  const CachingAllocator* const allocator = allocator_.load(std::memory_order_acquire);
  return allocator == nullptr ? "" : allocator->LastingError();
}

bool ClientImpl::Movable() const { return AllAtDoors() && !strays_harm_ && LastingError().empty(); }

std::string ClientImpl::WhyNotMovable() const {
  if (Movable()) return "";
  if (const std::string error = LastingError(); !error.empty()) {
    return absl::StrCat("a kernel of its has failed on the device, ", error,
                        ": what it holds comes back when its process ends");
  }
  if (AllAtDoors()) {
    return "a thread that Hocket has not seen uses the device, and the driver cannot map host memory where "
           "that thread would look";
  }
  if (helpers_at_work_ > at_doors_.helpers_at_work) return "one of autograd's threads uses the device";
  return absl::StrCat(
      threads_.known() - at_doors_.threads, " of ", threads_.known(),
      " threads that use the GPU are in the program's own code, not at a begin of a step or in "
      "an allocation");
}

}  // namespace hocket
