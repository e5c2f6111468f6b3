#include "coordinator/policies/policy.h"

#include <algorithm>

#include "csrc/base/check.h"

namespace hocket::coordinator {

std::vector<JobView> Policy::Order(std::vector<JobView> waiting) const {
  if (waiting.size() > 1) {
    std::stable_sort(waiting.begin(), waiting.end(),
                     [this](const JobView& a, const JobView& b) { return Before(a, b); });
  }
  return waiting;
}

std::string PolicyTitle(const std::string& name) { return name.substr(name.rfind('/') + 1); }

std::vector<JobView> InOrder(const Policy& policy, const GpuView& gpu) { return policy.Order(gpu.waiting); }

Choice Pick(const Policy& policy, const GpuView& gpu) {
  HOCKET_CHECK(!gpu.waiting.empty()) << "a policy was asked to choose among nobody";
  const JobView next = InOrder(policy, gpu).front();
  return {next.id, policy.Reason(next)};
}

}  // namespace hocket::coordinator
