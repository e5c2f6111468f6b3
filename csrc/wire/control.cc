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

}  // namespace

absl::StatusOr<std::string> Control(const std::string& socket_path, const std::string& command,
                                    const std::string& arguments_json, int timeout_ms) {
  const absl::Time deadline = SteadyNow() + absl::Milliseconds(timeout_ms);
  HOCKET_ASSIGN_OR_RETURN(Channel channel, Channel::Connect(socket_path));
  HOCKET_RETURN_IF_ERROR(channel.Send(Command{.command = command, .arguments = arguments_json}));
  std::string answer;
  while (true) {
    auto part = NextPart(channel, deadline);
    if (absl::IsDeadlineExceeded(part.status())) {
      return absl::DeadlineExceededError(absl::StrCat("the coordinator at ", socket_path, " did not answer '",
                                                      command, "' within ", timeout_ms, " ms"));
    }
    HOCKET_RETURN_IF_ERROR(part.status());
    if (!part->ok) return absl::FailedPreconditionError(part->error);
    answer += part->result;
    if (part->last) return answer;
  }
}

}  // namespace hocket::wire
