// Whose a quota is: one job's, or that of all jobs of a group, or of a user, together.
#ifndef HOCKET_COORDINATOR_CORE_OWNER_H_
#define HOCKET_COORDINATOR_CORE_OWNER_H_

#include <compare>
#include <cstdint>
#include <string>
#include <utility>

#include "csrc/base/bytes.h"

namespace hocket::coordinator {

struct Owner {
  enum class Kind { kJob, kGroup, kUser };
  Kind kind = Kind::kJob;
  std::uint64_t id = 0;  // the job's, or the uid
  std::string group;

  static Owner Job(std::uint64_t id) { return {.kind = Kind::kJob, .id = id, .group = ""}; }
  static Owner Group(std::string name) { return {.kind = Kind::kGroup, .id = 0, .group = std::move(name)}; }
  static Owner User(unsigned uid) { return {.kind = Kind::kUser, .id = uid, .group = ""}; }
  auto operator<=>(const Owner&) const = default;
};

// What people have set of a group or a user; on each device. 0: nothing.
struct Quota {
  double time_cap = 0;
  double time_guarantee = 0;
  Bytes memory_guarantee = 0;
  Bytes memory_cap = 0;  // resident and spilled
  double weight = 0;     // of a user, against the others' (fair); 0: 1, as of everybody
  bool operator==(const Quota&) const = default;
};

}  // namespace hocket::coordinator

#endif  // HOCKET_COORDINATOR_CORE_OWNER_H_
