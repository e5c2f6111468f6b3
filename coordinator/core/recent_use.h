// When a device was had, in the last 10 s of use.
#ifndef HOCKET_COORDINATOR_CORE_RECENT_USE_H_
#define HOCKET_COORDINATOR_CORE_RECENT_USE_H_

#include <algorithm>
#include <deque>
#include <utility>

#include "absl/time/time.h"

namespace hocket::coordinator {

// A plain value; it reads no clock. Times never go backwards.
class RecentUse {
 public:
  static constexpr absl::Duration kWindow = absl::Seconds(10);

  explicit RecentUse(absl::Time opened) : opened_(opened) {}

  void Add(absl::Time from, absl::Time to) {
    if (to <= from) return;
    had_.emplace_back(from, to);
    while (had_.front().second <= to - kWindow) had_.pop_front();
  }

  // The kWindow before `now`, or the time since it was opened, where that is less.
  absl::Duration Window(absl::Time now) const { return std::min(kWindow, now - opened_); }

  // The share of that time; what is had since `running` (infinite future: nothing) and was not added
  // included.
  double Share(absl::Time now, absl::Time running) const {
    const absl::Time begin = now - Window(now);
    absl::Duration had = std::max(absl::ZeroDuration(), now - std::max(running, begin));
    for (const auto& [from, to] : had_) had += std::max(absl::ZeroDuration(), to - std::max(from, begin));
    return now <= begin ? 0 : absl::FDivDuration(had, now - begin);
  }

 private:
  absl::Time opened_;
  std::deque<std::pair<absl::Time, absl::Time>> had_;
};

}  // namespace hocket::coordinator

#endif  // HOCKET_COORDINATOR_CORE_RECENT_USE_H_
