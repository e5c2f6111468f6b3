// Ctrl-C, and other signals' handlers, while a thread waits at a door.
//
// A handler is the program's own code: it may read the job's memory, make a step, allocate, leave Hocket. So
// its thread does not stand at the door meanwhile, nothing that it waited for is done for it, and what it had
// begun can be taken over: its question for room (whoever asks next waits for that answer first) and the turn
// that it was taking (which goes back).
#include <algorithm>
#include <utility>

#include "csrc/client/blocking.h"
#include "csrc/client/client_impl.h"
#include "csrc/client/door.h"

namespace hocket {
namespace {

// Of the thread that takes the turn; then it goes back. A handler that notes the signal is done by then.
constexpr auto kLongestAbsence = std::chrono::milliseconds(50);

}  // namespace

bool ClientImpl::AsksIfInterrupted(bool interruptible) const {
  return interruptible && !threads_.Mine().helper && HasInterruptedHook();
}

// It costs the interpreter's lock: not each time that something changes.
absl::Status ClientImpl::AskIfInterrupted(bool now) {
  ThreadRecord& me = threads_.Mine();
  const Clock::time_point time = Clock::now();
  if (!now && time - me.asked < kInterruptPause) return absl::OkStatus();
  me.asked = time;
  const MutexUnlock unlock(&mutex_);
  return Interrupted() ? absl::CancelledError("interrupted while waiting for the turn") : absl::OkStatus();
}

bool ClientImpl::Interrupted() {
  bool ends = false;
  hocket::AskInterrupted([&](absl::FunctionRef<bool()> own_code) { ends = RunOwnCode(own_code) || ends; });
  return ends;
}

bool ClientImpl::RunOwnCode(absl::FunctionRef<bool()> own_code) {
  ThreadRecord& me = threads_.Mine();
  std::optional<Absence> absence;
  {
    MutexLock lock(&mutex_);
    absence = LeaveDoor(me);
  }
  if (!absence) return false;
  const bool ends = own_code();
  MutexLock lock(&mutex_);
  ReturnToDoor(me, *absence);
  return ends;
}

// None while bytes move, or what is mapped for them is taken away, and where there is nothing to wait for any
// more: who is let in goes in, and Python's own loop sees to the signal. A turn that is granted is taken
// first: nobody else may be there who would.
std::optional<ClientImpl::Absence> ClientImpl::LeaveDoor(ThreadRecord& me) {
  const bool moves = spilling_ || mapping_ == MappingTimes::Action::kUnmap;
  if (moves || phase_ == Phase::kGranted || (IsMyQuestion(me.room) && room_->answered)) {
    me.asked = {};  // the question comes again as soon as may be
    return std::nullopt;
  }
  const auto mine = std::find_if(waiters_.begin(), waiters_.end(),
                                 [&](const Waiter* waiter) { return &waiter->door == me.door; });
  Absence absence{.door = std::exchange(me.door, nullptr), .room = std::exchange(me.room, 0)};
  if (absence.door != nullptr) {
    if (!absence.door->stands()) {  // let in
      me.door = absence.door;
      me.room = absence.room;
      return std::nullopt;
    }
    absence.door->Leave();
  }
  if (mine != waiters_.end()) {
    absence.waiter = *mine;
    waiters_.erase(mine);
    if (!waiters_.empty()) NotifyAll();  // one of them may read now
  }
  if (IsMyQuestion(absence.room)) room_->abandoned = true;
  if (phase_ == Phase::kTaking && taker_ == &me) {
    taker_left_ = Clock::now();
    Wake();
  }
  me.blocking = false;
  return absence;
}

// What changed meanwhile, its wait finds out.
void ClientImpl::ReturnToDoor(ThreadRecord& me, const Absence& absence) {
  me.blocking = true;
  ComeBack(me);  // the handler may have waited for something (parking.h)
  if (taker_ == &me) taker_left_.reset();
  me.door = absence.door;
  me.room = absence.room;
  if (absence.door != nullptr) absence.door->Return();
  if (absence.waiter != nullptr) waiters_.push_back(absence.waiter);
  if (IsMyQuestion(absence.room)) room_->abandoned = false;
  if (mapping_times_.Next().at != Clock::time_point::max()) Wake();
  TellIfMovable();  // it may have been asked meanwhile
}

bool ClientImpl::IsMyQuestion(std::uint64_t number) const {
  return number != 0 && room_ && room_->number == number;
}

// REQUIRES: the calling thread waits anew, or does not wait. A handler that ran while this thread took the
// turn needs one itself, or none: what has come back so far stays where it is.
void ClientImpl::DropTurnTakenHere() {
  if (phase_ == Phase::kTaking && taker_ == &threads_.Mine()) DropTurnOfAbsent();
}

// A handler that lasts may wait for another thread of the job, which waits for the turn.
Clock::time_point ClientImpl::DropsTurnAt() const {
  const bool absent = phase_ == Phase::kTaking && taker_left_;
  return absent ? *taker_left_ + kLongestAbsence : Clock::time_point::max();
}

void ClientImpl::CheckTaker() {
  MutexLock lock(&mutex_);
  if (Clock::now() >= DropsTurnAt()) DropTurnOfAbsent();
}

// REQUIRES: phase taking. Its thread looks whether it still has the turn before it goes on with it.
void ClientImpl::DropTurnOfAbsent() {
  const std::uint64_t taking = takings_;
  const Holdings held = HeldUnlocked();
  if (takings_ == taking && phase_ == Phase::kTaking && taker_left_) EndTurn(/*drain_ns=*/0, held);
}

}  // namespace hocket
