// One job after the other, without Hocket: the baseline of simulations. Nobody is ever asked to stop.
#ifndef HOCKET_COORDINATOR_SIMULATOR_QUEUE_H_
#define HOCKET_COORDINATOR_SIMULATOR_QUEUE_H_

#include <string>

#include "coordinator/policies/policy.h"

namespace hocket::coordinator {

inline constexpr const char* kQueue = "queue";

class Queue final : public Policy {
 public:
  bool Before(const JobView& a, const JobView& b) const override { return a.id < b.id; }
  std::string Reason(const JobView& next) const override { return "came first"; }
  absl::Duration Keep(const JobView& holder, absl::Duration held, const GpuView& gpu) const override {
    return absl::InfiniteDuration();
  }
  absl::Duration KeepFree(const JobView& absent, const JobView& next) const override {
    return absent.id < next.id ? absl::InfiniteDuration() : absl::ZeroDuration();
  }
};

}  // namespace hocket::coordinator

#endif  // HOCKET_COORDINATOR_SIMULATOR_QUEUE_H_
