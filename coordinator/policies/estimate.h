// A running estimate of a time that repeats: a step, the gap between two steps, what the begin of a turn
// costs. An Estimator learns; what it knows is an Estimate, which others may keep a copy of.
//
// Mean and spread (mean absolute deviation) follow the samples, a newer one counting more, as TCP estimates
// its round trips. The bounds are quantiles of the last samples: nine in ten stay within each, and one that
// does not moves no bound; two or three soon after each other do. Until there are enough, the bounds are
// three spreads from the mean. The first sample is forgotten when the second comes: first steps take several
// times as long as the others. One far above all before counts as twice the upper bound on these: a pause for
// an evaluation says little of the next pause, and several in a row are believed soon.
#ifndef HOCKET_COORDINATOR_POLICIES_ESTIMATE_H_
#define HOCKET_COORDINATOR_POLICIES_ESTIMATE_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <utility>

#include "absl/time/time.h"

namespace hocket::coordinator {

class Estimate {
 public:
  Estimate() = default;
  // Of a time that somebody knows from elsewhere.
  explicit Estimate(absl::Duration known) { Bound(1, known, known / 4); }

  bool known() const { return samples_ > 0; }
  // More than a first sample is known.
  bool settled() const { return samples_ > 1; }
  int samples() const { return samples_; }
  absl::Duration mean() const { return mean_; }
  absl::Duration spread() const { return spread_; }
  // Nine in ten samples stay below; above.
  absl::Duration Upper() const { return upper_; }
  absl::Duration Lower() const { return lower_; }

 protected:
  void Bound(int samples, absl::Duration mean, absl::Duration spread) {
    samples_ = samples;
    mean_ = mean;
    spread_ = spread;
    Bound(mean - 3 * spread, mean + 3 * spread);
  }
  void Bound(absl::Duration lower, absl::Duration upper) {
    lower_ = std::max(absl::ZeroDuration(), lower);
    upper_ = upper;
  }

 private:
  int samples_ = 0;
  absl::Duration mean_;
  absl::Duration spread_;
  absl::Duration lower_;
  absl::Duration upper_;
};

class Estimator : public Estimate {
 public:
  // How its bounds have held: of the samples that came when it was settled.
  struct Record {
    std::uint64_t foretold = 0;
    std::uint64_t inside = 0;  // of both bounds
    std::uint64_t above = 0;   // Upper()
  };

  void Add(absl::Duration sample) {
    if (settled()) {
      ++record_.foretold;
      record_.inside += Lower() <= sample && sample <= Upper();
      record_.above += sample > Upper();
    }
    if (samples() < 2) {
      last_[0] = sample;
      return Bound(samples() + 1, sample, sample / 4);
    }
    if (samples() >= kFew) sample = std::min(sample, std::max(2 * Upper(), mean() + absl::Milliseconds(1)));
    const absl::Duration deviation = absl::AbsDuration(sample - mean());
    const absl::Duration forgotten = std::exchange(last_[(samples() - 1) % kLast], sample);
    const absl::Duration lower = Lower(), upper = Upper();
    // One that lay inside a bound makes room for another: so many as before are outside.
    const bool full = samples() > kLast;
    const bool lower_stays = full && lower < forgotten && lower <= sample;
    const bool upper_stays = full && forgotten < upper && sample <= upper;
    Bound(samples() + 1, mean() + (sample - mean()) / 8, spread() + (deviation - spread()) / 4);
    const int count = std::min(kLast, samples() - 1);
    if (count < kEnough) return;
    Bound(lower_stays ? lower : BoundOf<std::less<>>(count),
          upper_stays ? upper : BoundOf<std::greater<>>(count));
  }
  const Record& record() const { return record_; }

 private:
  static constexpr int kFew = 4;
  static constexpr int kEnough = 8;    // to tell a quantile from
  static constexpr int kLast = 32;     // of so many samples
  static constexpr int kOutside = 16;  // one in so many is outside, on either side

  // The sample before which one in kOutside of the last `count` come.
  template <typename Before>
  absl::Duration BoundOf(int count) const {
    const int outside = count / kOutside;
    Ends<Before> ends;
    for (int i = 0; i < count; ++i) ends.Take(last_[i], outside);
    return ends.kept[outside];
  }

  // The first of all taken, by `Before`, in order: for a few that is faster than to sort all, and each
  // hand-over does it several times.
  template <typename Before>
  struct Ends {
    // Keeps the first `last` + 1.
    void Take(absl::Duration sample, int last) {
      const Before before;
      if (count > last && !before(sample, kept[last])) return;
      int at = std::min(count++, last);
      for (; at > 0 && before(sample, kept[at - 1]); --at) kept[at] = kept[at - 1];
      kept[at] = sample;
    }

    std::array<absl::Duration, kLast / kOutside + 1> kept;
    int count = 0;
  };

  Record record_;
  std::array<absl::Duration, kLast> last_;  // the first one forgotten, round and round
};

}  // namespace hocket::coordinator

#endif  // HOCKET_COORDINATOR_POLICIES_ESTIMATE_H_
