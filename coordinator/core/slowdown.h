// How much longer a job takes here than alone, over the last ten minutes:
//
//   time / (time - lost)
//
// `time` is all that has passed for it since it asked for its first turn: waits, the begins of turns, steps,
// and the gaps between them that are its own. `lost` is what of that it would not have taken alone: waits;
// what it took to be ready when it had the turn (the hand-over, and bytes that had to come back); time in
// which it stood still for a request; and, of steps beside others, what they took longer than its own steps
// alone (Job::alone). While it is paused no time passes.
//
// Not known: steps that are slower because another program uses the device, because caches are cold after a
// hand-over, or because jobs share the host. Bytes that come back while a step runs count as that step's.
#ifndef HOCKET_COORDINATOR_CORE_SLOWDOWN_H_
#define HOCKET_COORDINATOR_CORE_SLOWDOWN_H_

#include <algorithm>
#include <cstdint>
#include <deque>
#include <optional>

#include "absl/time/time.h"

namespace hocket::coordinator {

// A plain value; it reads no clock. Times never go backwards. Keeps sums of slices, so that a part costs
// nothing to speak of, however short parts are.
class Slowdown {
 public:
  static constexpr absl::Duration kWindow = absl::Minutes(10);
  static constexpr std::int64_t kSliceSeconds = 10;
  static constexpr absl::Duration kSlice = absl::Seconds(kSliceSeconds);

  // Of the time between, so much was lost; none: nobody can say.
  void Add(absl::Time from, absl::Time to, std::optional<absl::Duration> lost) {
    if (to <= from) return;
    const bool any_lost = lost && *lost != absl::ZeroDuration();
    const double lost_share = any_lost ? absl::FDivDuration(*lost, to - from) : 0;
    from = std::max(from, to - kWindow);
    for (std::int64_t number = NumberOf(from); from < to; ++number) {
      const absl::Time end = std::min(to, absl::FromUnixSeconds(kSliceSeconds * (number + 1)));
      if (slices_.empty() || slices_.back().number < number) slices_.push_back({.number = number});
      Slice& slice = slices_.back();
      slice.time += end - from;
      if (any_lost) slice.lost += (end - from) * lost_share;
      slice.known &= lost.has_value();
      from = end;
    }
    while (slices_.front().number + kSlices <= slices_.back().number) slices_.pop_front();
  }

  // 1 or more. None: there is time of which nobody can say what was lost, or none that was not.
  std::optional<double> Factor(absl::Time now) const {
    absl::Duration time, lost;
    for (const Slice& slice : slices_) {
      if (slice.number + kSlices <= NumberOf(now)) continue;
      if (!slice.known) return std::nullopt;
      time += slice.time;
      lost += slice.lost;
    }
    if (time - lost <= absl::ZeroDuration()) return std::nullopt;
    return std::max(1.0, absl::FDivDuration(time, time - lost));
  }

 private:
  static constexpr std::int64_t kSlices = 60;  // in the window
  struct Slice {
    std::int64_t number = 0;
    absl::Duration time, lost;
    bool known = true;
  };
  static std::int64_t NumberOf(absl::Time at) { return absl::ToUnixSeconds(at) / kSliceSeconds; }

  std::deque<Slice> slices_;
};

}  // namespace hocket::coordinator

#endif  // HOCKET_COORDINATOR_CORE_SLOWDOWN_H_
