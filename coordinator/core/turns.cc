// Who is next, for how long, and how the turn comes and goes.
#include <algorithm>
#include <optional>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "coordinator/core/core.h"
#include "coordinator/core/limits.h"

namespace hocket::coordinator {
namespace {

// A time of a job's, as it says.
absl::Duration Said(std::uint64_t ns) {
  return absl::Nanoseconds(static_cast<std::int64_t>(std::min<std::uint64_t>(ns, INT64_MAX)));
}

// What it says of its hand-over, without the wait that is known here.
absl::Duration PassageOf(const Job& job, const wire::TurnOver& last) {
  const absl::Duration passage = Said(last.hand_over_ns) - (job.granted - job.asked);
  return std::clamp(passage, absl::ZeroDuration(), kLongestPassage);
}

}  // namespace

// --- the job's messages ---------------------------------------------------------------------------

void Core::On(Job* job, const wire::Wait& event) {
  if (job == nullptr || job->gone) return;
  if (job->waiting || job->turn != 0) {
    return RejectJob(*job, absl::StrCat("Wait from ", job->info.name,
                                        job->waiting ? ", which waits already" : ", which has the turn"));
  }
  const bool again = std::exchange(job->taken_back, false);
  again ? CountAllLost(*job) : CountLost(*job, absl::ZeroDuration());
  if (again) {
    job->unresponsive = false;
  } else if (!std::exchange(job->gap_was_long, false) && job->left != absl::InfinitePast() &&
             !job->after_others) {
    job->gap.Add(std::min(now_ - job->left, kLongestGap));
  }
  if (job->overstays != 0) ComesBack(*job);  // who asks for a turn has none
  job->held_back = now_ < HeldBackUntil(job->entity);
  if (!job->held_back) BeginToWait(*job);
  if (event.movable) Holds(*job, event.persistent, event.spilled, /*movable=*/true, event.host_left);
  job->waiting = true;
  job->in_step = false;
  job->wait = event.number;
  job->heeds_pass = event.heeds_pass;
  job->need = event.need;
  job->lacked = event.need - std::min<Bytes>(event.need, job->spilled);
  job->asked = now_;
  job->first_asked = std::min(job->first_asked, now_);
  job->steps = std::max(job->steps, event.gang_step);
}

// A holder that nobody waited for has taken nothing from anybody: its turn counts anew from here.
void Core::BeginToWait(const Job& job) {
  Device& device = DeviceOf(job);
  const bool interrupts = device.turn != 0 && Serves(job);  // for a moment only
  if (device.turn != 0 && !interrupts && !Contended(state_.turns.at(device.turn))) {
    Turn& turn = state_.turns.at(device.turn);
    Charge(turn, /*contended=*/false);
    turn.by_guarantee = false;
    for (Device* used : turn.devices) CountUse(*used, BeganToUse(*used), /*contended=*/false);
    const std::vector<JobView> members = ViewsOf(turn);
    for (const Device* used : turn.devices) {
      for (const JobView& member : members) used->policy->Granted(member);
    }
  }
  device.policy->Asked(ViewOf(job.entity));
}

void Core::Charge(Turn& turn, bool contended) {
  const absl::Time from = std::max(turn.ready, std::exchange(turn.charged, now_));
  const absl::Duration used = std::max(absl::ZeroDuration(), now_ - from);
  absl::InlinedVector<JobView, 1> members;
  if (turn.guests.empty()) members.push_back(ViewOf(turn.entity));
  for (JobId id : turn.granted) {  // of several, those who use the device
    if (!turn.guests.empty() && !job(id).stands_by) members.push_back(ViewOf(id));
  }
  for (const Device* device : turn.devices) {
    for (const JobView& member : members) {
      if (turn.by_guarantee && member.id == turn.entity) continue;
      device->policy->Charge(member, used / static_cast<double>(members.size()), contended);
    }
  }
}

void Core::On(Job* job, const wire::TurnOver& event) {
  if (job == nullptr || job->gone) return;
  job->persistent = event.persistent;
  job->spilled = event.spilled;
  job->transient_peak = event.transient_peak;
  job->most_transient = std::max(job->most_transient, job->transient_peak);
  HostTakes(*job, event.host_left);
  if (!event.stood_aside) NoLongerLacks(*job);
  job->movable = event.movable;
  job->why_not_movable = event.why_not_movable;
  job->cannot_spill.clear();
  job->steps = std::max(job->steps, event.steps);
  job->after_others = job->in_step = event.stood_aside;
  job->room.reset();
  const TurnNumber turn = job->turn;
  std::optional<Promise> passed;
  if (turn != 0 && event.passed != 0) passed = std::move(state_.turns.at(turn).next_is_promised);
  if (turn != 0) EndPart(*job, event, PartEnds::kGiven);
  if (passed && passed->pass == event.passed) TakePassed(*passed, /*told=*/true);
  if (event.stood_aside) FellowsStandAside(turn);
  if (job->overstays != 0) ComesBack(*job);
}

// --- the next turn --------------------------------------------------------------------------------

bool Core::Eligible(EntityId entity) const {
  if (WindowOpen()) return false;
  bool waits = false;
  for (JobId id : RanksOf(entity)) {
    if (StandsAside(job(id))) return false;
    waits |= job(id).waiting;
  }
  return waits;
}

// The same of its entity, which is mostly itself. REQUIRES: it waits.
bool Core::Eligible(const Job& job) const {
  return job.entity == job.id ? !WindowOpen() && !StandsAside(job) : Eligible(job.entity);
}

bool Core::StandsAside(const Job& job) {
  return job.paused || job.spill || job.unresponsive || job.held_back || job.held_out;
}

bool Core::Granted(EntityId entity) const {
  return std::any_of(state_.turns.begin(), state_.turns.end(),
                     [&](const auto& entry) { return entry.second.entity == entity; });
}

bool Core::DevicesFree(EntityId entity) const {
  const Ranks ranks = RanksOf(entity);
  return std::all_of(ranks.begin(), ranks.end(), [&](JobId id) { return DeviceOf(job(id)).turn == 0; });
}

// Those that wait for `device`, could have it, and do not have a turn; the earliest asker first. Not those
// for whom the turn that lasts there is only interrupted.
Core::Entities Core::Candidates(const Device& device) const {
  absl::InlinedVector<std::pair<absl::Time, EntityId>, 8> asked;
  const bool stay = StayLasts(device), kept = IsKeptFromProcesses(device);
  for (JobId id : active_) {
    const Job& job = this->job(id);
    if (!job.waiting || !Uses(job, device) || Granted(job.entity) || !Eligible(job)) continue;
    if (kept && StepMayWait(job) && !HasPartElsewhere(job)) continue;
    if (job.info.serves && device.turn != 0 && MayServeIn(state_.turns.at(device.turn), job)) continue;
    if (stay && job.entity != device.stays && !IsThere(job.entity)) continue;
    asked.emplace_back(job.asked, job.entity);
  }
  std::sort(asked.begin(), asked.end());
  Entities entities;
  for (const auto& [at, entity] : asked) {
    const bool has_ranks = state_.gangs.contains(entity);
    if (!has_ranks || std::find(entities.begin(), entities.end(), entity) == entities.end())
      entities.push_back(entity);
  }
  return entities;
}

void Core::Schedule(Device& device) {
  if (reserved_ != 0 && (!Eligible(reserved_) || Granted(reserved_) || WaitsForOverdue(reserved_)))
    reserved_ = 0;
  if (device.turn != 0) return;
  const Entities all = Candidates(device);
  Entities candidates = NotAfterOthers(all);
  if (reserved_ != 0 && std::count(candidates.begin(), candidates.end(), reserved_) > 0) {
    // Whose process has the turn of another device meanwhile: the gang may wait for that one.
    const auto leaves_it = [&](EntityId entity) {
      return state_.gangs.contains(entity) || !HasPartElsewhere(job(entity));
    };
    candidates.erase(std::remove_if(candidates.begin(), candidates.end(), leaves_it), candidates.end());
    if (candidates.empty()) candidates = {reserved_};
  }
  if (const EntityId behind = BehindGangs(all); behind != 0) candidates = {behind};

  Entities fit = Fitting(candidates);
  while (!fit.empty()) {
    const Next next = PickNext(device, fit);
    if (DevicesFree(next.entity) && !LeavesToSingles(next.entity)) {
      if (!next.by_guarantee && !Serves(next.entity) && KeepFree(device, next.entity)) return;
      for (EntityId entity : candidates) passed_over_[entity] += entity != next.entity;
      return GrantTurn(next, next_turn_++);
    }
    // A gang whose other devices are busy: they are kept for it as they come free, for one gang at a time.
    // Not while one of them hangs: nobody knows until when.
    if (reserved_ == 0 && !WaitsForOverdue(next.entity)) reserved_ = next.entity;
    if (reserved_ == next.entity) return;
    fit.erase(std::find(fit.begin(), fit.end(), next.entity));
  }
}

// Whoever has all he needs, or has been passed over too often; all, where nobody has.
Core::Entities Core::Fitting(const Entities& candidates) const {
  Entities fit;
  for (EntityId entity : candidates) {
    const auto times = passed_over_.find(entity);
    if (Fits(entity) || (times != passed_over_.end() && times->second >= kMaxPassedOver))
      fit.push_back(entity);
  }
  return fit.empty() ? candidates : fit;
}

// Without those that have just stood aside, unless nobody else is there.
Core::Entities Core::NotAfterOthers(Entities candidates) const {
  const auto after_others = [&](EntityId entity) {
    const auto ranks = RanksOf(entity);
    return std::any_of(ranks.begin(), ranks.end(), [&](JobId id) { return job(id).after_others; });
  };
  if (!std::all_of(candidates.begin(), candidates.end(), after_others))
    candidates.erase(std::remove_if(candidates.begin(), candidates.end(), after_others), candidates.end());
  return candidates;
}

// A single job that has had a turn of `device`, and neither waits nor has one now.
bool Core::IsAbsent(const Job& other, const Device& device) const {
  const bool absent = !other.waiting && other.turn == 0 && other.left != absl::InfinitePast() &&
                      !other.after_others && !other.info.serves && now_ >= HeldBackUntil(other.entity);
  return absent && !other.gone && !other.paused && !other.unresponsive && other.entity == other.id &&
         other.device == &device;
}

// Who may be back before a turn of `next` would be over, if the policy says so, and until when.
std::pair<EntityId, absl::Time> Core::WaitedFor(const Device& device, EntityId next) const {
  std::pair<EntityId, absl::Time> kept(0, absl::InfinitePast());
  std::optional<JobView> view;  // of `next`; mostly nobody is absent
  for (JobId id : active_) {    // who has left earlier is not waited for
    if (!IsAbsent(job(id), device)) continue;
    if (!view) view = ViewOf(next);
    const JobView absent = ViewOf(id);
    const absl::Time until = absent.left + std::min(kMaxKeepFree, device.policy->KeepFree(absent, *view));
    if (until > kept.second) kept = {absent.id, until};
  }
  return kept;
}

bool Core::KeepFree(Device& device, EntityId next) {
  std::tie(device.kept_for, device.kept_until) = WaitedFor(device, next);
  return device.kept_until > now_;
}

// When a holder that nobody waits for is to stop all the same.
absl::Time Core::StopForAbsent(const Turn& turn) const {
  absl::Time stop = absl::InfiniteFuture();
  if (turn.asked_stop) return stop;
  for (const Device* device : turn.devices) {
    const Policy& policy = *device->policy;
    if (!policy.StopsForAbsent()) continue;
    for (const auto& [id, other] : state_.jobs) {
      if (!IsAbsent(other, *device)) continue;
      const JobView absent = ViewOf(id);
      stop = std::min(stop, absent.left + policy.StopFor(absent, ViewOf(turn.entity)));
    }
  }
  return stop;
}

// `passed`: by this promise the job knows of it already.
void Core::GrantTurn(const Next& next, TurnNumber number, const Promise* passed) {
  const EntityId entity = next.entity;
  if (reserved_ == entity) reserved_ = 0;
  passed_over_.erase(entity);
  Turn& turn = state_.turns[number];
  turn.number = number;
  turn.passed = passed != nullptr ? passed->pass : 0;
  turn.entity = entity;
  turn.devices = DevicesOf(entity);
  turn.start = turn.ready = turn.charged = now_;
  turn.reason = next.reason;
  turn.by_guarantee = next.by_guarantee;
  turn.contended = Contended(turn);
  if (turn.contended) turn.first_wanted = now_;
  turn.asked_idle = passed != nullptr ? passed->contended
                                      : (turn.contended || Capped(entity)) && now_ >= IdleTime(turn) &&
                                            NextGuest(turn).entity == 0;
  for (Device* granted : turn.devices) {
    Device& device = *granted;
    if (turn.devices.size() > 1) NoteBehindGang(device);
    device.turn = turn.number;
    turn.within_stay = StayLasts(device);
    if (turn.within_stay && device.stays == entity) turn.stays_until = device.stays_until;
    device.policy->Granted(ViewOf(entity));
  }
  for (JobId id : active_) {
    if (std::count(turn.devices.begin(), turn.devices.end(), job(id).device) > 0)
      job(id).after_others = false;
  }
  passed != nullptr ? GrantJob(job(entity), turn) : GrantWaitingRanks(turn);
}

// Also while the turn lasts: a rank that comes later has part in its gang's turn, and a device that its gang
// still lacks is taken as soon as it is free.
void Core::GrantWaitingRanks(Turn& turn) {
  for (JobId id : RanksOf(turn.entity)) {
    Job& rank = job(id);
    if (!rank.waiting || rank.paused || rank.spill || rank.unresponsive || !MayJoinTurn(rank, turn)) continue;
    Device& device = DeviceOf(rank);
    if (device.turn == 0) {
      device.turn = turn.number;
      turn.devices.push_back(&device);
    }
    if (device.turn == turn.number) GrantJob(rank, turn);
  }
}

void Core::GrantJob(Job& job, Turn& turn) {
  Device& device = DeviceOf(job);
  const auto guest = turn.guests.find(job.id);
  const bool is_guest = guest != turn.guests.end();
  wire::Grant grant{.turn = turn.number,
                    .contended = is_guest ? job.info.serves : turn.asked_idle,
                    .reason = is_guest ? guest->second : turn.reason};
  const bool knows = turn.passed != 0 && turn.granted.empty();
  const int lane = knows ? job.lane : LaneOf(job);
  if (lane != job.lane) {
    const int left = std::exchange(job.lane, lane);
    ForgetArena(job);
    if (const Bytes unmapped = DropUnknown(device, left)) Expect(device, unmapped, kArenaDropLimit);
    grant.lane_lock = LaneLock(job, lane);
    grant.fresh_arena = true;
  }
  if (!knows) grant.fresh_arena |= std::exchange(device.lanes[lane].fresh, false);
  job.waiting = job.held_back = job.held_out = job.lacks_room = false;
  job.gangs_first = 0;
  job.waited += now_ - job.asked;
  CountAllLost(job);
  job.movable = job.accompanied = job.told_stop = false;
  job.asides = 0;
  job.link.time = absl::ZeroDuration();
  RestoresFrom(job, now_);
  job.coming = ForetoldMove(job, job.spilled);
  job.stood = absl::ZeroDuration();
  job.turn = job.told_turn = turn.number;
  job.granted = now_;
  job.grant_open = job.wait != 0;
  job.steps_before = job.steps;
  job.granted_after = now_ - std::max(job.asked, device.free_since);
  job.last_ready = job.last_passage = absl::ZeroDuration();
  turn.granted.insert(job.id);
  const bool changed_lane = !grant.lane_lock.empty();
  TellLimit(job);
  if (!knows) SendTo(job.id, std::move(grant));
  if (changed_lane) FillArena(job);
  if (turn.asked_stop && !is_guest)
    SendYield(job, true, state_.gangs.at(turn.entity).base[job.id] + turn.stop);
  if (!is_guest) ForeseeRoom(job);
}

// In a lane of its own, beside one that hangs, an arena has to be made first. A rank of a gang that waits for
// room as a whole needs its bytes though it has not asked yet.
bool Core::Fits(EntityId entity) const {
  const auto ranks = RanksOf(entity);
  return std::all_of(ranks.begin(), ranks.end(), [&](JobId id) {
    const Job& rank = job(id);
    const int lane = LaneOf(rank);
    Bytes need = rank.waiting ? rank.need : 0;
    if (ranks.size() > 1 && !SharesDeviceInGang(rank)) need = NeedNow(rank);
    if (ranks.size() == 1 && rank.waiting && LaneIndex(lane) > 0) need += Growth(rank, lane);
    return need == 0 || need <= Reachable(rank);
  });
}

// --- giving it up ---------------------------------------------------------------------------------

// By those who have no part in it and could have one.
bool Core::Contended(const Turn& turn) const {
  for (JobId id : active_) {
    const Job& job = this->job(id);
    if (!job.waiting || job.entity == turn.entity || !Eligible(job)) continue;
    if (job.info.serves && MayServeIn(turn, job)) continue;
    const auto uses = [&](const Device* device) { return Uses(job, *device); };
    if (std::any_of(turn.devices.begin(), turn.devices.end(), uses)) return true;
  }
  return false;
}

void Core::AskIfContended(Turn& turn) {
  const auto members = MembersOf(turn);
  const bool paused = std::any_of(members.begin(), members.end(), [&](JobId id) {
    return job(id).paused && !(turn.guests.contains(id) && Serves(job(id)));
  });
  const bool together = turn.company.has_value();  // who would not use it for a moment is in nobody's way
  if (!StopsAtOnce(turn) && now_ >= StopForCap(turn)) AskToStop(turn);
  // What a capped one would not use counts as used.
  if (!turn.asked_idle && Capped(turn.entity) && now_ >= IdleTime(turn)) AskForTurn(turn);
  const bool contended = Contended(turn);
  if (!paused && !contended) {
    turn.wanted_since = absl::InfiniteFuture();
    if (now_ >= StopForAbsent(turn)) AskToStop(turn);
    return;
  }
  turn.contended |= contended;
  turn.wanted_since = contended ? std::min(turn.wanted_since, now_) : absl::InfiniteFuture();
  turn.first_wanted = std::min(turn.first_wanted, now_);
  if (paused && !StopsAtOnce(turn)) AskToStop(turn);
  const absl::Time stop = turn.asked_stop ? absl::InfiniteFuture() : StopTime(turn);
  if (now_ >= stop || (!turn.asked_stop && FirstStepOutlasts(turn, stop))) AskToStopInOrder(turn);
  if (!turn.asked_idle && (paused || (!together && now_ >= AskIdleTime(turn, stop)))) AskForTurn(turn);
  if (now_ >= AskLongIdleTime(turn)) AskIfLongIdle(turn);
}

void Core::SendYield(const Job& job, bool now, std::uint64_t stop_step, std::uint64_t pass) {
  SendTo(job.id, wire::Yield{.turn = job.told_turn, .now = now, .stop_step = stop_step, .pass = pass});
}

void Core::AskForTurn(Turn& turn) {
  turn.asked_idle = true;
  for (JobId id : turn.granted) SendYield(job(id), false, 0);
}

// All at once.
void Core::AskToStop(Turn& turn) {
  turn.asked_stop = turn.asked_idle = true;  // who is to stop soon need not be told to go when idle
  turn.in_order = false;
  turn.stop_asked = now_;
  if (state_.gangs.contains(turn.entity)) return NameStop(turn, 1);
  for (JobId id : turn.granted) TellToStop(job(id), turn);
}

void Core::TellToStop(Job& job, Turn& turn) {
  if (std::exchange(job.told_stop, true)) return;
  turn.stop_asked = now_;
  const auto trainers = TrainersOf(turn);
  turn.in_order &=
      std::any_of(trainers.begin(), trainers.end(), [&](JobId id) { return !this->job(id).told_stop; });
  PromiseNext(turn);
  SendYield(job, true, 0, turn.next_is_promised ? turn.next_is_promised->pass : 0);
}

// For so long it had not used its turn when it gave it up for that. Believed within the turn's bounds, as all
// that it says about its own times.
absl::Duration Core::IdleAtEnd(const Job& job, const wire::TurnOver& last) const {
  const auto said = Said(last.idle_ns);
  return std::max(absl::ZeroDuration(), std::min(said, now_ - job.granted - job.last_ready));
}

void Core::Learn(Job& job, Turn& turn, const wire::TurnOver& last) {
  const auto said = Said(last.ready_ns);
  job.last_ready = std::min(said, now_ - job.granted);
  job.ready.Add(job.last_ready);
  job.last_passage = PassageOf(job, last);
  const absl::Duration used =
      std::max(absl::ZeroDuration(), now_ - job.granted - job.last_ready - IdleAtEnd(job, last) - job.stood);
  if (last.turn_steps > 0) LearnStep(job, turn, used, last.turn_steps);
  turn.ready = std::max(turn.ready, std::min(turn.start + job.last_ready, now_));
}

// Beside others it takes another time. Where nobody waited the gaps between its steps are in it, too.
void Core::LearnStep(Job& job, const Turn& turn, absl::Duration used, std::uint64_t steps) {
  const absl::Duration step = used / static_cast<double>(steps);
  if (job.accompanied) job.beside.Add(step);
  if (!job.accompanied || !job.step.known()) job.step.Add(step);
  if (!job.accompanied && job.watch.Add(step, steps, now_))
    Say(absl::StrCat(
            job.info.name, " (pid ", job.info.pid, ")", ExplainSlower(job),
            ", and no other job runs beside it. Another program on the GPU, a lower clock, or longer "
            "inputs?"),
        "slower", job.id);
  if (job.accompanied || (steps > 1 && turn.first_wanted - turn.start > used / 8)) return;
  if (now_ - job.alone_at >= kAloneGoodFor) job.alone = Estimator();
  job.alone.Add(step);
  job.alone_at = now_;
  LearnLink(job, step, steps);
}

void Core::EndPart(Job& job, const wire::TurnOver& last, PartEnds how) {
  Turn& turn = state_.turns.at(job.turn);
  if (job.told_stand_by) EndStandBy(job);
  const bool guest = turn.guests.contains(job.id), aside = how == PartEnds::kSetAside;
  if (!job.after_others && !aside) {
    if (how == PartEnds::kGiven && !guest && HasMoved(job, turn, last)) BeginStay(job, turn);
    if (!turn.within_stay) LearnSwitchCost(job, turn, last);
  }
  if (how == PartEnds::kGiven && !job.after_others) Learn(job, turn, last);
  if (how == PartEnds::kGiven) CountRestored(job, last);
  if (!guest && !aside) LearnReach(job, turn);
  if (how == PartEnds::kGiven) job.alone_first = job.after_others && (job.accompanied || job.alone_first);
  const auto ready = Said(last.ready_ns);
  CountPart(job, std::min(ready, now_ - job.granted), IdleAtEnd(job, last), last.turn_steps);
  TurnEnded record{.turn = turn.number,
                   .job = job.id,
                   .pid = job.info.pid,
                   .rejoined = job.info.rejoin,
                   .name = job.info.name,
                   .user = job.user,
                   .device = job.info.device,
                   .start = job.granted,
                   .end = now_,
                   .steps = last.turn_steps,
                   .restored = last.restored,
                   .ahead = job.restored_ahead,
                   .spilled = turn.spilled,
                   .ready = job.last_ready,
                   .died = how == PartEnds::kByDeath,
                   .reason = guest ? turn.guests.at(job.id) : turn.reason};
  record.hand_over = job.granted_after + ready;
  if (job.asked != absl::Time()) record.waited = job.granted - job.asked;
  actions_.emplace_back(std::move(record));
  UseTime(job, BeganToUse(job, ready));
  CountUse(DeviceOf(job), BeganToUse(job, ready), turn.contended);
  job.held += now_ - job.granted;
  job.restored_total += last.restored;
  ++job.turns;
  turn.used = true;
  if (how == PartEnds::kByDeath) DropArena(DeviceOf(job), job.lane, job.id);
  const absl::Duration idle = IdleAtEnd(job, last);
  job.gap_was_long =
      turn.asked_long_idle && !turn.asked_idle && last.turn_steps > 1 && idle > absl::ZeroDuration();
  LeavePart(job);
  job.left -= idle;  // its gap began when its last step was over
}

// At the begin of its turn, which has ended. Who has stood aside for want of room had not all of it.
void Core::CountRestored(Job& job, const wire::TurnOver& last) {
  Foretold foretold = std::exchange(job.coming, {});
  if (foretold.bytes == 0 && last.restored == 0) return;
  if (job.after_others) foretold.time.reset();
  const auto ready = Said(last.ready_ns);
  const Bytes back = foretold.bytes - std::min(foretold.bytes, job.spilled);
  job.restores.Add(foretold, {.bytes = std::max<Bytes>(back, last.restored),
                              .copied = last.restored,
                              .time = std::min(ready, now_ - job.granted)});
}

void Core::LeavePart(Job& job) {
  Turn& turn = state_.turns.at(job.turn);
  const bool company = !turn.guests.empty();
  if (company && !job.taken_back) Charge(turn, turn.contended);
  if (job.told_stand_by) EndStandBy(job);
  PayForLink(job);
  job.turn = 0;
  job.grant_open = false;
  job.left = now_;
  job.room.reset();
  job.restored_ahead = 0;
  job.ahead_time = absl::ZeroDuration();
  job.unclaimed = job.lacks_headroom = 0;
  turn.granted.erase(job.id);
  turn.guests.erase(job.id);
  if (turn.next_is_promised && turn.next_is_promised->by == job.id) turn.next_is_promised.reset();
  if (turn.granted.empty()) return EndTurn(turn.number);
  if (!company) {  // a gang's ranks that have joined again before it is whole: it may have been this one's
    turn.entity = this->job(*turn.granted.begin()).entity;
    if (!state_.gangs.contains(turn.entity)) LeaveDevice(turn, DeviceOf(job));
    return;
  }
  if (turn.guests.size() == turn.granted.size()) PromoteGuest(turn);
  CompanyChanged(turn);
}

// Unless somebody has part in the turn there.
void Core::LeaveDevice(Turn& turn, Device& device) {
  const bool used = std::any_of(turn.granted.begin(), turn.granted.end(),
                                [&](JobId id) { return job(id).device == &device; });
  if (used) return;
  device.turn = 0;
  device.free_since = now_;
  turn.devices.erase(std::remove(turn.devices.begin(), turn.devices.end(), &device), turn.devices.end());
}

void Core::EndTurn(TurnNumber number) {
  const auto turn = state_.turns.find(number);
  if (turn->second.used) Charge(turn->second, turn->second.contended);
  for (Device* device : turn->second.devices) {
    device->turn = 0;
    device->free_since = now_;
  }
  state_.turns.erase(turn);
}

}  // namespace hocket::coordinator
