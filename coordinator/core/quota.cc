// Quotas of time and memory, as people set them, of jobs, groups and users.
//
// Time caps: who has had what people allow it, stops after its step and is held back for a while. Which of
// the others goes on instead is the policy's matter as ever; who is held back is, to it, one that has not
// asked yet.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "coordinator/core/core.h"
#include "coordinator/core/seconds.h"

namespace hocket::coordinator {

void Core::On(Job* job, const SetTimeCap& event) {
  if (job == nullptr) return;
  UseTimeSoFar();
  const OnDevice own(Owner::Job(job->id), job->info.device);
  auto account = state_.accounts.find(own);
  if (event.cap == 0) {
    state_.accounts.erase(own);
  } else if (account == state_.accounts.end()) {
    state_.accounts.emplace(own, TimeAccount(event.cap, now_));
  } else {
    account->second.SetCap(event.cap, now_);
  }
}

void Core::On(Job* job, const SetGroup& event) {
  if (job == nullptr || job->gone) return;
  UseTimeSoFar();
  job->info.group = event.group;
  KeepAccounts();
}

void Core::On(Job*, const SetQuota& event) {
  UseTimeSoFar();
  if (event.quota == Quota()) {
    state_.quotas.erase(event.of);
  } else {
    state_.quotas[event.of] = event.quota;
  }
  KeepAccounts();
}

void Core::On(Job* job, const SetMemoryGuarantee& event) {
  if (job != nullptr) job->guarantee = event.guarantee;
}

// --- whose ----------------------------------------------------------------------------------------

std::vector<Owner> Core::OwnersOf(const Job& job) const {
  std::vector<Owner> owners = {Owner::Job(job.id), Owner::User(job.user)};
  if (!job.info.group.empty()) owners.push_back(Owner::Group(job.info.group));
  return owners;
}

bool Core::Owns(const Owner& owner, const Job& job) const {
  if (owner.kind == Owner::Kind::kJob) return owner.id == job.id;
  if (owner.kind == Owner::Kind::kUser) return owner.id == job.user;
  return owner.group == job.info.group;
}

// A group's, or a user's, are there on each device where a job of theirs takes part. A cap's also after the
// last one has gone, as long as something is owed: the next one pays for it.
void Core::KeepAccounts() {
  std::map<OnDevice, Quota> there;
  for (const auto& [id, job] : state_.jobs) {
    if (job.gone) continue;
    for (const Owner& owner : OwnersOf(job)) {
      auto quota = state_.quotas.find(owner);
      if (quota != state_.quotas.end()) there[{owner, job.info.device}] = quota->second;
    }
  }
  std::erase_if(state_.accounts, [&](const auto& entry) {
    const auto& [of, account] = entry;
    if (of.first.kind == Owner::Kind::kJob || there[of].time_cap > 0) return false;
    const auto quota = state_.quotas.find(of.first);
    const bool capped = quota != state_.quotas.end() && quota->second.time_cap > 0;
    return !capped || !account.Owes(now_);
  });
  std::erase_if(state_.guarantees, [&](const auto& entry) {
    return entry.first.first.kind != Owner::Kind::kJob && there[entry.first].time_guarantee == 0;
  });
  for (const auto& [of, quota] : there) {
    if (quota.time_cap > 0)
      state_.accounts.try_emplace(of, quota.time_cap, now_).first->second.SetCap(quota.time_cap, now_);
    if (quota.time_guarantee > 0)
      state_.guarantees.try_emplace(of, quota.time_guarantee, now_)
          .first->second.SetShare(quota.time_guarantee);
  }
}

// --- time caps ------------------------------------------------------------------------------------

const TimeAccount* Core::TimeAccountOf(JobId id) const {
  if (state_.accounts.empty()) return nullptr;
  auto found = state_.jobs.find(id);
  if (found == state_.jobs.end()) return nullptr;
  auto account = state_.accounts.find({Owner::Job(id), found->second.info.device});
  return account == state_.accounts.end() ? nullptr : &account->second;
}

// Infinite future: none of its jobs has a turn there.
absl::Time Core::RunsSince(const OnDevice& of) const {
  absl::Time since = absl::InfiniteFuture();
  for (const auto& [id, job] : state_.jobs) {
    if (job.turn != 0 && job.info.device == of.second && Owns(of.first, job))
      since = std::min(since, BeganToUse(job, job.ready.mean()));
  }
  return since;
}

double Core::TimeUsed(const OnDevice& of) const {
  auto account = state_.accounts.find(of);
  if (account != state_.accounts.end()) return account->second.ShareOfWindow(now_, RunsSince(of));
  const absl::Time uncounted = state_.devices.at(of.second).counted_until;
  return state_.guarantees.at(of).recent().Share(now_, std::max(uncounted, RunsSince(of)));
}

absl::Time Core::HeldBackUntil(EntityId entity) const {
  absl::Time until = absl::InfinitePast();
  for (const auto& [of, account] : state_.accounts) {
    const auto pays = [&, &of = of](JobId id) {
      return job(id).info.device == of.second && Owns(of.first, job(id));
    };
    const auto ranks = RanksOf(entity);
    if (std::any_of(ranks.begin(), ranks.end(), pays)) until = std::max(until, account.MayRunAt());
  }
  return until;
}

bool Core::Capped(EntityId entity) const {
  if (state_.accounts.empty()) return false;
  const auto ranks = RanksOf(entity);
  return std::any_of(state_.accounts.begin(), state_.accounts.end(), [&](const auto& entry) {
    const OnDevice& of = entry.first;
    return std::any_of(ranks.begin(), ranks.end(),
                       [&](JobId id) { return job(id).info.device == of.second && Owns(of.first, job(id)); });
  });
}

// In its turn, where it takes `ready` to begin: what comes back first is no use of the device.
absl::Time Core::BeganToUse(const Job& job, absl::Duration ready) const {
  return job.granted + std::min(ready, now_ - job.granted);
}

// Where bytes have to move for it, its turns are as long as those of others for whom they have: a turn of one
// step each would cost more than it gives.
TimeAccount::Levels Core::LevelsOf(const OnDevice& of, const TimeAccount& account) const {
  absl::Duration step, longest;
  for (const auto& [id, job] : state_.jobs) {
    if (job.gone || job.info.device != of.second) continue;
    longest = std::max(longest, job.step.mean());
    if (!Owns(of.first, job)) continue;
    step = std::max(step, job.step.Upper());
    longest = std::max(longest, Quantum(job.entity));
  }
  return TimeAccount::LevelsFor(account.cap(), step, longest);
}

void Core::UseTime(const Job& job, absl::Time from) {
  for (auto& [of, account] : state_.accounts) {
    if (of.second == job.info.device && Owns(of.first, job)) account.Use(from, now_, LevelsOf(of, account));
  }
}

// Before people change something: what was until now counts as it did.
void Core::UseTimeSoFar() {
  for (const auto& [id, job] : state_.jobs) {
    if (job.turn != 0) UseTime(job, BeganToUse(job, job.ready.mean()));
  }
  for (auto& [key, device] : state_.devices) {
    if (device.turn != 0) CountUse(device, BeganToUse(device), state_.turns.at(device.turn).contended);
  }
}

// Also those whose cap is new, or whose gang has just become complete.
bool Core::HoldBack() {
  bool changed = false;
  for (JobId id : active_) {
    Job& job = this->job(id);
    if (!job.waiting) continue;
    const bool back = now_ < HeldBackUntil(job.entity);
    if (job.held_back && !back) BeginToWait(job);
    changed |= std::exchange(job.held_back, back) != back;
  }
  return changed;
}

absl::Time Core::StopForCap(const Turn& turn) const {
  absl::Time stop = absl::InfiniteFuture();
  for (const auto& [of, account] : state_.accounts) {
    for (JobId id : turn.granted) {
      const Job& rank = job(id);
      if (rank.info.device == of.second && Owns(of.first, rank))
        stop = std::min(stop, account.EmptyAt(rank.granted + rank.ready.mean()));
    }
  }
  return stop;
}

// --- in words -------------------------------------------------------------------------------------

std::string Core::OwnerInWords(const Owner& owner, JobId asked) const {
  switch (owner.kind) {
    case Owner::Kind::kGroup:
      return absl::StrCat("its group ", owner.group, " ");
    case Owner::Kind::kUser:
      return absl::StrCat("its user (", owner.id, ") ");
    case Owner::Kind::kJob:
      break;
  }
  return owner.id == asked ? "" : absl::StrCat(job(owner.id).info.name, ", of its gang, ");
}

std::string Core::ExplainQuotas(const Job& job) const {
  std::string text;
  const auto ranks = RanksOf(job.entity);
  const auto concerns = [&](const OnDevice& of) {
    return std::any_of(ranks.begin(), ranks.end(), [&](JobId id) {
      return this->job(id).info.device == of.second && Owns(of.first, this->job(id));
    });
  };
  const auto had = [&](const OnDevice& of, absl::Duration window) {
    absl::StrAppend(&text, "; ", OwnerInWords(of.first, job.id),
                    absl::StrFormat("has had %.1f %% of the last ", 100 * TimeUsed(of)), Seconds(window),
                    of.first == Owner::Job(job.id) ? ", its" : ", the");
  };
  for (const auto& [of, account] : state_.accounts) {
    if (!concerns(of)) continue;
    had(of, account.Window(now_));
    absl::StrAppendFormat(&text, " cap is %.3g %%", 100 * account.cap());
    if (now_ < account.MayRunAt())
      absl::StrAppend(&text, "; may go on in ", Seconds(account.MayRunAt() - now_));
  }
  for (const auto& [of, guarantee] : state_.guarantees) {
    if (!concerns(of)) continue;
    had(of, guarantee.recent().Window(now_));
    const absl::Duration owed = OwedNow(of);
    absl::StrAppendFormat(&text, " guarantee is %.3g %%", 100 * guarantee.share());
    if (owed > absl::ZeroDuration()) {
      absl::StrAppendFormat(&text, ", of which %.2f s are owed", absl::ToDoubleSeconds(owed));
    } else {
      absl::StrAppend(&text, ", nothing of it is owed");
    }
  }
  return text + ExplainMemoryCaps(job);
}

}  // namespace hocket::coordinator
