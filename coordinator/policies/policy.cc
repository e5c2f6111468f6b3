#include "coordinator/policies/policy.h"

#include <algorithm>
#include <utility>

#include "csrc/base/check.h"

namespace hocket::coordinator {

std::vector<JobView> Policy::Order(std::vector<JobView> waiting) const {
  if (waiting.size() > 1) {
    std::stable_sort(waiting.begin(), waiting.end(),
                     [this](const JobView& a, const JobView& b) { return Before(a, b); });
  }
  return waiting;
}

JobView Policy::FirstOf(const GpuView& gpu) const {
  return gpu.waiting.size() == 1 ? gpu.waiting.front() : Order(gpu.waiting).front();
}

std::string PolicyTitle(const std::string& name) { return name.substr(name.rfind('/') + 1); }

std::vector<JobView> InOrder(const Policy& policy, GpuView gpu) {
  return policy.Order(std::move(gpu.waiting));
}

Choice Pick(const Policy& policy, const GpuView& gpu) {
  HOCKET_CHECK(!gpu.waiting.empty()) << "a policy was asked to choose among nobody";
  const JobView next = InOrder(policy, gpu).front();
  return {next.id, policy.Reason(next)};
}

}  // namespace hocket::coordinator
