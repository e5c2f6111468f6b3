// The sign of a coordinator on a device, by which others of the same device are seen.
//
// Two coordinators do not know of each other: they are two users', or one's in two folders or containers. So
// for each device on which jobs take part one holds a socket to which nobody connects, and whose abstract
// name says whose it is. The kernel lists such names for everybody who shares the network (/proc/net/unix),
// whatever his user, his mounts and his /tmp, and takes them away when the coordinator dies. Anybody can hold
// such a name: what is read there is shown to people, and nothing is decided by it.
#ifndef HOCKET_CSRC_WIRE_SIGN_H_
#define HOCKET_CSRC_WIRE_SIGN_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "csrc/base/unique_fd.h"

namespace hocket::wire {

struct CoordinatorSeen {
  unsigned uid = 0;
  int pid = 0;              // as it sees itself: in a container it has another number outside
  std::uint64_t epoch = 0;  // tells two of the same pid from each other
  std::string device;
  auto operator<=>(const CoordinatorSeen&) const = default;
};

// What one coordinator shows.
class Signs {
 public:
  // On these devices and no others from now on. The cpu is no device that one shares: it has no sign, and
  // neither has a device whose name is too long for one.
  void Show(const CoordinatorSeen& self, const std::set<std::string>& devices);

 private:
  std::map<std::string, UniqueFd> shown_;
};

// All signs that can be seen from here, one's own too; none where the kernel does not tell.
std::vector<CoordinatorSeen> CoordinatorsSeen();
// The same, in the text of /proc/net/unix.
std::vector<CoordinatorSeen> CoordinatorsIn(const std::string& text);

}  // namespace hocket::wire

#endif  // HOCKET_CSRC_WIRE_SIGN_H_
