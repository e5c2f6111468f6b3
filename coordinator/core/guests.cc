// Several jobs in one turn.
//
// Who waits may have part in a turn that lasts, as a guest, if the policy says that they do more together
// than in turn (Policy::Together), and what it needs is free. It runs in a lane of its own, so nothing is
// shared but the device. All who have part are asked to stop so that they do near each other; if the holder
// is the first to go, the guest who came first is the holder from then on.
//
// How they get on is seen in their shared pages, while nobody comes or goes: a question to each (LookAt), in
// pauses, and what lies between two answers is told to the policy (Policy::Measured).
// docs/decisions/0023 has the reasons.
#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "coordinator/core/core.h"
#include "coordinator/core/limits.h"

namespace hocket::coordinator {

bool Core::IsGuest(const Job& job) const {
  return job.turn != 0 && state_.turns.at(job.turn).guests.contains(job.id);
}

// The holder's first; also where he has not been granted yet.
Core::Ranks Core::MembersOf(const Turn& turn) const {
  Ranks members = RanksOf(turn.entity);
  for (const auto& [id, reason] : turn.guests) members.push_back(id);
  return members;
}

// Without those who serve for a moment.
std::vector<JobView> Core::ViewsOf(const Turn& turn) const {
  std::vector<JobView> views = {ViewOf(turn.entity)};
  for (const auto& [id, reason] : turn.guests) {
    if (!Serves(job(id))) views.push_back(ViewOf(id));
  }
  return views;
}

// --- who may come ---------------------------------------------------------------------------------

// What a job holds in its first turn nobody can tell beforehand. Whose share of time is guaranteed runs
// alone: time beside others is no whole time, and how much less nobody has promised.
bool Core::MayHaveGuests(const Turn& turn) const {
  if (WindowOpen() || turn.asked_stop || turn.no_guests || turn.lacks_room || turn.devices.size() != 1)
    return false;
  if (!turn.devices.front()->policy->RunsSeveral()) return false;
  const auto members = MembersOf(turn);
  return !state_.gangs.contains(turn.entity) && std::all_of(members.begin(), members.end(), [&](JobId id) {
    const Job& member = job(id);
    return GangOf(member) == nullptr && !Serves(member) && !member.paused && !member.room &&
           member.left != absl::InfinitePast() && !Guaranteed(member);
  });
}

bool Core::Guaranteed(const Job& job) const {
  return std::any_of(state_.guarantees.begin(), state_.guarantees.end(), [&](const auto& guarantee) {
    return guarantee.first.second == job.info.device && Owns(guarantee.first.first, job);
  });
}

bool Core::MayBeGuest(const Job& job, const Turn& turn) const {
  const bool single = job.entity == job.id && GangOf(job) == nullptr && job.device == turn.devices.front();
  if (!single || Serves(job) || job.left == absl::InfinitePast() || job.alone_first || Guaranteed(job) ||
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
  const Bytes there = found == lanes.end() ? 0 : found->second.arena.size();
  return job.transient_peak - std::min(job.transient_peak, there);
}

// Nobody is moved for a guest. Arenas that nobody uses now can be given back for it.
bool Core::FitsBeside(const Job& job, const Turn& turn) const {
  const Device& device = DeviceOf(job);
  const int lane = LaneOf(job);
  Bytes room = Free(device), promised = job.need + Growth(job, lane);
  for (const auto& [index, other] : device.lanes) {
    if (index != lane && MayClose(device, index)) Add(other.arena.size(), room);
  }
  for (JobId id : MembersOf(turn)) Add(Promised(this->job(id)), promised);
  for (JobId id : active_) {
    const Job& other = this->job(id);
    if (other.device == &device && other.ahead) Add(other.ahead->bytes, promised);
  }
  return promised <= room;
}

// 0: nobody. Who is owed time that is guaranteed to him does not wait longer for others' guests. Nor does a
// job for guests of its own user beside another's: their time is the user's, and as long as that is spent so
// the user is not next.
Core::Next Core::NextGuest(const Turn& turn) const {
  if (!MayHaveGuests(turn)) return {};
  const Device& device = *turn.devices.front();
  const Entities waiting = NotAfterOthers(Candidates(device));
  const auto may = [&](EntityId entity) {
    return state_.jobs.contains(entity) && MayBeGuest(job(entity), turn);
  };
  if (std::none_of(waiting.begin(), waiting.end(), may)) return {};
  std::set<unsigned> others_wait;  // users of whom a job that cannot be a guest is next
  for (const JobView& view : InTurnOrder(device, waiting)) {
    if (!others_wait.contains(view.user) && may(view.id)) {
      return {.entity = view.id,
              .reason = absl::StrCat("beside ", NameFor(job(view.id), turn.entity), ": ",
                                     device.policy->Reason(view))};
    }
    if (view.user != UserOf(turn.entity)) others_wait.insert(view.user);
    if (Owed(view.id, device.key) > absl::ZeroDuration()) return {};
  }
  return {};
}

// One after the other, as long as the policy wants more.
void Core::AdmitGuests(Turn& turn) {
  if (turn.next_is_promised || !MayHaveGuests(turn)) return;
  for (Next next = NextGuest(turn); next.entity != 0 && !KeepPlace(turn, next.entity); next = NextGuest(turn))
    Admit(job(next.entity), turn, next.reason);
}

// For somebody who comes before `next` and is about to ask again. Of those who ran together one is the last
// to end its step, and the next turn begins just then: without this it would find its place taken by one who
// had ended before it, each time.
bool Core::KeepPlace(Turn& turn, EntityId next) {
  const Device& device = *turn.devices.front();
  const JobView taker = ViewOf(next);
  for (JobId id : active_) {
    const Job& other = job(id);
    if (!IsAbsent(other, device) || !other.gap.known() || other.gap.Upper() > taker.step.mean() / 2) continue;
    const absl::Time until = other.left + other.gap.Upper() + kWaitUnderWay;
    if (until <= now_ || !device.policy->Before(ViewOf(id), taker) || !MayBeGuest(other, turn)) continue;
    turn.place_kept_until = until;
    return true;
  }
  return false;
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
  Device& device = *turn.devices.front();
  turn.company.reset();
  device.policy->Company(ViewsOf(turn));
  const auto trainers = TrainersOf(turn);
  if (trainers.size() < 2) {
    if (device.lanes_until == absl::InfiniteFuture()) device.lanes_until = now_ + kLanesKept;
    return;
  }
  for (JobId id : trainers) job(id).accompanied = true;
  turn.company = Company{.since = now_, .look_at = now_ + LookAfter(turn), .from = {}, .seen = {}};
}

// Who had the turn is gone. Who serves is asked for it anew: it was asked for the other's.
void Core::PromoteGuest(Turn& turn) {
  const auto age = [&](const auto& guest) {
    return std::make_pair(Serves(job(guest.first)), job(guest.first).granted);
  };
  const auto first = std::min_element(turn.guests.begin(), turn.guests.end(),
                                      [&](const auto& a, const auto& b) { return age(a) < age(b); });
  const Job& next = job(first->first);
  turn.entity = next.entity;
  turn.reason = first->second;
  turn.start = next.granted;
  turn.ready = std::max(turn.start, turn.charged);
  turn.by_guarantee = false;
  if (Serves(next)) turn.asked_stop = turn.overdue = turn.in_order = false;
  turn.asked_idle = turn.asked_stop || Serves(next);
  turn.asked_long_idle = false;
  turn.reach = 0;
  turn.guests.erase(first);
}

// The holder needs their room.
void Core::StopGuests(Turn& turn) {
  if (std::exchange(turn.no_guests, true) || StopsAtOnce(turn)) return;
  for (const auto& [id, reason] : turn.guests) TellToStop(job(id), turn);
}

// The policy has seen that they do not get on, or is another one now; or they have got a memory cap together.
void Core::SplitCompany(Turn& turn) {
  if (!turn.company || StopsAtOnce(turn)) return;
  if (ShareMemoryCap(turn) || !turn.devices.front()->policy->Together(ViewsOf(turn))) AskToStop(turn);
}

// --- stopping near each other ---------------------------------------------------------------------

// Their quantum is over. Told at once, those with short steps would leave the device to the one with the
// longest, and wait; so that one is told first, and the others go on until it needs no longer than their own
// step takes.
void Core::AskToStopInOrder(Turn& turn) {
  const auto trainers = TrainersOf(turn);
  const bool known =
      std::all_of(trainers.begin(), trainers.end(), [&](JobId id) { return job(id).step.known(); });
  if (!turn.company || !known) return AskToStop(turn);
  turn.asked_stop = turn.asked_idle = turn.in_order = true;
  TellLongest(turn);
}

absl::Duration Core::StepBeside(const Job& member) const {
  return member.beside.known() ? member.beside.mean() : member.step.mean();
}

// How far it is in its step nobody knows: it may have to begin another one.
void Core::TellLongest(Turn& turn) {
  const auto trainers = TrainersOf(turn);
  const JobId longest = *std::max_element(trainers.begin(), trainers.end(), [&](JobId a, JobId b) {
    return StepBeside(job(a)) < StepBeside(job(b));
  });
  Job& first = job(longest);
  turn.stops_by = std::max(now_, first.granted + first.ready.mean()) + StepBeside(first);
  TellToStop(first, turn);
}

absl::Time Core::TellTime(const Turn& turn, const Job& member) const {
  const bool told = member.told_stop || Serves(member);
  return told ? absl::InfiniteFuture() : turn.stops_by - StepBeside(member);
}

// The next one is told too if the one who was has stopped: it may have been nearly done.
void Core::TellInOrder(Turn& turn) {
  if (!turn.in_order) return;
  const auto trainers = TrainersOf(turn);
  const auto told = [&](JobId id) { return job(id).told_stop; };
  if (!trainers.empty() && std::none_of(trainers.begin(), trainers.end(), told)) TellLongest(turn);
  for (JobId id : trainers) {
    if (now_ >= TellTime(turn, job(id))) TellToStop(job(id), turn);
  }
  turn.in_order = !std::all_of(trainers.begin(), trainers.end(), told);
}

// --- how they get on ------------------------------------------------------------------------------

// As if they had the device in turn: then they should all have done the steps.
absl::Duration Core::LookAfter(const Turn& turn) const {
  absl::Duration round;
  for (JobId id : TrainersOf(turn)) round += job(id).alone.mean();
  return std::clamp(kStepsLooked * round, kLeastLook, kMostLook);
}

void Core::LookAtCompany(Turn& turn) {
  if (!turn.company || now_ < turn.company->look_at) return;
  turn.company->look_at = absl::InfiniteFuture();
  turn.company->seen.clear();
  for (JobId id : TrainersOf(turn)) actions_.emplace_back(LookAt{id});
}

void Core::On(Job* job, const StepsSeen& event) {
  if (job == nullptr || job->turn == 0) return;
  Turn& turn = state_.turns.at(job->turn);
  if (!turn.company || turn.company->look_at != absl::InfiniteFuture())
    return;  // somebody came or went since
  turn.company->seen[job->id] = {.steps = event.steps, .at = std::min(event.at, now_)};
  if (turn.company->seen.size() == TrainersOf(turn).size()) MeasureCompany(turn);
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
  turn.devices.front()->policy->Measured(paces);
}

// --- in words -------------------------------------------------------------------------------------

std::vector<std::string> Core::Beside(JobId id) const {
  std::vector<std::string> names;
  const auto turn = state_.turns.find(job(id).turn);
  if (turn == state_.turns.end() || turn->second.guests.empty()) return names;
  for (JobId other : turn->second.granted) {
    if (other != id) names.push_back(NameFor(job(id), job(other)));
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
