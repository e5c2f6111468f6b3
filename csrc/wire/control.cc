#include "csrc/wire/control.h"

#include <poll.h>

#include <algorithm>
#include <cerrno>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "csrc/base/status_macros.h"
#include "csrc/base/steady.h"
#include "csrc/wire/channel.h"

namespace hocket::wire {
namespace {

// Waits until something is there to read. kDeadlineExceeded at `deadline`.
absl::Status AwaitReadable(int fd, absl::Time deadline) {
  while (true) {
    const int64_t left = std::max<int64_t>(0, absl::ToInt64Milliseconds(deadline - SteadyNow()));
    pollfd poller{fd, POLLIN, 0};
    const int ready = poll(&poller, 1, static_cast<int>(left));
    if (ready > 0) return absl::OkStatus();
    if (ready == 0) return absl::DeadlineExceededError("time is over");
    if (errno != EINTR) return absl::UnavailableError("cannot wait for the coordinator's answer");
  }
}

absl::StatusOr<CommandResult> NextPart(Channel& channel, absl::Time deadline) {
  while (true) {
    HOCKET_RETURN_IF_ERROR(AwaitReadable(channel.fd(), deadline));
    HOCKET_ASSIGN_OR_RETURN(auto received, channel.TryReceive());
    if (!received) continue;
    if (auto* refused = std::get_if<Refused>(&received->message)) {
      return absl::FailedPreconditionError(refused->reason);
    }
    if (auto* result = std::get_if<CommandResult>(&received->message)) return *std::move(result);
  }
}

// With what was asked, and what may be the matter.
absl::Status Unanswered(const absl::Status& why, const std::string& socket_path, const std::string& command,
                        int timeout_ms) {
  if (absl::IsDeadlineExceeded(why))
    return absl::DeadlineExceededError(
        absl::StrCat("the coordinator at ", socket_path, " did not answer '", command, "' within ",
                     timeout_ms, " ms. It may be stopped: then kill -CONT lets it go on."));
  if (absl::IsUnavailable(why))
    return absl::UnavailableError(absl::StrCat(
        "the coordinator at ", socket_path, " hung up before it had answered '", command, "' (",
        why.message(), "). It may just have ended: ask again; its log says more (`hocket logs`)."));
  return why;
}

absl::StatusOr<std::string> Ask(Channel channel, const Command& command, absl::Time deadline) {
  const absl::Status sent = channel.Send(command);
  if (!sent.ok() && !absl::IsUnavailable(sent)) return sent;  // who has hung up has said why, perhaps
  std::string answer;
  while (true) {
    HOCKET_ASSIGN_OR_RETURN(const CommandResult part, NextPart(channel, deadline));
    if (!part.ok) return absl::FailedPreconditionError(part.error);
    answer += part.result;
    if (part.last) return answer;
  }
}

}  // namespace

absl::StatusOr<std::string> Control(const std::string& socket_path, const std::string& command,
                                    const std::string& arguments_json, int timeout_ms) {
  const absl::Time deadline = SteadyNow() + absl::Milliseconds(timeout_ms);
  absl::StatusOr<Channel> channel = Channel::Connect(socket_path, timeout_ms);
  if (absl::IsDeadlineExceeded(channel.status()))
    return Unanswered(channel.status(), socket_path, command, timeout_ms);
  HOCKET_RETURN_IF_ERROR(channel.status());
  auto answer = Ask(*std::move(channel), {.command = command, .arguments = arguments_json}, deadline);
  if (!answer.ok()) return Unanswered(answer.status(), socket_path, command, timeout_ms);
  return answer;
}

}  // namespace hocket::wire
