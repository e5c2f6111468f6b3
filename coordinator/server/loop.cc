// What is ready, and what is late.
//
// Where time is up for somebody (his answer is overdue, the window in which jobs come back is over) and
// messages lie in sockets, they are heard first: he may have said in time what is waited for, and it was the
// daemon that was kept from running (docs/decisions/0050).
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/server/server.h"
#include "coordinator/server/silence.h"
#include "csrc/base/cannot.h"

namespace hocket::coordinator {
namespace {

// For so long messages are heard before that. It is our own running that counts: a slice that lasts longer is
// one in which we did not.
constexpr absl::Duration kHearLate = absl::Milliseconds(100);
constexpr absl::Duration kSlice = absl::Milliseconds(10);

}  // namespace

absl::Status Server::Watch(int fd, uint32_t events) {
  epoll_event event{};
  event.events = events;
  event.data.fd = fd;
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0) return absl::OkStatus();
  if (errno == EEXIST && epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &event) == 0) return absl::OkStatus();
  return Cannot("watch a descriptor");
}

bool Server::Idle() const {
  const auto& jobs = core_.state().jobs;
  return std::all_of(jobs.begin(), jobs.end(), [](const auto& entry) { return entry.second.gone; }) &&
         (core_.state().expected.empty() || Now() >= core_.state().window_ends);
}

int Server::TimeoutMs() const {
  if (!stalled_.empty()) return static_cast<int>(absl::ToInt64Milliseconds(kStall));
  if (!core_.state().turns.empty()) return static_cast<int>(absl::ToInt64Milliseconds(kHungStep));
  if (mute_.empty() && (!Idle() || options_.grace == absl::InfiniteDuration())) return -1;
  absl::Duration left = idle_since_ + options_.grace - Now();
  for (const auto& [fd, until] : mute_) left = std::min(left, until - Now());
  left =
      std::clamp(left, absl::ZeroDuration(), absl::Seconds(1000));  // the longest there are would wrap below
  return static_cast<int>(absl::ToInt64Milliseconds(left)) + 1;
}

absl::Status Server::Run() {
  while (!stopping_) {
    const absl::Time begin = Now();
    if (!Idle()) idle_since_ = begin;
    epoll_event event{};
    const bool late = begin >= deadline_;
    const int ready = epoll_wait(epoll_.get(), &event, 1, late ? 0 : TimeoutMs());
    if (ready < 0 && errno != EINTR) return Cannot("wait for events");
    if (ready == 1) Dispatch(event.data.fd, event.events);
    const absl::Time now = Now();
    late_ = late ? late_ + std::min(now - begin, kSlice) : absl::ZeroDuration();
    if (late && (ready == 0 || late_ >= kHearLate)) TimeIsUp();
    CloseBroken();
    CloseMute();
    if (!stalled_.empty() && now >= retry_stalled_) RetryStalled();
    if (now - looked_for_silence_ >= kHungStep) LookForSilence();
    if (ready == 0 && Idle() && now - idle_since_ >= options_.grace) {
      log_.Info(absl::StrCat("no job for ", absl::FormatDuration(options_.grace), ": goodbye"),
                {.event = "ends"});
      break;
    }
  }
  return absl::OkStatus();
}

void Server::Stop() {
  const std::uint64_t one = 1;
  if (write(stop_.get(), &one, sizeof(one)) < 0) return;
}

void Server::Dispatch(int fd, uint32_t events) {
  if (fd == endpoint_.listener()) return Accept();
  if (fd == stop_.get()) return StopSoon();
  if (fd == timer_.get()) {  // watched for its edges: nobody has to read how often it has fired
    armed_ = absl::InfiniteFuture();
    if (Now() < deadline_) ArmTimer();
    return;
  }
  if (auto job = pidfds_.find(fd); job != pidfds_.end()) return ProcessEnded(job->second);
  if (auto former = former_.extract(fd)) return Apply(former.mapped().id, JobDied{});
  auto session = sessions_.find(fd);
  if (session == sessions_.end()) return;
  if ((events & EPOLLOUT) != 0) {
    const size_t before = session->second.queued();
    if (absl::Status flushed = session->second.Flush(); !flushed.ok()) {
      broken_[fd] = std::move(flushed);
      return;
    }
    const bool stalls = session->second.has_queued() && session->second.queued() == before;
    if (stalls && stalled_.empty()) retry_stalled_ = Now() + kStall;
    if (stalls) stalled_.insert(fd);
    if (stalls || !session->second.has_queued()) (void)Watch(fd, EPOLLIN);
  }
  if ((events & ~static_cast<uint32_t>(EPOLLOUT)) != 0) Read(fd);
}

// The socket has room, and the kernel none for what is to be sent: too many descriptors are on their way
// (ETOOMANYREFS), or its memory is short. It would wake us for the socket again and again.
void Server::RetryStalled() {
  for (int fd : std::exchange(stalled_, {})) {
    const auto session = sessions_.find(fd);
    if (session != sessions_.end() && session->second.has_queued()) (void)Watch(fd, EPOLLIN | EPOLLOUT);
  }
}

// --- time -----------------------------------------------------------------------------------------

void Server::Do(const SetTimer& action) {
  deadline_ = action.at;
  ArmTimer();
}

// A timer that fires too early is cheaper than one that is set anew for every turn.
void Server::ArmTimer() {
  if (deadline_ >= armed_) return;
  armed_ = deadline_;
  itimerspec at{};
  at.it_value = absl::ToTimespec(armed_);
  timerfd_settime(timer_.get(), TFD_TIMER_ABSTIME, &at, nullptr);
}

void Server::TimeIsUp() {
  late_ = absl::ZeroDuration();
  deadline_ = absl::InfiniteFuture();
  Apply(0, Tick{});
}

absl::Time Server::Due() const {
  return Now() < deadline_ ? absl::InfiniteFuture() : deadline_ - absl::Nanoseconds(1);
}

}  // namespace hocket::coordinator
