// Finds the coordinator, or starts one.
//
//   connect --refused--> start.lock --> connect again --refused--> run hocketd --exit status--> connect
//
// Whoever holds start.lock starts; the others wait for the lock and then find it running. `hocketd` goes into
// the background by itself: what was run here ends with status 0 once the daemon listens, or says on stderr
// why it cannot. It gets none of our descriptors. One that is killed in that moment, or was about to end when
// it was found, is started again, a few times. A child that this process forks meanwhile has no part in all
// that, however long it lives (unforked_fd.h).
//
// The daemon of all users (IsSystemDir() in base/paths.h) is not for jobs to start: they wait for it a while.
// A process that has found it once waits for it there ever after, though its folder be gone, and starts no
// private one; only another HOCKET_RUNTIME_DIR leads it elsewhere.
#ifndef HOCKET_CSRC_CLIENT_DAEMON_LAUNCHER_H_
#define HOCKET_CSRC_CLIENT_DAEMON_LAUNCHER_H_

#include <string>

#include "absl/status/statusor.h"
#include "csrc/wire/channel.h"

namespace hocket {

// kUnavailable: what was tried and what stood in the way. kDeadlineExceeded: there is one that takes nobody
// in (Channel::Connect()); call again. Blocks for some 10 s at most.
absl::StatusOr<wire::Channel> ConnectOrStart();

// $HOCKET_DAEMON, else ../bin/hocketd or bin/hocketd beside the library (or program) this code is in, else
// the first hocketd of $PATH. kUnavailable names the places.
absl::StatusOr<std::string> FindDaemon();

}  // namespace hocket

#endif  // HOCKET_CSRC_CLIENT_DAEMON_LAUNCHER_H_
