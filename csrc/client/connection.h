// The job's end of its connection with the coordinator, which may be down.
//
//   down --Attach--> up --Detach--> down
//
// While it is down, messages are dropped: what a coordinator must know after that stands in the Join it is
// sent first. A message that finds the socket's queue full waits here until Flush(), and so do those behind
// it.
//
// Not thread-safe.
#ifndef HOCKET_CSRC_CLIENT_CONNECTION_H_
#define HOCKET_CSRC_CLIENT_CONNECTION_H_

#include <deque>
#include <optional>
#include <utility>

#include "absl/status/statusor.h"
#include "csrc/base/unique_fd.h"
#include "csrc/wire/channel.h"

namespace hocket {

class Connection {
 public:
  void Attach(wire::Channel channel);
  void Detach();
  bool up() const { return channel_.has_value(); }
  // -1: down.
  int fd() const { return up() ? channel_->fd() : -1; }

  // Never blocks. A peer that has gone is noticed by the next Receive().
  void Send(wire::Message message, UniqueFd descriptor = UniqueFd());
  bool has_queue() const { return !queue_.empty(); }
  void Flush();

  // None: nothing there now, or down.
  absl::StatusOr<std::optional<wire::Received>> Receive();

 private:
  std::optional<wire::Channel> channel_;
  std::deque<std::pair<wire::Message, UniqueFd>> queue_;
};

}  // namespace hocket

#endif  // HOCKET_CSRC_CLIENT_CONNECTION_H_
