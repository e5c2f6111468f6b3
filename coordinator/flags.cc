#include "coordinator/flags.h"

#include <cstdlib>
#include <map>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "coordinator/policies/registry.h"
#include "coordinator/recording/recorder.h"
#include "coordinator/server/admission.h"
#include "csrc/base/bytes.h"
#include "csrc/base/status_macros.h"

namespace hocket::coordinator {

const char kHelp[] =
    R"(hocketd: gives turns on this machine's GPUs to the training jobs that ask for them.
Jobs start it themselves; there is no need to do so by hand.

  --system                serve all users of this machine, each with rights over his own jobs, in /run/hocket
                          (as root; never ends by itself)
  --foreground            stay in the foreground, log to stderr too, serve until stopped
  --grace-seconds=N       end after N seconds without a job (default 30; with --foreground: never), more than ten
                          years: never
  --policy=NAME           who is next: fair, fifo, pack, priority, round-robin, srtf (default: what `hocket policy`
                          has set last, or fair)
  --policy-patience-seconds=X
                          how long an answer of a policy of your own may take, during which no turn is given (default
                          1); then fair decides, until it is tried again
  --switch-share=X        at most this share of the time goes into hand-overs that move bytes (default: what
                          people have set last, or 0.02)
  (before anybody has set one, $HOCKET_POLICY, $HOCKET_SWITCH_SHARE, $HOCKET_LINK_BOUND and $HOCKET_OVERDUE;
  $HOCKET_POLICY_PATIENCE_SECONDS, $HOCKET_GRACE_SECONDS, $HOCKET_HISTORY_SIZE, $HOCKET_HISTORY_DAYS and
  $HOCKET_LOG_LEVEL stand for those flags: Hocket sets them from its config file, see `hocket config`)
  --mute-seconds=N        close connections that have said nothing for N seconds (default 10)
  --history-size=SIZE     turns are kept in the folder history beside the log, in so many bytes at most (default
                          256MiB); 0: only the last 100,000, in memory
  --history-days=N        and for so many days at most (default 7)
  --runtime-dir=DIR       where socket, locks and log lie (default: /run/hocket with --system; else
                          $HOCKET_RUNTIME_DIR, or /tmp/hocket-<uid>)
  --log-level=LEVEL       debug, info (default), warning, error
  --version, --help

hocketd history FOLDER --help: what has been recorded, as data
hocketd simulate FILE --help: plays recorded or invented jobs through the same core and policies
)";

namespace {

// In seconds: ten years. No daemon lives so long.
constexpr double kForEver = 10 * 366 * 86'400.0;

absl::StatusOr<double> ToNumber(const std::string& flag, const std::string& value) {
  double number = 0;
  if (absl::SimpleAtod(value, &number)) return number;
  return absl::InvalidArgumentError(absl::StrCat("--", flag, "=", value, ": '", value, "' is no number."));
}

absl::Status SetGrace(const std::string& value, Flags& flags) {
  HOCKET_ASSIGN_OR_RETURN(const double seconds, ToNumber("grace-seconds", value));
  if (!(seconds >= 0)) return absl::InvalidArgumentError("--grace-seconds is 0 or more.");
  flags.server.grace = seconds > kForEver ? absl::InfiniteDuration() : absl::Seconds(seconds);
  return absl::OkStatus();
}

absl::Status SetMute(const std::string& value, Flags& flags) {
  HOCKET_ASSIGN_OR_RETURN(const double seconds, ToNumber("mute-seconds", value));
  if (!(seconds > 0)) return absl::InvalidArgumentError("--mute-seconds is more than 0.");
  flags.server.mute = absl::Seconds(seconds);
  return absl::OkStatus();
}

absl::Status SetPolicyPatience(const std::string& value, Flags& flags) {
  HOCKET_ASSIGN_OR_RETURN(const double seconds, ToNumber("policy-patience-seconds", value));
  if (!(seconds >= 0.001 && seconds <= 3600))
    return absl::InvalidArgumentError("--policy-patience-seconds is 0.001 to 3600.");
  flags.server.policy_patience = absl::Seconds(seconds);
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
  if (!(days > 0 && days <= 10'000))
    return absl::InvalidArgumentError("--history-days is more than 0, and 10,000 at most.");
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
      {"HOCKET_POLICY", SetFirstPolicy},
      {"HOCKET_SWITCH_SHARE", SetFirstSwitchShare},
      {"HOCKET_OVERDUE", SetFirstOverdue},
      {"HOCKET_GRACE_SECONDS", SetGrace},
      {"HOCKET_LOG_LEVEL", SetLogLevel},
      {"HOCKET_HISTORY_SIZE", SetHistorySize},
      {"HOCKET_HISTORY_DAYS", SetHistoryDays},
      {"HOCKET_LINK_BOUND", SetFirstLinkBound},
      {"HOCKET_POLICY_PATIENCE_SECONDS", SetPolicyPatience},
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

}  // namespace

absl::StatusOr<Flags> ParseFlags(int argc, char** argv) {
  static const std::map<std::string, absl::Status (*)(const std::string&, Flags&)> kFlags = {
      {"grace-seconds", SetGrace},
      {"policy", SetPolicyFlag},
      {"switch-share", SetSwitchShareFlag},
      {"runtime-dir", SetRuntimeDir},
      {"log-level", SetLogLevel},
      {"mute-seconds", SetMute},
      {"history-size", SetHistorySize},
      {"history-days", SetHistoryDays},
      {"policy-patience-seconds", SetPolicyPatience},
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

}  // namespace hocket::coordinator
