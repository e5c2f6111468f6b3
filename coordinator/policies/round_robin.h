// In a circle: after each job the one that joined next, whoever asked first.
#ifndef HOCKET_COORDINATOR_POLICIES_ROUND_ROBIN_H_
#define HOCKET_COORDINATOR_POLICIES_ROUND_ROBIN_H_

#include "coordinator/policies/policy.h"

namespace hocket::coordinator {

class RoundRobin final : public Policy {
 public:
  bool Before(const JobView& a, const JobView& b) const override;
  std::string Reason(const JobView& next) const override;
  void Charge(const JobView& job, absl::Duration, bool) override { last_ = job.id; }

 private:
  EntityId last_ = 0;  // who had the turn last, by the circle
};

}  // namespace hocket::coordinator

#endif  // HOCKET_COORDINATOR_POLICIES_ROUND_ROBIN_H_
