// First come, first served: the job that has waited longest is next.
#ifndef HOCKET_COORDINATOR_POLICIES_FIFO_H_
#define HOCKET_COORDINATOR_POLICIES_FIFO_H_

#include "coordinator/policies/policy.h"

namespace hocket::coordinator {

class Fifo final : public Policy {
 public:
  bool Before(const JobView& a, const JobView& b) const override { return a.asked < b.asked; }
  bool ForeseesNext() const override { return true; }
  std::string Reason(const JobView& next) const override;
};

}  // namespace hocket::coordinator

#endif  // HOCKET_COORDINATOR_POLICIES_FIFO_H_
