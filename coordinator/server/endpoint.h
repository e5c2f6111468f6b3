// The daemon's place in the runtime folder: its socket, and the lock that says that it is the only one.
//
// The lock (hocketd.lock) is the kernel's, held for the daemon's life: whoever has it may remove a socket
// that a killed daemon left behind. One that answers all the same is left alone: its lock's file is gone.
// The folder itself is locked, too (flock, shared): systemd-tmpfiles leaves such a folder, and all that is in
// it, alone where it tidies /tmp up by age (systemd's "Using /tmp/ and /var/tmp/ Safely").
#ifndef HOCKET_COORDINATOR_SERVER_ENDPOINT_H_
#define HOCKET_COORDINATOR_SERVER_ENDPOINT_H_

#include <string>

#include "absl/status/statusor.h"
#include "coordinator/server/log.h"
#include "csrc/base/unique_fd.h"

namespace hocket::coordinator {

class Endpoint {
 public:
  // Who may connect, as the file's mode says: 0600 or 0666.
  enum class For { kOwner, kEverybody };

  // Listens at `<runtime_dir>/hocketd.sock`, and tells the log if it replaces a socket for that.
  // kAlreadyExists: a daemon answers there, with its lock or without.
  // kUnavailable: the lock or the socket cannot be had; the text says why and what to do.
  static absl::StatusOr<Endpoint> Open(const std::string& runtime_dir, For whom, Logger& log);

  Endpoint(Endpoint&&) = default;
  Endpoint& operator=(Endpoint&&) = default;
  // Removes the socket, then drops the lock. One for everybody stays: jobs that find it wait for the next
  // daemon there instead of starting one of their own.
  ~Endpoint();
  void RemoveAtEnd() { remove_ = true; }

  int listener() const { return listener_.get(); }

 private:
  Endpoint(std::string path, UniqueFd folder, UniqueFd lock, UniqueFd listener, bool remove)
      : path_(std::move(path)),
        folder_(std::move(folder)),
        lock_(std::move(lock)),
        listener_(std::move(listener)),
        remove_(remove) {}
  std::string path_;
  UniqueFd folder_;
  UniqueFd lock_;
  UniqueFd listener_;
  bool remove_;
};

}  // namespace hocket::coordinator

#endif  // HOCKET_COORDINATOR_SERVER_ENDPOINT_H_
