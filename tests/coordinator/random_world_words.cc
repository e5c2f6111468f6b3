#include "tests/coordinator/random_world_words.h"

#include <type_traits>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "coordinator/core/core.h"
#include "csrc/wire/codec.h"

namespace hocket::coordinator {
namespace {

std::string If(bool said, absl::string_view words) { return said ? absl::StrCat(", ", words) : ""; }

std::string Size(Bytes bytes) { return absl::StrCat(bytes >> 20, " MiB"); }

std::string Who(const Owner& owner) {
  if (owner.kind == Owner::Kind::kJob) return absl::StrCat("job ", owner.id);
  return owner.kind == Owner::Kind::kGroup ? absl::StrCat("group ", owner.group)
                                           : absl::StrCat("user ", owner.id);
}

// --- messages -------------------------------------------------------------------------------------

template <typename Message>
std::string Say(const Message& message) {
  return Message::kName;
}
std::string Say(const wire::Wait& wait) {
  return absl::StrCat("Wait number ", wait.number, ", needs ", Size(wait.need), ", after step ",
                      wait.gang_step, If(wait.movable, "movable"), If(wait.heeds_pass, "heeds pass"));
}
std::string Say(const wire::Grant& grant) {
  return absl::StrCat(
      "Grant of turn ", grant.turn, If(grant.contended, "contended"), If(grant.fresh_arena, "fresh arena"),
      If(!grant.lane_lock.empty(), absl::StrCat("in ", grant.lane_lock)),
      If(grant.pass != 0, absl::StrCat(grant.passed ? "passed by " : "promised by ", grant.pass)), ": ",
      grant.reason);
}
std::string Say(const wire::Yield& yield) {
  return absl::StrCat("Yield of turn ", yield.turn, yield.now ? ", now" : ", when idle",
                      If(yield.stop_step != 0, absl::StrCat("after step ", yield.stop_step)),
                      If(yield.pass != 0, absl::StrCat("pass ", yield.pass)),
                      If(yield.idle_ns != 0, absl::StrCat("for ", yield.idle_ns, " ns")),
                      If(yield.give_back, "back if it waits for the lock"));
}
std::string Say(const wire::YieldAck& ack) {
  return absl::StrCat("YieldAck of turn ", ack.turn, ": ", ack.accepted ? "stops" : "does not stop",
                      " after step ", ack.stop_step, ", is at ", ack.step);
}
std::string Say(const wire::TurnOver& over) {
  return absl::StrCat("TurnOver of turn ", over.turn, " after ", over.turn_steps, " steps, ", over.steps,
                      " in all; holds ", Size(over.persistent), ", spilled ", Size(over.spilled),
                      If(over.movable, "movable"), If(over.stood_aside, "stood aside"),
                      If(over.passed != 0, absl::StrCat("passed ", over.passed)));
}
std::string Say(const wire::NeedRoom& need) {
  return absl::StrCat("NeedRoom for ", Size(need.bytes), If(need.restoring, "restoring"),
                      If(need.says_free, absl::StrCat("free are ", Size(need.device_free))));
}
std::string Say(const wire::Room& room) {
  return absl::StrCat("Room", room.ok ? ": try again" : absl::StrCat(": no, ", room.reason),
                      If(room.step_aside, "after the others"));
}
std::string Say(const wire::Spill& spill) {
  return absl::StrCat("Spill ", spill.request, " of ", Size(spill.bytes));
}
std::string Say(const wire::Spilled& spilled) {
  return absl::StrCat("Spilled ", spilled.request, ", ", Size(spilled.freed), "; holds ",
                      Size(spilled.persistent), ", spilled ", Size(spilled.spilled),
                      If(spilled.movable, "movable"), If(spilled.more, "more to come"));
}
std::string Say(const wire::Restore& restore) {
  return absl::StrCat("Restore ", restore.request, " of ", Size(restore.bytes));
}
std::string Say(const wire::Restored& restored) {
  return absl::StrCat("Restored ", restored.request, ", ", Size(restored.restored));
}
std::string Say(const wire::Gang& gang) {
  return absl::StrCat("rank ", gang.rank, " of ", gang.size, " of gang ", gang.gang);
}
std::string Say(const wire::Report& report) {
  return absl::StrCat("Report: holds ", Size(report.persistent), ", spilled ", Size(report.spilled),
                      ", has done ", report.steps, " steps");
}
std::string Say(const wire::ArenaGrew& grew) {
  return absl::StrCat("ArenaGrew by chunk ", grew.chunk, ", ", Size(grew.size),
                      If(grew.to_job != 0, absl::StrCat("for job ", grew.to_job)), If(grew.bare, "bare"));
}
std::string Say(const wire::ArenaAdd& add) { return absl::StrCat("ArenaAdd ", add.chunk); }
std::string Say(const wire::ArenaLost& lost) { return absl::StrCat("ArenaLost ", lost.chunk); }
std::string Say(const wire::ArenaDrop& drop) { return absl::StrCat("ArenaDrop ", drop.chunk); }
std::string Say(const wire::ArenaHeard& heard) { return absl::StrCat("ArenaHeard ", heard.count); }
std::string Say(const wire::ArenaExport& order) { return absl::StrCat("ArenaExport to job ", order.to_job); }
std::string Say(const wire::LacksHeadroom& lacks) {
  return absl::StrCat("LacksHeadroom ", Size(lacks.bytes));
}
std::string Say(const wire::Limit& limit) { return absl::StrCat("Limit ", Size(limit.memory)); }
std::string Say(const wire::StandBy& stand) { return absl::StrCat("StandBy in turn ", stand.turn); }
std::string Say(const wire::StoodBy& stood) { return absl::StrCat("StoodBy in turn ", stood.turn); }
std::string Say(const wire::GoOn& go_on) { return absl::StrCat("GoOn in turn ", go_on.turn); }

// --- events ---------------------------------------------------------------------------------------

std::string Say(const Tick&) { return "the timer"; }
std::string Say(const JobJoins& joins) {
  const wire::Join& join = joins.join;
  return absl::StrCat(
      "joins ", join.device, " as ", join.name, ", user ", joins.user, ", holds ", Size(join.persistent),
      ", spilled ", Size(join.spilled), If(join.serves, "serves"), If(join.stands_by, "stands by"),
      If(join.heeds_restore, "heeds Restore"), If(join.heeds_limit, "heeds Limit"),
      If(!join.group.empty(), absl::StrCat("in group ", join.group)),
      If(joins.known.has_value(), "is known from earlier runs"),
      If(join.rejoin, absl::StrCat("again, with turn ", join.turn, join.holds_turn ? " and its lock" : "")),
      If(!joins.replaces.empty(), "in place of one that it was"));
}
std::string Say(const JobDied&) { return "dies"; }
std::string Say(const JobHungUp&) { return "hangs up"; }
std::string Say(const Restarted&) { return "the coordinator has been restarted"; }
std::string Say(const GrantTakenBack& back) {
  return absl::StrCat("its Grant for Wait ", back.wait, " is taken back");
}
std::string Say(const SetPaused& set) { return set.paused ? "is paused" : "is resumed"; }
std::string Say(const SetShare& set) {
  return absl::StrCat("has weight ", set.weight, ", priority ", set.priority);
}
std::string Say(const SetTimeCap& set) { return absl::StrCat("has a time cap of ", set.cap); }
std::string Say(const SetTimeGuarantee& set) { return absl::StrCat("is guaranteed a time of ", set.share); }
std::string Say(const SetGroup& set) { return absl::StrCat("is in group '", set.group, "'"); }
std::string Say(const SetQuota& set) {
  return absl::StrCat(Who(set.of), " has a time cap of ", set.quota.time_cap, ", a guarantee of ",
                      set.quota.time_guarantee, ", a memory cap of ", Size(set.quota.memory_cap));
}
std::string Say(const SetMemoryLimit& set) { return absl::StrCat("may hold ", Size(set.limit)); }
std::string Say(const SetMemoryGuarantee& set) { return absl::StrCat("is guaranteed ", Size(set.guarantee)); }
std::string Say(const SetPolicy& set) { return absl::StrCat("the policy is ", set.name); }
std::string Say(const SetSwitchShare& set) { return absl::StrCat("the share for switching is ", set.share); }
std::string Say(const SetLinkBound& set) { return absl::StrCat("the link's bound is ", set.bound); }
std::string Say(const SetProductionBound& set) {
  return absl::StrCat("the bound for high priority is ", set.bound);
}
std::string Say(const SetMostTogether& set) { return absl::StrCat("together may run ", set.most); }
std::string Say(const SetOverdue& set) {
  return absl::StrCat("beside an overdue one others ", set.go_on ? "go on" : "wait");
}
std::string Say(const StepsSeen& seen) { return absl::StrCat("is seen at step ", seen.steps); }

// --- actions --------------------------------------------------------------------------------------

std::string Told(const Send& send) {
  return absl::StrCat("to ", send.to, ": ",
                      std::visit([](const auto& message) { return Say(message); }, send.message));
}
std::string Told(const SetTimer& timer) {
  return timer.at == absl::InfiniteFuture()
             ? "no timer"
             : absl::StrCat("timer at ", absl::FormatDuration(timer.at - absl::UnixEpoch()));
}
std::string Told(const TakeBack& back) {
  return absl::StrCat("tries to take the Grant back that answers Wait ", back.wait, " of ", back.job);
}
std::string Told(const LookAt& look) { return absl::StrCat("looks how far ", look.job, " is"); }
std::string Told(const Reject& reject) { return absl::StrCat("rejects ", reject.job, ": ", reject.reason); }
std::string Told(const Log& log) { return absl::StrCat("log: ", log.text); }
std::string Told(const TurnEnded& ended) {
  return absl::StrCat("turn ", ended.turn, " of ", ended.job, " has ended");
}
std::string Told(const SpillEnded&) { return ""; }

}  // namespace

std::string InWords(const Event& event) {
  const std::string words = std::visit([](const auto& what) { return Say(what); }, event.what);
  return event.job == 0 ? words : absl::StrCat("job ", event.job, ": ", words);
}

std::string InWords(const Action& action) {
  return std::visit([](const auto& what) { return Told(what); }, action);
}

}  // namespace hocket::coordinator
