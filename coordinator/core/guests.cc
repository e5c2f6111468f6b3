// Several jobs in one turn.
//
// Who waits may have part in a turn that lasts, as a guest, if the policy says that they do more together
// than in turn (Policy::Together), and what it needs is free. It runs in a lane of its own, so nothing is
// shared but the device. All who have part are asked to stop at the same time; if the holder is the first to
// go, the guest who came first is the holder from then on.
//
// How they get on is seen in their shared pages, while nobody comes or goes: a question to each (LookAt), in
// pauses, and what lies between two answers is told to the policy (Policy::Measured).
// docs/decisions/0023 has the reasons.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "coordinator/core/core.h"
#include "coordinator/core/limits.h"

namespace hocket::coordinator {

bool Core::IsGuest(const Job& job) const {
  return job.turn != 0 && state_.turns.at(job.turn).guests.contains(job.id);
}

// The holder's first; also where he has not been granted yet.
std::vector<JobId> Core::MembersOf(const Turn& turn) const {
  std::vector<JobId> members = RanksOf(turn.entity);
  for (const auto& [id, reason] : turn.guests) members.push_back(id);
  return members;
}

std::vector<JobView> Core::ViewsOf(const Turn& turn) const {
  std::vector<JobView> views = {ViewOf(turn.entity)};
  for (const auto& [id, reason] : turn.guests) views.push_back(ViewOf(id));
  return views;
}

// --- who may come ---------------------------------------------------------------------------------

// What a job holds in its first turn nobody can tell beforehand. Whose share of time is guaranteed runs
// alone: time beside others is no whole time, and how much less nobody has promised.
bool Core::MayHaveGuests(const Turn& turn) const {
  if (WindowOpen() || turn.asked_stop || turn.no_guests || turn.lacks_room || turn.devices.size() != 1)
    return false;
  const auto members = MembersOf(turn);
  return !state_.gangs.contains(turn.entity) && std::all_of(members.begin(), members.end(), [&](JobId id) {
    const Job& member = job(id);
    return GangOf(member) == nullptr && !member.paused && !member.room &&
           member.left != absl::InfinitePast() && !Guaranteed(member);
  });
}

bool Core::Guaranteed(const Job& job) const {
  return std::any_of(state_.guarantees.begin(), state_.guarantees.end(), [&](const auto& guarantee) {
    return guarantee.first.second == job.info.device && Owns(guarantee.first.first, job);
  });
}

bool Core::MayBeGuest(const Job& job, const Turn& turn) const {
  const bool single =
      job.entity == job.id && GangOf(job) == nullptr && job.info.device == turn.devices.front();
  if (!single || job.left == absl::InfinitePast() || job.alone_first || Guaranteed(job) ||
      !FitsBeside(job, turn))
    return false;
  for (JobId id : MembersOf(turn)) {
    if (ShareMemoryCap(job, this->job(id))) return false;
  }
  std::vector<JobView> members = ViewsOf(turn);
  members.push_back(ViewOf(job.id));
  return DeviceOf(job).policy->Together(members);
}

// What its lane's arena has to grow by for what it needed in its last turn.
Bytes Core::Growth(const Job& job, int lane) const {
  const auto& lanes = DeviceOf(job).lanes;
  const auto found = lanes.find(lane);
  const Bytes there = found == lanes.end() ? 0 : SizeOf(found->second);
  return job.transient_peak - std::min(job.transient_peak, there);
}

// Nobody is moved for a guest. Arenas that nobody uses now can be given back for it.
bool Core::FitsBeside(const Job& job, const Turn& turn) const {
  const Device& device = DeviceOf(job);
  const int lane = LaneOf(job);
  Bytes room = Free(device), promised = job.need + Growth(job, lane);
  for (const auto& [index, other] : device.lanes) {
    if (index != lane && MayClose(device, index)) Add(SizeOf(other), room);
  }
  for (JobId id : MembersOf(turn)) Add(Promised(this->job(id)), promised);
  for (const auto& [id, other] : state_.jobs) {
    if (other.info.device == device.key && other.ahead) Add(other.ahead->bytes, promised);
  }
  return promised <= room;
}

// 0: nobody. Who is owed time that is guaranteed to him does not wait longer for others' guests.
Core::Next Core::NextGuest(const Turn& turn) const {
  if (!MayHaveGuests(turn)) return {};
  const Device& device = state_.devices.at(turn.devices.front());
  const std::vector<EntityId> waiting = NotAfterOthers(Candidates(device));
  const auto may = [&](EntityId entity) {
    return state_.jobs.contains(entity) && MayBeGuest(job(entity), turn);
  };
  if (std::none_of(waiting.begin(), waiting.end(), may)) return {};
  for (const JobView& view : InTurnOrder(device, waiting)) {
    if (may(view.id)) {
      return {.entity = view.id,
              .reason = absl::StrCat("beside ", NameOf(turn.entity), ": ", device.policy->Reason(view))};
    }
    if (Owed(view.id, device.key) > absl::ZeroDuration()) return {};
  }
  return {};
}

// One after the other, as long as the policy wants more.
void Core::AdmitGuests(Turn& turn) {
  for (Next next = NextGuest(turn); next.entity != 0; next = NextGuest(turn))
    Admit(job(next.entity), turn, next.reason);
}

void Core::Admit(Job& job, Turn& turn, const std::string& reason) {
  Device& device = DeviceOf(job);
  Charge(turn, turn.contended);
  const int lane = LaneOf(job);
  if (job.need + Growth(job, lane) > Free(device)) GiveLanesBack(device);
  turn.guests[job.id] = reason;
  passed_over_.erase(job.entity);
  device.lanes_until = absl::InfiniteFuture();
  device.policy->Granted(ViewOf(job.id));
  GrantJob(job, turn);
  CompanyChanged(turn);
}

// --- who comes and goes ---------------------------------------------------------------------------

void Core::CompanyChanged(Turn& turn) {
  Device& device = state_.devices.at(turn.devices.front());
  turn.company.reset();
  device.policy->Company(ViewsOf(turn));
  if (turn.guests.empty()) {
    device.lanes_until = now_ + kLanesKept;
    return;
  }
  for (JobId id : turn.granted) job(id).accompanied = true;
  turn.company = Company{.since = now_, .look_at = now_ + LookAfter(turn), .from = {}, .seen = {}};
}

// Who had the turn is gone.
void Core::PromoteGuest(Turn& turn) {
  const auto first = std::min_element(
      turn.guests.begin(), turn.guests.end(),
      [&](const auto& a, const auto& b) { return job(a.first).granted < job(b.first).granted; });
  const Job& next = job(first->first);
  turn.entity = next.entity;
  turn.reason = first->second;
  turn.start = next.granted;
  turn.ready = std::max(turn.start, turn.charged);
  turn.by_guarantee = false;
  turn.asked_idle = turn.asked_stop;
  turn.reach = 0;
  turn.guests.erase(first);
}

// The holder needs their room.
void Core::StopGuests(Turn& turn) {
  if (std::exchange(turn.no_guests, true) || turn.asked_stop) return;
  for (const auto& [id, reason] : turn.guests) SendYield(job(id), true, 0);
}

// The policy has seen that they do not get on, or is another one now; or they have got a memory cap together.
void Core::SplitCompany(Turn& turn) {
  if (turn.guests.empty() || turn.asked_stop) return;
  if (ShareMemoryCap(turn) || !state_.devices.at(turn.devices.front()).policy->Together(ViewsOf(turn)))
    AskToStop(turn);
}

// --- how they get on ------------------------------------------------------------------------------

// As if they had the device in turn: then they should all have done the steps.
absl::Duration Core::LookAfter(const Turn& turn) const {
  absl::Duration round;
  for (JobId id : turn.granted) round += job(id).alone.mean();
  return std::clamp(kStepsLooked * round, kLeastLook, kMostLook);
}

void Core::LookAtCompany(Turn& turn) {
  if (!turn.company || now_ < turn.company->look_at) return;
  turn.company->look_at = absl::InfiniteFuture();
  turn.company->seen.clear();
  for (JobId id : turn.granted) actions_.emplace_back(LookAt{id});
}

void Core::On(Job* job, const StepsSeen& event) {
  if (job == nullptr || job->turn == 0) return;
  Turn& turn = state_.turns.at(job->turn);
  if (!turn.company || turn.company->look_at != absl::InfiniteFuture())
    return;  // somebody came or went since
  turn.company->seen[job->id] = {.steps = event.steps, .at = std::min(event.at, now_)};
  if (turn.company->seen.size() == turn.granted.size()) MeasureCompany(turn);
}

// Measured from step to step: what begins with the first that all have ended beside each other.
void Core::MeasureCompany(Turn& turn) {
  Company& company = *turn.company;
  company.look_at = now_ + LookAfter(turn);
  const auto all = [&](auto holds) { return std::all_of(company.seen.begin(), company.seen.end(), holds); };
  if (company.from.empty()) {
    const bool begun = all([&](const auto& mark) { return mark.second.at > company.since; });
    if (begun || now_ - company.since >= kMostLook) {
      company.from = std::exchange(company.seen, {});
      company.since = now_;
    }
    return;
  }
  const auto done = [&](const auto& mark) {
    const std::uint64_t before = company.from[mark.first].steps;
    return mark.second.steps - std::min(before, mark.second.steps);
  };
  if (!all([&](const auto& mark) { return done(mark) >= kStepsLooked; }) && now_ - company.since < kMostLook)
    return;
  std::vector<Pace> paces;
  for (const auto& mark : company.seen) {
    const absl::Duration stepped = mark.second.at - company.from[mark.first].at;
    const bool any = done(mark) > 0 && stepped > absl::ZeroDuration();
    paces.push_back({.job = ViewOf(mark.first),
                     .steps = any ? done(mark) : 0,
                     .time = any ? stepped : std::max(now_ - company.since, absl::Nanoseconds(1))});
  }
  company.from = std::exchange(company.seen, {});
  company.since = now_;
  state_.devices.at(turn.devices.front()).policy->Measured(paces);
}

// --- in words -------------------------------------------------------------------------------------

std::vector<std::string> Core::Beside(JobId id) const {
  std::vector<std::string> names;
  const auto turn = state_.turns.find(job(id).turn);
  if (turn == state_.turns.end() || turn->second.guests.empty()) return names;
  for (JobId other : turn->second.granted) {
    if (other != id) names.push_back(job(other).info.name);
  }
  return names;
}

// Empty: it runs alone.
std::string Core::ExplainCompany(const Job& job) const {
  const std::vector<std::string> names = Beside(job.id);
  if (names.empty()) return "";
  const std::string text = absl::StrCat("; runs beside ", absl::StrJoin(names, " and "));
  const std::string known = DeviceOf(job).policy->InCompany(ViewsOf(state_.turns.at(job.turn)));
  return known.empty() ? text : absl::StrCat(text, ": ", known);
}

}  // namespace hocket::coordinator
