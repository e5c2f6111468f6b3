// The agent: receives, obeys, and gives the turn of an idle job.
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <utility>
#include <variant>

#include "csrc/client/client_impl.h"

namespace hocket {
namespace {

constexpr auto kReportPause = std::chrono::seconds(1);
constexpr Clock::duration kLongestPause = std::chrono::hours(1);  // whatever it is told
constexpr auto kLookAgain = std::chrono::milliseconds(1);         // for the end of what was queued before

// Signals are for the program's own threads.
void BlockSignals() {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
}

timespec Until(Clock::time_point deadline) {
  const auto left = std::max(deadline - Clock::now(), Clock::duration::zero());
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(left);
  return {static_cast<time_t>(seconds.count()),
          static_cast<long>(std::chrono::nanoseconds(left - seconds).count())};
}

}  // namespace

void ClientImpl::AgentMain() {
  BlockSignals();
  pthread_setname_np(pthread_self(), "hocket-agent");
  while (!stop_.load(std::memory_order_acquire)) {
    Poll();
    ReceiveAll();
    SeeToMapping();
    CheckStandBy();
    CheckTaker();
    CheckIdle();
    CheckGuessed();
    if (ReconnectIsDue()) Reconnect();
    if (Clock::now() >= report_at_) {
      report_at_ = Clock::now() + kReportPause;
      ReportIfChanged();
      LookForParked();
    }
  }
  MutexLock receiving(&receive_mutex_);
  MutexLock lock(&mutex_);
  connection_.Flush();
  connection_.Detach();
}

void ClientImpl::Poll() {
  pollfd fds[] = {{wake_.get(), POLLIN, 0}, {-1, POLLIN, 0}, {-1, POLLOUT, 0}};
  {
    MutexLock lock(&mutex_);
    fds[1].fd = connection_.agent_fd();
    if (connection_.has_queue()) fds[2].fd = connection_.fd();
  }
  const Clock::time_point deadline = NextDeadline();
  const timespec timeout = Until(deadline);
  const int ready =
      ppoll(fds, std::size(fds), deadline == Clock::time_point::max() ? nullptr : &timeout, nullptr);
  if (ready <= 0) return;
  if (fds[0].revents != 0) {
    std::uint64_t count;
    (void)!read(wake_.get(), &count, sizeof(count));
  }
  if (fds[2].revents & POLLOUT) {
    MutexLock lock(&mutex_);
    connection_.Flush();
  }
}

Clock::time_point ClientImpl::NextDeadline() {
  MutexLock lock(&mutex_);
  return std::min({report_at_, reconnect_at_, idle_check_at_, stand_check_at_, guessed_check_at_,
                   MaySeeToMappingAt(), DropsTurnAt()});
}

void ClientImpl::Wake() {
  const std::uint64_t one = 1;
  (void)!write(wake_.get(), &one, sizeof(one));
}

void ClientImpl::Tell(wire::Message message, UniqueFd descriptor) {
  const bool had_queue = connection_.has_queue();
  connection_.Send(std::move(message), std::move(descriptor));
  if (!had_queue && connection_.has_queue()) Wake();
}

void ClientImpl::ReceiveAll() {
  MutexLock receiving(&receive_mutex_);
  for (;;) {
    auto received = NextReceived();
    if (!received.ok()) return LostCoordinator(received.status());
    if (!*received) return TellArenaHeard();
    wire::Received& came = **received;
    std::visit([&](const auto& message) { On(message, std::move(came.descriptor)); }, came.message);
  }
}

absl::StatusOr<std::optional<wire::Received>> ClientImpl::NextReceived() {
  if (set_aside_.empty()) return connection_.Receive();
  auto first = std::move(set_aside_.front());
  set_aside_.pop_front();
  if (set_aside_.empty()) {
    MutexLock lock(&mutex_);
    left_to_agent_ = false;
    NotifyAll();
  }
  return first;
}

// On a thread at a door, in the agent's place: until nothing more is there (connection.h). It obeys a Grant,
// and the Yield that comes right after it, and leaves everything else, and what comes after that, to the
// agent.
void ClientImpl::ReceiveGrant() {
  MutexLock receiving(&receive_mutex_);
  {
    MutexLock lock(&mutex_);
    reading_ = false;
  }
  for (;;) {
    auto received = connection_.Receive();
    if (received.ok() && !*received) return;
    if (!SetAside(received)) continue;
    Wake();
    if (!set_aside_.back().ok()) return;
  }
}

// False: it was a Grant, or a Yield before the turn is used, and obeyed. (Once it is used, a Yield is the
// agent's: it looks for idleness.)
bool ClientImpl::SetAside(absl::StatusOr<std::optional<wire::Received>>& received) {
  const wire::Grant* grant = received.ok() ? std::get_if<wire::Grant>(&(*received)->message) : nullptr;
  MutexLock lock(&mutex_);
  if (grant != nullptr && !grant->fresh_arena && set_aside_.empty()) {
    Granted(*grant);
    return false;
  }
  const wire::Yield* yield = received.ok() ? std::get_if<wire::Yield>(&(*received)->message) : nullptr;
  const bool unused = phase_ == Phase::kGranted || phase_ == Phase::kTaking;
  if (yield != nullptr && unused && set_aside_.empty()) {
    Yielded(*yield);
    return false;
  }
  left_to_agent_ = true;
  set_aside_.push_back(std::move(received));
  return true;
}

// --- the turn -------------------------------------------------------------------------------------

void ClientImpl::On(const wire::Grant& grant, UniqueFd descriptor) {
  if (grant.fresh_arena) ChangeArena({.chunk = 0});
  MutexLock lock(&mutex_);
  Granted(grant);
}

void ClientImpl::Granted(const wire::Grant& grant) {
  if (grant.pass != 0 && !grant.passed) return Promised(grant);
  if (grant.pass != 0 && (!promise_ || promise_->grant.pass != grant.pass)) return;  // obeyed already
  const std::optional<Promise> promise = std::exchange(promise_, std::nullopt);
  if (phase_ != Phase::kAsked) return;
  if (!grant.lane_lock.empty()) lane_.SetPath(grant.lane_lock);
  if (!progress_.AcceptGrant(waits_)) return AskAgain();
  turn_ = {.number = grant.turn, .granted_ns = Progress::NowNs(), .first_step = progress_.steps()};
  turn_.hand_over_ns = turn_.granted_ns - asked_ns_ + std::exchange(giving_ns_, 0);
  word_.Unask(kAsks);
  if (grant.contended) word_.Ask(kAskIdle);
  phase_ = Phase::kGranted;
  if (waiters_.empty()) ReturnUnwantedTurn();
  if (phase_ < Phase::kGranted || turn_.number != grant.turn) return;  // it has gone back
  NotifyAll();
  if (grant.pass != 0 && promise && promise->yield) Yielded(*promise->yield);
}

// Whoever reads at the door waits for the page from now on, and the agent reads. Without a page (it was there
// when the job asked) the Grant is waited for, which comes where nobody is seen to use the turn.
void ClientImpl::Promised(const wire::Grant& grant) {
  if (phase_ != Phase::kAsked) return;
  promise_ = Promise{grant, lane_.Page(), std::nullopt};
  NotifyAll();
}

// The coordinator has taken the Grant back: this process has not answered for too long. Whoever waits goes on
// waiting. That the job could be moved, the coordinator has forgotten when it granted.
void ClientImpl::AskAgain() {
  const Holdings held = HeldUnlocked();
  if (phase_ != Phase::kAsked) return;
  told_movable_ = false;
  TellWait(held);
}

void ClientImpl::On(const wire::Yield& yield, UniqueFd descriptor) {
  MutexLock lock(&mutex_);
  Yielded(yield);
}

void ClientImpl::Yielded(const wire::Yield& yield) {
  if (promise_ && promise_->grant.turn == yield.turn) promise_->yield = yield;
  if (phase_ < Phase::kGranted) return;
  if (turn_.number == 0) turn_.number = yield.turn;
  if (yield.turn != turn_.number) return;
  turn_.pass = yield.pass;
  turn_.give_back |= yield.give_back;
  turn_.shorter_pauses = std::min<Clock::duration>(
      kLongestPause, std::chrono::nanoseconds(std::min<std::uint64_t>(yield.idle_ns, INT64_MAX)));
  const bool asked = (word_.Load() & kAskIdle) != 0;
  if (yield.now && yield.stop_step != 0) {
    StopTogether(yield);
  } else {
    stop_step_ = 0;
    word_.Ask(yield.now ? kAskIdle | kAskStop : kAskIdle);
  }
  if (phase_ != Phase::kHeld) return;
  if (stand_by_) NotifyAll();  // who stands between two steps gives the turn
  // Who is asked once more does not begin to rest by it.
  if (!asked || guessed_check_at_ == Clock::time_point::max()) SetGuessedCheck();
  if (Count(word_.Load()) > 0) return;  // the end of the step arms the check
  SetIdleCheck();
  // Somebody asks in a pause that began before.
  idle_since_ = std::min(idle_since_, std::max(turn_.held_since, progress_.last_boundary()));
  idle_check_at_ = GivesAtOnce() ? Clock::now() : idle_since_ + IdleLimit();
}

// A step that began before the word had kAskStop is counted in it; one that begins after looks at stop_step_.
void ClientImpl::StopTogether(const wire::Yield& yield) {
  stop_step_ = yield.stop_step;
  const Word before = word_.Ask(kAskIdle | kAskStop);
  const std::uint64_t steps = progress_.steps();
  const bool accepted = steps + Count(before) <= yield.stop_step;
  if (!accepted) {
    stop_step_ = 0;
    word_.Unask(kAskIdle | kAskStop);
    NotifyAll();
  }
  Tell(wire::YieldAck{
      .turn = turn_.number, .stop_step = yield.stop_step, .step = steps, .accepted = accepted});
}

// --- idleness -------------------------------------------------------------------------------------
//
// A job that somebody waits for gives its turn when it has used it for nothing for the idle limit; at once
// where all its threads are away. Where bytes have to move for the others the coordinator tells a longer
// limit, and that holds for those that are away, too.

// An agent that looks soon anyway is not woken: it sees then since when the job idles. (Others may wait
// through thousands of steps.)
void ClientImpl::ArmIdleCheck() {
  const Clock::time_point looks_at = idle_check_at_;
  SetIdleCheck();
  if (looks_at <= idle_check_at_) {
    idle_check_at_ = looks_at;
  } else {
    Wake();
  }
}

// On the agent's own thread nobody has to be woken for it.
void ClientImpl::SetIdleCheck() {
  idle_since_ = Clock::now();
  idle_begins_ = Begins(word_.Load());
  idle_check_at_ = idle_since_ + IdleLimit();
}

// Also of a gang's rank: its gang keeps the turn until every rank has given its part, and a rank that comes
// to a door before that has its part back at once.
bool ClientImpl::MayGiveIdle() const {
  return phase_ == Phase::kHeld && !outside_ && !stand_by_ && (word_.Load() & kAsks) != 0;
}

Clock::duration ClientImpl::IdleLimit() const { return std::max(tuning_.idle_limit, turn_.shorter_pauses); }

bool ClientImpl::GivesAtOnce() const {
  return turn_.shorter_pauses == Clock::duration::zero() && TurnIsOfNoUse();
}

void ClientImpl::CheckIdle() {
  bool waits_for_room, no_use;
  {
    MutexLock lock(&mutex_);
    if (Clock::now() < idle_check_at_) return;
    idle_check_at_ = Clock::time_point::max();
    // While a step lasts nothing is checked: its end arms the check again.
    if (!MayGiveIdle() || Count(word_.Load()) > 0) return;
    waits_for_room = AwaitsRoom();  // in an allocation: its answer comes to the turn that asked
    no_use = TurnIsOfNoUse();
  }
  CachingAllocator* const allocator = allocator_.load(std::memory_order_acquire);
  const bool allocated = allocated_.exchange(false, std::memory_order_relaxed) && !no_use;
  const bool quiet = !allocated && !waits_for_room && (allocator == nullptr || allocator->IsIdle());
  const bool capturing = allocator != nullptr && allocator->Capturing();
  std::uint32_t begins;
  {
    MutexLock lock(&mutex_);
    if (!IdleLongEnough(quiet)) {
      if (!quiet && !capturing) AskAtAllocations();
      return;
    }
    begins = idle_begins_;
  }
  if (!capturing) GiveIdleTurn(begins, /*in_steps=*/0);
}

bool ClientImpl::IdleLongEnough(bool quiet) {
  const Clock::time_point now = Clock::now();
  const std::uint32_t begins = Begins(word_.Load());
  const bool still = quiet && begins == idle_begins_;
  if (!still) idle_since_ = now;
  idle_begins_ = begins;
  if (GivesAtOnce()) {
    idle_check_at_ = now + kLookAgain;
    return still;
  }
  const bool long_enough = still && now - idle_since_ >= IdleLimit();
  idle_check_at_ = (long_enough ? now : idle_since_) + IdleLimit();
  return long_enough;
}

// A job that works outside steps and should stop does so at its next allocation, once it has done something
// with its turn.
void ClientImpl::AskAtAllocations() {
  const bool progressed = progress_.steps() > turn_.first_step;
  const bool old_enough = Clock::now() - turn_.held_since >= tuning_.implicit_quantum;
  if (StopReached() && (progressed || old_enough)) word_.Ask(kAskMalloc);
}

void ClientImpl::GiveIdleTurn(std::uint32_t begins, Word in_steps) {
  {
    MutexLock lock(&mutex_);
    if (phase_ != Phase::kHeld) return;
    if (!word_.TryTakeIdle(begins, in_steps)) return;  // the end of a step arms the check
    phase_ = Phase::kGiving;
    if (in_steps > 0) progress_.StepsInterrupted();
    const std::chrono::nanoseconds idle = Clock::now() - (in_steps > 0 ? guessed_since_ : idle_since_);
    turn_.idle_ns = static_cast<std::uint64_t>(idle.count());
  }
  if (FinishGiving(/*drain_ns=*/0)) return;
  MutexLock lock(&mutex_);
  AbortGive();
  if (Count(word_.Load()) > 0) progress_.StepsGoOn();
}

}  // namespace hocket
