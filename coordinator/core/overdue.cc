// A holder that was asked to give his turn up and does not.
//
// He is named (log, status, explain), and never ended. If people have said so (SetOverdue), his turn is set
// aside as soon as somebody fits who waits: the device goes on with the others, in another lane. He keeps his
// lane with its arena, and his bytes; when he stops after all, he waits for his next turn like everybody.
#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/core/core.h"
#include "coordinator/core/limits.h"
#include "coordinator/core/seconds.h"

namespace hocket::coordinator {

absl::Time Core::HolderLimit(const Turn& turn) const {
  if (!turn.asked_stop || turn.overdue || StandsBy(turn) || !Contended(turn)) return absl::InfiniteFuture();
  absl::Duration step = SlowestOf(turn.entity, &Job::step).step.mean();
  for (const auto& [id, reason] : turn.guests) step = std::max(step, job(id).step.mean());
  const absl::Time asked =
      turn.in_order ? turn.stops_by : turn.stop_asked;  // before then others are not told
  return std::max(asked, turn.wanted_since) + std::max(kHolderLimit, 10 * step);
}

void Core::NameOverdue(Turn& turn) {
  if (now_ < HolderLimit(turn)) return;
  turn.overdue = true;
  const Job& first = job(*turn.granted.begin());
  std::string guests;
  for (const auto& [id, reason] : turn.guests) absl::StrAppend(&guests, " and ", job(id).info.name);
  Say(absl::StrCat(NameOf(turn.entity), guests, " (pid ", first.info.pid, ") has had the turn for ",
                   absl::FormatDuration(now_ - turn.start), " and has not given it up since it was asked ",
                   absl::FormatDuration(now_ - turn.stop_asked), " ago; ", Candidates(DeviceOf(first)).size(),
                   " wait. Does it hang? Nothing is done to it."),
      "overdue", first.id);
}

// A gang's ranks stop together or not at all.
void Core::GoOnWithoutOverdue() {
  if (!state_.overdue_go_on || WindowOpen()) return;
  std::vector<JobId> aside;
  for (const auto& [number, turn] : state_.turns) {
    const bool ranks = std::any_of(turn.granted.begin(), turn.granted.end(),
                                   [&](JobId id) { return GangOf(job(id)) != nullptr; });
    if (turn.overdue && !ranks && turn.devices.size() == 1 && now_ >= PassesUntil(turn) && SomebodyFits(turn))
      aside.insert(aside.end(), turn.granted.begin(), turn.granted.end());
  }
  for (JobId id : aside) {
    Job& overdue = job(id);
    Say(absl::StrCat(overdue.info.name, " (pid ", overdue.info.pid, ") keeps its lane and its ",
                     FormatBytes(overdue.persistent), "; the others go on in another lane"),
        "set-aside", id);
    SetAside(overdue);
  }
}

bool Core::SomebodyFits(const Turn& turn) const {
  const Entities waiting = Candidates(*turn.devices.front());
  return std::any_of(waiting.begin(), waiting.end(), [&](EntityId entity) { return Fits(entity); });
}

// A question for room that it has asked stays: it stands in an allocation. The lock of its lane may be
// another's for ever: if it waits for that it gives the turn back.
void Core::SetAside(Job& job) {
  const TurnNumber told = job.told_turn;
  std::optional<RoomRequest> room = job.room;
  TellToStop(job, state_.turns.at(job.turn));
  SendTo(job.id, wire::Yield{.turn = told, .now = true, .give_back = true});
  if (job.told_stand_by) SendTo(job.id, wire::GoOn{.turn = told});
  EndPart(job, wire::TurnOver{.steps = job.steps}, PartEnds::kSetAside);
  job.overstays = told;
  AskOthersThan(job);
  job.set_aside = true;
  if (room && room->asked) job.room = std::move(room);
}

// Whatever kept it: it has no turn now. What it knows of the arena may not be so any more.
void Core::ComesBack(Job& job) {
  job.overstays = 0;
  if (std::exchange(job.set_aside, false)) job.left = now_;
  RenewArena(job);
}

std::string Core::ExplainOverstaying(const Job& job) const {
  const Device& device = DeviceOf(job);
  const std::string holder = device.turn == 0 ? "" : NameFor(job, state_.turns.at(device.turn).entity);
  if (const Gang* gang = GangOf(job); job.set_aside && gang != nullptr)
    return absl::StrCat(
        "is in a step that gang ", gang->name, " has given its turn up in",
        WhoLacks(job).lacks_room ? absl::StrCat(", for want of room (", WhoLacks(job).info.name, ")") : "",
        "; until the step ends it keeps lane ", LaneIndex(job.lane), " and ", FormatBytes(job.persistent),
        ", and others go on in other lanes");
  if (job.set_aside && !AwaitedBy(job).empty())
    return absl::StrCat(
        "is in a step in which it waits for another device; until that is over it keeps lane ",
        LaneIndex(job.lane), " and ", FormatBytes(job.persistent), ", and others go on in other lanes");
  if (!job.set_aside)
    return absl::StrCat("has not ended a turn that it had before it joined again; ", holder,
                        " waits until it does");
  return absl::StrCat("has not given its turn up, which began ", Seconds(now_ - job.granted),
                      " ago, since it was asked: ", "does it hang? It keeps lane ", LaneIndex(job.lane),
                      " and ", FormatBytes(job.persistent), ", and ",
                      holder.empty() ? "the others go" : absl::StrCat(holder, " goes"),
                      " on in another lane");
}

bool Core::WaitsForOverdue(EntityId entity) const {
  const Ranks ranks = RanksOf(entity);
  return std::any_of(ranks.begin(), ranks.end(), [&](JobId id) {
    const auto turn = state_.turns.find(DeviceOf(job(id)).turn);
    return turn != state_.turns.end() && turn->second.overdue;
  });
}

}  // namespace hocket::coordinator
