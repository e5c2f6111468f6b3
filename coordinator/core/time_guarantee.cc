#include "coordinator/core/time_guarantee.h"

#include <algorithm>

#include "csrc/base/check.h"

namespace hocket::coordinator {

TimeGuarantee::TimeGuarantee(double share, absl::Time now)
    : share_(share), opened_(now), most_(kLeastTurn), least_(-kLeastTurn), recent_(now) {
  HOCKET_CHECK(share > 0 && share <= 1) << "a guarantee of " << share;
}

void TimeGuarantee::SetShare(double share) {
  HOCKET_CHECK(share > 0 && share <= 1) << "a guarantee of " << share;
  share_ = share;
}

void TimeGuarantee::Count(absl::Time from, absl::Time to, bool own, bool contended, Turns turns) {
  from = std::max(from, opened_);
  if (to <= from) return;
  if (own) recent_.Add(from, to);
  if (!contended) return;
  most_ = std::max(kLeastTurn, turns.others * share_);
  least_ = -std::max(kLeastTurn, turns.own * (1 - share_));
  owed_ = OwedAfter(to - from, own);
}

absl::Duration TimeGuarantee::OwedAfter(absl::Duration time, bool own) const {
  return std::clamp(owed_ + time * (own ? share_ - 1 : share_), least_, most_);
}

}  // namespace hocket::coordinator
