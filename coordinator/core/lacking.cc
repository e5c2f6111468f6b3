// A job that finds no room waits until others have given some back, instead of running out of memory.
//
// Nobody can be moved for it now: their host memory is full, say. It gives its turn up where it stands and is
// held out: not granted a turn while the ledger says that it would find no room again, so that the others go
// on as if it did not ask. What it waits for comes when one of them ends, or needs less.
//
// A gang waits as a whole for what one of its ranks lacks. Ranks that are in the midst of a step then, which
// they cannot end without the one that lacks room, are set aside (FellowsStandAside): they keep their memory,
// and their devices go to others.
//
// Nobody is waited for who cannot go on himself. Where all who could are such, the one who lacked room last
// is told no, with the arithmetic, and his memory comes back to the others: the oldest goes on.
// docs/decisions/0026 has the reasons.
#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/core/core.h"
#include "coordinator/core/limits.h"
#include "coordinator/core/seconds.h"

namespace hocket::coordinator {

// `more` than what is there already. REQUIRES: that is known as of the same moment.
void Core::HostTakes(Job& job, Bytes more) const {
  job.host = job.spilled;
  Add(more, job.host);
}

Bytes Core::HostLeft(const Job& job) const { return job.host - std::min(job.host, job.spilled); }

// Of what it has resident, that can be moved now.
Bytes Core::Gives(const Job& job) const {
  if (!job.movable || job.unresponsive || job.turn != 0 || !job.cannot_spill.empty() || HoldsStepOpen(job))
    return 0;
  return std::min(job.persistent, HostLeft(job));
}

// Whether `other`, which waits, would find the bytes for its turn if `asker` gave up the one that it has.
bool Core::CanGoOn(const Job& other, const Job& asker) const {
  Bytes there = Reachable(other);
  if (HasPart(asker) && !HoldsStepOpen(asker)) Add(std::min(asker.persistent, HostLeft(asker)), there);
  return other.need <= there;
}

RoomSum Core::SumFor(const Job& job, Bytes wanted) const {
  const Device& device = DeviceOf(job);
  RoomSum sum{.wanted = wanted, .free = Free(device)};
  for (const Returning& r : device.returning) Add(r.until > now_ ? r.bytes : 0, sum.returning);
  const bool elsewhere = HasPartElsewhere(job);
  for (const Job* other : Others(job)) {
    if (other->persistent == 0) continue;
    const bool waits_for_it =
        other->waiting && HasPart(job) && (!CanGoOn(*other, job) || (elsewhere && StepMayWait(*other)));
    const bool stuck = waits_for_it || (elsewhere && HasPart(*other) && AwaitsProcessOf(*other, job));
    sum.others.push_back({.job = other->id,
                          .resident = other->persistent,
                          .gives = Gives(*other),
                          .comes_back = !other->gone && !IsOut(*other) && !stuck});
  }
  return sum;
}

// Of what it would hold if it grew so far, that its host memory could not take.
Bytes Core::Stays(const Job& job, Bytes grows_by) const {
  Bytes held = job.persistent;
  Add(job.spilled, held);
  Add(grows_by, held);
  return held - std::min(held, job.host);
}

// One whose step is interrupted needs more than before: what lives then takes whole chunks. So much of its
// need:
constexpr Bytes kSpareOfNeed = 8;

// A rank that has lacked room in the midst of a step, which its fellows are in, too. Its bytes stay, or it
// might wait for them to come back while it keeps its fellows' where they are: who waits for room in a step
// can be told no, who waits for his own bytes cannot.
bool Core::HoldsStepOpen(const Job& job) const {
  const bool lacks = job.room && job.room->asked ? !job.room->restoring
                     : job.waiting               ? job.lacked > 0
                                                 : job.turn == 0 && job.after_others;
  return lacks && GangOf(job) != nullptr && !SharesDeviceInGang(job);
}

// It, or a rank of its gang.
bool Core::HasDoneSteps(const Job& job) const {
  const auto ranks = RanksOf(job.entity);
  return std::any_of(ranks.begin(), ranks.end(), [&](JobId id) { return this->job(id).steps > 0; });
}

// Ranks of its gang share a device. What one takes there its fellow may need to end the same step, so such a
// gang would wait for itself: it does not wait for room.
bool Core::SharesDeviceInGang(const Job& job) const {
  if (!state_.gangs.contains(job.entity)) return false;
  std::set<DeviceKey> devices;
  const auto ranks = RanksOf(job.entity);
  return !std::all_of(ranks.begin(), ranks.end(),
                      [&](JobId id) { return devices.insert(this->job(id).info.device).second; });
}

// Whether one that has done no step yet would, grown so far, keep somebody from another step who has done
// some. Between those that have done steps nobody comes first.
bool Core::ShutsOut(const Job& job, Bytes grows_by) const {
  if (HasDoneSteps(job) || SharesDeviceInGang(job) || Serves(job)) return false;
  return KeepsFromStep(job, Stays(job, grows_by));
}

bool Core::KeepsFromStep(const Job& job, Bytes stays) const {
  if (stays == 0) return false;
  const auto others = Others(job);
  return std::any_of(others.begin(), others.end(), [&](const Job* other) {
    if (other->gone || other->steps == 0) return false;
    Bytes needs = 0;
    for (Bytes bytes : {other->persistent, other->spilled, other->transient_peak}) Add(bytes, needs);
    Bytes together = stays;
    Add(needs, together);
    Add(needs / kSpareOfNeed, together);
    for (const Job* third : others) {
      if (third->id != other->id) Add(Stays(*third, 0), together);
    }
    return together > DeviceOf(job).capacity;
  });
}

// --- who is held out ------------------------------------------------------------------------------

// Before it is said, the oldest of those that would wait in vain is let try.
void Core::HoldOut() {
  bool any = false;
  for (JobId id : active_) {
    Job& job = this->job(id);
    job.most_held = std::max(job.most_held, OwnBytes(job));
    job.lacks_room = !SharesDeviceInGang(job) && (LacksRoom(job) || NewOneMustWait(job));
    any |= job.lacks_room;
  }
  for (auto& [id, gang] : state_.gangs) any |= HoldGangOut(gang);
  any_held_out_ = any;
  if (any) LetOldestTry();
  for (JobId id : active_) {
    Job& job = this->job(id);
    const bool out = job.waiting && IsOut(job);
    if (job.held_out && !out && job.waiting && !job.held_back) BeginToWait(job);
    job.held_out = out;
  }
}

// All ranks for the sake of one: a turn in which one finds no room is of no use to the others. But one that
// is to be told no has the next turn for that.
bool Core::HoldGangOut(Gang& gang) {
  gang.held_out = false;
  if (!gang.complete || SharesDeviceInGang(job(gang.ranks.begin()->second))) return false;
  bool lacks = false, waits = false, refused = false;
  for (JobId id : RanksOf(gang.id)) {
    const Job& rank = job(id);
    waits |= rank.waiting;
    refused |= rank.waiting && rank.shortage && rank.shortage->refuse;
  }
  if (!waits || refused || Granted(gang.id)) return false;
  for (JobId id : RanksOf(gang.id)) {
    Job& rank = job(id);
    if (!active_.contains(id)) rank.lacks_room = NewOneMustWait(rank);
    rank.lacks_room |= CannotComeBack(rank);
    lacks |= rank.lacks_room;
  }
  return gang.held_out = lacks;
}

// It lacks room that others have to give back first, or a rank of its gang does.
bool Core::IsOut(const Job& job) const {
  const auto gang = state_.gangs.find(job.entity);
  return gang == state_.gangs.end() ? job.lacks_room : gang->second.held_out;
}

bool Core::LacksRoom(const Job& job) const {
  if (!job.waiting || !job.shortage || job.shortage->refuse || WindowOpen()) return false;
  const Shortage& lack = *job.shortage;
  const Bytes free = Free(DeviceOf(job)), need = NeedNow(job);
  if (lack.departures != DeviceOf(job).departures) return false;
  if (ShutsOut(job, job.lacked)) return true;
  if (need <= free && free > lack.free) return false;
  return now_ < lack.retry_at || need > Reachable(job);
}

// To begin its turn, of what is spilled by now (`need` is as of when it asked); who does not ask yet will.
Bytes Core::NeedNow(const Job& job) const {
  if (HasPart(job)) return 0;
  return job.waiting ? job.lacked + job.spilled : job.spilled;
}

// What `job` could have if everybody else came to his doors, but for those that were set aside in their
// steps, if nobody's arena were kept, and if what is on its way had come back.
Bytes Core::CouldHave(const Job& job) const {
  const Device& device = DeviceOf(job);
  Bytes stays = 0;
  for (const auto& [index, lane] : device.lanes) {
    if (!lane.arena.empty() && !MayClose(device, index)) Add(lane.arena.size(), stays);
  }
  for (const auto& [id, other] : state_.jobs) {
    if (other.device != &device) continue;
    const bool may_move =
        other.entity != job.entity && !other.gone && !other.set_aside && !HoldsStepOpen(other);
    Add(other.persistent - (may_move ? std::min(other.persistent, HostLeft(other)) : 0), stays);
  }
  return device.capacity - std::min(device.capacity, stays);
}

// Ranks that share the device have bytes on the host that come back in the same turn, or the gang would wait
// for them for ever: those come before what `job` wants to grow by.
bool Core::LeavesNoneForFellows(const Job& job) const {
  if (!SharesDeviceInGang(job)) return false;
  Bytes comes_back = 0;
  for (JobId id : RanksOf(job.entity)) {
    if (const Job& rank = this->job(id); rank.device == job.device) Add(rank.spilled, comes_back);
  }
  Bytes wanted = comes_back;
  Add(job.room->bytes, wanted);
  return comes_back > 0 && wanted > CouldHave(job);
}

// Not all that its gang has on the host there would come back, and a rank for which there is no room would
// leave its fellows in steps that they cannot end, with bytes that nobody can take back from them. So none
// begins.
bool Core::CannotComeBack(const Job& job) const {
  return !WindowOpen() && !HasPart(job) && job.spilled > 0 && job.spilled > CouldHave(job);
}

// It, and its gang, has had nothing of the device yet, and asks for the first time.
bool Core::IsNew(const Job& job) const {
  const auto had_some = [](const Job& rank) {
    return rank.turns > 0 || rank.steps > 0 || rank.persistent > 0 || rank.spilled > 0 || rank.info.rejoin;
  };
  if (had_some(job)) return false;  // as mostly
  bool waits = false;
  for (JobId id : RanksOf(job.entity)) {
    const Job& rank = this->job(id);
    if (HasPart(rank) || had_some(rank) || Serves(rank)) return false;
    waits |= rank.waiting;
  }
  return waits;
}

// By its program's earlier runs; 0: not known.
Bytes Core::NeedOf(const Job& job) const {
  if (!job.known) return 0;
  Bytes need = job.known->persistent;
  if (job.info.memory_limit > 0) need = std::min(need, job.info.memory_limit);
  Add(job.known->transient, need);
  return need;
}

// One that would find no room, or leave none for another's next step, does not begin; and none begins before
// one that came earlier and lacks room, unless all that it will ever hold can be moved. What is more than the
// device is not waited for: the program may be another one than it was.
bool Core::NewOneMustWait(const Job& job) const {
  if (!IsNew(job) || WindowOpen()) return false;
  const Bytes capacity = DeviceOf(job).capacity;
  if (OlderOneLacks(job) && job.host < capacity) return true;
  const Bytes need = NeedOf(job);
  if (need == 0 || need > capacity) return false;
  const Bytes stays = job.known->persistent - std::min(job.known->persistent, job.known->host);
  Bytes together = need;
  for (const Job* other : Others(job)) Add(other->gone ? other->persistent : Stays(*other, 0), together);
  return together > capacity || KeepsFromStep(job, stays);
}

// A rank that lacks nothing itself keeps nobody from its device.
bool Core::OlderOneLacks(const Job& job) const {
  if (!any_held_out_) return false;
  const auto others = Others(job);
  return std::any_of(others.begin(), others.end(), [&](const Job* other) {
    return other->lacks_room && IsOut(*other) &&
           std::make_pair(LackSinceOfAll(*other), other->id) < std::make_pair(AskedSince(job), job.id);
  });
}

// It, or the first rank of its gang.
absl::Time Core::AskedSince(const Job& job) const {
  absl::Time asked = absl::InfiniteFuture();
  for (JobId id : RanksOf(job.entity)) {
    if (this->job(id).waiting) asked = std::min(asked, this->job(id).asked);
  }
  return asked;
}

absl::Time Core::LackSince(const Job& job) const { return job.shortage ? job.shortage->since : job.asked; }

// The same of it, and of all ranks of its gang.
absl::Time Core::LackSinceOfAll(const Job& job) const {
  absl::Time since = absl::InfiniteFuture();
  for (JobId id : RanksOf(job.entity)) {
    if (this->job(id).waiting) since = std::min(since, LackSince(this->job(id)));
  }
  return since;
}

// Somebody takes part beside it who has memory, or is about to have some, and does not wait for it in vain.
bool Core::SomebodyGoesOn(const Job& job) const {
  const auto others = Others(job);
  const bool elsewhere = HasPartElsewhere(job);  // then those that may need that device do not begin here
  return std::any_of(others.begin(), others.end(), [&](const Job* other) {
    const bool uses = other->persistent > 0 || other->spilled > 0 || other->waiting || HasPart(*other) ||
                      other->after_others;  // it will ask in a moment
    const bool stuck = other->waiting && ((HasPart(job) && other->need > CouldHave(*other)) ||
                                          (elsewhere && StepMayWait(*other)));
    return MayBeEnding(*other) || (!other->gone && !IsOut(*other) && uses && !stuck);
  });
}

// Those that are held out, and nobody is left whom they could wait for: nor for whom they wait, and so on. Of
// a gang it is enough that one rank that lacks room waits for somebody.
std::set<EntityId> Core::WaitInVain() const {
  std::set<EntityId> in_vain;
  for (JobId id : active_) {
    if (job(id).waiting && IsOut(job(id))) in_vain.insert(job(id).entity);
  }
  const auto waits_for_somebody = [&](EntityId entity) {
    const auto ranks = RanksOf(entity);
    return std::any_of(ranks.begin(), ranks.end(), [&](JobId id) {
      if (!job(id).lacks_room) return false;
      const auto others = Others(job(id));
      return SomebodyGoesOn(job(id)) || std::any_of(others.begin(), others.end(), [&](const Job* other) {
               return IsOut(*other) && other->persistent > 0 && in_vain.count(other->entity) == 0;
             });
    });
  };
  for (bool found = true; found;) found = std::erase_if(in_vain, waits_for_somebody) > 0;
  return in_vain;
}

// It, or all ranks of its gang, by the ledger.
bool Core::CouldBegin(const Job& job) const {
  const auto ranks = RanksOf(job.entity);
  return std::none_of(ranks.begin(), ranks.end(), [&](JobId id) { return CannotComeBack(this->job(id)); });
}

// Of those that could begin, if there are any. One at a time, over all devices: then the others wait for that
// one. Two gangs that lack room on different devices would otherwise both try, and each find what the other
// holds.
void Core::LetOldestTry() {
  for (;;) {
    const std::set<EntityId> in_vain = WaitInVain();
    Job* oldest = nullptr;
    for (JobId id : active_) {
      Job& job = this->job(id);
      if (!job.waiting || in_vain.count(job.entity) == 0) continue;
      const auto order = [&](const Job& of) { return std::make_pair(!CouldBegin(of), LackSinceOfAll(of)); };
      if (oldest == nullptr || order(job) < order(*oldest)) oldest = &job;
    }
    if (oldest == nullptr) return;
    for (JobId id : RanksOf(oldest->entity)) job(id).lacks_room = false;
    const auto gang = state_.gangs.find(oldest->entity);
    if (gang != state_.gangs.end()) gang->second.held_out = false;
  }
}

absl::Time Core::RetryOfLack(const Job& job) const {
  absl::Time retry = absl::InfiniteFuture();
  const auto at = [&](absl::Time time) {
    if (time > now_) retry = std::min(retry, time);
  };
  for (JobId id : RanksOf(job.entity)) {
    const Job& rank = this->job(id);
    if (rank.waiting && rank.shortage) at(rank.shortage->retry_at);
    for (const Job* other : Others(rank)) {  // from then on what it holds counts as kept
      if (MayBeEnding(*other)) at(other->gone_since + kLeaverLimit);
    }
  }
  return retry;
}

// --- in its turn ----------------------------------------------------------------------------------

// True: it has been answered, or will be.
bool Core::WaitsForOthers(Job& job) {
  const RoomRequest& room = *job.room;
  if (!room.asked || !HasPart(job) || SharesDeviceInGang(job)) return false;
  const RoomSum sum = SumFor(job, room.bytes);
  if (sum.outlook() == Outlook::kNever || sum.Later() == sum.Now()) return false;
  LetOthersGoFirst(job);
  return true;
}

// As soon as one of them could use the turn.
void Core::LetOthersGoFirst(Job& job) {
  job.room->others_first = true;
  if (!OthersCouldUseTurn(job)) return RetryRoomAt(job, kRoomRetry);
  NoteShortage(job, job.room->bytes);
  AnswerRoom(job, true, "", /*step_aside=*/true);
}

void Core::NoteShortage(Job& job, Bytes bytes) {
  if (!job.shortage) {
    job.shortage = Shortage{.since = std::min(now_, job.lacks_since)};
    Say(absl::StrCat(job.info.name, " finds no room for ", FormatBytes(bytes), " on ", DeviceOf(job).name,
                     " and waits until others have given some back: hocket explain ", job.info.name),
        "lacks-room", job.id);
  }
  job.shortage->free = Free(DeviceOf(job));
  TriedInVain(*job.shortage, bytes, DeviceOf(job).departures, now_);
}

void Core::NoLongerLacks(Job& job) {
  job.shortage.reset();
  job.lacks_since = absl::InfiniteFuture();
}

// Of its gang, or itself: the one that found no room, and the last such rank; none: it is not held out.
Job* Core::LatestLacking(const Job& of) {
  Job* latest = nullptr;
  if (!IsOut(of)) return latest;
  for (JobId id : RanksOf(of.entity)) {
    Job& rank = this->job(id);
    if (!rank.lacks_room || !rank.shortage) continue;
    if (latest == nullptr || rank.shortage->since > latest->shortage->since) latest = &rank;
  }
  return latest;
}

// Of those that are held out and have memory, the one who lacked room last, and comes after `job`. Bytes that
// come back come first, then allocations of those that have done steps. A gang counts as its first rank that
// lacks room: so of two that wait for each other, whatever they lack, always the same one gives way.
Job* Core::LatestInTheWay(const Job& job) {
  const bool comes_back = job.room->restoring;
  absl::Time lacks_since = job.lacks_since;
  for (JobId id : RanksOf(job.entity)) lacks_since = std::min(lacks_since, this->job(id).lacks_since);
  auto after = std::make_tuple(!comes_back && !HasDoneSteps(job),
                               comes_back ? absl::InfinitePast() : lacks_since, job.id);
  Job* latest = nullptr;
  for (const Job* other : Others(job)) {
    Job* const lacking = LatestLacking(*other);
    if (lacking == nullptr || other->persistent == 0) continue;
    absl::Time since = lacking->shortage->since;
    for (JobId id : RanksOf(other->entity)) {
      if (const Job& rank = this->job(id); rank.shortage) since = std::min(since, rank.shortage->since);
    }
    const auto lacks = std::make_tuple(!HasDoneSteps(*other), since, other->id);
    if (lacks <= after) continue;
    after = lacks;
    latest = lacking;
  }
  return latest;
}

// `job` lacks room that nobody who goes on will give back. So one of those that do not is told no: it has the
// next turn for that.
bool Core::RefuseLatest(Job& job) {
  RoomRequest& room = *job.room;
  if (!room.asked || !HasPart(job) || SharesDeviceInGang(job)) return false;
  if (SumFor(job, room.bytes).outlook() != Outlook::kNever) return false;
  Job* const latest = LatestInTheWay(job);
  if (latest == nullptr) return false;
  if (now_ < room.since + kCannotSpillLimit) {
    room.retry_at = now_ + kRoomRetry;
    return true;
  }
  latest->shortage->refuse = true;
  NoteShortage(job, room.bytes);
  AnswerRoom(job, true, "", /*step_aside=*/true);
  return true;
}

// --- in words -------------------------------------------------------------------------------------

Bytes Core::NeedIn(const Job& job) const { return !job.shortage && IsNew(job) ? NeedOf(job) : NeedNow(job); }

std::string Core::NeedInWords(const Job& job) const {
  if (job.shortage || !IsNew(job)) {
    const std::string spilled =
        job.spilled == 0 ? "" : absl::StrCat(" (", FormatBytes(job.spilled), " of it lie on the host)");
    return FormatBytes(NeedNow(job)) + spilled;
  }
  if (!job.known) return "nobody knows yet how much";
  return absl::StrCat(FormatBytes(NeedOf(job)), " (", FormatBytes(job.known->persistent), " that stay and ",
                      FormatBytes(job.known->transient), " in a step, by ", job.known->runs,
                      " earlier run(s))");
}

// Of its gang, or itself.
const Job& Core::WhoLacks(const Job& job) const {
  if (job.lacks_room) return job;
  for (JobId id : RanksOf(job.entity)) {
    if (this->job(id).lacks_room) return this->job(id);
  }
  return job;
}

std::string Core::ExplainLack(const Job& asks) const {
  const Job& job = WhoLacks(asks);
  const RoomSum sum = SumFor(job, NeedIn(job));
  std::string text = job.id == asks.id ? absl::StrCat("; lacks room since ", Seconds(now_ - LackSince(job)))
                                       : absl::StrCat("; its gang gets no turn while ", job.info.name,
                                                      " lacks room on ", DeviceOf(job).name);
  absl::StrAppend(&text, ": it needs ", NeedInWords(job), ", ", FormatBytes(sum.free), " are free");
  if (sum.returning > 0) absl::StrAppend(&text, ", ", FormatBytes(sum.returning), " on their way back");
  for (const Holder& other : sum.others) {
    const Job& holder = this->job(other.job);
    absl::StrAppend(&text, "; ", NameFor(job, holder), " holds ", FormatBytes(other.resident), ", of which ",
                    FormatBytes(std::min(other.resident, HostLeft(holder))), " fit into its host memory",
                    holder.gone ? " (it has left Hocket and keeps them)" : "");
  }
  if (!job.shortage && OlderOneLacks(job))
    absl::StrAppend(&text, "; one that came before it lacks room, too, and goes first");
  return absl::StrCat(text, "; it goes on when others end or need less");
}

}  // namespace hocket::coordinator
