#include "csrc/client/connection.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

namespace hocket {
namespace {

constexpr std::size_t kMostWaiting = 256;  // of the 1,024 descriptors that a process may have, as a rule
constexpr auto kPatience = std::chrono::seconds(1);

bool Watch(const UniqueFd& set, int fd, std::uint32_t events) {
  epoll_event event{};
  event.events = events;
  event.data.fd = fd;
  return epoll_ctl(set.get(), EPOLL_CTL_ADD, fd, &event) == 0;
}

void Unwatch(const UniqueFd& set, int fd) { (void)epoll_ctl(set.get(), EPOLL_CTL_DEL, fd, nullptr); }

int Milliseconds(Clock::duration limit) {
  if (limit == Connection::kNoLimit) return -1;
  return static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(limit).count());
}

}  // namespace

bool Connection::PeerLives() const {
  pollfd peer{.fd = fd(), .events = POLLRDHUP, .revents = 0};
  return up() && poll(&peer, 1, 0) == 0;
}

Connection::Connection()
    : door_(epoll_create1(EPOLL_CLOEXEC)),
      agent_(epoll_create1(EPOLL_CLOEXEC)),
      wake_door_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (valid() && !Watch(door_, wake_door_.get(), EPOLLIN)) door_.Reset();
}

// The door first: that is the order in which the kernel asks. Where the kernel refuses, the agent polls the
// socket and hears everything.
void Connection::Attach(wire::Channel channel) {
  Detach();
  channel_.emplace(std::move(channel));
  watched_ = Watch(door_, fd(), EPOLLIN | EPOLLEXCLUSIVE) && Watch(agent_, fd(), EPOLLIN | EPOLLEXCLUSIVE);
  if (!watched_) Unwatch(door_, fd());
}

// A forked process may still hold the socket, so the sets would not forget it by themselves.
void Connection::Detach() {
  if (up()) {
    Unwatch(door_, fd());
    Unwatch(agent_, fd());
  }
  channel_.reset();
  queue_.clear();
}

int Connection::agent_fd() const { return up() && watched_ ? agent_.get() : fd(); }

Connection::Woken Connection::AwaitAtDoor(Clock::duration limit) {
  epoll_event events[2];
  const int count = epoll_wait(door_.get(), events, 2, Milliseconds(limit));
  if (count < 0) return errno == EINTR ? Woken::kBySignal : Woken::kOtherwise;
  bool message = false;
  for (int i = 0; i < count; ++i) {
    if (events[i].data.fd == wake_door_.get()) {
      std::uint64_t times;
      (void)!read(wake_door_.get(), &times, sizeof(times));
    } else {
      message = true;
    }
  }
  return message ? Woken::kByMessage : Woken::kOtherwise;
}

void Connection::WakeDoor() {
  const std::uint64_t one = 1;
  (void)!write(wake_door_.get(), &one, sizeof(one));
}

std::vector<int> Connection::Descriptors() const {
  return {fd(), door_.get(), agent_.get(), wake_door_.get()};
}

void Connection::Send(wire::Message message, UniqueFd descriptor) {
  if (!up()) return;
  const bool has_descriptor = static_cast<bool>(descriptor);
  queue_.emplace_back(std::move(message), std::move(descriptor));
  Flush();
  if (has_descriptor) AwaitReader(kMostWaiting, kPatience);
}

void Connection::AwaitReader(std::size_t left, Clock::duration limit) {
  const Clock::time_point end = Clock::now() + limit;
  for (auto now = Clock::now(); up() && queue_.size() > left && now < end; now = Clock::now()) {
    pollfd poller{fd(), POLLOUT, 0};
    if (poll(&poller, 1, Milliseconds(end - now)) <= 0) return;
    Flush();
  }
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
