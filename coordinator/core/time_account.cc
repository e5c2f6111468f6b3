#include "coordinator/core/time_account.h"

#include <algorithm>

#include "csrc/base/check.h"

namespace hocket::coordinator {

TimeAccount::TimeAccount(double cap, absl::Time now, absl::Duration credit)
    : cap_(cap), as_of_(now), credit_(credit), exhausted_(credit < absl::ZeroDuration()), recent_(now) {
  HOCKET_CHECK(cap > 0 && cap <= 1) << "a cap of " << cap;
}

TimeAccount::Levels TimeAccount::LevelsFor(double cap, absl::Duration step, absl::Duration longest) {
  if (step <= absl::ZeroDuration()) return {};
  const absl::Duration missed = std::min(longest, kWindow) * cap;
  const absl::Duration ceiling = std::max(kTolerance - step * (1 - cap), missed);
  return {.ceiling = ceiling, .resume = (ceiling - missed) / 2};
}

void TimeAccount::SetCap(double cap, absl::Time now) {
  HOCKET_CHECK(cap > 0 && cap <= 1) << "a cap of " << cap;
  Advance(now);
  cap_ = cap;
}

absl::Duration TimeAccount::CreditAt(absl::Time at) const {
  const absl::Duration since = std::max(absl::ZeroDuration(), at - as_of_);
  return std::min(std::max(credit_, levels_.ceiling), credit_ + since * cap_);
}

void TimeAccount::Advance(absl::Time to) {
  credit_ = CreditAt(to);
  as_of_ = std::max(as_of_, to);
}

void TimeAccount::Use(absl::Time from, absl::Time to, Levels levels) {
  Advance(std::min(from, to));
  levels_ = levels;
  from = as_of_;
  if (to <= from) return;
  credit_ -= (to - from) * (1 - cap_);
  as_of_ = to;
  exhausted_ = credit_ <= absl::ZeroDuration() && cap_ < 1;
  recent_.Add(from, to);
}

absl::Time TimeAccount::MayRunAt() const {
  if (!exhausted_) return absl::InfinitePast();
  return as_of_ + std::max(absl::ZeroDuration(), (levels_.resume - credit_) / cap_);
}

absl::Time TimeAccount::EmptyAt(absl::Time from) const {
  if (cap_ >= 1) return absl::InfiniteFuture();
  return std::max(from, as_of_) + std::max(absl::ZeroDuration(), CreditAt(from)) / (1 - cap_);
}

}  // namespace hocket::coordinator
