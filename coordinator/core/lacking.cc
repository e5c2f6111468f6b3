// A job that finds no room waits until others have given some back, instead of running out of memory.
//
// Nobody can be moved for it now: their host memory is full, say. It gives its turn up where it stands and is
// held out: not granted a turn while the ledger says that it would find no room again, so that the others go
// on as if it did not ask. What it waits for comes when one of them ends, or needs less.
//
// Nobody is waited for who cannot go on himself. Where all who could are such, the one who lacked room last
// is told no, with the arithmetic, and his memory comes back to the others: the oldest goes on.
// docs/decisions/0026 has the reasons.
#include <algorithm>
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
  if (!job.movable || job.unresponsive || job.turn != 0 || !job.cannot_spill.empty()) return 0;
  return std::min(job.persistent, HostLeft(job));
}

// Whether `other`, which waits, would find the bytes for its turn if `asker` gave up the one that it has.
bool Core::CanGoOn(const Job& other, const Job& asker) const {
  Bytes there = Reachable(other);
  if (asker.turn != 0) Add(std::min(asker.persistent, HostLeft(asker)), there);
  return other.need <= there;
}

RoomSum Core::SumFor(const Job& job, Bytes wanted) const {
  const Device& device = DeviceOf(job);
  RoomSum sum{.wanted = wanted, .free = Free(device)};
  for (const Returning& r : device.returning) Add(r.until > now_ ? r.bytes : 0, sum.returning);
  for (const Job* other : Others(job)) {
    if (other->persistent == 0) continue;
    const bool stuck = other->waiting && job.turn != 0 && !CanGoOn(*other, job);
    sum.others.push_back({.job = other->id,
                          .resident = other->persistent,
                          .gives = Gives(*other),
                          .comes_back = !other->gone && !other->held_out && !stuck});
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

// Whether one that has done no step yet would, grown so far, keep somebody from another step who has done
// some. Between those that have done steps nobody comes first.
bool Core::ShutsOut(const Job& job, Bytes grows_by) const {
  if (job.steps > 0 || GangOf(job) != nullptr || Serves(job)) return false;
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

void Core::HoldOut() {
  bool any = false;
  for (JobId id : active_) {
    Job& job = this->job(id);
    Bytes held = job.persistent;
    Add(job.spilled, held);
    job.most_held = std::max(job.most_held, held);
    const bool out = LacksRoom(job) || NewOneMustWait(job);
    if (job.held_out && !out && job.waiting && !job.held_back) BeginToWait(job);
    job.held_out = out;
    any |= out;
  }
  any_held_out_ = any;
  if (!any) return;
  for (auto& [key, device] : state_.devices) LetOldestTry(device);
}

bool Core::LacksRoom(const Job& job) const {
  if (!job.waiting || !job.shortage || job.shortage->refuse || GangOf(job) != nullptr || WindowOpen())
    return false;
  const Shortage& lack = *job.shortage;
  const Bytes free = Free(DeviceOf(job));
  if (lack.departures != DeviceOf(job).departures) return false;
  if (ShutsOut(job, job.lacked)) return true;
  if (job.need <= free && free > lack.free) return false;
  return now_ < lack.retry_at || job.need > Reachable(job);
}

// It has had nothing of the device yet.
bool Core::IsNew(const Job& job) const {
  return job.waiting && !job.info.rejoin && !Serves(job) && job.turns == 0 && job.steps == 0 &&
         job.persistent == 0 && job.spilled == 0 && GangOf(job) == nullptr;
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
  const Bytes capacity = DeviceOf(job).capacity, need = NeedOf(job);
  if (OlderOneLacks(job) && job.host < capacity) return true;
  if (need == 0 || need > capacity) return false;
  Bytes together = need;
  for (const Job* other : Others(job)) Add(other->gone ? other->persistent : Stays(*other, 0), together);
  return together > capacity ||
         KeepsFromStep(job, job.known->persistent - std::min(job.known->persistent, job.known->host));
}

bool Core::OlderOneLacks(const Job& job) const {
  if (!any_held_out_) return false;
  const auto others = Others(job);
  return std::any_of(others.begin(), others.end(), [&](const Job* other) {
    return other->held_out &&
           std::make_pair(LackSince(*other), other->id) < std::make_pair(job.asked, job.id);
  });
}

absl::Time Core::LackSince(const Job& job) const { return job.shortage ? job.shortage->since : job.asked; }

// Somebody takes part beside it who has memory, or is about to have some, and does not wait for it in vain.
bool Core::SomebodyGoesOn(const Job& job) const {
  const auto others = Others(job);
  return std::any_of(others.begin(), others.end(), [&](const Job* other) {
    const bool uses = other->persistent > 0 || other->spilled > 0 || other->waiting || other->turn != 0;
    return MayBeEnding(*other) || (!other->gone && !other->held_out && uses);
  });
}

// Where nobody is left whom they could wait for.
void Core::LetOldestTry(Device& device) {
  Job* oldest = nullptr;
  for (JobId id : active_) {
    Job& job = this->job(id);
    if (!job.held_out || job.info.device != device.key || SomebodyGoesOn(job)) continue;
    if (oldest == nullptr || LackSince(job) < LackSince(*oldest)) oldest = &job;
  }
  if (oldest == nullptr) return;
  oldest->held_out = false;
  if (!oldest->held_back) BeginToWait(*oldest);
}

absl::Time Core::RetryOfLack(const Job& job) const {
  absl::Time retry = job.shortage ? job.shortage->retry_at : absl::InfiniteFuture();
  for (const Job* other : Others(job)) {  // from then on what it holds counts as kept
    if (MayBeEnding(*other)) retry = std::min(retry, other->gone_since + kLeaverLimit);
  }
  return retry > now_ ? retry : absl::InfiniteFuture();
}

// --- in its turn ----------------------------------------------------------------------------------

// True: it has been answered, or will be. A gang gives its turn only as a whole.
bool Core::WaitsForOthers(Job& job) {
  const RoomRequest& room = *job.room;
  if (!room.asked || job.turn == 0 || GangOf(job) != nullptr) return false;
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

// Of those that are held out and have memory, the one who lacked room last, and comes after `job`. Bytes that
// come back come first, then allocations of those that have done steps.
Job* Core::LatestInTheWay(const Job& job) {
  const bool comes_back = job.room->restoring;
  auto after = std::make_tuple(!comes_back && job.steps == 0,
                               comes_back ? absl::InfinitePast() : job.lacks_since, job.id);
  Job* latest = nullptr;
  for (const Job* other : Others(job)) {
    if (!other->held_out || !other->shortage || other->persistent == 0) continue;
    const auto lacks = std::make_tuple(other->steps == 0, other->shortage->since, other->id);
    if (lacks <= after) continue;
    after = lacks;
    latest = &this->job(other->id);
  }
  return latest;
}

// `job` lacks room that nobody who goes on will give back. So one of those that do not is told no: it has the
// next turn for that.
bool Core::RefuseLatest(Job& job) {
  RoomRequest& room = *job.room;
  if (!room.asked || job.turn == 0 || GangOf(job) != nullptr) return false;
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

Bytes Core::NeedIn(const Job& job) const { return job.shortage ? job.need : NeedOf(job); }

std::string Core::NeedInWords(const Job& job) const {
  if (job.shortage) {
    const std::string spilled =
        job.spilled == 0 ? "" : absl::StrCat(" (", FormatBytes(job.spilled), " of it lie on the host)");
    return FormatBytes(job.need) + spilled;
  }
  if (!job.known) return "nobody knows yet how much";
  return absl::StrCat(FormatBytes(NeedOf(job)), " (", FormatBytes(job.known->persistent), " that stay and ",
                      FormatBytes(job.known->transient), " in a step, by ", job.known->runs,
                      " earlier run(s))");
}

std::string Core::ExplainLack(const Job& job) const {
  const RoomSum sum = SumFor(job, NeedIn(job));
  std::string text = absl::StrCat("; lacks room since ", Seconds(now_ - LackSince(job)), ": it needs ",
                                  NeedInWords(job), ", ", FormatBytes(sum.free), " are free");
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
