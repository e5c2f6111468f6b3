// A running estimate of a time that repeats: a step, the gap between two steps, what the begin of a turn
// costs.
//
// Mean and spread (mean absolute deviation) follow the samples, a newer one counting more, as TCP estimates
// its round trips. The first sample is forgotten when the second comes: first steps take several times as
// long as the others. One far above all before counts as twice the bound on these: a pause for an evaluation
// says little of the next pause, and several in a row are believed soon.
#ifndef HOCKET_COORDINATOR_POLICIES_ESTIMATE_H_
#define HOCKET_COORDINATOR_POLICIES_ESTIMATE_H_

#include <algorithm>

#include "absl/time/time.h"

namespace hocket::coordinator {

class Estimate {
 public:
  void Add(absl::Duration sample) {
    if (++samples_ <= 2) {
      mean_ = sample;
      spread_ = sample / 4;
      return;
    }
    if (samples_ > kFew) sample = std::min(sample, std::max(2 * Upper(), mean_ + absl::Milliseconds(1)));
    spread_ += (absl::AbsDuration(sample - mean_) - spread_) / 4;
    mean_ += (sample - mean_) / 8;
  }

  bool known() const { return samples_ > 0; }
  // More than a first sample is known.
  bool settled() const { return samples_ > 1; }
  int samples() const { return samples_; }
  absl::Duration mean() const { return mean_; }
  absl::Duration spread() const { return spread_; }
  // Nearly all samples stay below; above.
  absl::Duration Upper() const { return mean_ + 3 * spread_; }
  absl::Duration Lower() const { return std::max(absl::ZeroDuration(), mean_ - 3 * spread_); }

 private:
  static constexpr int kFew = 4;

  int samples_ = 0;
  absl::Duration mean_;
  absl::Duration spread_;
};

}  // namespace hocket::coordinator

#endif  // HOCKET_COORDINATOR_POLICIES_ESTIMATE_H_
