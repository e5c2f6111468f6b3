// Who serves, beside those who train.
//
// A request cannot wait for the end of a training step. So while somebody who serves waits, those who train
// stand by: they stop where they use the device next, in the midst of a step too, and keep the turn, their
// lanes and all their memory. The one who serves is their guest meanwhile, in a lane of its own, until it has
// nothing to do for a moment. So nothing is moved for a request, and whoever serves keeps its bytes on the
// device as long as others can be moved instead.
//
//     request, StandBy          all StoodBy               idle: TurnOver
//   run ------------------> told ------------> stand by -----------------> run (GoOn)
//                             | kMostStandBy       | kMostStandBy
//                             +--------------------+--> both run beside each other until the request is done
//
// Where that cannot be (a gang, one that does not understand it, no room beside it) the turn is asked for,
// and whoever serves is the next to have one. docs/decisions/0024 has the reasons.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "coordinator/core/core.h"
#include "coordinator/core/limits.h"

namespace hocket::coordinator {

bool Core::Serves(const Job& job) const {
  return job.info.serves && job.entity == job.id && GangOf(job) == nullptr;
}

bool Core::Serves(EntityId entity) const {
  auto found = state_.jobs.find(entity);
  return found != state_.jobs.end() && Serves(found->second);
}

std::vector<JobId> Core::TrainersOf(const Turn& turn) const {
  std::vector<JobId> trainers;
  for (JobId id : MembersOf(turn)) {
    if (turn.granted.contains(id) && !Serves(job(id))) trainers.push_back(id);
  }
  return trainers;
}

bool Core::ServesSomebody(const Turn& turn) const {
  return std::any_of(turn.granted.begin(), turn.granted.end(), [&](JobId id) { return Serves(job(id)); });
}

// --- who may --------------------------------------------------------------------------------------

bool Core::WaitsToServe(const Job& job, const Turn& turn) const {
  const bool here = std::count(turn.devices.begin(), turn.devices.end(), job.device) > 0;
  return here && job.waiting && Serves(job) && Eligible(job.entity);
}

// What it holds in its first turn nobody can tell beforehand.
bool Core::MayServeIn(const Turn& turn, const Job& job) const {
  if (!WaitsToServe(job, turn) || turn.devices.size() != 1 || turn.no_guests) return false;
  if (job.left == absl::InfinitePast() || job.alone_first || state_.gangs.contains(turn.entity)) return false;
  const bool all = std::all_of(turn.granted.begin(), turn.granted.end(), [&](JobId id) {
    const Job& member = this->job(id);
    if (ShareMemoryCap(job, member)) return false;  // each has all that the others leave: one at a time
    return Serves(member) || (member.info.stands_by && GangOf(member) == nullptr && !member.room);
  });
  return all && FitsBeside(job, turn);
}

// Requests that this turn is interrupted for; the earliest first.
std::vector<JobId> Core::RequestsIn(const Turn& turn) const {
  std::vector<std::pair<absl::Time, JobId>> asked;
  for (JobId id : active_) {
    const Job& job = this->job(id);
    if (job.waiting && job.info.serves && MayServeIn(turn, job)) asked.emplace_back(job.asked, id);
  }
  std::sort(asked.begin(), asked.end());
  std::vector<JobId> requests;
  for (const auto& [at, id] : asked) requests.push_back(id);
  return requests;
}

// Also once more when the last who serves has gone.
void Core::LetServe() {
  for (auto& [number, turn] : state_.turns) Serve(turn);
  PaceTrainers();
  anybody_serves_ = std::any_of(state_.jobs.begin(), state_.jobs.end(),
                                [](const auto& entry) { return entry.second.info.serves; });
}

// --- standing by ----------------------------------------------------------------------------------

void Core::Serve(Turn& turn) {
  AskToStopForRequest(turn);
  const std::vector<JobId> requests = RequestsIn(turn);
  if (requests.empty() && !ServesSomebody(turn)) {
    turn.serves_beside = false;
    return GoOn(turn);
  }
  if (now_ >= GoOnBesideAt(turn)) {
    turn.serves_beside = true;
    for (JobId id : TrainersOf(turn)) job(id).accompanied = true;
    GoOn(turn);
  }
  if (!turn.serves_beside) {
    if (!StandsBy(turn)) turn.interrupted = now_;
    for (JobId id : TrainersOf(turn)) TellToStandBy(job(id));
    if (now_ < ServeAt(turn)) return;
  }
  for (JobId id : requests) {
    if (MayServeIn(turn, job(id))) AdmitToServe(job(id), turn);  // there may be room for one of them only
  }
  AskToStopForRequest(turn);  // for the others
}

void Core::TellToStandBy(Job& job) {
  if (job.told_stand_by) return;
  job.told_stand_by = true;
  job.stands_since = now_;
  SendTo(job.id, wire::StandBy{.turn = job.told_turn});
}

void Core::On(Job* job, const wire::StoodBy& event) {
  if (job == nullptr || job->turn == 0 || event.turn != job->told_turn || !job->told_stand_by) return;
  if (job->stands_by) return;
  Charge(state_.turns.at(job->turn), state_.turns.at(job->turn).contended);
  job->stands_by = true;
  job->stands_since = now_;
}

// Whoever was to stand by no longer is. Meanwhile nobody could be late.
void Core::GoOn(Turn& turn) {
  if (!StandsBy(turn)) return;
  for (JobId id : turn.granted) {
    if (!job(id).told_stand_by) continue;
    EndStandBy(job(id));
    SendTo(id, wire::GoOn{.turn = job(id).told_turn});
  }
  const absl::Duration interrupted = now_ - turn.interrupted;
  turn.stop_asked = std::min(now_, turn.stop_asked + interrupted);
  turn.stops_by += interrupted;
  if (turn.wanted_since < now_) turn.wanted_since = std::min(now_, turn.wanted_since + interrupted);
}

void Core::EndStandBy(Job& job) {
  const absl::Duration stood = job.stands_by ? now_ - job.stands_since : absl::ZeroDuration();
  if (stood > absl::ZeroDuration()) Charge(state_.turns.at(job.turn), state_.turns.at(job.turn).contended);
  job.told_stand_by = job.stands_by = false;
  job.stood += stood;
}

bool Core::StandsBy(const Turn& turn) const {
  return std::any_of(turn.granted.begin(), turn.granted.end(),
                     [&](JobId id) { return job(id).told_stand_by; });
}

// From when on nobody is waited for any longer: all stand by, or have not for too long.
absl::Time Core::ServeAt(const Turn& turn) const {
  absl::Time at = absl::InfinitePast();
  for (JobId id : TrainersOf(turn)) {
    const Job& trainer = job(id);
    if (!trainer.stands_by)
      at = std::max(at, trainer.told_stand_by ? trainer.stands_since + kMostStandBy : absl::InfiniteFuture());
  }
  return at;
}

// Infinite future: nobody stands by.
absl::Time Core::GoOnBesideAt(const Turn& turn) const {
  absl::Time at = absl::InfiniteFuture();
  for (JobId id : turn.granted) {
    const Job& trainer = job(id);
    if (trainer.told_stand_by)
      at = std::min(at, trainer.stands_since + (trainer.stands_by ? 1 : 2) * kMostStandBy);
  }
  return at;
}

absl::Time Core::NextOfServing(const Turn& turn) const {
  absl::Time next = std::min(GoOnBesideAt(turn), StopForRequest(turn));
  if (const absl::Time at = ServeAt(turn); StandsBy(turn) && at > now_) next = std::min(next, at);
  return next;
}

void Core::AdmitToServe(Job& job, Turn& turn) {
  Device& device = DeviceOf(job);
  Charge(turn, turn.contended);
  if (job.need + Growth(job, LaneOf(job)) > Free(device)) GiveLanesBack(device);
  turn.guests[job.id] = absl::StrCat("serves, beside ", NameFor(job, turn.entity));
  passed_over_.erase(job.entity);
  device.policy->Granted(ViewOf(job.id));
  GrantJob(job, turn);
  job.accompanied = true;
  CompanyChanged(turn);
}

// --- where nobody can stand by --------------------------------------------------------------------

// Where bytes have to move, no sooner than that pays.
absl::Time Core::StopForRequest(const Turn& turn) const {
  const bool waits = std::any_of(state_.jobs.begin(), state_.jobs.end(), [&](const auto& entry) {
    const Job& job = entry.second;
    return job.waiting && job.info.serves && WaitsToServe(job, turn) && !MayServeIn(turn, job);
  });
  return waits && !turn.asked_stop ? turn.start + Quantum(turn.entity) : absl::InfiniteFuture();
}

void Core::AskToStopForRequest(Turn& turn) {
  if (now_ >= StopForRequest(turn)) AskToStop(turn);
}

// --- running ahead --------------------------------------------------------------------------------

// Where somebody serves, nobody who trains queues more than a request can wait for.
void Core::PaceTrainers() {
  std::set<DeviceKey> served;
  for (const auto& [id, job] : state_.jobs) {
    if (job.info.serves && !job.gone && !job.paused) served.insert(job.info.device);
  }
  for (auto& [id, job] : state_.jobs) {
    if (!job.info.stands_by || job.info.serves || job.gone) continue;
    const bool pace = served.contains(job.info.device);
    if (std::exchange(job.paced, pace) == pace) continue;
    SendTo(id, wire::Pace{.most_queued_ns =
                              pace ? static_cast<std::uint64_t>(absl::ToInt64Nanoseconds(kMostQueued)) : 0});
  }
}

// --- in words -------------------------------------------------------------------------------------

std::vector<std::string> Core::StandingBy(const Device& device) const {
  std::vector<std::string> names;
  if (device.turn == 0) return names;
  for (JobId id : state_.turns.at(device.turn).granted) {
    if (job(id).told_stand_by) names.push_back(job(id).info.name);
  }
  return names;
}

}  // namespace hocket::coordinator
