#include "coordinator/policies/policy.h"

#include <algorithm>

#include "csrc/base/check.h"

namespace hocket::coordinator {

std::vector<JobView> InOrder(const Policy& policy, const GpuView& gpu) {
  std::vector<JobView> order = gpu.waiting;
  std::stable_sort(order.begin(), order.end(),
                   [&](const JobView& a, const JobView& b) { return policy.Before(a, b); });
  return order;
}

Choice Pick(const Policy& policy, const GpuView& gpu) {
  HOCKET_CHECK(!gpu.waiting.empty()) << "a policy was asked to choose among nobody";
  const JobView next = InOrder(policy, gpu).front();
  return {next.id, policy.Reason(next)};
}

}  // namespace hocket::coordinator
