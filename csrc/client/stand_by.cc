// Standing still in the midst of a turn, while somebody else's request is served.
//
// The job keeps its turn, its lane and all its memory, so nothing depends on how exactly it stands: where a
// thread that allocates nothing goes on, both use the device for a moment. Whoever comes to a door last waits
// for the device and says so; where nobody comes to one (a thread computes on the host, or all are between
// two steps), the agent does.
#include <optional>
#include <utility>

#include "csrc/client/client_impl.h"

namespace hocket {
namespace {

constexpr auto kLookWhoStands = std::chrono::milliseconds(1);

}  // namespace

void ClientImpl::On(const wire::StandBy& order, UniqueFd descriptor) {
  MutexLock lock(&mutex_);
  if (phase_ < Phase::kGranted || outside_ || stand_by_) return;
  if (turn_.number == 0) turn_.number = order.turn;  // it was taken without a coordinator
  if (order.turn != turn_.number) return;
  const Clock::time_point now = Clock::now();
  stand_by_ = StandBy{.number = ++stand_bys_, .ordered = now, .since = now};
  word_.Ask(kStandBy);
  stand_check_at_ = Clock::now();  // on the agent's own thread, which looks next
}

void ClientImpl::On(const wire::GoOn& order, UniqueFd descriptor) {
  MutexLock lock(&mutex_);
  if (order.turn == turn_.number) EndStandBy();
}

void ClientImpl::EndStandBy() {
  if (!stand_by_) return;
  if (stand_by_->told) progress_.Stood(Clock::now() - stand_by_->since);
  stand_by_.reset();
  stand_check_at_ = Clock::time_point::max();
  word_.Unask(kStandBy);
  NotifyAll();
  if (phase_ != Phase::kHeld) return;
  SetGuessedCheck();  // both have rested
  if (Count(word_.Load()) == 0) ArmIdleCheck();
}

// At this door, rather than to go in, or to give the turn up: that is done between two steps only.
bool ClientImpl::StandsBy(const Waiter& waiter) const {
  if (!stand_by_ || phase_ != Phase::kHeld || outside_) return false;
  return !(waiter.step && StopReached() && Count(word_.Load()) == 0);
}

// Nobody queues more work, as far as that can be seen: all who are in a step stand at doors in the midst of
// it. Who takes a turn has not begun to use it.
bool ClientImpl::StandsStill() const {
  return phase_ == Phase::kGranted || phase_ == Phase::kTaking || StandingInSteps() == Count(word_.Load());
}

bool ClientImpl::MayTellStoodBy() const {
  return stand_by_ && !stand_by_->told && !stand_by_->draining && StandsStill();
}

// REQUIRES: MayTellStoodBy(). While a graph is captured nobody waits for the device: the agent looks again.
void ClientImpl::DrainAndTell() {
  stand_by_->draining = true;
  const std::uint64_t number = stand_by_->number;
  bool drained;
  {
    const MutexUnlock unlock(&mutex_);
    drained = DrainDevice();
  }
  if (!stand_by_ || stand_by_->number != number) return;  // it is over
  if (drained) return TellStoodBy();
  stand_by_->draining = false;
  stand_check_at_ = Clock::now() + kLookWhoStands;
  Wake();
  changed_.WaitUntil(&mutex_, stand_check_at_);
}

void ClientImpl::TellStoodBy() {
  stand_by_->told = true;
  stand_by_->draining = false;
  stand_by_->since = Clock::now();
  Tell(wire::StoodBy{.turn = turn_.number});
}

// The last step has ended. Who ended it goes on in the program's own code.
void ClientImpl::LookAtStandBy() {
  if (!stand_by_ || stand_by_->told) return;
  stand_check_at_ = Clock::now();
  Wake();
}

// On the agent's thread. Who is in a step and comes to no door has perhaps nothing on the device. An end that
// never comes (the coordinator is stopped, or sees none) is not waited for for ever.
void ClientImpl::CheckStandBy() {
  MutexLock lock(&mutex_);
  if (Clock::now() < stand_check_at_) return;
  stand_check_at_ = Clock::time_point::max();
  if (!stand_by_) return;
  const Clock::time_point end = stand_by_->ordered + tuning_.longest_stand_by;
  if (Clock::now() >= end) return EndStandBy();
  stand_check_at_ = end;
  if (stand_by_->told || stand_by_->draining) return;
  const std::uint64_t number = stand_by_->number;
  if (StandsStill()) {
    DrainAndTell();
  } else {
    bool idle;
    {
      const MutexUnlock unlock(&mutex_);
      CachingAllocator* const allocator = allocator_.load(std::memory_order_acquire);
      idle = allocator != nullptr && allocator->IsIdle() && !allocator->Capturing();
    }
    if (idle && stand_by_ && stand_by_->number == number && !stand_by_->told) TellStoodBy();
  }
  if (stand_by_ && !stand_by_->told) stand_check_at_ = Clock::now() + kLookWhoStands;
}

// A capture is not held up: what it queues does not run before it has ended.
bool ClientImpl::GoesOnCapturing() const {
  const Word word = word_.Load();
  if ((word & kStandBy) == 0 || !transition::HoldsTurn(word & ~kStandBy)) return false;
  const CachingAllocator* const allocator = allocator_.load(std::memory_order_acquire);
  return allocator != nullptr && allocator->Capturing();
}

// --- running ahead --------------------------------------------------------------------------------

void ClientImpl::On(const wire::Pace& pace, UniqueFd descriptor) {
  pace_ = std::chrono::nanoseconds(std::min<std::uint64_t>(pace.most_queued_ns, INT64_MAX));
  if (CachingAllocator* const allocator = allocator_.load(std::memory_order_acquire))
    allocator->SetPace(pace_);
}

}  // namespace hocket
