// Quotas of time and memory, as people set them.
//
// Time caps: who has had what people allow it, stops after its step and is held back for a while. Which of
// the others goes on instead is the policy's matter as ever; who is held back is, to it, one that has not
// asked yet.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "coordinator/core/core.h"
#include "coordinator/core/seconds.h"

namespace hocket::coordinator {

void Core::On(Job* job, const SetTimeCap& event) {
  if (job == nullptr) return;
  if (job->turn != 0) UseTime(*job, BeganToUse(*job, job->ready.mean()));
  auto account = state_.accounts.find(job->id);
  if (event.cap == 0) {
    state_.accounts.erase(job->id);
  } else if (account == state_.accounts.end()) {
    state_.accounts.emplace(job->id, TimeAccount(event.cap, now_));
  } else {
    account->second.SetCap(event.cap, now_);
  }
}

void Core::On(Job* job, const SetMemoryLimit& event) {
  if (job == nullptr || job->gone) return;
  job->info.memory_limit = event.limit;
  SendTo(job->id, wire::Limit{.memory = event.limit});
}

void Core::On(Job* job, const SetMemoryGuarantee& event) {
  if (job != nullptr) job->guarantee = event.guarantee;
}

const TimeAccount* Core::TimeAccountOf(JobId job) const {
  auto account = state_.accounts.find(job);
  return account == state_.accounts.end() ? nullptr : &account->second;
}

double Core::TimeUsed(JobId id) const {
  const Job& job = this->job(id);
  const absl::Time running = job.turn == 0 ? absl::InfiniteFuture() : BeganToUse(job, job.ready.mean());
  return TimeAccountOf(id)->ShareOfWindow(now_, running);
}

absl::Time Core::HeldBackUntil(EntityId entity) const {
  absl::Time until = absl::InfinitePast();
  if (state_.accounts.empty()) return until;
  for (JobId id : RanksOf(entity)) {
    if (const TimeAccount* account = TimeAccountOf(id)) until = std::max(until, account->MayRunAt());
  }
  return until;
}

bool Core::Capped(EntityId entity) const {
  if (state_.accounts.empty()) return false;
  const auto ranks = RanksOf(entity);
  return std::any_of(ranks.begin(), ranks.end(), [&](JobId id) { return state_.accounts.contains(id); });
}

// In its turn, where it takes `ready` to begin: what comes back first is no use of the device.
absl::Time Core::BeganToUse(const Job& job, absl::Duration ready) const {
  return job.granted + std::min(ready, now_ - job.granted);
}

// Where bytes have to move for it, its turns are as long as those of others for whom they have: a turn of one
// step each would cost more than it gives.
TimeAccount::Levels Core::LevelsOf(const Job& job, const TimeAccount& account) const {
  absl::Duration longest = std::max(job.step.mean(), Quantum(job.entity));
  for (const Job* other : Others(job)) {
    if (!other->gone) longest = std::max(longest, other->step.mean());
  }
  return TimeAccount::LevelsFor(account.cap(), job.step.Upper(), longest);
}

void Core::UseTime(const Job& job, absl::Time from) {
  auto account = state_.accounts.find(job.id);
  if (account != state_.accounts.end()) account->second.Use(from, now_, LevelsOf(job, account->second));
}

// Also those whose cap is new, or whose gang has just become complete.
void Core::HoldBack() {
  for (auto& [id, job] : state_.jobs) {
    if (!job.waiting) continue;
    const bool back = now_ < HeldBackUntil(job.entity);
    if (job.held_back && !back) BeginToWait(job);
    job.held_back = back;
  }
}

absl::Time Core::StopForCap(const Turn& turn) const {
  absl::Time stop = absl::InfiniteFuture();
  if (state_.accounts.empty()) return stop;
  for (JobId id : turn.granted) {
    const TimeAccount* account = TimeAccountOf(id);
    if (account != nullptr) stop = std::min(stop, account->EmptyAt(job(id).granted + job(id).ready.mean()));
  }
  return stop;
}

std::string Core::ExplainCap(const Job& job) const {
  std::string text;
  for (JobId id : RanksOf(job.entity)) {
    const TimeAccount* account = TimeAccountOf(id);
    if (account == nullptr) continue;
    absl::StrAppend(&text, "; ", id == job.id ? "" : absl::StrCat(this->job(id).info.name, ", of its gang, "),
                    absl::StrFormat("has had %.1f %% of the last ", 100 * TimeUsed(id)),
                    Seconds(account->Window(now_)), id == job.id ? ", its" : ", the",
                    absl::StrFormat(" cap is %.3g %%", 100 * account->cap()));
    if (now_ < account->MayRunAt())
      absl::StrAppend(&text, "; may go on in ", Seconds(account->MayRunAt() - now_));
  }
  return text;
}

}  // namespace hocket::coordinator
