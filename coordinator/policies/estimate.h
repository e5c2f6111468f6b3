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
#include <cstdlib>
#include <functional>
#include <utility>

#include "absl/time/time.h"

namespace hocket::coordinator {

class Estimate {
 public:
  Estimate() = default;
  // Of a time that somebody knows from elsewhere.
  explicit Estimate(absl::Duration known) { Bound(1, NanosOf(known), NanosOf(known) / 4); }

  bool known() const { return samples_ > 0; }
  // More than a first sample is known.
  bool settled() const { return samples_ > 1; }
  int samples() const { return samples_; }
  absl::Duration mean() const { return absl::Nanoseconds(mean_); }
  absl::Duration spread() const { return absl::Nanoseconds(spread_); }
  // Nine in ten samples stay below; above.
  absl::Duration Upper() const { return absl::Nanoseconds(upper_); }
  absl::Duration Lower() const { return absl::Nanoseconds(lower_); }

 protected:
  // Whole numbers are faster than absl's durations by far, and each hand-over adds half a dozen samples. None
  // is longer than some years, so sums of a few do not wrap.
  using Nanos = std::int64_t;
  static Nanos NanosOf(absl::Duration time) {
    constexpr Nanos kLongest = Nanos{1} << 57;
    return std::clamp(absl::ToInt64Nanoseconds(time), -kLongest, kLongest);
  }

  void Bound(int samples, Nanos mean, Nanos spread) {
    samples_ = samples;
    mean_ = mean;
    spread_ = spread;
    Bound(mean - 3 * spread, mean + 3 * spread);
  }
  void Bound(Nanos lower, Nanos upper) {
    lower_ = std::max<Nanos>(0, lower);
    upper_ = upper;
  }

  int samples_ = 0;
  Nanos mean_ = 0;
  Nanos spread_ = 0;
  Nanos lower_ = 0;
  Nanos upper_ = 0;
};

class Estimator : public Estimate {
 public:
  // How its bounds have held: of the samples that came when it was settled.
  struct Record {
    std::uint64_t foretold = 0;
    std::uint64_t inside = 0;  // of both bounds
    std::uint64_t above = 0;   // Upper()
  };

  void Add(absl::Duration time) {
    Nanos sample = NanosOf(time);
    if (settled()) {
      ++record_.foretold;
      record_.inside += lower_ <= sample && sample <= upper_;
      record_.above += sample > upper_;
    }
    if (samples_ < 2) {
      last_[0] = sample;
      return Bound(samples_ + 1, sample, sample / 4);
    }
    if (samples_ >= kFew) sample = std::min(sample, std::max(2 * upper_, mean_ + kOneMillisecond));
    const Nanos deviation = std::abs(sample - mean_);
    const Nanos forgotten = std::exchange(last_[(samples_ - 1) % kLast], sample);
    const Nanos lower = lower_, upper = upper_;
    // One that lay inside a bound makes room for another: so many as before are outside.
    const bool full = samples_ > kLast;
    const bool lower_stays = full && lower < forgotten && lower <= sample;
    const bool upper_stays = full && forgotten < upper && sample <= upper;
    Bound(samples_ + 1, mean_ + (sample - mean_) / 8, spread_ + (deviation - spread_) / 4);
    const int count = std::min(kLast, samples_ - 1);
    if (count < kEnough) return;
    Bound(lower_stays ? lower : BoundOf<std::less<>>(count),
          upper_stays ? upper : BoundOf<std::greater<>>(count));
  }
  const Record& record() const { return record_; }

 private:
  static constexpr Nanos kOneMillisecond = 1'000'000;
  static constexpr int kFew = 4;
  static constexpr int kEnough = 8;    // to tell a quantile from
  static constexpr int kLast = 32;     // of so many samples
  static constexpr int kOutside = 16;  // one in so many is outside, on either side

  // The sample before which one in kOutside of the last `count` come.
  template <typename Before>
  Nanos BoundOf(int count) const {
    const int outside = count / kOutside;
    Ends<Before> ends;
    for (int i = 0; i < count; ++i) ends.Take(last_[i], outside);
    return ends.kept[outside];
  }

  // The first of all taken, by `Before`, in order: for a few that is faster than to sort all.
  template <typename Before>
  struct Ends {
    // Keeps the first `last` + 1.
    void Take(Nanos sample, int last) {
      const Before before;
      if (count > last && !before(sample, kept[last])) return;
      int at = std::min(count++, last);
      for (; at > 0 && before(sample, kept[at - 1]); --at) kept[at] = kept[at - 1];
      kept[at] = sample;
    }

    std::array<Nanos, kLast / kOutside + 1> kept;
    int count = 0;
  };

  Record record_;
  std::array<Nanos, kLast> last_;  // the first one forgotten, round and round
};

}  // namespace hocket::coordinator

#endif  // HOCKET_COORDINATOR_POLICIES_ESTIMATE_H_
