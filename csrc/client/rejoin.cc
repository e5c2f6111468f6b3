// The coordinator comes and goes; the job stays.
#include <utility>

#include "absl/strings/str_cat.h"
#include "csrc/base/say.h"
#include "csrc/base/status_macros.h"
#include "csrc/client/client_impl.h"

namespace hocket {
namespace {

constexpr Clock::duration kLongestRetryPause = std::chrono::seconds(2);

absl::Status NoLaneLock() {
  return absl::FailedPreconditionError(
      "the coordinator took this job in, but its answer (Joined) names no lock of the job's lane: nothing "
      "would keep "
      "two jobs from using the lane's memory at once.\n  It speaks another protocol than this Hocket: "
      "`hocket doctor` "
      "says which it is, `hocket restart` puts this one's in its place.");
}

}  // namespace

// What the new coordinator must know stands in the Join; what the job still waits for is asked again.
void ClientImpl::SendJoin(wire::Channel channel, const Holdings& held) {
  const bool alone = phase_ >= Phase::kGranted && turn_.number == 0;  // the lane's lock came first
  facts_.holds_turn = phase_ >= Phase::kHeld || alone;
  facts_.turn = phase_ >= Phase::kGranted ? turn_.number : 0;
  facts_.persistent = held.persistent;
  facts_.spilled = held.spilled;
  facts_.steps = progress_.steps();
  facts_.lane_lock = lane_.path();
  connection_.Attach(std::move(channel));
  attached_at_ = Clock::now();
  reconnect_at_ = Clock::time_point::max();
  Tell(facts_, progress_.Descriptor());
  told_movable_ = hears_movable_ = hears_parts_ = fills_arena_ = hears_headroom_ = false;
  arena_heard_ = arena_heard_told_ = 0;
  if (phase_ == Phase::kAsked) TellWait(held);
  if (room_ && room_->abandoned) AnswerRoom(absl::OkStatus());  // nobody asks this one
  if (room_ && !room_->answered) Tell(wire::NeedRoom{.bytes = room_->bytes, .restoring = room_->restoring});
  if (facts_.rejoin && phase_ == Phase::kNone && Movable()) TellMovable(held);
}

// As long as for the answer to the Join of those whom it does take in.
absl::StatusOr<wire::Channel> ClientImpl::ConnectFirst(const ClientTuning& tuning) {
  const Clock::time_point deadline = Clock::now() + tuning.join_limit;
  auto channel = tuning.connect();
  while (absl::IsDeadlineExceeded(channel.status()) && Clock::now() < deadline) channel = tuning.connect();
  if (absl::IsDeadlineExceeded(channel.status())) return HasNotAnswered(tuning);
  return channel;
}

absl::Status ClientImpl::HasNotAnswered(const ClientTuning& tuning) {
  return absl::UnavailableError(
      absl::StrCat("the coordinator has not answered in ",
                   std::chrono::duration_cast<std::chrono::seconds>(tuning.join_limit).count(),
                   " s.\n  It may be stopped: see `hocket doctor`, or end it with `hocket stop`."));
}

absl::Status ClientImpl::AwaitJoined() {
  const Clock::time_point deadline = Clock::now() + tuning_.join_limit;
  MutexLock lock(&mutex_);
  while (!info_.joined && refused_.ok()) {
    if (Clock::now() >= deadline) return HasNotAnswered(tuning_);
    changed_.WaitUntil(&mutex_, deadline);
  }
  return refused_;
}

void ClientImpl::On(const wire::Joined& joined, UniqueFd descriptor) {
  if (pace_.count() > 0) On(wire::Pace{}, UniqueFd());  // the next word about it is this coordinator's
  MutexLock lock(&mutex_);
  if (lane_.path().empty() && joined.lane_lock.empty()) return RefuseJoin(NoLaneLock());
  info_.id = joined.job;
  info_.name = joined.name;
  info_.sharing_with = joined.sharing_with;
  info_.joined = info_.coordinated = true;
  hears_movable_ = joined.hears_movable;
  hears_parts_ = joined.hears_parts;
  fills_arena_ = joined.fills_arena;
  hears_headroom_ = joined.hears_headroom;
  facts_.job = joined.job;
  facts_.name = joined.name;
  facts_.rejoin = true;
  lost_at_ = Clock::time_point::max();
  if (lane_.path().empty()) lane_.SetPath(joined.lane_lock);
  reported_ = Holdings();
  NotifyAll();
}

void ClientImpl::On(const wire::Refused& refused, UniqueFd descriptor) {
  MutexLock lock(&mutex_);
  if (!info_.joined) {
    RefuseJoin(absl::FailedPreconditionError(refused.reason));
  } else {
    SayOnce(absl::StrCat("the coordinator refuses job ", info_.name, ": ", refused.reason));
  }
}

// Not again when the next attempt meets the same.
void ClientImpl::SayOnce(const std::string& text) {
  if (std::exchange(said_, text) != text) Say(text);
}

// Also before it has answered the first Join: then another one is asked, until the join's limit. One that
// ended the connection soon may do so again, so that is tried less and less often. What was left to the agent
// after the error (by a second thread at a door, say) is of the same connection.
void ClientImpl::LostCoordinator(const absl::Status& why) {
  MutexLock lock(&mutex_);
  connection_.Detach();
  set_aside_.clear();
  left_to_agent_ = false;
  promise_.reset();
  turn_.pass = 0;
  EndStandBy();  // nobody would end it any more
  NotifyAll();
  if (outside_ || !refused_.ok()) return;
  if (!absl::IsUnavailable(why)) {  // it does not speak as we do
    if (!info_.joined) return RefuseJoin(why);
    SayOnce(absl::StrCat("job ", info_.name,
                         " does not understand the coordinator: ", std::string(why.message())));
  }
  if (info_.joined) {
    if (lost_at_ == Clock::time_point::max()) {
      lost_at_ = Clock::now();
    } else {
      AnswerRoomAlone(why);  // the next one has not taken the job in
    }
  }
  const bool lasted = info_.joined && Clock::now() - attached_at_ >= tuning_.steady;
  if (lasted) reconnect_pause_ = tuning_.retry_pause;
  reconnect_at_ = lasted ? Clock::now() : Clock::now() + NextPause();
}

Clock::duration ClientImpl::NextPause() {
  return std::exchange(reconnect_pause_, std::min(2 * reconnect_pause_, kLongestRetryPause));
}

void ClientImpl::RefuseJoin(const absl::Status& why) {
  refused_ = why;
  NotifyAll();
}

bool ClientImpl::ReconnectIsDue() {
  MutexLock lock(&mutex_);
  if (Clock::now() < reconnect_at_) return false;
  reconnect_at_ = Clock::time_point::max();
  return true;
}

// With receive_mutex_ held nobody takes the lane's lock meanwhile.
bool ClientImpl::HasLane() const {
  MutexLock lock(&mutex_);
  return phase_ >= Phase::kGranted && turn_.has_lane;
}

// Without the lane's lock, what is known of the arena is what the last coordinator has told; others may have
// adopted chunks of it since, or do so before the next one hears of us. It tells anew.
void ClientImpl::Reconnect() {
  absl::StatusOr<wire::Channel> channel = tuning_.connect();
  if (absl::IsDeadlineExceeded(channel.status())) return AskLater();
  if (!channel.ok()) return GoOnAlone(channel.status());
  const Holdings held = Held();
  MutexLock receiving(&receive_mutex_);
  if (!HasLane()) ChangeArena({.chunk = 0});
  MutexLock lock(&mutex_);
  if (!outside_) SendJoin(*std::move(channel), held);
}

// There is one, which orders turns again when it goes on: who waits, waits for it.
void ClientImpl::AskLater() {
  MutexLock lock(&mutex_);
  reconnect_at_ = Clock::now() + NextPause();
}

// Nobody orders turns now. The lane's lock still keeps two jobs from touching one arena, so a job may run if
// it gets that; it keeps the turn until there is a coordinator again or it ends.
void ClientImpl::GoOnAlone(const absl::Status& why) {
  {
    MutexLock lock(&mutex_);
    if (!info_.joined) return RefuseJoin(why);
    if (std::exchange(info_.coordinated, false))
      Say(absl::StrCat("job ", info_.name, " goes on without a coordinator: ", why.message()));
    AnswerRoomAlone(why);
    reconnect_at_ = Clock::now() + NextPause();
  }
  if (TakeLaneAlone()) TakeTurnAlone();
}

bool ClientImpl::TakeLaneAlone() {
  MutexLock lock(&mutex_);
  if (phase_ != Phase::kAsked || waiters_.empty()) return false;
  const absl::Status taken = lane_.TryAcquire();
  if (!taken.ok() && !absl::IsFailedPrecondition(taken))  // nobody else has it: the file is the matter
    SayOnce(absl::StrCat("job ", info_.name, " waits, for without a coordinator it ",
                         std::string(taken.message())));
  return taken.ok();
}

// Whoever had the lane since the coordinator died may have adopted chunks of the arena that we know, or died
// while its kernels wrote there, and nobody has told us: none of them is used again.
void ClientImpl::TakeTurnAlone() {
  MutexLock receiving(&receive_mutex_);
  ChangeArena({.chunk = 0});
  MutexLock lock(&mutex_);
  if (phase_ != Phase::kAsked || waiters_.empty()) return lane_.Release();
  turn_ = {.granted_ns = Progress::NowNs(), .first_step = progress_.steps(), .has_lane = true};
  word_.Unask(kAsks);
  phase_ = Phase::kGranted;
  NotifyAll();
}

}  // namespace hocket
