// The policies that exist, by name.
#ifndef HOCKET_COORDINATOR_POLICIES_REGISTRY_H_
#define HOCKET_COORDINATOR_POLICIES_REGISTRY_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/policies/policy.h"

namespace hocket::coordinator {

inline constexpr const char* kDefaultPolicy = "fair";

struct PolicyEntry {
  const char* name;
  const char* summary;  // one line, for `hocket policy`
  std::unique_ptr<Policy> (*make)();
  bool shares = true;  // equal jobs have equal parts of the device at any time, whenever they came
};

const std::vector<PolicyEntry>& AllPolicies();

// kInvalidArgument, listing the known names, for any other.
absl::StatusOr<std::unique_ptr<Policy>> MakePolicy(const std::string& name);

}  // namespace hocket::coordinator

#endif  // HOCKET_COORDINATOR_POLICIES_REGISTRY_H_
