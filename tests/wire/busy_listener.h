// Who listens and takes nobody in, as a stopped coordinator does, until no more can wait for it.
#ifndef HOCKET_TESTS_WIRE_BUSY_LISTENER_H_
#define HOCKET_TESTS_WIRE_BUSY_LISTENER_H_

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <vector>

#include "csrc/base/unique_fd.h"

namespace hocket::wire {

class BusyListener {
 public:
  explicit BusyListener(const std::string& path) : path_(path) {
    address_.sun_family = AF_UNIX;
    std::strncpy(address_.sun_path, path.c_str(), sizeof(address_.sun_path) - 1);
    unlink(path.c_str());
    listener_ = Socket();
    const auto* const address = reinterpret_cast<const sockaddr*>(&address_);
    if (bind(listener_.get(), address, sizeof(address_)) != 0 || listen(listener_.get(), 0) != 0) return;
    do {
      waiting_.push_back(Socket());
    } while (connect(waiting_.back().get(), address, sizeof(address_)) == 0);
    full_ = errno == EAGAIN;
  }
  ~BusyListener() { unlink(path_.c_str()); }
  BusyListener(const BusyListener&) = delete;
  BusyListener& operator=(const BusyListener&) = delete;

  bool full() const { return full_; }

 private:
  static UniqueFd Socket() {
    return UniqueFd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  }

  const std::string path_;
  sockaddr_un address_{};
  UniqueFd listener_;
  std::vector<UniqueFd> waiting_;
  bool full_ = false;
};

}  // namespace hocket::wire

#endif  // HOCKET_TESTS_WIRE_BUSY_LISTENER_H_
