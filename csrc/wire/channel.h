// A connected Unix SEQPACKET socket that carries messages, each with at most one descriptor.
#ifndef HOCKET_CSRC_WIRE_CHANNEL_H_
#define HOCKET_CSRC_WIRE_CHANNEL_H_

#include <optional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "csrc/base/unique_fd.h"
#include "csrc/wire/messages.h"

namespace hocket::wire {

// A message as it came, with the descriptor that came with it (or none).
struct Received {
  Message message;
  UniqueFd descriptor;
};

// Send() may be called from several threads; Receive() and TryReceive() from one.
class Channel {
 public:
  explicit Channel(UniqueFd socket) : socket_(std::move(socket)) {}

  // Each with errno's text, or what it was, and the path. kNotFound: nobody listens there. kDeadlineExceeded:
  // somebody does, has taken nobody in for `timeout_ms`, and has no room for more who wait for that: he is
  // stopped, most likely. (Up to then who waits counts as connected, and is not answered.) kPermissionDenied,
  // with both uids: he is not to be trusted (IsTrusted() in base/paths.h), and nothing has been sent.
  // kUnavailable: this process may not go there, or has no descriptor left; who listens there is not known.
  static absl::StatusOr<Channel> Connect(const std::string& path, int timeout_ms = 10'000);

  // Sends in one packet. Never blocks for a slow reader: kResourceExhausted when its queue is full.
  // kUnavailable when the peer is gone. `descriptor` (-1: none) is duplicated into the message.
  absl::Status Send(const Message& message, int descriptor = -1);

  // Blocks for the next message. kUnavailable: the peer closed. kFailedPrecondition: the peer speaks another
  // major version. kInvalidArgument: what came is no frame of ours; the text says which length or field is
  // wrong. A message of an unknown type is skipped, and descriptors of skipped or refused packets are closed.
  // A descriptor that this process may not have (it has as many as it may) is lost; its message comes
  // without.
  absl::StatusOr<Received> Receive();

  // As Receive(), but none when nothing is there now.
  absl::StatusOr<std::optional<Received>> TryReceive();

  int fd() const { return socket_.get(); }
  // The peer's pid and uid, as the kernel knows them.
  absl::StatusOr<std::pair<int, unsigned>> Peer() const;
  // Ends both directions: a blocked Receive() returns kUnavailable.
  void Shutdown();

 private:
  absl::StatusOr<std::optional<Received>> ReceiveWith(int flags);

  UniqueFd socket_;
  std::string buffer_;  // of the reading thread
};

}  // namespace hocket::wire

#endif  // HOCKET_CSRC_WIRE_CHANNEL_H_
