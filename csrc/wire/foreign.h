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

// By a thread that is there for that, in the order in which they come. Any thread may call it.
void CloseElsewhere(UniqueFd fd);

// So many have not been closed yet.
int ForeignOnes();
// More than that are not to be taken from any socket: each is an open file.
inline constexpr int kMostForeignOnes = 64;

}  // namespace hocket::wire

#endif  // HOCKET_CSRC_WIRE_FOREIGN_H_
