// hocketd: gives turns on this machine's GPUs. Flags, objects, run.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "coordinator/policies/registry.h"
#include "coordinator/recording/recording.h"
#include "coordinator/server/admission.h"
#include "coordinator/server/log.h"
#include "coordinator/server/server.h"
#include "coordinator/simulator/report.h"
#include "csrc/base/paths.h"
#include "csrc/base/status_macros.h"

namespace hocket::coordinator {
namespace {

constexpr char kHelp[] =
    R"(hocketd: gives turns on this machine's GPUs to the training jobs that ask for them.
Jobs start it themselves; there is no need to do so by hand.

  --system                serve all users of this machine, each with rights over his own jobs, in /run/hocket
                          (as root; never ends by itself)
  --foreground            stay in the foreground, log to stderr too, serve until stopped
  --grace-seconds=N       end after N seconds without a job (default 30; with --foreground: never)
  --policy=NAME           who is next: fair, fifo, pack, priority, round-robin, srtf (default: what `hocket policy`
                          has set last, or fair)
  --switch-share=X        at most this share of the time goes into hand-overs that move bytes (default: what
                          people have set last, or 0.02)
  (before anybody has set one, $HOCKET_POLICY, $HOCKET_SWITCH_SHARE, $HOCKET_LINK_BOUND and $HOCKET_OVERDUE;
  $HOCKET_GRACE_SECONDS, $HOCKET_HISTORY_SIZE, $HOCKET_HISTORY_DAYS and $HOCKET_LOG_LEVEL stand for those flags:
  Hocket sets them from its config file, see `hocket config`)
  --mute-seconds=N        close connections that have said nothing for N seconds (default 10)
  --history-size=SIZE     turns are kept in the folder history beside the log, in so many bytes at most (default
                          256MiB); 0: only the last 100,000, in memory
  --history-days=N        and for so many days at most (default 7)
  --runtime-dir=DIR       where socket, locks and log lie (default: $HOCKET_RUNTIME_DIR, or /tmp/hocket-<uid>)
  --log-level=LEVEL       debug, info (default), warning, error
  --version, --help

hocketd history FOLDER --help: what has been recorded, as data
hocketd simulate FILE --help: plays recorded or invented jobs through the same core and policies
)";

struct Flags {
  bool foreground = false;
  std::string log_level = "info";
  ServerOptions server;
};

absl::StatusOr<double> ToNumber(const std::string& flag, const std::string& value) {
  double number = 0;
  if (absl::SimpleAtod(value, &number)) return number;
  return absl::InvalidArgumentError(absl::StrCat("--", flag, "=", value, ": '", value, "' is no number."));
}

absl::Status SetGrace(const std::string& value, Flags& flags) {
  HOCKET_ASSIGN_OR_RETURN(const double seconds, ToNumber("grace-seconds", value));
  if (!(seconds >= 0)) return absl::InvalidArgumentError("--grace-seconds is 0 or more.");
  flags.server.grace = absl::Seconds(seconds);
  return absl::OkStatus();
}

absl::Status SetMute(const std::string& value, Flags& flags) {
  HOCKET_ASSIGN_OR_RETURN(const double seconds, ToNumber("mute-seconds", value));
  if (!(seconds > 0)) return absl::InvalidArgumentError("--mute-seconds is more than 0.");
  flags.server.mute = absl::Seconds(seconds);
  return absl::OkStatus();
}

absl::Status SetHistorySize(const std::string& value, Flags& flags) {
  HOCKET_ASSIGN_OR_RETURN(flags.server.history_size, ParseBytes(value));
  if (flags.server.history_size == 0 || flags.server.history_size >= Recorder::kLeast)
    return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("--history-size is ", FormatBytes(Recorder::kLeast), " or more, or 0 for none."));
}

absl::Status SetHistoryDays(const std::string& value, Flags& flags) {
  HOCKET_ASSIGN_OR_RETURN(const double days, ToNumber("history-days", value));
  if (!(days > 0 && days <= 10'000)) return absl::InvalidArgumentError("--history-days is more than 0.");
  flags.server.history_keep = absl::Hours(24 * days);
  return absl::OkStatus();
}

absl::Status SetSwitchShareFlag(const std::string& value, Flags& flags) {
  HOCKET_ASSIGN_OR_RETURN(flags.server.switch_share, ToNumber("switch-share", value));
  return CheckSwitchShare(flags.server.switch_share);
}

absl::Status SetPolicyFlag(const std::string& value, Flags& flags) {
  flags.server.policy = value;
  return MakePolicy(value).status();
}

absl::Status SetRuntimeDir(const std::string& value, Flags&) {
  setenv("HOCKET_RUNTIME_DIR", value.c_str(), 1);
  return absl::OkStatus();
}

absl::Status SetLogLevel(const std::string& value, Flags& flags) {
  flags.log_level = value;
  return absl::OkStatus();
}

absl::Status SetFirstPolicy(const std::string& value, Flags& flags) {
  flags.server.first_policy = value;
  return MakePolicy(value).status();
}

absl::Status SetFirstSwitchShare(const std::string& value, Flags& flags) {
  HOCKET_ASSIGN_OR_RETURN(flags.server.first_switch_share, ToNumber("switch-share", value));
  return CheckSwitchShare(flags.server.first_switch_share);
}

absl::Status SetFirstLinkBound(const std::string& value, Flags& flags) {
  HOCKET_ASSIGN_OR_RETURN(flags.server.first_link_bound, ToNumber("link-bound", value));
  return CheckLinkBound(flags.server.first_link_bound);
}

absl::Status SetFirstOverdue(const std::string& value, Flags& flags) {
  flags.server.first_overdue = value;
  return CheckOverdue(value);
}

// What the config file says comes as variables: whoever starts a daemon reads it. Flags win over them.
absl::Status ReadEnvironment(Flags& flags) {
  static const std::map<std::string, absl::Status (*)(const std::string&, Flags&)> kVariables = {
      {"HOCKET_POLICY", SetFirstPolicy},       {"HOCKET_SWITCH_SHARE", SetFirstSwitchShare},
      {"HOCKET_OVERDUE", SetFirstOverdue},     {"HOCKET_GRACE_SECONDS", SetGrace},
      {"HOCKET_LOG_LEVEL", SetLogLevel},       {"HOCKET_HISTORY_SIZE", SetHistorySize},
      {"HOCKET_HISTORY_DAYS", SetHistoryDays}, {"HOCKET_LINK_BOUND", SetFirstLinkBound},
  };
  for (const auto& [name, set] : kVariables) {
    const char* const value = std::getenv(name.c_str());
    if (value == nullptr || *value == '\0') continue;
    const absl::Status status = set(value, flags);
    if (!status.ok())
      return absl::InvalidArgumentError(absl::StrCat(name, "=", value, ": ", std::string(status.message())));
  }
  return absl::OkStatus();
}

// "--name=value" and "--name value".
absl::StatusOr<Flags> ParseFlags(int argc, char** argv) {
  static const std::map<std::string, absl::Status (*)(const std::string&, Flags&)> kFlags = {
      {"grace-seconds", SetGrace},          {"policy", SetPolicyFlag},
      {"switch-share", SetSwitchShareFlag}, {"runtime-dir", SetRuntimeDir},
      {"log-level", SetLogLevel},           {"mute-seconds", SetMute},
      {"history-size", SetHistorySize},     {"history-days", SetHistoryDays},
  };
  Flags flags;
  HOCKET_RETURN_IF_ERROR(ReadEnvironment(flags));
  bool grace_given = false;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--foreground" || argument == "--system") {
      (argument == "--system" ? flags.server.system : flags.foreground) = true;
      continue;
    }
    const size_t equals = argument.find('=');
    const std::string name = argument.rfind("--", 0) == 0
                                 ? argument.substr(2, equals == std::string::npos ? equals : equals - 2)
                                 : "";
    auto flag = kFlags.find(name);
    if (flag == kFlags.end() || (equals == std::string::npos && i + 1 == argc))
      return absl::InvalidArgumentError(
          absl::StrCat("'", argument, "' is not a flag of hocketd, or lacks its value. Try: hocketd --help"));
    HOCKET_RETURN_IF_ERROR(
        flag->second(equals == std::string::npos ? argv[++i] : argument.substr(equals + 1), flags));
    grace_given |= name == "grace-seconds";
  }
  if ((flags.foreground || flags.server.system) && !grace_given)
    flags.server.grace = absl::InfiniteDuration();
  return flags;
}

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
