// Where a node's Hocket keeps its files. Paths depend on the uid only, so that every environment of a
// user finds the same daemon; HOCKET_RUNTIME_DIR overrides them (tests, several daemons on purpose).
//
//   <runtime dir>/hocketd.sock      the coordinator's socket
//   <runtime dir>/start.lock        who may start a coordinator
//   <runtime dir>/lane-<key>.lock   held by the kernel for the process that has the turn (docs: design)
//   <runtime dir>/users/<uid>/      the same of one user's lanes, where a daemon serves several; his alone
//   <runtime dir>/hocketd.log       the coordinator's log
//   <runtime dir>/history/          the turns of the last days (coordinator/recording)
//   <runtime dir>/jobs/             for a restarted coordinator: for whom it waits
//   <state dir>/settings            for every later one: what people have set
//
// A runtime folder goes with a reboot, or when /tmp is tidied up while no daemon lives. The state folder
// stays.
#ifndef HOCKET_CSRC_BASE_PATHS_H_
#define HOCKET_CSRC_BASE_PATHS_H_

#include <string>

#include "absl/status/statusor.h"

namespace hocket {

// $HOCKET_RUNTIME_DIR, else /run/hocket where a system daemon's socket lies there, else
// /tmp/hocket-<uid>. Creates nothing. Always absolute: what the variable says is taken from the folder in
// which this program was when Hocket was loaded, wherever it goes afterwards.
std::string RuntimeDir();

// RuntimeDir(), created (mode 0700) where missing. kFailedPrecondition when it belongs to another user
// or others may write to it; kUnavailable, with errno's text, when it cannot be made.
absl::StatusOr<std::string> EnsureRuntimeDir();

// The folder of a daemon that serves all users: $HOCKET_RUNTIME_DIR, else /run/hocket; made where missing,
// for everybody to read. kFailedPrecondition: this process is not root's, or the folder is not, or others may
// write to it. kUnavailable: as above.
absl::StatusOr<std::string> EnsureSystemDir();

// Where a daemon keeps what is to last, made (0700) where missing: $HOCKET_RUNTIME_DIR where that is given,
// so that nothing of such a daemon lies elsewhere; else /var/lib/hocket for one that serves all users, and
// $XDG_STATE_HOME/hocket, or ~/.local/state/hocket, for one's own. kFailedPrecondition: it is another user's,
// others may write to it, or nothing says where it should be (to root not another user's HOME).
// kUnavailable: as above.
absl::StatusOr<std::string> EnsureStateDir(bool system);
// The same folder, whether or not it can be used; empty: nothing says where.
std::string StateDir(bool system);

// Whether a daemon that serves all users has its place in `dir`: its socket is there for everybody, in a
// folder of root's (/run/hocket is that wherever it is; in a container without our root it does not look so).
// No job starts one there.
bool IsSystemDir(const std::string& dir);

// <runtime dir>/hocketd.sock
std::string SocketPath();

// Whether a coordinator that user `uid` runs at `socket_path` is this user's to talk to: it is his own,
// root's, or lies in /run/hocket, which only root can make, and runs as that folder's owner. Anybody may have
// made a folder in /tmp.
bool IsTrusted(unsigned uid, const std::string& socket_path);

}  // namespace hocket

#endif  // HOCKET_CSRC_BASE_PATHS_H_
