#include "coordinator/own/line_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "absl/strings/str_cat.h"
#include "csrc/base/steady.h"

namespace hocket::coordinator {
namespace {

constexpr absl::Duration kSlice = absl::Milliseconds(50);

// The daemon blocks or ignores some signals; the child gets a fresh set.
class FreshAttributes {
 public:
  FreshAttributes() {
    posix_spawnattr_init(&attributes_);
    posix_spawn_file_actions_init(&actions_);
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_setsigmask(&attributes_, &none);
    posix_spawnattr_setsigdefault(&attributes_, &all);
    posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  }
  ~FreshAttributes() {
    posix_spawn_file_actions_destroy(&actions_);
    posix_spawnattr_destroy(&attributes_);
  }
  FreshAttributes(const FreshAttributes&) = delete;

  const posix_spawnattr_t* attributes() const { return &attributes_; }
  posix_spawn_file_actions_t* actions() { return &actions_; }

 private:
  posix_spawnattr_t attributes_;
  posix_spawn_file_actions_t actions_;
};

// Those that were killed and had not ended yet: one that hangs in the kernel ends when it will.
std::vector<pid_t>& Ending() {
  static auto* const ending = new std::vector<pid_t>;
  return *ending;
}

void Reap() {
  std::erase_if(Ending(), [](pid_t pid) { return waitpid(pid, nullptr, WNOHANG) != 0; });
}

}  // namespace

absl::StatusOr<std::unique_ptr<LineProcess>> LineProcess::Start(const std::vector<std::string>& command) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    return absl::UnavailableError(absl::StrCat("cannot make a socket: ", std::strerror(errno)));
  Reap();
  UniqueFd ours(ends[0]);
  const UniqueFd theirs(ends[1]);
  FreshAttributes fresh;
  posix_spawn_file_actions_adddup2(fresh.actions(), theirs.get(), STDIN_FILENO);
  posix_spawn_file_actions_adddup2(fresh.actions(), theirs.get(), STDOUT_FILENO);
  std::vector<char*> arguments;
  for (const std::string& argument : command) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  pid_t pid = 0;
  const int error =
      posix_spawn(&pid, arguments[0], fresh.actions(), fresh.attributes(), arguments.data(), environ);
  if (error != 0)
    return absl::UnavailableError(absl::StrCat("cannot start ", command[0], ": ", std::strerror(error)));
  return std::unique_ptr<LineProcess>(new LineProcess(std::move(ours), pid));
}

LineProcess::~LineProcess() {
  kill(pid_, SIGKILL);
  Ending().push_back(pid_);
  Reap();
}

// A slice that lasts longer counts as one: the whole machine may have stood still, and the child with it.
bool LineProcess::Await(short events, absl::Duration& patience) const {
  for (;;) {
    const absl::Duration slice = std::min(patience, kSlice);
    const absl::Time begin = SteadyNow();
    pollfd poller{socket_.get(), events, 0};
    const int whole = static_cast<int>(absl::ToInt64Milliseconds(absl::Ceil(slice, absl::Milliseconds(1))));
    const int ready = poll(&poller, 1, whole);
    const bool over = patience <= absl::ZeroDuration();
    patience -= std::min(slice, SteadyNow() - begin);
    if (ready > 0) return true;
    if (ready < 0 ? errno != EINTR : over) return false;
  }
}

absl::Status LineProcess::Send(const std::string& line, absl::Duration patience) {
  const std::string text = line + "\n";
  for (std::size_t sent = 0; sent < text.size();) {
    const ssize_t now =
        send(socket_.get(), text.data() + sent, text.size() - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (now >= 0) {
      sent += static_cast<std::size_t>(now);
    } else if (errno == EAGAIN) {
      if (!Await(POLLOUT, patience)) return absl::UnavailableError("it does not read what it is told");
    } else if (errno != EINTR) {
      return absl::UnavailableError("it has ended");
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> LineProcess::Receive(absl::Duration patience) {
  absl::Duration left = patience;
  std::size_t looked_at = 0;
  for (;;) {
    const std::size_t end = received_.find('\n', looked_at);
    if (end != std::string::npos) {
      std::string line = received_.substr(0, end);
      received_.erase(0, end + 1);
      return line;
    }
    looked_at = received_.size();
    if (looked_at > kLongestLine)
      return absl::ResourceExhaustedError(absl::StrCat("it says more than ", kLongestLine, " bytes at once"));
    if (!Await(POLLIN, left))
      return absl::DeadlineExceededError(
          absl::StrCat("it has not answered within ", absl::FormatDuration(patience)));
    char piece[4096];
    const ssize_t got = recv(socket_.get(), piece, sizeof(piece), MSG_DONTWAIT);
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (got <= 0) return absl::UnavailableError("it has ended");
    received_.append(piece, static_cast<std::size_t>(got));
  }
}

}  // namespace hocket::coordinator
