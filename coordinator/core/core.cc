#include "coordinator/core/core.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/core/limits.h"
#include "csrc/base/check.h"

namespace hocket::coordinator {
namespace {

// That follow from one event, at most.
constexpr std::size_t kUsualActions = 4;

}  // namespace

Core::Core(CoreOptions options)
    : options_(std::move(options)), next_turn_(options_.first_turn), next_pass_(options_.first_pass) {
  state_.policy = options_.policy;
  state_.switch_share = options_.switch_share;
  state_.link_bound = options_.link_bound;
  state_.policy_settings = options_.policy_settings;
  state_.overdue_go_on = options_.overdue_go_on;
  state_.quotas = options_.quotas;
}

std::vector<Action> Core::Handle(const Event& event, const SendEarly& early) {
  HOCKET_CHECK(event.at >= now_) << "an event at " << event.at << " after one at " << now_;
  now_ = event.at;
  due_ = std::max(due_, std::min(event.due, now_));
  actions_.clear();
  actions_.reserve(kUsualActions);
  queues_.clear();
  auto found = state_.jobs.find(event.job);
  Job* job = found == state_.jobs.end() ? nullptr : &found->second;
  if (job != nullptr) active_.insert(event.job);
  if (std::holds_alternative<JobDied>(event.what)) state_.expected.erase(event.job);
  std::visit([&](const auto& what) { On(job, what); }, event.what);
  if (state_.jobs.contains(event.job)) active_.insert(event.job);
  Settle(early);
  std::erase_if(active_, [&](JobId id) { return !Active(this->job(id)); });
  return std::exchange(actions_, {});
}

void Core::SendNow(const SendEarly& early) {
  if (!early) return;
  std::erase_if(actions_, [&](const Action& action) {
    const Send* send = std::get_if<Send>(&action);
    if (send != nullptr) early(*send);
    return send != nullptr;
  });
}

void Core::Settle(const SendEarly& early) {
  ForgetUnusedDevices();
  GiveUpOnSilentVictims();
  CompleteLateGangs();
  HoldBack();
  HoldOut();
  UntieGangs();
  UntieProcesses();
  for (auto& [number, turn] : state_.turns) {
    if (now_ >= RealignTime(turn)) Realign(turn);
    GrantWaitingRanks(turn);
  }
  for (auto& [number, turn] : state_.turns) {
    SplitCompany(turn);
    NameOverdue(turn);
  }
  GoOnWithoutOverdue();
  for (auto& [key, device] : state_.devices) {
    CloseLanes(device);
    if (!StayLasts(device)) device.stays = 0;
    Schedule(device);
  }
  SendNow(early);
  // After the Grants: who is to run beside them is a longer question.
  for (auto& [number, turn] : state_.turns) AdmitGuests(turn);
  SendNow(early);
  if (anybody_serves_) LetServe();
  for (auto& [number, turn] : state_.turns) {
    LookAtPromise(turn);
    AskIfContended(turn);
    SayGrant(turn);
    TakeBackUnread(turn);
    TellInOrder(turn);
    LookAtCompany(turn);
  }
  SendNow(early);  // who is asked to stop as its turn begins reads that with the Grant
  const std::uint64_t spills = next_spill_;
  for (JobId id : active_) {
    if (job(id).room) ServeRoom(job(id));
    if (job(id).lacks_headroom > 0) MakeHeadroom(job(id));
  }
  for (auto& [number, turn] : state_.turns) {
    LookAhead(turn);
    SayNear(turn);
  }
  KeepMemoryCaps();
  // Room that others were given since a request was looked at may be what it needed: then nobody stands by
  // for it.
  if (anybody_serves_) {
    for (auto& [number, turn] : state_.turns) {
      if (StandsBy(turn)) Serve(turn);
    }
  }
  // Time was charged since it was looked at.
  const bool held_back = !state_.accounts.empty() && HoldBack();
  // Who is being spilled does not wait for the turn meanwhile, and who is held back does not either.
  if (next_spill_ != spills || held_back) {
    for (auto& [number, turn] : state_.turns) AskIfContended(turn);
  }
  for (auto& [key, device] : state_.devices) {  // who ran in one has been granted another
    if (device.lanes.size() > 1) CloseLanes(device);
  }
  if (now_ >= timer_) timer_ = absl::InfiniteFuture();  // it has fired
  if (const absl::Time next = NextDeadline(); next != timer_) {
    timer_ = next;
    if (next != absl::InfiniteFuture()) actions_.emplace_back(SetTimer{next});
  }
}

absl::Time Core::NextDeadline() const {
  absl::Time next = WindowOpen() ? state_.window_ends : absl::InfiniteFuture();
  for (JobId id : active_) {
    const Job& job = this->job(id);
    if (job.spill && !job.unresponsive) next = std::min(next, AnswerLimit(*job.spill));
    if (job.ahead && !job.unresponsive) next = std::min(next, AnswerLimit(*job.ahead));
    if (job.room) next = std::min(next, job.room->retry_at);
    if (job.held_out) next = std::min(next, RetryOfLack(job));
    if (const absl::Time at = TiedAt(job); at > now_) next = std::min(next, at);
  }
  if (!state_.accounts.empty()) {
    for (const auto& [id, job] : state_.jobs) {
      if (const absl::Time until = HeldBackUntil(job.entity); until > now_) next = std::min(next, until);
    }
  }
  for (const auto& [id, gang] : state_.gangs) next = std::min(next, CompleteAt(gang));
  for (const auto& [key, device] : state_.devices) {
    if (device.kept_until > now_) next = std::min(next, device.kept_until);
    if (StayLasts(device)) next = std::min(next, StayEnds(device));
    next = std::min(next, CloseLanesAt(device));
  }
  for (const auto& [number, turn] : state_.turns) {
    next = std::min({next, RealignTime(turn), HolderLimit(turn), turn.say_grant_at});
    if (state_.overdue_go_on && PassesUntil(turn) > now_) next = std::min(next, PassesUntil(turn));
    if (turn.link_paused) next = std::min(next, LinkFreeAt(turn));
    if (anybody_serves_) next = std::min(next, NextOfServing(turn));
    if (turn.company) next = std::min(next, turn.company->look_at);
    if (turn.place_kept_until > now_) next = std::min(next, turn.place_kept_until);
    const bool contended = Contended(turn);
    if (contended) next = std::min(next, TakeBackTime(turn));
    if (StopsAtOnce(turn)) continue;
    next = std::min(next, StopForCap(turn));
    if (turn.in_order) {
      for (JobId id : turn.granted) next = std::min(next, TellTime(turn, job(id)));
      continue;
    }
    if (!contended) {
      next = std::min(next, StopForAbsent(turn));
      if (!turn.asked_idle && Capped(turn.entity)) next = std::min(next, IdleTime(turn));
      continue;
    }
    const absl::Time stop = StopTime(turn);
    next = std::min(next, stop);
    if (!turn.asked_idle && !turn.company) next = std::min(next, AskIdleTime(turn, stop));
    next = std::min(next, AskLongIdleTime(turn));
  }
  return next;
}

// --- who takes part ------------------------------------------------------------------------------

bool Core::Active(const Job& job) const {
  const bool may_be_back_soon = job.left != absl::InfinitePast() && now_ < job.left + kMaxKeepFree;
  return job.waiting || job.turn != 0 || job.room || job.spill || job.ahead || job.after_others ||
         job.overstays != 0 || job.set_aside || job.hung_up_in_step || may_be_back_soon;
}

// --- what people ask for --------------------------------------------------------------------------

void Core::On(Job* job, const SetPaused& event) {
  if (job == nullptr) return;
  if (job->waiting && !job->held_back && !job->held_out && job->paused && !event.paused) BeginToWait(*job);
  if (job->waiting && job->paused != event.paused) event.paused ? CountAllLost(*job) : TimePasses(*job);
  job->paused = event.paused;
}

void Core::On(Job* job, const SetShare& event) {
  if (job == nullptr) return;
  job->info.weight = event.weight;
  job->info.priority = event.priority;
  job->priority = ParsePriority(event.priority);
  job->info.total_steps = event.total_steps.value_or(job->info.total_steps);
}

void Core::On(Job* job, const SetPolicy& event) {
  state_.policy = event.name;
  for (auto& [key, device] : state_.devices) device.policy = MakePolicyNamed(event.name);
  for (const auto& [id, other] : state_.jobs) {
    if (other.waiting && !other.held_back && !other.held_out)
      DeviceOf(other).policy->Asked(ViewOf(other.entity));
  }
}

void Core::On(Job* job, const SetSwitchShare& event) { state_.switch_share = event.share; }

void Core::On(Job* job, const SetProductionBound& event) {
  state_.policy_settings.production_bound = event.bound;
  for (auto& [key, device] : state_.devices) device.policy->Set(state_.policy_settings);
}

void Core::On(Job* job, const SetMostTogether& event) {
  state_.policy_settings.most_together = event.most;
  for (auto& [key, device] : state_.devices) device.policy->Set(state_.policy_settings);
}

void Core::On(Job* job, const SetOverdue& event) { state_.overdue_go_on = event.go_on; }

// --- helpers --------------------------------------------------------------------------------------

void Core::SendTo(JobId to, wire::Message message, bool with_descriptor) {
  actions_.emplace_back(Send{to, std::move(message), with_descriptor});
}

void Core::RejectJob(const Job& job, const std::string& reason) {
  actions_.emplace_back(Reject{job.id, reason});
}

void Core::Say(const std::string& text, const char* event, JobId about) {
  actions_.emplace_back(Log{.text = text, .event = event, .job = about});
}

std::string Core::LaneLock(const Job& job, int lane) const {
  const std::string folder = options_.lock_folder ? options_.lock_folder(job.user) : options_.runtime_dir;
  return absl::StrCat(folder, "/lane-", job.info.device, "-", LaneIndex(lane), ".lock");
}

Priority ParsePriority(const std::string& text) {
  if (text == "high") return Priority::kHigh;
  return text == "low" ? Priority::kLow : Priority::kNormal;
}

}  // namespace hocket::coordinator
