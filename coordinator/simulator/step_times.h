// How long a job's steps take, one after the other: all the same, or a measured series over and over.
#ifndef HOCKET_COORDINATOR_SIMULATOR_STEP_TIMES_H_
#define HOCKET_COORDINATOR_SIMULATOR_STEP_TIMES_H_

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "coordinator/simulator/workload.h"

namespace hocket::coordinator {

class StepTimes {
 public:
  StepTimes() = default;
  explicit StepTimes(const SimulatedJob& job) {
    const std::vector<double> steady = {job.step_ms};
    for (double ms : job.step_series_ms.empty() ? steady : job.step_series_ms)
      until_.push_back(until_.back() + std::max(absl::Nanoseconds(1), absl::Milliseconds(ms)));
  }

  absl::Duration mean() const { return until_.back() / static_cast<double>(until_.size() - 1); }

  // Of `count` steps that come after `done` others.
  absl::Duration Of(std::uint64_t done, std::uint64_t count) const {
    return Until(done + count) - Until(done);
  }

  // How many steps after `done` others are over in `time`, each but the last followed by `gap`.
  std::uint64_t Within(std::uint64_t done, absl::Duration gap, absl::Duration time) const {
    absl::Duration rest;
    const auto over = [&](std::uint64_t count) {
      return Of(done, count) + gap * static_cast<std::int64_t>(count - 1) <= time;
    };
    if (!over(1)) return 0;
    if (until_.size() == 2)
      return 1 + static_cast<std::uint64_t>(absl::IDivDuration(time - until_[1], until_[1] + gap, &rest));
    std::uint64_t low = 1, high = 2;
    while (over(high)) low = std::exchange(high, 2 * high);
    while (high - low > 1) {
      const std::uint64_t middle = low + (high - low) / 2;
      (over(middle) ? low : high) = middle;
    }
    return low;
  }

 private:
  absl::Duration Until(std::uint64_t steps) const {
    const std::uint64_t length = until_.size() - 1;
    return until_.back() * static_cast<std::int64_t>(steps / length) + until_[steps % length];
  }

  std::vector<absl::Duration> until_ = {absl::ZeroDuration()};  // the end of each step of the series
};

}  // namespace hocket::coordinator

#endif  // HOCKET_COORDINATOR_SIMULATOR_STEP_TIMES_H_
