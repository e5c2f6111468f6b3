// The turn of a job whose steps do not use it: nobody has said where they end, or their thread waits for
// somebody else, who may be waiting for the turn.
#include <algorithm>

#include "csrc/base/status_macros.h"
#include "csrc/client/client_impl.h"

namespace hocket {
namespace {

constexpr int kAverageSteps = 10;
constexpr Clock::duration kLongest = std::chrono::seconds(30);  // an average may come of one long first step
constexpr int kLooks = 10;  // a device that is idle now and then is in use

}  // namespace

Clock::duration ClientImpl::GuessedLimit() const {
  const Clock::duration steps = kAverageSteps * progress_.step_time();
  return std::max({tuning_.guessed_idle_limit, std::min(steps, kLongest), turn_.shorter_pauses});
}

Clock::duration ClientImpl::IdleLimitIn(Word in_steps) const {
  const bool guessed = guessed_.load() == in_steps;
  return guessed ? GuessedLimit() : std::max(tuning_.said_idle_limit, GuessedLimit());
}

// The agent is not woken for it: it looks once a second anyway.
void ClientImpl::SetGuessedCheck() {
  guessed_since_ = Clock::now();
  guessed_begins_ = Begins(word_.Load());
  guessed_check_at_ = guessed_since_ + GuessedLimit() / kLooks;
}

// A gang's ranks stop after the same step, not within one. Who does not allocate from us may use what it has
// unseen; who waits for room has its answer in the turn that asked.
bool ClientImpl::MayGiveInSteps(Word in_steps) const {
  const bool ours = allocator_.load(std::memory_order_acquire) != nullptr;
  return in_steps > 0 && !keeps_in_steps_.load() && facts_.gang.empty() && ours && !AwaitsRoom();
}

void ClientImpl::CheckGuessed() {
  Word in_steps;
  {
    MutexLock lock(&mutex_);
    if (Clock::now() < guessed_check_at_) return;
    guessed_check_at_ = Clock::time_point::max();
    if (!MayGiveIdle()) return;  // what asks next arms the check
    guessed_check_at_ = Clock::now() + GuessedLimit() / kLooks;
    in_steps = Count(word_.Load());  // before `guessed_`, which is never more than it counts
    if (!MayGiveInSteps(in_steps)) {
      guessed_since_ = Clock::now();
      return;
    }
  }
  CachingAllocator* const allocator = allocator_.load(std::memory_order_acquire);
  const bool allocated = allocated_.exchange(false, std::memory_order_relaxed);
  const bool quiet = !allocated && allocator->IsIdle() && !allocator->Capturing();
  std::uint32_t begins;
  {
    MutexLock lock(&mutex_);
    begins = Begins(word_.Load());
    const bool still = quiet && begins == guessed_begins_;
    guessed_begins_ = begins;
    if (!still) guessed_since_ = Clock::now();
    if (Clock::now() - guessed_since_ < IdleLimitIn(in_steps)) return;
  }
  GiveIdleTurn(begins, in_steps);
}

// What was guessed until now may have been said.
absl::Status ClientImpl::BeginNested(ThreadRecord& me, bool guessed) {
  if (me.guessed && !guessed) {
    me.guessed = false;
    guessed_.fetch_sub(1);
  }
  (void)word_.Begin();  // for the agent, who would give the turn if none had begun: the job is in use
  (void)word_.UndoBegin();
  if (!word_.HoldsTurn()) HOCKET_RETURN_IF_ERROR(WaitForTurn(/*step=*/false));
  ++me.depth;
  return absl::OkStatus();
}

}  // namespace hocket
