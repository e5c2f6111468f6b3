#include "coordinator/policies/priority.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"

namespace hocket::coordinator {
namespace {

// What so much time earns can be saved up.
constexpr absl::Duration kSaved = absl::Milliseconds(500);

// Of the dearest turns of others so many are made up for.
constexpr int kMostOwed = 10;

// An opportunistic job is waited for during such a part of a production job's step at most.
constexpr int kWait = 4;

// In a longer pause a job gives its turn up (core/limits.h: kIdleLimit).
constexpr absl::Duration kPause = absl::Milliseconds(5);

// What to expect. A single outsider moves a mean, but no bound.
absl::Duration Usual(const Estimate& estimate) {
  return std::clamp(estimate.mean(), estimate.Lower(), estimate.Upper());
}

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

// Who has the turn is ready, and production has to be ready after it anyhow.
ProductionFirst::Price ProductionFirst::PriceOf(const JobView& absent, const JobView& other, bool to_begin) {
  const absl::Duration step = other.step.settled() ? Usual(other.step) : absl::ZeroDuration();
  if (!to_begin) return {.worst = Cost(other) - other.ready.Upper(), .usual = step};
  return {.worst = Cost(other), .usual = step + Usual(other.ready), .back = Usual(absent.ready)};
}

absl::Duration ProductionFirst::Budget() const {
  absl::Duration least = absl::InfiniteDuration();
  for (const auto& [id, account] : accounts_) least = std::min(least, account.credit);
  return least;
}

absl::Duration ProductionFirst::Reserve() const { return kSaved * bound_ / 2; }

absl::Duration ProductionFirst::Most() const {
  absl::Duration dearest;
  for (const auto& [id, other] : others_) dearest = std::max(dearest, other.cost);
  return dearest + LongestWait() + kSaved * bound_;
}

absl::Duration ProductionFirst::LongestWait() const {
  if (accounts_.size() != 1 || others_.size() != 1) return absl::ZeroDuration();
  const Account& account = accounts_.begin()->second;
  const Estimate& gap = others_.begin()->second.gap;
  const bool long_gap = account.step.settled() && gap.settled() && gap.Upper() > Usual(account.step);
  return long_gap ? Usual(account.step) / kWait : absl::ZeroDuration();
}

absl::Time ProductionFirst::AwaitedUntil() const {
  const absl::Duration longest = LongestWait();
  if (longest == absl::ZeroDuration()) return absl::InfinitePast();
  const Account& account = accounts_.begin()->second;
  const Other& other = others_.begin()->second;
  if (!account.asks || account.has_waited || account.asked <= other.left) return absl::InfinitePast();
  const absl::Time until = other.left + other.gap.Upper();
  const absl::Duration wait = until - account.asked;
  const bool worthwhile = wait <= longest && wait + other.cost + Reserve() <= account.credit;
  return worthwhile ? until : absl::InfinitePast();
}

absl::Duration ProductionFirst::EarnedInCycle(const JobView& production) const {
  return (Usual(production.step) + Usual(production.gap)) * bound_;
}

absl::Duration ProductionFirst::Passage(const JobView& production) const {
  return std::min(production.last_passage, EarnedInCycle(production) / 2);
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
  account.lived += time;
  account.credit = std::min(account.credit + time * bound_, std::max(account.credit, Most()));
}

// Not so far that others would get nothing for hours: it may have waited because it was paused, or because
// there was no room for it, or somebody's step was stopped for a night.
void ProductionFirst::Pay(Account& account, absl::Duration delay) const {
  account.delayed += delay;
  account.credit = std::max(account.credit - delay, std::min(account.credit, -kMostOwed * Most()));
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
  return job.id == awaited_ || Affords(job) ? 0 : 2;
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
  const double most = absl::ToDoubleSeconds(Cost(job)), spare = absl::ToDoubleSeconds(Budget());
  if (spare < 0)
    return absl::StrFormat(
        "a turn costs production up to %.3g s, it can spare 0 s, it has been delayed by %.3g s too much: "
        "until "
        "that is made up for only steps come that are sure to end before its next one",
        most, -spare);
  return absl::StrFormat(
      "a turn costs production up to %.3g s, it can spare %.3g s, %.3g s of that for steps only that should "
      "end before its next one",
      most, spare, std::min(spare, absl::ToDoubleSeconds(Reserve())));
}

// A production job goes on until its account, which grows with its turn, can pay for the next one.
absl::Duration ProductionFirst::Keep(const JobView& holder, absl::Duration held, const GpuView& gpu) const {
  if (!Production(holder) && std::any_of(gpu.waiting.begin(), gpu.waiting.end(), Production))
    return absl::ZeroDuration();
  const JobView next = FirstOf(gpu);
  if (Production(holder) == Production(next)) return fair_.Keep(holder, held, gpu);
  return std::max(absl::ZeroDuration(), (Cost(next) - Budget()) / bound_ - held);
}

absl::Duration ProductionFirst::LastWorthwhile(const JobView& absent, const JobView& other,
                                               bool to_begin) const {
  const absl::Duration budget = Budget();
  const Price price = PriceOf(absent, other, to_begin);
  absl::Duration last = -absl::InfiniteDuration();
  if (other.step.settled() && budget >= -Most()) last = absent.gap.Lower() - price.worst;
  const absl::Duration in_time = Usual(absent.gap) - price.usual;
  const absl::Duration spare = budget - Reserve() - price.back;  // there is plenty
  const absl::Duration earned = EarnedInCycle(absent) - Passage(absent) - price.back;
  if (spare >= absl::ZeroDuration()) last = std::max(last, in_time + spare);
  if (budget >= absl::ZeroDuration() && earned >= absl::ZeroDuration())
    last = std::max(last, in_time + earned);
  return last;
}

absl::Duration ProductionFirst::Plenty(const JobView& absent, const JobView& other, bool to_begin) const {
  const Price price = PriceOf(absent, other, to_begin);
  const absl::Duration lacks = price.usual + price.back + Reserve() - Budget();
  if (lacks <= absl::ZeroDuration()) return absl::ZeroDuration();
  return CountedUntil(absent) - absent.left + lacks / bound_;
}

absl::Duration ProductionFirst::KeepFree(const JobView& absent, const JobView& next) const {
  if (Production(absent) == Production(next)) return fair_.KeepFree(absent, next);
  if (!Production(absent)) return std::max(absl::ZeroDuration(), AwaitedUntil() - absent.left);
  const absl::Duration away = absent.now - absent.left;
  const absl::Duration plenty = Plenty(absent, next, /*to_begin=*/true);
  if (away >= plenty || away <= LastWorthwhile(absent, next, /*to_begin=*/true)) return absl::ZeroDuration();
  return plenty;
}

absl::Duration ProductionFirst::StopFor(const JobView& absent, const JobView& holder) const {
  if (Production(absent) == Production(holder)) return absl::InfiniteDuration();
  if (Production(holder)) return StopToWaitFor(absent);
  const absl::Duration plenty = Plenty(absent, holder, /*to_begin=*/false);
  const absl::Duration last = LastWorthwhile(absent, holder, /*to_begin=*/false);
  if (plenty <= std::max(last, absent.now - absent.left)) return absl::InfiniteDuration();
  return std::max(absl::ZeroDuration(), last);
}

// As soon as what the wait costs is there when its step is over: what it earns until then is not counted yet.
absl::Duration ProductionFirst::StopToWaitFor(const JobView& absent) const {
  const absl::Duration longest = LongestWait();
  const absl::Duration latest = absent.gap.Upper();
  if (longest == absl::ZeroDuration() || absent.now > absent.left + latest) return absl::InfiniteDuration();
  const Account& account = accounts_.begin()->second;
  const absl::Duration counted = std::max({absent.left, account.counted_until, account.asked}) - absent.left;
  const absl::Duration lacks = latest + Cost(absent) + Reserve() - account.credit + counted * bound_;
  return std::max({absl::ZeroDuration(), latest - longest, lacks / (1 + bound_)});
}

void ProductionFirst::Asked(const JobView& job) {
  fair_.Asked(job);
  if (!Production(job)) {
    accounts_.erase(job.id);  // it may have been production
    if (others_.contains(job.id) && job.now <= AwaitedUntil()) awaited_ = job.id;  // not a newcomer
    Other& other = others_[job.id];
    other.cost = Cost(job);
    other.gap = job.gap;
    return;
  }
  others_.erase(job.id);
  Account& account = accounts_[job.id];
  account.step = job.step;
  account.gap = job.gap;
  if (!account.asks && job.left != absl::InfinitePast())
    Earn(account, std::min(job.now - CountedUntil(job), job.gap.Upper()));
  if (!account.asks) account.has_waited = false;
  account.asks = true;
  account.asked = job.now;
}

void ProductionFirst::Granted(const JobView& job) {
  fair_.Granted(job);
  if (!Production(job)) return;
  Account& account = accounts_[job.id];
  const absl::Time awaited_until = AwaitedUntil();  // nobody has come
  if (awaited_until > account.asked) Pay(account, std::min(job.now, awaited_until) - account.asked);
  account.asks = account.has_waited = false;
  awaited_ = 0;
}

void ProductionFirst::Charge(const JobView& job, absl::Duration device_time, bool contended) {
  fair_.Charge(job, device_time, contended);
  if (Production(job)) {
    Account& account = accounts_[job.id];
    Earn(account, device_time);
    account.counted_until = job.now;
    Pay(account, job.last_ready + Passage(job));  // alone it would have kept the turn
    return;
  }
  Other& other = others_[job.id];
  other.cost = Cost(job);
  other.left = job.now;
  const bool was_awaited = std::exchange(awaited_, 0) == job.id;
  for (auto& [id, account] : accounts_) {
    if (!account.asks) continue;
    account.has_waited = true;
    const absl::Duration waited = job.now - account.asked;
    Pay(account, was_awaited ? waited : std::min(device_time + job.last_ready, waited));
  }
}

void ProductionFirst::Forget(EntityId job) {
  fair_.Forget(job);
  accounts_.erase(job);
  others_.erase(job);
  if (job == awaited_) awaited_ = 0;
}

}  // namespace hocket::coordinator
