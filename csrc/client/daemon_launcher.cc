#include "csrc/client/daemon_launcher.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <features.h>
#include <poll.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "csrc/base/cannot.h"
#include "csrc/base/paths.h"
#include "csrc/base/status_macros.h"
#include "csrc/base/unique_fd.h"
#include "csrc/client/mutex.h"
#include "csrc/client/unforked_fd.h"

extern char** environ;

namespace hocket {
namespace {

constexpr auto kStartLimit = std::chrono::seconds(10);
constexpr auto kSystemPatience = std::chrono::seconds(5);
constexpr timespec kLockPause{0, 10'000'000};
// So long a connection waits to be taken; who calls us has other things to see to. A daemon that is stopped,
// and has no room for more who wait, is not to be replaced.
constexpr int kConnectMs = 100;
constexpr int kStarts = 5;  // of a daemon that is gone again before we reach it

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

// Nothing of ours that would follow the daemon: what is preloaded here is for this program. And the folder in
// which this program looks for it, wherever it is just now.
std::vector<char*> DaemonEnvironment(std::string& runtime_dir) {
  std::vector<char*> variables;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    if (absl::StartsWith(*entry, "HOCKET_RUNTIME_DIR=")) {
      variables.push_back(runtime_dir.data());
    } else if (!absl::StartsWith(*entry, "LD_PRELOAD=")) {
      variables.push_back(*entry);
    }
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

struct Program {
  const char* path;
  char* const* arguments;
  char* const* environment;
  int output;
  int null;
  long max_fd;
};

// In the forked child: only calls that are safe in the child of a program with threads.
[[noreturn]] void Execute(const Program& program) {
  dup2(program.null, STDIN_FILENO);
  dup2(program.null, STDOUT_FILENO);
  dup2(program.output, STDERR_FILENO);
  if (close_range(STDERR_FILENO + 1, ~0U, 0) != 0) {
    for (long fd = STDERR_FILENO + 1; fd < program.max_fd; ++fd) close(static_cast<int>(fd));
  }
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  for (int signal : {SIGINT, SIGTERM, SIGHUP, SIGPIPE, SIGCHLD}) ::signal(signal, SIG_DFL);
  execve(program.path, program.arguments, program.environment);
  constexpr char kText[] = "it cannot be executed";
  (void)!write(STDERR_FILENO, kText, sizeof(kText) - 1);
  _exit(127);
}

absl::StatusOr<pid_t> Spawn(const std::string& path, int output) {
  const UniqueFd null(open("/dev/null", O_RDWR | O_CLOEXEC));
  if (!null) return Cannot("open /dev/null");
  std::string name = path;
  char* const arguments[] = {name.data(), nullptr};
  std::string runtime_dir = "HOCKET_RUNTIME_DIR=" + RuntimeDir();
  std::vector<char*> environment = DaemonEnvironment(runtime_dir);
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  const Program program{path.c_str(), arguments,  environment.data(),
                        output,       null.get(), static_cast<long>(std::min<rlim_t>(limit.rlim_cur, 65536))};
  const ForksForProgram for_program;
  const pid_t child = PlainFork();
  if (child < 0) return Cannot("fork");
  if (child == 0) Execute(program);
  return child;
}

int MillisecondsUntil(Clock::time_point deadline) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
  return static_cast<int>(std::max<std::int64_t>(0, left));
}

// All that is written to the pipe until the child has ended, or its last writer is gone: whichever is first.
// A process that was forked meanwhile may have a copy of the pipe for as long as it lives; kernels before 5.3
// have no descriptor of the child, and there such a one is waited for. kDeadlineExceeded: neither.
absl::StatusOr<std::string> ReadWhileItStarts(int fd, pid_t child, Clock::time_point deadline) {
  const UniqueFd process(static_cast<int>(syscall(SYS_pidfd_open, child, 0)));
  std::string text;
  for (;;) {
    pollfd ready[] = {{fd, POLLIN, 0}, {process.get(), POLLIN, 0}};
    const int count = poll(ready, std::size(ready), MillisecondsUntil(deadline));
    if (count < 0 && errno == EINTR) continue;
    if (count == 0) return absl::DeadlineExceededError("it has not begun to listen in 10 s");
    if (ready[0].revents == 0) return text;  // it has ended, and what it wrote before is read
    char buffer[512];
    const ssize_t size = read(fd, buffer, sizeof(buffer));
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) return text;
    text.append(buffer, static_cast<size_t>(size));
  }
}

// Its exit status; 0 too where somebody else has collected the child.
int Collect(pid_t child) {
  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) return 0;
  }
  return status;
}

absl::Status StartDaemon(const std::string& daemon, Clock::time_point deadline) {
  UniqueFd read_end;
  UnforkedFd write_end;
  HOCKET_RETURN_IF_ERROR(write_end.MakePipe(read_end));
  HOCKET_ASSIGN_OR_RETURN(const pid_t child, Spawn(daemon, write_end.get()));
  write_end.Reset();
  absl::StatusOr<std::string> said = ReadWhileItStarts(read_end.get(), child, deadline);
  if (!said.ok()) {
    kill(child, SIGKILL);
    said = std::string(said.status().message());
    (void)Collect(child);
  } else if (Collect(child) == 0) {
    return absl::OkStatus();
  }
  return absl::UnavailableError(
      absl::StrCat("started ", daemon, ", but ", said->empty() ? "it ended" : *said));
}

// Whoever has it starts the daemon. A copy of the descriptor in a forked child holds the lock as well as ours
// does, and workers that load data live for long. So a child closes its copy, and the lock is given up for
// all copies: for those, too, that no handler of a fork has closed.
class StartLock {
 public:
  StartLock() = default;
  ~StartLock() {
    if (fd_) (void)flock(fd_.get(), LOCK_UN);
  }
  StartLock(const StartLock&) = delete;

  // Waits for other starters, but not for ever: one of them may be stopped.
  absl::Status Take(const std::string& path, Clock::time_point deadline) {
    UniqueFd file(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    if (!file) return Cannot("open " + path);
    fd_.Keep(std::move(file));
    while (flock(fd_.get(), LOCK_EX | LOCK_NB) != 0) {
      if (errno != EWOULDBLOCK && errno != EINTR) return Cannot("lock " + path);
      if (Clock::now() >= deadline) {
        return absl::UnavailableError(
            absl::StrCat("another process has held ", path, " for 10 s without starting one"));
      }
      nanosleep(&kLockPause, nullptr);
    }
    return absl::OkStatus();
  }

 private:
  UnforkedFd fd_;
};

// Where this process has found the daemon of all users; null: nowhere yet. Never freed: it may be asked for
// by threads that outlive everything else. A forked child has its parent's.
std::atomic<const std::string*> known_system_dir{nullptr};

bool IsKnown(const std::string& folder) {
  const std::string* const known = known_system_dir.load();
  return known != nullptr && *known == folder;
}

// Where a daemon of all users is to be had, or to be waited for; empty: this process has a private one. Its
// folder goes with it when systemd stops it, and comes back with it. A private one started meanwhile would
// give turns on the same devices as that one.
std::string SystemDirToUse() {
  std::string dir = RuntimeDir();
  if (IsSystemDir(dir) || IsKnown(dir)) return dir;
  const char* const named = std::getenv("HOCKET_RUNTIME_DIR");
  const std::string* const known = known_system_dir.load();
  const bool chosen = named != nullptr && *named != '\0';
  return known != nullptr && !chosen ? *known : "";
}

// What a program is told that waits for one in vain.
std::string HowToGoOn(bool was_there) {
  constexpr char kApart[] = "jobs of the two do not take turns with each other.";
  if (!was_there)
    return absl::StrCat("\n  Name a folder of your own in HOCKET_RUNTIME_DIR to have one of your own; ",
                        kApart);
  return absl::StrCat("\n  This program has taken turns under it and waits for it to come back. If it will ",
                      "not: end the program and start it again, for a coordinator of your own; ", kApart);
}

// Somebody listens: nobody is to be started.
bool IsThere(const absl::StatusOr<wire::Channel>& channel) {
  return channel.ok() || absl::IsDeadlineExceeded(channel.status());
}

// A daemon for all users is root's to start: it is being started anew, perhaps.
absl::StatusOr<wire::Channel> AwaitSystemDaemon(const std::string& folder) {
  const Clock::time_point deadline = Clock::now() + kSystemPatience;
  auto channel = wire::Channel::Connect(folder + "/hocketd.sock", kConnectMs);
  while (!IsThere(channel) && !absl::IsPermissionDenied(channel.status()) && Clock::now() < deadline) {
    nanosleep(&kLockPause, nullptr);
    channel = wire::Channel::Connect(folder + "/hocketd.sock", kConnectMs);
  }
  const bool was_there = IsKnown(folder);
  if (IsThere(channel)) {
    if (!was_there) known_system_dir = new std::string(folder);
    return channel;
  }
  return absl::UnavailableError(
      absl::StrCat(std::string(channel.status().message()),
                   "; that one serves all users, and only root starts it (systemctl start hocket).",
                   HowToGoOn(was_there)));
}

absl::StatusOr<wire::Channel> StartAndConnect() {
  const Clock::time_point deadline = Clock::now() + kStartLimit;
  HOCKET_ASSIGN_OR_RETURN(const std::string folder, EnsureRuntimeDir());
  StartLock lock;
  HOCKET_RETURN_IF_ERROR(lock.Take(folder + "/start.lock", deadline));
  auto channel = wire::Channel::Connect(SocketPath(), kConnectMs);
  if (IsThere(channel)) return channel;
  HOCKET_ASSIGN_OR_RETURN(const std::string daemon, FindDaemon());
  for (int i = 0; i < kStarts; ++i) {
    HOCKET_RETURN_IF_ERROR(StartDaemon(daemon, deadline));
    channel = wire::Channel::Connect(SocketPath(), kConnectMs);
    if (IsThere(channel)) return channel;
  }
  return absl::UnavailableError(absl::StrCat(
      "started ", daemon, " ", kStarts, " times, and it was gone each time before it could be reached (",
      std::string(channel.status().message()), ").\n  See ", folder, "/hocketd.log."));
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
  if (const std::string dir = SystemDirToUse(); !dir.empty()) return AwaitSystemDaemon(dir);
  auto channel = wire::Channel::Connect(SocketPath(), kConnectMs);
  if (IsThere(channel)) return channel;
  if (absl::IsPermissionDenied(channel.status())) return absl::UnavailableError(channel.status().message());
  auto started = StartAndConnect();
  if (IsThere(started)) return started;
  return absl::UnavailableError(
      absl::StrCat(std::string(channel.status().message()),
                   "; tried to start one: ", std::string(started.status().message())));
}

}  // namespace hocket
