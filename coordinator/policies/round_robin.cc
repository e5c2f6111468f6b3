#include "coordinator/policies/round_robin.h"

#include <utility>

namespace hocket::coordinator {

bool RoundRobin::Before(const JobView& a, const JobView& b) const {
  // Those behind the last one in the circle come first.
  return std::pair(a.id <= last_, a.id) < std::pair(b.id <= last_, b.id);
}

std::string RoundRobin::Reason(const JobView& next) const { return "is next in the circle"; }

}  // namespace hocket::coordinator
