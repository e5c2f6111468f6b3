// Room on a full device, who is spilled for it, and the arena's chunks.
#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/core/core.h"
#include "coordinator/core/limits.h"

namespace hocket::coordinator {
void Add(Bytes bytes, Bytes& sum) { sum += std::min(bytes, std::numeric_limits<Bytes>::max() - sum); }

Bytes OwnResident(const Job& job) { return job.persistent - std::min(job.persistent, job.kept_arena); }

Bytes OwnBytes(const Job& job) {
  Bytes bytes = OwnResident(job);
  Add(job.spilled, bytes);
  return bytes;
}

// --- the job's messages ---------------------------------------------------------------------------

void Core::On(Job* job, const wire::NeedRoom& event) {
  if (job == nullptr || job->gone) return;
  if (job->room && job->room->asked) {
    return RejectJob(*job,
                     absl::StrCat("NeedRoom from ", job->info.name, ", whose last one is not answered yet"));
  }
  if (event.says_free) {
    job->persistent = event.persistent;
    job->spilled = event.spilled;
    Compare(DeviceOf(*job), event.device_free);
  }
  if (now_ - job->room_answered > kAnswerLimit) job->room_since = now_;
  if (job->turn != 0 && !event.restoring) state_.turns.at(job->turn).lacks_room = true;
  WillNotPass(*job);
  const Bytes freed = job->unclaimed + (job->room ? job->room->freed : 0);
  job->unclaimed = job->lacks_headroom = 0;  // what comes is for this
  job->room = RoomRequest{.bytes = event.bytes,
                          .restoring = event.restoring,
                          .asked = true,
                          .since = job->room_since,
                          .freed = event.restoring ? freed : 0};
}

void Core::On(Job* job, const wire::LacksHeadroom& event) {
  if (job == nullptr || job->gone || job->turn == 0 || IsGuest(*job)) return;
  job->lacks_headroom = event.bytes;
  WillNotPass(*job);
}

// Nobody waits for it: guaranteed bytes stay, and those that the policy wants to stay, and of who serves;
// what the job lacks for itself comes first. Who spills already is asked again when he has answered; when
// nobody can be moved it is let be.
void Core::MakeHeadroom(Job& job) {
  if (job.room && job.room->asked) return;
  std::vector<Job*> victims = Victims(job);
  const Policy& policy = *DeviceOf(job).policy;
  std::erase_if(victims,
                [&](Job* victim) { return Serves(*victim) || policy.StaysResident(ViewOf(victim->entity)); });
  if (AskToSpill(job, job.lacks_headroom, victims, /*guaranteed_too=*/false) == 0) job.lacks_headroom = 0;
}

// Who says so answers, and can be asked to spill again.
void Core::Holds(Job& job, Bytes persistent, Bytes spilled, bool movable, Bytes host_left) {
  job.persistent = persistent;
  job.spilled = spilled;
  HostTakes(job, host_left);
  job.unresponsive = false;
  job.movable = movable && job.turn == 0;
  job.why_not_movable.clear();
  job.cannot_spill.clear();
}

void Core::On(Job* job, const wire::Spilled& event) {
  if (job == nullptr) return;
  Holds(*job, event.persistent, event.spilled, event.movable, event.host_left);
  if (!event.movable) job->why_not_movable = event.why_not;
  const Bytes copied = std::min<Bytes>(event.copied, event.freed);
  job->spilled_total += copied;
  if (job->turn == 0 && job->restored_ahead > 0) {  // in vain
    const Bytes left = job->restored_ahead - std::min<Bytes>(job->restored_ahead, event.freed);
    job->ahead_time *= static_cast<double>(left) / static_cast<double>(job->restored_ahead);
    job->restored_ahead = left;
  }
  if (!job->spill || job->spill->request != event.request)
    return RecordSpill(*job, {.freed = event.freed, .begun = now_});
  SpillOrder& order = *job->spill;
  const Bytes moved = std::min<Bytes>(event.freed, order.bytes);
  const bool more = event.more && event.freed > 0 && event.freed < order.bytes;
  const auto told = static_cast<int64_t>(std::min<std::uint64_t>(event.host_taking_ns, INT64_MAX));
  const absl::Duration taking = std::min(absl::Nanoseconds(told), now_ - order.sent);
  Credit(order, event.freed, taking);
  order.bytes -= moved;
  order.freed += event.freed;
  order.copied += copied;
  order.sent = now_;
  order.host_taking += taking;
  // While host memory is taken the link is mostly idle.
  const absl::Duration took = now_ - order.begun;
  if (!more && 4 * order.host_taking < took) DeviceOf(*job).link.Add(order.freed, took);
  if (HasNoTurn(order.for_job)) CountMoved(*job, moved);
  if (more) return;
  if (order.freed == 0 && event.movable)
    job->cannot_spill = event.why_not.empty() ? "it has nothing to spill" : event.why_not;
  job->spills.Add(order.foretold, {.bytes = order.freed, .copied = order.copied, .time = took});
  RecordSpill(*job, order);
  job->spill.reset();
}

JobRef RefOf(const Job& job) {
  return {.id = job.id,
          .pid = job.info.pid,
          .rejoined = job.info.rejoin,
          .user = job.user,
          .name = job.info.name,
          .device = job.info.device};
}

void Core::RecordSpill(const Job& job, const SpillOrder& order) {
  if (order.freed == 0) return;
  const auto for_job = state_.jobs.find(order.for_job);
  actions_.emplace_back(
      SpillEnded{.job = RefOf(job),
                 .for_job = for_job == state_.jobs.end() ? JobRef() : RefOf(for_job->second),
                 .start = order.begun,
                 .end = now_,
                 .bytes = order.freed});
}

void Core::On(Job* job, const wire::Report& event) {
  if (job == nullptr) return;
  job->persistent = event.persistent;
  job->spilled = event.spilled;
  job->steps = std::max(job->steps, event.steps);
}

absl::Time AnswerLimit(const SpillOrder& order) {
  return order.sent + kAnswerLimit * (1 + static_cast<double>(order.bytes) / static_cast<double>(1_GiB));
}

// --- room -----------------------------------------------------------------------------------------

void Core::Credit(const SpillOrder& order, Bytes bytes, absl::Duration host_taking) {
  auto found = state_.jobs.find(order.for_job);
  if (found == state_.jobs.end()) return;
  Job& asker = found->second;
  if (asker.turn != 0) {
    Turn& turn = state_.turns.at(asker.turn);
    turn.spilled += bytes;
    const absl::Time from = std::max({turn.start, turn.host_taken_until, order.sent});
    turn.host_taking += std::clamp(now_ - from, absl::ZeroDuration(), host_taking);
    turn.host_taken_until = now_;
  }
  // What is for the headroom stays free: who restores would look for it in vain.
  const Bytes headroom = std::min(asker.lacks_headroom, bytes);
  asker.lacks_headroom -= headroom;
  if (headroom > 0 && asker.lacks_headroom == 0) SendTo(asker.id, wire::HeadroomMade{.turn = asker.turn});
  if (asker.room) {
    asker.room->freed += bytes - headroom;
  } else if (asker.turn != 0) {
    asker.unclaimed += bytes - headroom;
  }
}

// Who restores uses what there is: while he copies it in, the next part is copied out. An allocation needs
// all that it asks for.
void Core::ServeRoom(Job& job) {
  RoomRequest& room = *job.room;
  if (room.freed >= room.bytes) return AnswerRoom(job, true, "");
  // It restores into the lane's free chunks, too, and has heard of some since it tried.
  if (room.asked && room.restoring && std::exchange(job.arena.tried, job.arena.heard) != job.arena.heard)
    return AnswerRoom(job, true, "");
  if (job.shortage && job.shortage->refuse && room.asked && !room.restoring)
    return AnswerRoom(job, false, RoomArithmetic(job));
  if (IsGuest(job) && job.asides < kMostAsides && MayStepAside(job)) return ServeGuest(job);
  if (GiveLanesBack(DeviceOf(job)) > 0) room.lanes_until = now_ + kReturningRetry;
  if (now_ < room.lanes_until) return RetryRoomAt(job, kReturningRetry);
  if (std::exchange(room.lanes_until, absl::InfinitePast()) != absl::InfinitePast())
    return AnswerRoom(job, true, "");
  if (room.asked && !room.restoring && HasPart(job) && ShutsOut(job, room.bytes)) {
    if (now_ >= room.retry_at) return AnswerRoom(job, true, "");
    return SomebodyGoesOn(job) ? LetOthersGoFirst(job) : AnswerRoom(job, false, RoomArithmetic(job));
  }
  if (room.asked && !room.restoring && LeavesNoneForFellows(job)) {
    if (now_ < room.since + kCannotSpillLimit) return RetryRoomAt(job, kRoomRetry);
    return AnswerRoom(job, false, RoomArithmetic(job));
  }
  const Bytes coming = AskToSpill(job, room.bytes - room.freed);
  if (room.asked && room.restoring && room.freed > 0) return AnswerRoom(job, true, "");
  if (coming > 0) {  // its answer comes
    room.retry_at = absl::InfiniteFuture();
    return;
  }
  if (!room.asked) return AnswerRoom(job, true, "");  // nothing more to foresee
  // Nobody can be moved now. What was freed may be enough after all: the driver knows.
  if (room.freed > 0) return AnswerRoom(job, true, "");
  if (job.turn != 0 && !state_.turns.at(job.turn).guests.empty()) return MakeRoomFromGuests(job);
  if (now_ < room.retry_at) return WaitForRoom(job);
  for (const Job* other : Others(job)) this->job(other->id).cannot_spill.clear();  // asked again next time
  const bool aside = room.others_first && OthersCouldUseTurn(job);
  if (!aside && RefuseLatest(job)) return;
  if (aside && !OthersMaySuffice(job)) NoteShortage(job, room.bytes);
  AnswerRoom(job, true, "", aside);
}

// Nobody is moved for one that runs beside others: it gives its turn up where it stands, and waits for
// another one. Memory that is on its way back it waits for.
void Core::ServeGuest(Job& job) {
  if (now_ >= job.room->retry_at) return AnswerRoom(job, true, "");
  if (MemoryReturns(job) || IsBeingUnmapped(job)) return RetryRoomAt(job, kReturningRetry);
  ++job.asides;
  AnswerRoom(job, true, "", /*step_aside=*/true);
}

// They stop after their steps, and can be spilled then. Where it is a guest itself, and cannot stand aside
// where it is, all stop. Where none of them will, it is told no.
void Core::MakeRoomFromGuests(Job& job) {
  RoomRequest& room = *job.room;
  Turn& turn = state_.turns.at(job.turn);
  if (!IsGuest(job)) StopGuests(turn);
  if (IsGuest(job) && !StopsAtOnce(turn)) AskToStop(turn);
  if (now_ < room.retry_at) return RetryRoomAt(job, kRoomRetry);
  // Where all of them lack room none will end its step: one that can be moved where it stands is.
  const bool none_can = std::all_of(turn.granted.begin(), turn.granted.end(), [&](JobId id) {
    const Job& other = this->job(id);
    const bool lacks = (other.room && other.room->asked) || other.room_answered == now_;
    return lacks || other.device != job.device;
  });
  const bool aside = none_can && GangOf(job) == nullptr && MayStepAside(job);
  const bool stuck = (none_can || AwaitedOnItsDevice(job)) && !aside && HasPartElsewhere(job);
  if (stuck && !room.restoring && now_ >= room.since + kCannotSpillLimit)
    return AnswerRoom(job, false, RoomArithmetic(job));
  AnswerRoom(job, true, "", aside);
}

bool Core::MemoryReturns(const Job& job) const {
  const auto& returning = DeviceOf(job).returning;
  return std::any_of(returning.begin(), returning.end(), [&](const Returning& r) {
    return r.bytes > 0 && std::min(r.until, r.seen + kReturnedRetry) > now_;
  });
}

// The ledger calls it free already: where that would not be enough it is not waited for. Who restores takes
// what there is.
bool Core::IsBeingUnmapped(const Job& job) const {
  const Device& device = DeviceOf(job);
  if (Free(device) < (job.room->restoring ? 1 : job.room->bytes)) return false;
  return std::any_of(device.returning.begin(), device.returning.end(),
                     [&](const Returning& r) { return r.bytes == 0 && r.until > now_; });
}

void Core::WaitForRoom(Job& job) {
  const auto others = Others(job);
  job.room->others_first = false;
  const bool comes_back =
      HeldUnseen(job) || MemoryReturns(job) ||
      std::any_of(others.begin(), others.end(), [&](const Job* other) { return MayBeEnding(*other); });
  // Nobody says that he has unmapped it. So it is tried again, but whoever waits for the turn, and perhaps
  // has to go on before one that holds bytes can be moved, does not wait as long.
  const bool unmapped = IsBeingUnmapped(job);
  if (!comes_back && unmapped)
    job.room->others_first = now_ >= job.room->since + kRoomRetry && OthersMaySuffice(job);
  if (comes_back || unmapped) return RetryRoomAt(job, kReturningRetry);
  const bool refused = std::any_of(others.begin(), others.end(),
                                   [](const Job* other) { return !other->cannot_spill.empty(); });
  const bool may_change = (refused || AwaitedOnItsDevice(job)) && now_ < job.room->since + kCannotSpillLimit;
  job.room->others_first = job.room->restoring || OthersMaySuffice(job);
  if (!job.room->others_first && WaitsForOthers(job)) return;
  if (job.room->others_first || may_change) return RetryRoomAt(job, kRoomRetry);
  if (RefuseLatest(job)) return;
  AnswerRoom(job, false, RoomArithmetic(job));
}

// Whether somebody waits for the turn that `job` can do nothing with, and could use it: it has the bytes that
// it needs, or is one of those that cannot be moved (a thread of it, in the program's own code, may wait for
// the one that waits for the turn). A process that has the turn of another device keeps that meanwhile: it
// waits for no one who may need it.
bool Core::OthersCouldUseTurn(const Job& job) const {
  if (!HasPart(job) || !MayStepAside(job)) return false;
  const bool elsewhere = HasPartElsewhere(job);
  const bool long_ago = job.room && job.room->restoring && now_ >= job.room->since + kCannotSpillLimit;
  const bool in_gang_here = SharesDeviceInGang(job) && !long_ago;
  if (job.overstays != 0 && !in_gang_here && !elsewhere) return true;
  const auto others = Others(job);
  return std::any_of(others.begin(), others.end(), [&](const Job* other) {
    if (elsewhere && StepMayWait(*other)) return false;
    const bool stuck = !other->movable && other->persistent > 0;
    const bool at_lock = stuck && other->overstays != 0 && !other->set_aside;
    if (at_lock && (!in_gang_here || other->lane == job.lane)) return true;
    return !in_gang_here && Eligible(other->entity) &&  // it waits, or the rank of its gang that it waits for
           (stuck || Fits(other->entity) || CanGoOn(*other, job));
  });
}

void Core::RetryRoomAt(Job& job, absl::Duration after) {
  absl::Time& at = job.room->retry_at;
  at = at > now_ ? std::min(at, now_ + after) : now_ + after;
}

void Core::AnswerRoom(Job& job, bool ok, const std::string& reason, bool step_aside) {
  const bool asked = job.room->asked;
  if (asked && !ok) NoLongerLacks(job);
  if (step_aside) job.lacks_since = std::min(job.lacks_since, now_);
  job.unclaimed = asked ? 0 : job.room->freed;
  if (asked && ok && job.turn != 0 && job.room->restoring) RestoresFrom(job, now_);
  if (asked && ok && !step_aside && !job.room->restoring) RememberReach(job, job.room->bytes);
  job.room.reset();
  if (!asked) return;
  job.room_answered = now_;
  SendTo(job.id, wire::Room{.ok = ok, .reason = reason, .step_aside = step_aside});
}

bool Core::HasNoTurn(JobId id) const {
  auto found = state_.jobs.find(id);
  return found == state_.jobs.end() || found->second.turn == 0;
}

std::vector<const Job*> Core::Others(const Job& job) const {
  std::vector<const Job*> others;
  for (const auto& [id, other] : state_.jobs) {
    if (other.device == job.device && other.entity != job.entity) others.push_back(&other);
  }
  return others;
}

bool Core::CanBeSpilled(const Job& job) const {
  return job.movable && !job.gone && job.turn == 0 && !job.spill && !job.unresponsive && job.persistent > 0 &&
         job.cannot_spill.empty() && !HoldsStepOpen(job) && !IsPromised(job);
}

// Who can be spilled for `job`, first those that neither wait nor will in a moment, then the one whose turn
// is farthest away. After them those whose bytes the policy wants to stay, and who serves; last are, for
// bytes that come back, ranks of its own gang that want nothing now: to grow, all have to fit together.
std::vector<Job*> Core::Victims(const Job& job) {
  std::vector<Job*> victims;
  Entities waiting, pausing;
  const Policy& policy = *DeviceOf(job).policy;
  for (const Job* other : Others(job)) {
    if (!CanBeSpilled(*other)) continue;
    if (other->waiting && !other->paused && !other->held_out) {
      if (std::find(waiting.begin(), waiting.end(), other->entity) == waiting.end())
        waiting.push_back(other->entity);
    } else if (policy.ForeseesNext() && InUsualPause(*other)) {
      pausing.push_back(other->entity);
    } else {
      victims.push_back(&this->job(other->id));
    }
  }
  const auto away = static_cast<std::ptrdiff_t>(victims.size());
  std::vector<JobView> order = InTurnOrder(DeviceOf(job), waiting);
  for (EntityId entity : pausing) {
    const JobView view = ViewOf(entity);
    const auto after = [&](const JobView& other) { return policy.Before(view, other); };
    order.insert(std::find_if(order.begin(), order.end(), after), view);
  }
  for (auto view = order.rbegin(); view != order.rend(); ++view) {
    for (JobId id : RanksOf(view->id)) {
      Job& rank = this->job(id);
      if (rank.device == job.device && CanBeSpilled(rank)) victims.push_back(&rank);
    }
  }
  // Of whom nothing was taken yet may have the pauses of `job`.
  if (PausesAreOfUse(job))
    std::stable_partition(victims.begin() + away, victims.end(),
                          [](Job* victim) { return victim->spilled > 0; });
  std::stable_partition(victims.begin(), victims.end(),
                        [&](Job* victim) { return !policy.StaysResident(ViewOf(victim->entity)); });
  std::stable_partition(victims.begin(), victims.end(), [&](Job* victim) { return !Stays(*victim); });
  std::stable_partition(victims.begin(), victims.end(), [&](Job* victim) { return !Serves(*victim); });
  const bool restores = job.room && job.room->restoring;
  for (JobId id : RanksOf(job.entity)) {
    Job& fellow = this->job(id);
    if (restores && id != job.id && fellow.device == job.device && CanBeSpilled(fellow) && !fellow.waiting)
      victims.push_back(&fellow);
  }
  return victims;
}

// Sends as many orders as may be needed for `wanted` bytes and returns what all unanswered ones may bring.
// Guaranteed bytes are taken when all others are not enough: somebody could not run at all otherwise.
Bytes Core::AskToSpill(Job& job, Bytes wanted) {
  const Bytes coming = AskToSpill(job, wanted, Victims(job), /*guaranteed_too=*/false);
  return coming >= wanted ? coming : AskToSpill(job, wanted, Victims(job), /*guaranteed_too=*/true);
}

Bytes Core::AskToSpill(Job& job, Bytes wanted, const std::vector<Job*>& victims, bool guaranteed_too) {
  for (const Job* other : Others(job)) {
    // What was ordered ahead of a turn is for whoever has one.
    if (other->spill && job.turn != 0 && HasNoTurn(other->spill->for_job))
      this->job(other->id).spill->for_job = job.id;
  }
  Bytes coming = Coming(job);
  if (PausesAreOfUse(job) && SomebodyHasMore(job)) return coming;
  for (Job* victim : victims) {
    if (coming >= wanted) break;
    const Bytes kept = guaranteed_too ? 0 : KeptFor(*victim, job);
    if (kept == victim->persistent) continue;
    const Bytes bytes = kept == 0 ? wanted - coming : std::min(wanted - coming, victim->persistent - kept);
    active_.insert(victim->id);
    victim->spill = SpillOrder{.request = next_spill_++,
                               .bytes = bytes,
                               .for_job = job.id,
                               .sent = now_,
                               .begun = now_,
                               .foretold = ForetoldMove(*victim, std::min(bytes, victim->persistent))};
    SendTo(victim->id, wire::Spill{.request = victim->spill->request, .bytes = victim->spill->bytes});
    coming += std::min(victim->spill->bytes, victim->persistent);
  }
  return coming;
}

// Who gives some already gives the rest when he has answered, so that another one keeps all of his.
bool Core::SomebodyHasMore(const Job& job) const {
  const auto others = Others(job);
  return std::any_of(others.begin(), others.end(), [&](const Job* other) {
    return other->spill && !other->unresponsive && other->spill->for_job == job.id &&
           other->persistent > other->spill->bytes;
  });
}

// What the unanswered orders for `job` may bring.
Bytes Core::Coming(const Job& job) const {
  Bytes coming = 0;
  for (JobId id : active_) {
    const Job& other = this->job(id);
    if (other.spill && !other.unresponsive && other.spill->for_job == job.id)
      coming += std::min(other.spill->bytes, other.persistent);
  }
  return coming;
}

// Of what `victim` has resident, what its own guarantee keeps, or its group's or user's: they have theirs
// together, and it is nothing to their own jobs.
Bytes Core::KeptFor(const Job& victim, const Job& asker) const {
  Bytes kept = std::min(victim.persistent, victim.guarantee);
  for (const Owner& owner : OwnersOf(victim)) {
    auto quota = state_.quotas.find(owner);
    if (quota == state_.quotas.end() || Owns(owner, asker)) continue;
    Bytes resident = 0;
    for (const auto& [id, job] : state_.jobs) {
      if (job.gone || job.device != victim.device || !Owns(owner, job)) continue;
      Add(job.persistent - (job.spill ? std::min(job.persistent, job.spill->bytes) : 0), resident);
    }
    const Bytes above = resident - std::min(resident, quota->second.memory_guarantee);
    kept = std::max(kept, victim.persistent - std::min(victim.persistent, above));
  }
  return kept;
}

void Core::GiveUpOnSilentVictims() {
  for (JobId id : active_) {
    Job& job = this->job(id);
    if (job.unresponsive) continue;
    if (job.spill && due_ >= AnswerLimit(*job.spill))
      SaySilent(job, now_ - job.spill->sent, absl::StrCat("a request for ", FormatBytes(job.spill->bytes)));
    else if (job.ahead && due_ >= AnswerLimit(*job.ahead))
      SaySilent(job, now_ - job.ahead->sent,
                absl::StrCat("the order to restore ", FormatBytes(job.ahead->bytes), " ahead of its turn"));
  }
}

void Core::SaySilent(Job& job, absl::Duration since, const std::string& to_what) {
  job.unresponsive = true;
  AskOthersThan(job);
  Say(absl::StrCat(job.info.name, " (pid ", job.info.pid, ") has not answered for ",
                   absl::FormatDuration(since), " to ", to_what, "; it gets no turn until it does. ",
                   StoppedPerhaps(job)),
      "silent", job.id);
}

// At the grant already: what the ledger says will be missing, beside what it does not know, is asked for
// before the job has noticed.
void Core::ForeseeRoom(Job& job) {
  if (job.need == 0) return;
  const Device& device = DeviceOf(job);
  const Bytes unseen = now_ < device.unseen_at + kUnseenGoodFor ? device.unseen : 0;
  const Bytes known = Free(device);
  const Bytes free = known - std::min(known, unseen);
  if (job.need <= free) return;
  job.room = RoomRequest{.bytes = job.need - free, .restoring = true, .since = now_};
}

// Most leave because their process ends.
bool Core::MayBeEnding(const Job& other) const {
  return other.gone && other.persistent > 0 && now_ < other.gone_since + kLeaverLimit;
}

// After a restart: jobs that have not reported yet hold memory, and so do those that died with the
// coordinator, until the driver has taken it back. The ledger knows neither.
bool Core::HeldUnseen(const Job& job) const {
  if (WindowOpen()) return true;
  return now_ < state_.window_ends + kDeadMemoryLimit && Free(DeviceOf(job)) >= job.room->bytes;
}

// What it is bringing back is there already, or not yet.
bool Core::MayBecomeMovable(const Job& other) const {
  if (AwaitsFellow(other)) return false;
  if (other.ahead && !other.gone) return true;
  return !other.gone && other.persistent > 0 && other.cannot_spill.empty() &&
         (!other.movable || other.unresponsive || other.spill);
}

bool Core::OthersMaySuffice(const Job& job) const {
  Bytes bytes = 0;
  bool any = false;  // what comes back is counted as free
  const bool elsewhere = HasPartElsewhere(job);
  for (const Job* other : Others(job)) {
    if (!MayBecomeMovable(*other) || (elsewhere && AwaitsProcessOf(*other, job))) continue;
    any = true;
    Add(other->persistent, bytes);
  }
  return any && Free(DeviceOf(job)) + bytes >= job.room->bytes;
}

// What `job` could have if all that can be moved for it now were moved.
Bytes Core::Reachable(const Job& job) const {
  Bytes bytes = Free(DeviceOf(job));
  for (const Returning& r : DeviceOf(job).returning) Add(r.until > now_ ? r.bytes : 0, bytes);
  for (const Job* other : Others(job)) {
    Add(Gives(*other), bytes);
  }
  return bytes;
}

// --- the ledger -----------------------------------------------------------------------------------

Bytes Core::Arena(const Device& device) const {
  Bytes bytes = 0;
  for (const auto& [index, lane] : device.lanes) Add(lane.arena.size(), bytes);
  return bytes;
}

Bytes Core::Free(const Device& device) const {
  Bytes used = Arena(device);
  for (const Returning& r : device.returning) Add(r.until > now_ ? r.bytes : 0, used);
  for (const auto& [id, job] : state_.jobs) {
    if (job.device == &device) Add(job.persistent, used);
  }
  return used < device.capacity ? device.capacity - used : 0;
}

void Core::Expect(Device& device, Bytes bytes, absl::Duration within) {
  std::erase_if(device.returning, [&](const Returning& r) { return r.until <= now_; });
  device.returning.push_back({bytes, now_ + within});
}

// The driver may have had back for long what we still wait for. What is in use besides the ledger's is known
// as it was last when nothing was on its way, so what shows is believed only after a few more tries.
void Core::Compare(Device& device, Bytes driver_free) {
  std::vector<Returning>& returning = device.returning;
  std::erase_if(returning, [&](const Returning& r) { return r.until <= now_; });
  // What is being moved the driver and the ledger do not see at the same time.
  const bool moves = std::any_of(state_.jobs.begin(), state_.jobs.end(), [&](const auto& entry) {
    const Job& job = entry.second;
    return job.device == &device && (job.spill || job.ahead || job.unclaimed > 0);
  });
  if (returning.empty()) {
    const Bytes known = Free(device);
    if (!moves && now_ >= state_.window_ends + kDeadMemoryLimit) {
      device.unseen = known - std::min(known, driver_free);
      device.unseen_at = now_;
    }
    return;
  }
  Bytes seen = 0;  // of what is on its way
  const Bytes there = driver_free + device.unseen;
  for (Returning& r : returning) {
    const bool back = !moves && r.bytes > 0 && there >= Free(device) + seen + r.bytes;
    seen += back ? r.bytes : 0;
    r.seen = back ? std::min(r.seen, now_) : absl::InfiniteFuture();
  }
}

}  // namespace hocket::coordinator
