// The daemon's place in the runtime folder: its socket, and the lock that says that it is the only one.
//
// The lock (hocketd.lock) is the kernel's, held for the daemon's life: whoever has it may remove a socket
// that a killed daemon left behind.
#ifndef HOCKET_COORDINATOR_SERVER_ENDPOINT_H_
#define HOCKET_COORDINATOR_SERVER_ENDPOINT_H_

#include <string>

#include "absl/status/statusor.h"
#include "coordinator/server/log.h"
#include "csrc/base/unique_fd.h"

namespace hocket::coordinator {

class Endpoint {
 public:
  // Listens at `<runtime_dir>/hocketd.sock` (mode 0600), and tells the log if it replaces a socket for that.
  // kAlreadyExists: a daemon answers there.
  // kUnavailable: the lock or the socket cannot be had; the text says why and what to do.
  static absl::StatusOr<Endpoint> Open(const std::string& runtime_dir, Logger& log);

  Endpoint(Endpoint&&) = default;
  Endpoint& operator=(Endpoint&&) = default;
  // Removes the socket, then drops the lock.
  ~Endpoint();

  int listener() const { return listener_.get(); }

 private:
  Endpoint(std::string path, UniqueFd lock, UniqueFd listener)
      : path_(std::move(path)), lock_(std::move(lock)), listener_(std::move(listener)) {}
  std::string path_;
  UniqueFd lock_;
  UniqueFd listener_;
};

}  // namespace hocket::coordinator

#endif  // HOCKET_COORDINATOR_SERVER_ENDPOINT_H_
