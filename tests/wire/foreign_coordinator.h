// Another user who listens where this user's coordinator would.
#ifndef HOCKET_TESTS_WIRE_FOREIGN_COORDINATOR_H_
#define HOCKET_TESTS_WIRE_FOREIGN_COORDINATOR_H_

#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <string>

namespace hocket::wire {

inline constexpr unsigned kForeignUid = 65534;

// A process of kForeignUid that listens at `path` until the object's end. REQUIRES: this process is root's.
class ForeignCoordinator {
 public:
  explicit ForeignCoordinator(const std::string& path) {
    chmod(path.substr(0, path.rfind('/')).c_str(), 0777);
    int ends[2];
    if (pipe(ends) != 0) return;
    pid_ = fork();
    if (pid_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      const bool listens = setuid(kForeignUid) == 0 && Listen(path);
      if (write(ends[1], listens ? "y" : "n", 1) != 1) _exit(1);
      while (true) pause();
    }
    close(ends[1]);
    char said = 'n';
    listens_ = read(ends[0], &said, 1) == 1 && said == 'y';
    close(ends[0]);
  }
  ~ForeignCoordinator() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  ForeignCoordinator(const ForeignCoordinator&) = delete;
  ForeignCoordinator& operator=(const ForeignCoordinator&) = delete;

  bool listens() const { return listens_; }

 private:
  static bool Listen(const std::string& path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, path.c_str(), sizeof(address.sun_path) - 1);
    const int listener = socket(AF_UNIX, SOCK_SEQPACKET, 0);
    return bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0 &&
           listen(listener, 8) == 0;
  }

  pid_t pid_ = -1;
  bool listens_ = false;
};

}  // namespace hocket::wire

#endif  // HOCKET_TESTS_WIRE_FOREIGN_COORDINATOR_H_
