// The job's end of its connection with the coordinator, which may be down.
//
//   down --Attach--> up --Detach--> down
//
// While it is down, messages are dropped: what a coordinator must know after that stands in the Join it is
// sent first. A message that finds the socket's queue full waits here until Flush(), and so do those behind
// it.
//
// It can be waited for in two places, at the door and by the agent, and what comes wakes one thread: one that
// waits at the door, if there is one, else the agent. (Both are epoll sets that watch the socket exclusively;
// the kernel asks the one that was attached first, first.) So a thread that waits for its turn reads the
// Grant itself, and the agent sleeps on. Whoever is woken must Receive() until there is nothing more: the
// other is not told of what has come already.
//
// Not thread-safe, but: AwaitAtDoor() and WakeDoor() may be called beside anything.
#ifndef HOCKET_CSRC_CLIENT_CONNECTION_H_
#define HOCKET_CSRC_CLIENT_CONNECTION_H_

#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "csrc/base/mutex.h"
#include "csrc/base/unique_fd.h"
#include "csrc/wire/channel.h"

namespace hocket {

class Connection {
 public:
  Connection();
  // False: the process has no descriptor left; then only the destructor may be called.
  bool valid() const { return door_ && agent_ && wake_door_; }

  void Attach(wire::Channel channel);
  void Detach();
  bool up() const { return channel_.has_value(); }
  // The other end lives, whatever it has said that was not read yet.
  bool PeerLives() const;
  // -1: down.
  int fd() const { return up() ? channel_->fd() : -1; }

  // Never blocks, but where so many descriptors wait to be sent that the process could run out of them: then
  // it waits, up to a second, for the coordinator to read. A peer that has gone is noticed by the next
  // Receive().
  void Send(wire::Message message, UniqueFd descriptor = UniqueFd());
  bool has_queue() const { return !queue_.empty(); }
  // What the socket has not taken yet.
  std::size_t queued() const { return queue_.size(); }
  void Flush();
  // Waits for the coordinator to read what is queued until so few are left, or `limit` is over.
  void AwaitReader(std::size_t left, Clock::duration limit);

  // None: nothing there now, or down.
  absl::StatusOr<std::optional<wire::Received>> Receive();

  // For the agent to poll: readable when something has come that no thread at the door was woken for. -1:
  // down.
  int agent_fd() const;

  // Blocks until something has come, WakeDoor() was called (even before), a signal was delivered to this
  // thread, or `limit` is over (kNoLimit: never).
  static constexpr Clock::duration kNoLimit = Clock::duration::max();
  enum class Woken { kByMessage, kBySignal, kOtherwise };
  Woken AwaitAtDoor(Clock::duration limit);
  void WakeDoor();

  // All descriptors that a forked child must not keep, but for those in the queue.
  std::vector<int> Descriptors() const;
  // In such a child: what is queued is its parent's to send, and so are the descriptors there.
  void ForgetQueue() { queue_.clear(); }

 private:
  std::optional<wire::Channel> channel_;
  std::deque<std::pair<wire::Message, UniqueFd>> queue_;
  bool watched_ = false;  // both sets have the socket
  UniqueFd door_;
  UniqueFd agent_;
  UniqueFd wake_door_;  // eventfd, in `door_`
};

}  // namespace hocket

#endif  // HOCKET_CSRC_CLIENT_CONNECTION_H_
