// Why a job stands where it stands, for the person who waits for it.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "coordinator/core/core.h"
#include "coordinator/core/limits.h"
#include "coordinator/core/seconds.h"

namespace hocket::coordinator {
namespace {

// That job's bytes. `own`: his who reads it; of another user's job the reasons are not for him.
std::string WhyItStays(const Job& job, bool own) {
  if (job.spill) return " and has been asked to spill";
  if (!job.movable) {
    if (!own) return " and cannot be moved now";
    return job.why_not_movable.empty() ? " and does not stand at a door"
                                       : absl::StrCat(" and cannot be moved: ", job.why_not_movable);
  }
  if (job.cannot_spill.empty()) return "";
  return own ? absl::StrCat(" and cannot spill: ", job.cannot_spill) : " and cannot spill";
}

}  // namespace

std::string Core::HolderOf(const Device& device) const {
  if (device.turn == 0) return "";
  const Turn& turn = state_.turns.at(device.turn);
  std::string names = NameOf(turn.entity);
  for (const auto& [id, reason] : turn.guests) absl::StrAppend(&names, ", ", job(id).info.name);
  return names;
}

// Whoever reads why his job waits learns that another user's is before it, and no more of that one.
std::string Core::NameFor(const Job& reader, const Job& named) const {
  return named.user == reader.user ? named.info.name : absl::StrCat("a job of uid ", named.user);
}

std::string Core::NameFor(const Job& reader, EntityId named) const {
  const unsigned user = UserOf(named);
  return user == reader.user ? NameOf(named) : absl::StrCat("a job of uid ", user);
}

std::string Core::StateOf(JobId id) const {
  const Job& job = this->job(id);
  if (job.gone) return "gone";
  if (job.unresponsive) return "stopped";
  if (job.turn != 0 || job.set_aside) return "holds";
  if (job.paused) return "paused";
  return job.waiting ? "waits" : "idle";
}

// What somebody can do who finds that a process does not answer.
std::string Core::StoppedPerhaps(const Job& job) const {
  return absl::StrCat("Is its process stopped, or in a debugger? A stopped one goes on with: kill -CONT ",
                      job.info.pid);
}

std::string Core::Explain(JobId id) const {
  const Job& job = this->job(id);
  const std::string state = StateOf(id);
  if (state == "gone") {
    return absl::StrCat("takes no part any more; its process (pid ", job.info.pid, ") lives on and holds ",
                        FormatBytes(job.persistent));
  }
  if (state == "stopped" && job.taken_back) {
    return absl::StrCat("has not taken up the turn that it was given ", Seconds(now_ - job.granted),
                        " ago, so it went to the others; it gets none until it answers. ",
                        StoppedPerhaps(job));
  }
  if (state == "stopped") {
    const absl::Time asked = job.spill ? job.spill->sent : job.ahead ? job.ahead->sent : now_;
    return absl::StrCat("has not answered a request ", job.ahead && !job.spill ? "to bring back " : "for ",
                        FormatBytes(job.spill   ? job.spill->bytes
                                    : job.ahead ? job.ahead->bytes
                                                : 0),
                        " for ", Seconds(now_ - asked), "; it gets no turn until it does. ",
                        StoppedPerhaps(job));
  }
  if (job.set_aside) return ExplainOverstaying(job);
  if (state == "holds") return ExplainHolding(job) + ExplainSlower(job);
  if (state == "paused") return absl::StrCat("is paused; go on with: hocket resume ", job.info.name);
  if (state == "waits") return absl::StrCat(ExplainWaiting(job), ExplainStaying(job), ExplainSlower(job));
  if (job.overstays != 0) return ExplainOverstaying(job);
  return absl::StrCat("does not ask for the turn", ExplainStaying(job), ExplainSlower(job));
}

std::string Core::ExplainSlower(const Job& job) const {
  const auto& slower = job.watch.slowdown();
  if (!slower) return "";
  return absl::StrFormat("; its steps take %.4g ms, %.2f times the %.4g ms that they took until %s ago",
                         absl::ToDoubleMilliseconds(slower->now), slower->factor(),
                         absl::ToDoubleMilliseconds(slower->before), Seconds(now_ - slower->since));
}

std::string Core::ExplainStaying(const Job& job) const {
  if (job.movable || job.persistent == 0 || job.why_not_movable.empty()) return "";
  return absl::StrCat("; its ", FormatBytes(job.persistent), " stay on the device: ", job.why_not_movable);
}

std::string Core::ExplainHolding(const Job& job) const {
  const Turn& turn = state_.turns.at(job.turn);
  std::string text =
      absl::StrCat("has had the turn for ", Seconds(now_ - job.granted), " (",
                   IsGuest(job) ? turn.guests.at(job.id) : turn.reason, ")", ExplainCompany(job));
  if (job.told_stand_by)
    absl::StrAppend(&text, job.stands_by ? "; stands by for " : "; is to stand by for ",
                    Seconds(now_ - job.stands_since), " while a request is served");
  if (job.room && job.room->asked) {
    absl::StrAppend(&text, "; waits since ", Seconds(now_ - job.room->since), " for ",
                    FormatBytes(job.room->bytes), " of room");
    for (const Job* other : Others(job)) {
      if (other->persistent == 0) continue;
      absl::StrAppend(&text, "; ", NameFor(job, *other), " holds ", FormatBytes(other->persistent),
                      WhyItStays(*other, other->user == job.user));
    }
  } else if (turn.in_order && !job.told_stop) {
    absl::StrAppend(&text, "; gives it up when those beside it have ended their steps");
  } else if (turn.asked_stop) {
    absl::StrAppend(&text, "; gives it up at the end of its step");
  } else if (turn.asked_idle) {
    absl::StrAppend(&text, "; gives it up when idle");
    if (Contended(turn)) absl::StrAppend(&text, ", or after ", Seconds(StopTime(turn) - turn.start));
  }
  return absl::StrCat(text, ExplainLink(job), ExplainQuotas(job));
}

std::string Core::ExplainLongIdle(const Turn& turn) const {
  if (!turn.asked_long_idle || turn.asked_idle) return "";
  const absl::Duration limit = absl::Trunc(LongIdle(turn.entity), absl::Milliseconds(1));
  return absl::StrCat(" (or until it has not used it for ", absl::FormatDuration(limit), ")");
}

std::string Core::StayFor(const Device& device) const {
  return absl::StrCat(" for at most ", Seconds(StayEnds(device) - now_), " more");
}

std::string Core::ExplainFreeDevice(const Job& job) const {
  const Device& device = DeviceOf(job);
  if (device.kept_until > now_)
    return absl::StrCat("the device is kept free for ", NameFor(job, device.kept_for),
                        ", which comes before it and should be back from between two steps, for at most ",
                        absl::FormatDuration(device.kept_until - now_), " more");
  if (StayLasts(device))
    return absl::StrCat("the device is kept free for ", NameFor(job, device.stays),
                        ", whose memory was moved there", StayFor(device));
  return absl::StrCat("the device is kept free for ", reserved_ != 0 ? NameFor(job, reserved_) : "nobody",
                      ", whose other devices are still in use");
}

// The same for all of them: who asks for the state of a thousand jobs must not have it reckoned a thousand
// times while nobody gets a turn.
const Core::Queue& Core::QueueFor(const Turn& turn, const Device& device) const {
  const auto [found, is_new] = queues_.try_emplace(device.key);
  Queue& queue = found->second;
  if (!is_new) return queue;
  for (const JobView& view : InTurnOrder(device, Candidates(device))) queue.order.push_back(view.id);
  queue.stop = StopTime(turn);
  return queue;
}

std::string Core::ExplainWaiting(const Job& job) const {
  std::string text = absl::StrCat("has waited for ", Seconds(now_ - job.asked));
  if (WindowOpen()) {
    return absl::StrCat(text, "; after the coordinator's restart ", state_.expected.size(),
                        " job(s) have not reported yet");
  }
  for (JobId id : RanksOf(job.entity)) {
    const Job& rank = this->job(id);
    if (rank.id != job.id && (rank.paused || rank.unresponsive))
      return absl::StrCat(text, "; ", rank.info.name, ", of its gang, is ", StateOf(id));
  }
  if (job.spill)
    return absl::StrCat(text, "; it is being spilled (", FormatBytes(job.spill->bytes), ") first");
  if (job.lacked > 0)
    absl::StrAppend(&text, "; it found no room for ", FormatBytes(job.lacked),
                    " in its last turn, so others went first");
  if (job.restored_ahead > 0)
    absl::StrAppend(&text, "; ", FormatBytes(job.restored_ahead), " of it have come back ahead of its turn, ",
                    FormatBytes(job.spilled), " are on the host");
  absl::StrAppend(&text, ExplainQuotas(job));
  if (job.held_back) return text;
  if (job.held_out) return absl::StrCat(text, ExplainLack(job));
  const Device& device = DeviceOf(job);
  if (device.turn == 0) return absl::StrCat(text, "; ", ExplainFreeDevice(job));
  const Turn& turn = state_.turns.at(device.turn);
  if (StayLasts(device) && !Stays(job) && !IsThere(job.entity))
    absl::StrAppend(&text, "; memory was moved for ", NameFor(job, device.stays), " and stays",
                    StayFor(device), ": its pauses are for jobs that have theirs on the device");
  const Queue& queue = QueueFor(turn, device);
  const auto place = std::find(queue.order.begin(), queue.order.end(), job.entity);
  absl::StrAppend(&text, "; ", NameFor(job, turn.entity), " has had the turn for ",
                  Seconds(now_ - turn.start));
  if (turn.next_is_promised && turn.next_is_promised->to == job.id &&
      turn.next_is_promised->withdrawn == absl::InfiniteFuture())
    absl::StrAppend(&text, ", and passes it on to this job at the end of its step");
  if (job.info.serves && MayServeIn(turn, job))
    return absl::StrCat(text, " and is to stand by for it, by ", Seconds(ServeAt(turn) - now_), " from now");
  if (!turn.asked_stop && Contended(turn))
    absl::StrAppend(&text, " and keeps it for at most ",
                    Seconds(std::max(absl::ZeroDuration(), queue.stop - now_)), " more",
                    ExplainLongIdle(turn));
  if (place != queue.order.end())
    absl::StrAppend(&text, "; number ", place - queue.order.begin() + 1, " of ", queue.order.size(),
                    " that wait (", PolicyTitle(state_.policy), ")");
  if (turn.overdue)
    absl::StrAppend(&text, "; ", NameFor(job, turn.entity), " was asked ", Seconds(now_ - turn.stop_asked),
                    " ago to give it up and has not: does it hang?");
  for (EntityId entity : {job.entity, turn.entity}) {
    const std::string standing = device.policy->Standing(ViewOf(entity));
    if (!standing.empty()) absl::StrAppend(&text, "; ", NameFor(job, entity), ": ", standing);
  }
  return text;
}

std::string Core::WhyNotGiven(const Job& other, bool own) const {
  if (other.gone) return "it has left Hocket and keeps them";
  if (own && !other.cannot_spill.empty()) return absl::StrCat("cannot be moved: ", other.cannot_spill);
  if (own && HostLeft(other) < other.persistent)
    return absl::StrCat("only ", FormatBytes(HostLeft(other)),
                        " of it fit into its host memory for spilled data: raise HOCKET_HOST_BUDGET");
  return "not enough even if moved";
}

std::string Core::RoomArithmetic(const Job& job) const {
  const Device& device = DeviceOf(job);
  std::string text =
      absl::StrCat("cannot make room for ", FormatBytes(job.room->bytes), " for job ", job.info.name, " on ",
                   device.name, " (", FormatBytes(device.capacity), "):\n  ", job.info.name, " holds ",
                   FormatBytes(job.persistent), ", the arena ", FormatBytes(Arena(device)));
  for (const Job* other : Others(job)) {
    absl::StrAppend(&text, ", ", NameFor(job, *other), " ", FormatBytes(other->persistent));
    if (other->persistent == 0) continue;
    absl::StrAppend(&text, " (", WhyNotGiven(*other, other->user == job.user), ")");
  }
  for (JobId id : RanksOf(job.entity)) {
    const Job& rank = this->job(id);
    if (id == job.id || rank.device != &device) continue;
    absl::StrAppend(&text, ", its fellow ", rank.info.name, " ", FormatBytes(rank.persistent));
    if (rank.spilled > 0) absl::StrAppend(&text, " and ", FormatBytes(rank.spilled), " that come back first");
  }
  return absl::StrCat(
      text, "; ", FormatBytes(Free(device)),
      " should be left, and what programs outside Hocket hold is not known.\n  Use a smaller batch or "
      "model, end one of the jobs, or take a larger device.");
}

}  // namespace hocket::coordinator
