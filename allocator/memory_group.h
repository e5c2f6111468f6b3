// What the memory groups (cgroups) of this process leave it: the limit of a container, of a batch system, of
// systemd.
//
//   /proc/self/cgroup   0::/jobs/17          version 2: one path for everything
//                       4:memory:/jobs/17    version 1: the memory controller's own
//   root                /jobs/17/memory.max, /jobs/memory.max, ...: each group on the way up may limit
//
// In a container the path may be the host's, of which only the root is seen here; groups that cannot be read
// limit nothing.
#ifndef HOCKET_ALLOCATOR_MEMORY_GROUP_H_
#define HOCKET_ALLOCATOR_MEMORY_GROUP_H_

#include <limits>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "csrc/base/bytes.h"

namespace hocket {

inline constexpr Bytes kNoLimit = std::numeric_limits<Bytes>::max();

// The number behind `key` in a file of lines "KEY NUMBER ..."; nullopt: no such line, or no such file.
std::optional<Bytes> NumberAfter(const std::string& path, absl::string_view key);

// Bytes that the tightest of the groups still gives, file caches that it can drop included; kNoLimit: none
// limits. `root` is where the groups are mounted, `membership` the kernel's list of this process's groups.
// Files: Linux, admin-guide/cgroup-v2.rst and cgroup-v1/memory.rst.
Bytes FreeInMemoryGroup(const std::string& root = "/sys/fs/cgroup",
                        const std::string& membership = "/proc/self/cgroup");

}  // namespace hocket

#endif  // HOCKET_ALLOCATOR_MEMORY_GROUP_H_
