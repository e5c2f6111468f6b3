// hocketd: gives turns on this machine's GPUs. Objects, run.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "coordinator/flags.h"
#include "coordinator/recording/recording.h"
#include "coordinator/server/log.h"
#include "coordinator/server/server.h"
#include "coordinator/simulator/report.h"
#include "csrc/base/paths.h"
#include "csrc/base/status_macros.h"

namespace hocket::coordinator {
namespace {

Server* running = nullptr;

void OnSignal(int) {
  if (running != nullptr) running->Stop();
}

void HandleSignals(Server* server) {
  running = server;
  struct sigaction action {};
  action.sa_handler = OnSignal;
  sigaction(SIGTERM, &action, nullptr);
  sigaction(SIGINT, &action, nullptr);
  signal(SIGPIPE, SIG_IGN);
  signal(SIGXFSZ, SIG_IGN);  // a log that may not grow further does not end the daemon
  signal(SIGHUP, SIG_IGN);
}

// Tells whoever started us how it went, through a pipe: nothing is good, a text is the error.
class Parent {
 public:
  // In the parent: waits for the word and exits with it. In the child: returns.
  static Parent ForkAway() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return Parent(-1);
    const pid_t child = fork();
    if (child < 0) return Parent(-1);
    if (child > 0) {
      close(ends[1]);
      std::string text;
      char buffer[1024];
      for (ssize_t n; (n = read(ends[0], buffer, sizeof(buffer))) > 0;)
        text.append(buffer, static_cast<size_t>(n));
      std::fputs(text.c_str(), stderr);
      std::_Exit(text.empty() ? 0 : 1);
    }
    close(ends[0]);
    setsid();
    return Parent(ends[1]);
  }

  void Fail(const std::string& sentence) {
    const std::string line = "hocketd: " + sentence + "\n";
    if (write(pipe_ < 0 ? STDERR_FILENO : pipe_, line.data(), line.size()) < 0) return;
  }

  // Serving begins: let go of the parent, the terminal and the working directory.
  void Succeed() {
    if (pipe_ < 0) return;
    const int null = open("/dev/null", O_RDWR);
    for (int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) dup2(null, fd);
    if (null > STDERR_FILENO) close(null);
    if (chdir("/") != 0) return;
    close(pipe_);
  }

  explicit Parent(int pipe) : pipe_(pipe) {}

 private:
  int pipe_;  // -1: in the foreground
};

absl::Status Serve(Flags flags, Parent& parent) {
  if (flags.server.system)
    umask(0077);  // the folder is everybody's to read; the log and the settings are not
  HOCKET_ASSIGN_OR_RETURN(flags.server.runtime_dir,
                          flags.server.system ? EnsureSystemDir() : EnsureRuntimeDir());
  HOCKET_ASSIGN_OR_RETURN(
      Logger log, Logger::Open(flags.server.runtime_dir + "/hocketd.log", flags.log_level, flags.foreground));
  const absl::StatusOr<std::string> state_dir = EnsureStateDir(flags.server.system);
  flags.server.state_dir = state_dir.value_or(flags.server.runtime_dir);
  if (!state_dir.ok()) {
    // Not one that others may write to: a policy is a program.
    if (absl::IsUnavailable(state_dir.status()))
      flags.server.read_only_state_dir = StateDir(flags.server.system);
    log.Warning(absl::StrCat(std::string(state_dir.status().message()), " What people set is kept in ",
                             flags.server.runtime_dir,
                             ", perhaps not beyond a reboot; what they had set before holds where it can be "
                             "read (hocket policy, hocket quota)."),
                {.event = "state"});
  }
  HOCKET_ASSIGN_OR_RETURN(const std::unique_ptr<Server> server, Server::Create(flags.server, log));
  HandleSignals(server.get());
  parent.Succeed();
  log.Info(absl::StrCat("hocketd ", flags.server.version, " (pid ", getpid(), ") serves ",
                        flags.server.runtime_dir, "/hocketd.sock",
                        flags.server.system ? " for all users" : "", ", policy ",
                        server->core().state().policy));
  const absl::Status served = server->Run();
  if (!served.ok()) log.Error(std::string(served.message()));
  log.Info("hocketd ends");
  running = nullptr;
  return served;
}

int Main(int argc, char** argv) {
  if (argc > 1 && std::string(argv[1]) == "history") return RecordingMain(argc - 1, argv + 1);
  if (argc > 1 && std::string(argv[1]) == "simulate") return SimulateMain(argc - 1, argv + 1);
  for (int i = 1; i < argc; ++i) {
    if (std::string(argv[i]) == "--help") return std::fputs(kHelp, stdout) < 0;
    if (std::string(argv[i]) == "--version") return std::printf("hocketd %s\n", HOCKET_VERSION_STRING) < 0;
  }
  auto flags = ParseFlags(argc, argv);
  if (!flags.ok()) {
    std::fprintf(stderr, "hocketd: %s\n", std::string(flags.status().message()).c_str());
    return 2;
  }
  flags->server.version = HOCKET_VERSION_STRING;
  // What we start has it, too, and starts elsewhere.
  if (std::getenv("HOCKET_RUNTIME_DIR") != nullptr) setenv("HOCKET_RUNTIME_DIR", RuntimeDir().c_str(), 1);
  Parent parent = flags->foreground ? Parent(-1) : Parent::ForkAway();
  const absl::Status served = Serve(*flags, parent);
  // Another one serves already: what a starter wanted is there.
  if (served.ok() || (absl::IsAlreadyExists(served) && !flags->foreground)) return 0;
  parent.Fail(std::string(served.message()));
  return 1;
}

}  // namespace
}  // namespace hocket::coordinator

int main(int argc, char** argv) { return hocket::coordinator::Main(argc, argv); }
