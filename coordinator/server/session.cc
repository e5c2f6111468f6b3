#include "coordinator/server/session.h"

#include "absl/strings/str_cat.h"

namespace hocket::coordinator {

absl::Status Session::Send(const wire::Message& message, const UniqueFd& descriptor) {
  if (queue_.empty()) {
    absl::Status sent = channel_.Send(message, descriptor.get());
    if (!absl::IsResourceExhausted(sent)) return sent;
  }
  if (queue_.size() >= kMaxQueued) {
    return absl::ResourceExhaustedError(
        absl::StrCat("it does not read: ", queue_.size(), " messages wait for it"));
  }
  queue_.emplace_back(message, descriptor.Duplicate());
  return absl::OkStatus();
}

absl::Status Session::Flush() {
  while (!queue_.empty()) {
    absl::Status sent = channel_.Send(queue_.front().first, queue_.front().second.get());
    if (absl::IsResourceExhausted(sent)) return absl::OkStatus();
    if (!sent.ok()) return sent;
    queue_.pop_front();
  }
  return absl::OkStatus();
}

}  // namespace hocket::coordinator
