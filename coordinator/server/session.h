// One connection of the daemon's: a job's, or one that asks a command.
#ifndef HOCKET_COORDINATOR_SERVER_SESSION_H_
#define HOCKET_COORDINATOR_SERVER_SESSION_H_

#include <deque>
#include <utility>

#include "absl/status/status.h"
#include "coordinator/core/events.h"
#include "csrc/base/unique_fd.h"
#include "csrc/wire/channel.h"

namespace hocket::coordinator {

class Session {
 public:
  // What may wait in memory for a peer that does not read, beside what the kernel's queue takes.
  static constexpr size_t kMaxQueued = 4096;

  Session(wire::Channel channel, int pid, unsigned uid)
      : channel_(std::move(channel)), pid_(pid), uid_(uid) {}

  // Sends, or queues while the peer's queue is full. kResourceExhausted, with the count, when too much is
  // queued; kUnavailable when the peer is gone. The session is to be closed then. `descriptor` is duplicated.
  absl::Status Send(const wire::Message& message, const UniqueFd& descriptor);

  // Sends what is queued, as far as the peer reads. Errors as for Send().
  absl::Status Flush();
  size_t queued() const { return queue_.size(); }
  bool has_queued() const { return !queue_.empty(); }

  wire::Channel& channel() { return channel_; }
  int pid() const { return pid_; }
  unsigned uid() const { return uid_; }
  JobId job() const { return job_; }
  void set_job(JobId job) { job_ = job; }

 private:
  wire::Channel channel_;
  const int pid_;  // the peer's, as the kernel says
  const unsigned uid_;
  JobId job_ = 0;  // 0: has not joined
  std::deque<std::pair<wire::Message, UniqueFd>> queue_;
};

}  // namespace hocket::coordinator

#endif  // HOCKET_COORDINATOR_SERVER_SESSION_H_
