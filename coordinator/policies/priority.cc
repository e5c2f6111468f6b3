#include "coordinator/policies/priority.h"

#include <algorithm>

#include "absl/strings/str_format.h"

namespace hocket::coordinator {
namespace {

// What so much time earns can be saved up.
constexpr absl::Duration kSaved = absl::Milliseconds(250);

// In a longer pause a job gives its turn up (core/limits.h: kIdleLimit).
constexpr absl::Duration kPause = absl::Milliseconds(5);

}  // namespace

void ProductionFirst::Set(const PolicySettings& settings) {
  if (settings.production_bound == bound_) return;
  bound_ = settings.production_bound;
  for (auto& [id, account] : accounts_)
    account.lived = account.delayed = account.credit = absl::ZeroDuration();
}

absl::Duration ProductionFirst::Cost(const JobView& job) {
  return (job.step.settled() ? job.step.Upper() : absl::ZeroDuration()) + job.ready.Upper();
}

absl::Duration ProductionFirst::Budget() const {
  absl::Duration least = absl::InfiniteDuration();
  for (const auto& [id, account] : accounts_) least = std::min(least, account.credit);
  return least;
}

bool ProductionFirst::CheaperInPauses(absl::Duration cost) const {
  if (accounts_.size() != 1) return false;
  const Estimate& gap = accounts_.begin()->second.gap;
  return gap.known() && gap.Lower() > kPause && gap.Lower() >= cost / 2;
}

bool ProductionFirst::Affords(const JobView& job) const {
  for (const auto& [id, account] : accounts_) {
    if (account.has_waited) return false;
  }
  const absl::Duration cost = Cost(job);
  return cost <= Budget() && !CheaperInPauses(cost);
}

void ProductionFirst::Earn(Account& account, absl::Duration time) {
  absl::Duration dearest;
  for (const auto& [id, cost] : costs_) dearest = std::max(dearest, cost);
  account.lived += time;
  account.credit =
      std::min(account.credit + time * bound_, std::max(account.credit, dearest + kSaved * bound_));
}

void ProductionFirst::Pay(Account& account, absl::Duration delay) {
  account.delayed += delay;
  account.credit -= delay;
}

// A turn that is kept through a gap until somebody asks for it has been counted to its end, which is after
// the begin of that gap.
absl::Time ProductionFirst::CountedUntil(const JobView& absent) const {
  const auto account = accounts_.find(absent.id);
  return account == accounts_.end() ? absent.left : std::max(absent.left, account->second.counted_until);
}

// An opportunistic job that the accounts can pay for, production, the other opportunistic jobs.
int ProductionFirst::Rank(const JobView& job) const {
  if (Production(job)) return 1;
  return Affords(job) ? 0 : 2;
}

bool ProductionFirst::Before(const JobView& a, const JobView& b) const {
  const int rank_a = Rank(a), rank_b = Rank(b);
  return rank_a != rank_b ? rank_a < rank_b : fair_.Before(a, b);
}

std::string ProductionFirst::Reason(const JobView& next) const {
  if (Production(next)) return "production first";
  return accounts_.empty() ? fair_.Reason(next) : "costs production less than its bound";
}

std::string ProductionFirst::Standing(const JobView& job) const {
  const auto account = accounts_.find(job.id);
  if (account != accounts_.end())
    return absl::StrFormat("delayed by %.3g s in %.3g s (%.1f %%, at most %.1f %%)",
                           absl::ToDoubleSeconds(account->second.delayed),
                           absl::ToDoubleSeconds(account->second.lived),
                           100 * absl::FDivDuration(account->second.delayed,
                                                    std::max(account->second.lived, absl::Nanoseconds(1))),
                           100 * bound_);
  if (Production(job) || accounts_.empty()) return fair_.Standing(job);
  return absl::StrFormat("a turn costs production up to %.3g s, it can spare %.3g s",
                         absl::ToDoubleSeconds(Cost(job)), std::max(0.0, absl::ToDoubleSeconds(Budget())));
}

// A production job goes on until its account, which grows with its turn, can pay for the next one.
absl::Duration ProductionFirst::Keep(const JobView& holder, absl::Duration held, const GpuView& gpu) const {
  if (!Production(holder) && std::any_of(gpu.waiting.begin(), gpu.waiting.end(), Production))
    return absl::ZeroDuration();
  const JobView next = InOrder(*this, gpu).front();
  if (Production(holder) == Production(next)) return fair_.Keep(holder, held, gpu);
  return std::max(absl::ZeroDuration(), (Cost(next) - Budget()) / bound_ - held);
}

absl::Duration ProductionFirst::KeepFree(const JobView& absent, const JobView& next) const {
  if (Production(absent) == Production(next)) return fair_.KeepFree(absent, next);
  if (!Production(absent)) return absl::ZeroDuration();
  const absl::Duration away = absent.now - absent.left;
  const absl::Duration earliest = std::max(absl::ZeroDuration(), absent.gap.Lower() - away);
  const absl::Duration harm = Cost(next) + absent.ready.mean() - earliest;
  const absl::Duration grown = (absent.now - CountedUntil(absent)) * bound_;
  if (harm <= absl::ZeroDuration() || harm <= Budget() + grown) return absl::ZeroDuration();
  return std::max(absl::Nanoseconds(1), (Cost(next) + absent.ready.mean() - Budget()) / bound_);
}

// The last moment at which a step begins whose worst end the account can pay for.
absl::Duration ProductionFirst::StopFor(const JobView& absent, const JobView& holder) const {
  if (!Production(absent) || Production(holder)) return absl::InfiniteDuration();
  const absl::Duration gap = absent.gap.Lower();
  const absl::Duration cost = Cost(holder) + absent.ready.mean();
  const absl::Duration grows = (gap - (CountedUntil(absent) - absent.left)) * bound_;
  if (cost <= Budget() + grows) return absl::InfiniteDuration();
  return std::max(absl::ZeroDuration(), (Budget() + gap - cost) / (1 - bound_));
}

void ProductionFirst::Asked(const JobView& job) {
  fair_.Asked(job);
  if (!Production(job)) {
    accounts_.erase(job.id);  // it may have been production
    costs_[job.id] = Cost(job);
    return;
  }
  costs_.erase(job.id);
  Account& account = accounts_[job.id];
  account.gap = job.gap;
  if (!account.asks && job.left != absl::InfinitePast())
    Earn(account, std::min(job.now - CountedUntil(job), job.gap.Upper()));
  if (!account.asks) account.has_waited = false;
  account.asks = true;
  account.asked = job.now;
}

void ProductionFirst::Granted(const JobView& job) {
  fair_.Granted(job);
  if (Production(job)) accounts_[job.id].asks = accounts_[job.id].has_waited = false;
}

void ProductionFirst::Charge(const JobView& job, absl::Duration device_time, bool contended) {
  fair_.Charge(job, device_time, contended);
  if (Production(job)) {
    Account& account = accounts_[job.id];
    Earn(account, device_time);
    account.counted_until = job.now;
    Pay(account, job.last_ready);  // alone it would have kept the turn
    return;
  }
  costs_[job.id] = Cost(job);
  for (auto& [id, account] : accounts_) {
    if (!account.asks) continue;
    account.has_waited = true;
    Pay(account, std::min(device_time + job.last_ready, job.now - account.asked));
  }
}

void ProductionFirst::Forget(EntityId job) {
  fair_.Forget(job);
  accounts_.erase(job);
  costs_.erase(job);
}

}  // namespace hocket::coordinator
