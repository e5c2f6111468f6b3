#include "csrc/client/daemon_launcher.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <features.h>
#include <poll.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "csrc/base/paths.h"
#include "csrc/base/status_macros.h"
#include "csrc/base/unique_fd.h"
#include "csrc/client/mutex.h"

extern char** environ;

namespace hocket {
namespace {

constexpr auto kStartLimit = std::chrono::seconds(10);
constexpr timespec kLockPause{0, 10'000'000};
constexpr int kNotifyFd = 3;  // in the daemon

// Of the library, or program, that this code was linked into.
std::string OwnFolder() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<void*>(&FindDaemon), &info) == 0 || info.dli_fname == nullptr) return ".";
  char resolved[4096];
  const char* const path = realpath(info.dli_fname, resolved);
  // A program may have been started by a name that is not a path.
  const std::string file = path != nullptr ? path : "/proc/self/exe";
  return file.substr(0, file.rfind('/'));
}

std::vector<std::string> Places() {
  const std::string own = OwnFolder();
  std::vector<std::string> places = {own + "/../bin/hocketd", own + "/bin/hocketd", own + "/hocketd"};
  const char* path = std::getenv("PATH");
  for (const auto folder : absl::StrSplit(path != nullptr ? path : "", ':', absl::SkipEmpty())) {
    places.push_back(absl::StrCat(folder, "/hocketd"));
  }
  return places;
}

// Nothing of ours that would follow the daemon: what is preloaded here is for this program.
std::vector<char*> DaemonEnvironment() {
  std::vector<char*> variables;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    if (!absl::StartsWith(*entry, "LD_PRELOAD=")) variables.push_back(*entry);
  }
  variables.push_back(nullptr);
  return variables;
}

// glibc 2.34 has a fork without the handlers that libraries have registered, which the child does not need.
pid_t PlainFork() {
#if __GLIBC_PREREQ(2, 34)
  return _Fork();
#else
  return fork();
#endif
}

struct Start {
  const char* program;
  char* const* arguments;
  char* const* environment;
  int notify;
  int null;
  long max_fd;
};

void SayAndExit(int fd, const char* what, int error) {
  char text[256];
  // strerror() is no call for a forked child of a program with threads.
  const int length = snprintf(text, sizeof(text), "%s (error %d)\n", what, error);
  (void)!write(fd, text, static_cast<size_t>(length));
  _exit(127);
}

// In the second child: only calls that are safe there.
[[noreturn]] void BecomeDaemon(const Start& start) {
  setsid();
  dup2(start.null, STDIN_FILENO);
  dup2(start.null, STDOUT_FILENO);
  dup2(start.null, STDERR_FILENO);
  if (start.notify == kNotifyFd) {
    fcntl(kNotifyFd, F_SETFD, 0);
  } else {
    dup2(start.notify, kNotifyFd);
  }
  if (close_range(kNotifyFd + 1, ~0U, 0) != 0) {
    for (long fd = kNotifyFd + 1; fd < start.max_fd; ++fd) close(static_cast<int>(fd));
  }
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  for (int signal : {SIGINT, SIGTERM, SIGHUP, SIGPIPE, SIGCHLD}) ::signal(signal, SIG_DFL);
  if (chdir("/") != 0) SayAndExit(kNotifyFd, "it cannot change to the folder /", errno);
  execve(start.program, start.arguments, start.environment);
  SayAndExit(kNotifyFd, "it cannot be executed", errno);
  __builtin_unreachable();
}

absl::Status Spawn(const std::string& daemon, int notify) {
  const UniqueFd null(open("/dev/null", O_RDWR | O_CLOEXEC));
  if (!null) return absl::UnavailableError(absl::StrCat("cannot open /dev/null: ", std::strerror(errno)));
  std::string name = daemon, option = "--notify-fd", number = absl::StrCat(kNotifyFd);
  std::vector<char*> arguments = {name.data(), option.data(), number.data(), nullptr};
  std::vector<char*> environment = DaemonEnvironment();
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  const Start start{daemon.c_str(),     arguments.data(),
                    environment.data(), notify,
                    null.get(),         static_cast<long>(std::min<rlim_t>(limit.rlim_cur, 65536))};
  const pid_t child = PlainFork();
  if (child < 0) return absl::UnavailableError(absl::StrCat("cannot fork: ", std::strerror(errno)));
  if (child == 0) {
    if (const pid_t second = PlainFork(); second != 0) _exit(second < 0 ? 1 : 0);
    BecomeDaemon(start);
  }
  while (waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
  }
  return absl::OkStatus();
}

int MillisecondsUntil(Clock::time_point deadline) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
  return static_cast<int>(std::max<std::int64_t>(0, left));
}

// The first line from the pipe; empty: it closed without one, or the deadline passed.
std::string FirstLine(int fd, Clock::time_point deadline) {
  std::string line;
  for (;;) {
    pollfd ready{fd, POLLIN, 0};
    const int count = poll(&ready, 1, MillisecondsUntil(deadline));
    if (count < 0 && errno == EINTR) continue;
    char byte;
    if (count <= 0 || read(fd, &byte, 1) != 1 || byte == '\n') return line;
    line.push_back(byte);
  }
}

absl::Status StartDaemon(const std::string& daemon, Clock::time_point deadline) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    return absl::UnavailableError(absl::StrCat("cannot make a pipe: ", std::strerror(errno)));
  }
  const UniqueFd read_end(ends[0]);
  UniqueFd write_end(ends[1]);
  HOCKET_RETURN_IF_ERROR(Spawn(daemon, write_end.get()));
  write_end.Reset();
  const std::string line = FirstLine(read_end.get(), deadline);
  if (line == "ready") return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat("started ", daemon, ", but ",
                   line.empty() ? "it ended, or was silent for 10 s, without listening" : line));
}

// Waits for other starters, but not for ever: one of them may be stopped.
absl::StatusOr<UniqueFd> TakeStartLock(const std::string& path, Clock::time_point deadline) {
  UniqueFd lock(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!lock) {
    return absl::UnavailableError(absl::StrCat("cannot open ", path, ": ", std::strerror(errno)));
  }
  while (flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) {
      return absl::UnavailableError(absl::StrCat("cannot lock ", path, ": ", std::strerror(errno)));
    }
    if (Clock::now() >= deadline) {
      return absl::UnavailableError(
          absl::StrCat("another process has held ", path, " for 10 s without starting one"));
    }
    nanosleep(&kLockPause, nullptr);
  }
  return lock;
}

absl::StatusOr<wire::Channel> StartAndConnect() {
  const Clock::time_point deadline = Clock::now() + kStartLimit;
  HOCKET_ASSIGN_OR_RETURN(const std::string folder, EnsureRuntimeDir());
  HOCKET_ASSIGN_OR_RETURN(const UniqueFd lock, TakeStartLock(folder + "/start.lock", deadline));
  auto channel = wire::Channel::Connect(SocketPath());
  if (channel.ok()) return channel;
  HOCKET_ASSIGN_OR_RETURN(const std::string daemon, FindDaemon());
  HOCKET_RETURN_IF_ERROR(StartDaemon(daemon, deadline));
  return wire::Channel::Connect(SocketPath());
}

}  // namespace

absl::StatusOr<std::string> FindDaemon() {
  if (const char* named = std::getenv("HOCKET_DAEMON"); named != nullptr && *named != '\0') {
    if (access(named, X_OK) == 0) return std::string(named);
    return absl::UnavailableError(absl::StrCat("HOCKET_DAEMON names ", named, ", which cannot be executed: ",
                                               std::strerror(errno), ".\n  Correct it or unset it."));
  }
  const std::vector<std::string> places = Places();
  for (const std::string& place : places) {
    if (access(place.c_str(), X_OK) == 0) return place;
  }
  return absl::UnavailableError(absl::StrCat("found no hocketd; looked for ", absl::StrJoin(places, ", "),
                                             ".\n  Name it in HOCKET_DAEMON."));
}

absl::StatusOr<wire::Channel> ConnectOrStart() {
  auto channel = wire::Channel::Connect(SocketPath());
  if (channel.ok()) return channel;
  auto started = StartAndConnect();
  if (started.ok()) return started;
  return absl::UnavailableError(
      absl::StrCat(std::string(channel.status().message()),
                   "; tried to start one: ", std::string(started.status().message())));
}

}  // namespace hocket
