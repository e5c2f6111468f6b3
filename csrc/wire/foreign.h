// Descriptors that a peer has sent and that are not what peers have reason to send.
//
// What is sent is memory: a memfd (a page, a chunk of the emulated GPU), or a handle of the driver's (a
// device, or a file of the kernel's own). Closing those waits for nobody. A file on a file system that
// somebody's program serves (FUSE), or on a server, may be closed when that one likes: close() tells it, and
// waits for its answer. That must not stand between jobs and their turns.
#ifndef HOCKET_CSRC_WIRE_FOREIGN_H_
#define HOCKET_CSRC_WIRE_FOREIGN_H_

#include "csrc/base/unique_fd.h"

namespace hocket::wire {

// Only the kernel is asked, which has the answer: it waits for nobody either.
bool IsForeign(int fd);

// By a thread that is there for that, in the order in which they come. `user`: whose process has sent it. Any
// thread may call it, as all that follow.
void CloseElsewhere(UniqueFd fd, unsigned user);

// So many have not been closed yet: all users', and this one's.
int ForeignOnes();
int ForeignOnesOf(unsigned user);
// Each is an open file. So where there are so many, descriptors are taken only from the sockets of users
// who have few among them.
inline constexpr int kMostForeignOnes = 64;
inline constexpr int kMostForeignOnesOfAUser = 8;

}  // namespace hocket::wire

#endif  // HOCKET_CSRC_WIRE_FOREIGN_H_
