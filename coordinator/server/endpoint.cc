#include "coordinator/server/endpoint.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "csrc/base/cannot.h"
#include "csrc/base/status_macros.h"
#include "csrc/base/steady.h"
#include "csrc/wire/address.h"
#include "csrc/wire/channel.h"

namespace hocket::coordinator {
namespace {

// So long a newcomer waits for a daemon that no longer answers and has not ended yet.
constexpr absl::Duration kPatience = absl::Seconds(2);
// So long the kernel may take to close what a daemon that dies has open.
constexpr absl::Duration kDies = absl::Milliseconds(200);

absl::StatusOr<UniqueFd> Lock(const std::string& dir) {
  const std::string path = dir + "/hocketd.lock";
  UniqueFd lock(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!lock) return Cannot("open " + path);
  const absl::Time until = SteadyNow() + kPatience;
  while (flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) return Cannot("lock " + path);
    if (wire::Channel::Connect(dir + "/hocketd.sock", /*timeout_ms=*/0).ok())
      return absl::AlreadyExistsError(absl::StrCat("a coordinator runs already in ", dir, "."));
    if (SteadyNow() > until) {
      return absl::UnavailableError(absl::StrCat("a coordinator holds ", path,
                                                 " but does not answer. See hocketd.log in that folder; end "
                                                 "it, or name another folder in HOCKET_RUNTIME_DIR."));
    }
    absl::SleepFor(absl::Milliseconds(5));
  }
  return lock;
}

// Nothing depends on it where it cannot be had.
UniqueFd KeepFromBeingTidied(const std::string& dir) {
  UniqueFd folder(open(dir.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder) (void)flock(folder.get(), LOCK_SH | LOCK_NB);
  return folder;
}

// Also one that is stopped, and has no room for more who wait.
bool SomebodyListens(const std::string& dir) {
  const absl::Status found = wire::Channel::Connect(dir + "/hocketd.sock", /*timeout_ms=*/0).status();
  return found.ok() || absl::IsDeadlineExceeded(found);
}

// With the lock we are the only one, unless somebody has tidied a living daemon's lock file away: then ours
// is another file. A daemon that dies drops its lock a moment before its socket.
absl::Status CheckNobodyAnswers(const std::string& dir) {
  const absl::Time until = SteadyNow() + kDies;
  while (SomebodyListens(dir)) {
    if (SteadyNow() > until)
      return absl::AlreadyExistsError(
          absl::StrCat("a coordinator runs already in ", dir, ", though its file hocketd.lock is gone."));
    absl::SleepFor(absl::Milliseconds(5));
  }
  return absl::OkStatus();
}

// There is a socket at `path` at every moment from the first daemon on, if that was left behind: who looks
// for one does not find that there is none.
absl::StatusOr<UniqueFd> Listen(const std::string& path, Endpoint::For whom, Logger& log) {
  const std::string fresh = path.substr(0, path.rfind('/')) + "/new";  // no longer than `path`
  HOCKET_RETURN_IF_ERROR(wire::AddressOf(path, "listen at").status());
  HOCKET_ASSIGN_OR_RETURN(const sockaddr_un address, wire::AddressOf(fresh, "listen at"));
  UniqueFd listener(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!listener) return Cannot("make a socket");
  unlink(fresh.c_str());  // we have the lock
  if (access(path.c_str(), F_OK) == 0)
    log.Info(absl::StrCat("replaces ", path, ", which a coordinator that was killed has left behind"));
  const mode_t before = umask(whom == Endpoint::For::kOwner ? 0177 : 0111);
  const int bound = bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address));
  umask(before);
  if (bound != 0 || listen(listener.get(), SOMAXCONN) != 0 || rename(fresh.c_str(), path.c_str()) != 0)
    return Cannot("listen at " + path);
  return listener;
}

}  // namespace

absl::StatusOr<Endpoint> Endpoint::Open(const std::string& runtime_dir, For whom, Logger& log) {
  HOCKET_ASSIGN_OR_RETURN(UniqueFd lock, Lock(runtime_dir));
  HOCKET_RETURN_IF_ERROR(CheckNobodyAnswers(runtime_dir));
  const std::string path = runtime_dir + "/hocketd.sock";
  HOCKET_ASSIGN_OR_RETURN(UniqueFd listener, Listen(path, whom, log));
  return Endpoint(path, KeepFromBeingTidied(runtime_dir), std::move(lock), std::move(listener),
                  /*remove=*/whom == For::kOwner);
}

Endpoint::~Endpoint() {
  if (lock_ && remove_) unlink(path_.c_str());
}

}  // namespace hocket::coordinator
