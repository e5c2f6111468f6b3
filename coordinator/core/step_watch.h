// Notices that a job's steps have become slower.
//
//   x = log(step / what steps took before);  S = max(0, S + x - k);  noticed where S > h
//
// A cumulative sum (E. S. Page, Continuous Inspection Schemes, Biometrika 1954) of how much longer steps are,
// with k half of the smallest slowdown that matters, a fifth: single long steps do not add up, and a
// difference that stays does within a dozen steps. What steps took before is learned from 20 steps after the
// first ten (a first step is several times as long as others), and follows slowly as long as nothing is
// suspected. Numbers for k, h and the rest are those with which recorded step times (tests/experiments/e6.py)
// raise few false alarms and a fifth is noticed within 50 steps.
#ifndef HOCKET_COORDINATOR_CORE_STEP_WATCH_H_
#define HOCKET_COORDINATOR_CORE_STEP_WATCH_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/time/time.h"

namespace hocket::coordinator {

class StepWatch {
 public:
  struct Slowdown {
    absl::Duration before;  // a step took
    absl::Duration now;
    absl::Time since;  // noticed
    double factor() const { return absl::FDivDuration(now, before); }
  };

  // `steps` steps have taken `step` each. True: it is noticed with these that they are slower than before.
  bool Add(absl::Duration step, std::uint64_t steps, absl::Time at) {
    if (step <= absl::ZeroDuration() || steps == 0) return false;
    if (skipped_ < kSkipped) {
      skipped_ += steps;
      return false;
    }
    const double log_ms = std::log(absl::ToDoubleMilliseconds(step));
    if (!usual_) {
      Learn(log_ms);
      return false;
    }
    const double weight = static_cast<double>(std::min(steps, kMostWeight));
    const double longer = std::clamp(log_ms - *usual_, -kFar, kFar);
    sum_ = std::max(0.0, sum_ + weight * (longer - kAllowed));
    run_ = sum_ > 0 ? run_ + weight * longer : 0;
    run_weight_ = sum_ > 0 ? run_weight_ + weight : 0;
    if (sum_ > kLimit) {
      Notice(at);
      return true;
    }
    if (sum_ == 0 || longer < 0)
      *usual_ += std::min(1.0, kFollows * weight) * std::clamp(longer, -kFar / 2, kAllowed);
    if (slowdown_ && *usual_ < std::log(absl::ToDoubleMilliseconds(slowdown_->before)) + kAllowed)
      slowdown_.reset();
    return false;
  }

  // None: they take no longer than before, or no longer do.
  const std::optional<Slowdown>& slowdown() const { return slowdown_; }
  std::uint64_t noticed() const { return noticed_; }  // so often

 private:
  static constexpr std::uint64_t kSkipped = 10;
  static constexpr std::size_t kLearned = 20;
  static constexpr std::uint64_t kMostWeight = 2;  // of one sample: with a pause in it, it alone is no reason
  static constexpr double kAllowed = 0.0911607784;  // k: log(1.2) / 2
  static constexpr double kLimit = 1;               // h
  static constexpr double kFar = 0.5;               // no step counts as longer, or shorter, by more
  static constexpr double kFollows = 1.0 / 64;      // what is usual, a step

  void Learn(double log_ms) {
    learning_.push_back(log_ms);
    if (learning_.size() < kLearned) return;
    std::nth_element(learning_.begin(), learning_.begin() + kLearned / 2, learning_.end());
    usual_ = learning_[kLearned / 2];
    learning_.clear();
    sum_ = run_ = run_weight_ = 0;
    if (!slowdown_) return;
    slowdown_->now = absl::Milliseconds(std::exp(*usual_));
    if (slowdown_->factor() < std::exp(kAllowed)) slowdown_.reset();
  }

  // What is usual now is learned anew. Several in a row are one slowdown.
  void Notice(absl::Time at) {
    const absl::Duration before = absl::Milliseconds(std::exp(*usual_));
    if (!slowdown_) slowdown_ = Slowdown{.before = before, .now = before, .since = at};
    slowdown_->now = absl::Milliseconds(std::exp(*usual_ + run_ / run_weight_));
    usual_.reset();
    ++noticed_;
  }

  std::uint64_t skipped_ = 0;
  std::vector<double> learning_;
  std::optional<double> usual_;  // log of milliseconds
  double sum_ = 0;               // S
  double run_ = 0;               // of x since S was 0,
  double run_weight_ = 0;        // and of its steps
  std::optional<Slowdown> slowdown_;
  std::uint64_t noticed_ = 0;
};

}  // namespace hocket::coordinator

#endif  // HOCKET_COORDINATOR_CORE_STEP_WATCH_H_
