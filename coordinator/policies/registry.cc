#include "coordinator/policies/registry.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "coordinator/policies/fair.h"
#include "coordinator/policies/fifo.h"
#include "coordinator/policies/pack.h"
#include "coordinator/policies/priority.h"
#include "coordinator/policies/round_robin.h"
#include "coordinator/policies/srtf.h"

namespace hocket::coordinator {
namespace {

template <typename Type>
std::unique_ptr<Policy> Make() {
  return std::make_unique<Type>();
}

}  // namespace

const std::vector<PolicyEntry>& AllPolicies() {
  static const auto* const policies = new std::vector<PolicyEntry>{
      {"fair", "device time in proportion to weight and priority, users first", &Make<Fair>},
      {"fifo", "the job that has waited longest is next", &Make<Fifo>},
      {"pack", "as fair, and several jobs at the same time while they measurably do more together",
       &Make<Pack>},
      {"priority", "high priority first, slowed down by the others by at most a set share",
       &Make<ProductionFirst>},
      {"round-robin", "each job in its turn, in the order in which they joined", &Make<RoundRobin>},
      {"srtf", "the job with the least time left is next", &Make<Srtf>, /*shares=*/false},
  };
  return *policies;
}

absl::StatusOr<std::unique_ptr<Policy>> MakePolicy(const std::string& name) {
  for (const PolicyEntry& entry : AllPolicies()) {
    if (name == entry.name) return entry.make();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("there is no policy '", name, "'. The policies are: ",
                   absl::StrJoin(AllPolicies(), ", ",
                                 [](std::string* out, const PolicyEntry& entry) { out->append(entry.name); }),
                   "."));
}

}  // namespace hocket::coordinator
