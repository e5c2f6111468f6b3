#include "csrc/client/connection.h"

namespace hocket {

void Connection::Attach(wire::Channel channel) {
  Detach();
  channel_.emplace(std::move(channel));
}

void Connection::Detach() {
  channel_.reset();
  queue_.clear();
}

void Connection::Send(wire::Message message, UniqueFd descriptor) {
  if (!up()) return;
  queue_.emplace_back(std::move(message), std::move(descriptor));
  Flush();
}

void Connection::Flush() {
  while (up() && !queue_.empty()) {
    const auto& [message, descriptor] = queue_.front();
    const absl::Status sent = channel_->Send(message, descriptor.get());
    if (absl::IsResourceExhausted(sent)) return;
    queue_.pop_front();
  }
}

absl::StatusOr<std::optional<wire::Received>> Connection::Receive() {
  if (!up()) return std::optional<wire::Received>();
  return channel_->TryReceive();
}

}  // namespace hocket
