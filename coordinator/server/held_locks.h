// Which locks of lanes processes hold: the kernel says so, whoever has been told or not.
#ifndef HOCKET_COORDINATOR_SERVER_HELD_LOCKS_H_
#define HOCKET_COORDINATOR_SERVER_HELD_LOCKS_H_

#include <map>
#include <string>
#include <vector>

namespace hocket::coordinator {

// By pid, as it is here: the paths of the locks in `folder` (csrc/client/lane_lock.h) that other processes
// than this one hold. Empty where there is no such folder. Must not be called by a process that holds one of
// them: it would lose it, as the kernel drops a process's lock with any descriptor of the file.
std::map<int, std::vector<std::string>> HeldLocks(const std::string& folder);

}  // namespace hocket::coordinator

#endif  // HOCKET_COORDINATOR_SERVER_HELD_LOCKS_H_
