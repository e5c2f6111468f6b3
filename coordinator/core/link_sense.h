// How much a job's steps suffer while the host link carries others' bytes.
//
//   step = base + k * beside      beside: so long the link was busy for others while it did the step
//
// k is 0 for a job that never copies and about 1 for one that does nothing else. `base` is the median of the
// last parts of turns in which next to nothing moved for others; k the least absolute deviation over the last
// parts in which something did: outliers move neither. So both kinds are needed, and this says what the next
// part is to be for: as usual, or, now and then, one of either kind. Where nothing ever moves, or so little
// that the bound holds anyhow, there is nothing to learn and nothing is asked for.
#ifndef HOCKET_COORDINATOR_CORE_LINK_SENSE_H_
#define HOCKET_COORDINATOR_CORE_LINK_SENSE_H_

#include <deque>
#include <optional>

#include "absl/time/time.h"

namespace hocket::coordinator {

// A plain value; it reads no clock.
class LinkSense {
 public:
  // A part of a turn is over: a step took `step` in it, and others' bytes the link for `beside` meanwhile.
  // `bound`: by so much they may slow it down. REQUIRES: step > 0, beside >= 0, bound > 0.
  void Add(absl::Duration step, absl::Duration beside, double bound);

  // k; none: not known yet.
  std::optional<double> slowdown() const { return slowdown_; }

  // For which share of the next part the link may be busy for others, so that they slow it down by `bound`.
  // 1 as long as that is not known, 0 in a part that shows what a step takes alone.
  double Share(double bound) const;

 private:
  struct Sample {
    absl::Duration step;
    absl::Duration beside;
  };

  double Usual(double bound) const;
  void AddQuiet(absl::Duration step);
  void AddBusy(const Sample& sample, double share, double bound);
  void Estimate();
  absl::Duration Base() const;

  std::deque<absl::Duration> quiet_;
  std::deque<Sample> busy_;
  std::optional<double> slowdown_;
  bool first_ = true;  // steps take several times as long as the others
  int odd_ = 0;        // quiet parts in a row that are like none before
  int since_quiet_ = 0;
  int since_busy_ = 0;  // parts since one that tells k well
};

}  // namespace hocket::coordinator

#endif  // HOCKET_COORDINATOR_CORE_LINK_SENSE_H_
