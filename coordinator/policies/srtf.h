// Shortest remaining time first: the job that would be done soonest is next.
//
// What remains is the steps left (total_steps less those done) times the measured time of a step. A job that
// has not said how many steps it will run is expected to go on for as long as it has had, in levels (1 s, 10
// s, 1 min, 10 min, 1 h, 4 h): a new one comes first, and steps back at each level that it reaches. Both are
// divided by the weight, and by the priority's factor (Fair::Share); of equal ones the one that joined first
// is next.
//
// Long jobs wait as long as shorter ones keep coming.
#ifndef HOCKET_COORDINATOR_POLICIES_SRTF_H_
#define HOCKET_COORDINATOR_POLICIES_SRTF_H_

#include "coordinator/policies/policy.h"

namespace hocket::coordinator {

class Srtf final : public Policy {
 public:
  bool Before(const JobView& a, const JobView& b) const override;
  bool ForeseesNext() const override { return true; }
  std::string Reason(const JobView& next) const override;
  std::string Standing(const JobView& job) const override;
  // For ever, while what remains is known and the least; otherwise until it reaches a level above the next
  // one.
  absl::Duration Keep(const JobView& holder, absl::Duration held, const GpuView& gpu) const override;
  // For one with less to do that is between two steps, where waiting for it costs less than another's step.
  absl::Duration KeepFree(const JobView& absent, const JobView& next) const override;

  // A job of unknown size that has had so much comes behind all that are expected to be done sooner, and
  // steps back no further.
  static constexpr absl::Duration kLastLevel = absl::Hours(4);

  // Expected device time until it is done.
  static absl::Duration Remaining(const JobView& job);
};

}  // namespace hocket::coordinator

#endif  // HOCKET_COORDINATOR_POLICIES_SRTF_H_
