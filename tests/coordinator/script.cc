#include "tests/coordinator/script.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "coordinator/core/limits.h"
#include "csrc/base/check.h"
#include "csrc/wire/codec.h"

namespace hocket::coordinator {
namespace {

class FieldsAsText {
 public:
  template <typename Value>
  void operator()(uint16_t, const Value& value) {
    absl::StrAppend(&text, text.empty() ? "" : " ", value);
  }
  std::string text;
};

std::string ToText(wire::Message message) {
  FieldsAsText fields;
  std::visit([&](auto& m) { m.VisitFields(fields); }, message);
  return absl::StrCat(wire::NameOf(message), " {", fields.text, "}");
}

template <typename Type>
std::string ToText(const Type& event) {
  if constexpr (std::is_constructible_v<wire::Message, Type>) return ToText(wire::Message(event));
  if constexpr (std::is_same_v<Type, Tick>) return "tick";
  if constexpr (std::is_same_v<Type, JobJoins>) return "joins";
  if constexpr (std::is_same_v<Type, JobDied>) return "dies";
  if constexpr (std::is_same_v<Type, JobHungUp>) return "hangs up";
  if constexpr (std::is_same_v<Type, GrantTakenBack>) return "has not read its Grant, which is taken back";
  if constexpr (std::is_same_v<Type, SetPaused>) return event.paused ? "is paused" : "is resumed";
  return "people change something";
}

std::string ToText(const Script::StoryLine& line, const decltype(Event::what)& event) {
  return absl::StrCat(absl::ToDoubleSeconds(line.at - absl::UnixEpoch()), " ", line.who, " ",
                      std::visit([](const auto& what) { return ToText(what); }, event));
}
std::string ToText(const Script::StoryLine& line, const wire::Message& sent) {
  return absl::StrCat("        -> ", line.who, " ", ToText(sent));
}
std::string ToText(const Script::StoryLine&, const Reject& reject) {
  return absl::StrCat("        rejected: ", reject.reason);
}

}  // namespace

Script::Script(const std::string& policy, Bytes capacity)
    : policy_(policy),
      capacity_(capacity),
      core_(std::make_unique<Core>(CoreOptions{.policy = policy, .runtime_dir = "/run/test"})),
      now_(absl::UnixEpoch() + absl::Hours(1)) {}

Script::Script(MakePolicy make_policy, Bytes capacity)
    : policy_("of the test"),
      capacity_(capacity),
      core_(std::make_unique<Core>(
          CoreOptions{.policy = policy_, .runtime_dir = "/run/test", .make_policy = std::move(make_policy)})),
      now_(absl::UnixEpoch() + absl::Hours(1)) {}

void Script::Handle(JobId job, decltype(Event::what) what) {
  Tells(NameOf(job), what);
  rejection_.clear();
  const std::vector<Action> actions = core_->Handle({.at = now_, .job = job, .what = std::move(what)});
  core_->CheckInvariants();
  for (const Action& action : actions) {
    if (auto* send = std::get_if<Send>(&action)) {
      Tells(NameOf(send->to), send->message);
      Hear(NameOf(send->to), send->message);
    } else if (auto* timer = std::get_if<SetTimer>(&action)) {
      timer_ = timer->at;
    } else if (auto* reject = std::get_if<Reject>(&action)) {
      rejection_ = reject->reason;
      Tells("", *reject);
    } else if (auto* turn = std::get_if<TurnEnded>(&action)) {
      turns_.push_back(*turn);
    } else if (auto* spill = std::get_if<SpillEnded>(&action)) {
      spills_.push_back(*spill);
    } else if (auto* log = std::get_if<Log>(&action)) {
      sentences_.push_back(log->text);
    }
  }
  for (const auto& [name, yield] : std::exchange(unanswered_, {})) Acknowledges(name, yield);
  for (const Action& action : actions) {
    if (auto* back = std::get_if<TakeBack>(&action)) TakesBack(*back);
    if (auto* look = std::get_if<LookAt>(&action)) {
      const Actor& actor = actors_.at(NameOf(look->job));
      Handle(look->job, StepsSeen{.steps = actor.steps + actor.turn_steps, .at = actor.stepped});
    }
  }
}

// As the server does it: the job has read its Grant, or will not obey it.
void Script::TakesBack(const TakeBack& action) {
  Actor& actor = actors_.at(NameOf(action.job));
  ++actor.tried_to_take_back;
  if (!actor.unread) return;
  actor.void_grant = true;
  actor.has_turn = false;
  Handle(action.job, GrantTakenBack{action.wait});
}

// --- deeds ----------------------------------------------------------------------------------------

void Script::Joins(const std::string& name, Part part) {
  const JobId id = part.rejoin ? part.id : next_id_++;
  next_id_ = std::max(next_id_, id + 1);
  ids_[name] = id;
  Actor& actor = actors_[name];
  actor.part = part;
  actor.resident = part.persistent;
  actor.spilled = part.spilled;
  actor.to_grow = part.grows;
  actor.has_turn = part.holds_turn;
  actor.turn = part.turn;
  wire::Join join{.name = part.name.empty() ? name : part.name,
                  .device = part.device,
                  .capacity = capacity_,
                  .weight = part.weight,
                  .priority = part.priority,
                  .total_steps = part.total_steps};
  join.pid = part.pid != 0 ? part.pid : 10'000 + id;
  join.rejoin = part.rejoin;
  join.job = id;
  join.holds_turn = part.holds_turn;
  join.turn = part.turn;
  join.persistent = part.persistent;
  join.gang = part.gang;
  join.gang_rank = part.rank;
  join.gang_size = part.size;
  join.lane_lock = part.lane_lock;
  join.heeds_restore = part.ahead;
  join.serves = part.serves;
  join.stands_by = part.stands_by;
  join.counts_arena = part.counts_arena;
  join.heeds_idle = part.heeds_idle;
  join.heeds_limit = true;
  join.group = part.group;
  JobJoins joins{.join = join, .user = part.user, .time = part.time, .known = part.known};
  if (core_->state().jobs.contains(id)) joins.replaces = {id};
  Handle(id, std::move(joins));
  if (!part.rejoin && part.persistent + part.spilled > 0)
    Says(name, wire::Report{.persistent = part.persistent, .spilled = part.spilled});
}

void Script::Says(const std::string& name, decltype(Event::what) what) {
  Handle(IdOf(name), std::move(what));
}

void Script::Asks(const std::string& name, wire::Wait wait) {
  wait.gang_step = actors_.at(name).steps;
  wait.number = ++actors_.at(name).waits;
  wait.heeds_pass = actors_.at(name).part.passes;
  actors_.at(name).promise.reset();
  if (wait.need == 0) wait.need = actors_.at(name).spilled;
  if (wait.movable) {
    wait.host_left = HostLeft(name);
    wait.persistent = actors_.at(name).resident;
    wait.spilled = actors_.at(name).spilled;
  }
  Says(name, wait);
}

void Script::DoesSteps(const std::string& name, std::uint64_t steps) {
  Actor& actor = actors_.at(name);
  actor.turn_steps += steps;
  actor.stepped = now_;
}

void Script::GivesUp(const std::string& name, GiveUp how) {
  Actor& actor = actors_.at(name);
  actor.turn_steps = 0;
  actor.has_turn = actor.stop = actor.restoring = false;
  actor.pass = 0;
  actor.steps += how.steps;
  Says(name, wire::TurnOver{.turn = actor.turn,
                            .steps = actor.steps,
                            .turn_steps = how.steps,
                            .drain_ns = static_cast<uint64_t>(absl::ToInt64Nanoseconds(how.drain)),
                            .persistent = actor.resident,
                            .spilled = actor.spilled,
                            .transient_peak = how.transient,
                            .movable = how.movable,
                            .ready_ns = static_cast<uint64_t>(absl::ToInt64Nanoseconds(how.ready)),
                            .restored = how.restored,
                            .stood_aside = how.stood_aside,
                            .idle_ns = static_cast<uint64_t>(absl::ToInt64Nanoseconds(how.idle)),
                            .host_left = HostLeft(name),
                            .passed = how.passed,
                            .hand_over_ns = static_cast<uint64_t>(absl::ToInt64Nanoseconds(how.hand_over))});
  for (auto& [other, next] : actors_) {
    if (how.passed == 0 || !next.alive || next.stopped || !next.promise || next.promise->pass != how.passed)
      continue;
    wire::Grant grant = *next.promise;
    grant.passed = true;
    HearGrant(next, other, grant);
  }
}

void Script::NeedsRoom(const std::string& name, Bytes bytes, bool restoring,
                       std::optional<Bytes> device_free) {
  actors_.at(name).pass = 0;
  Says(name, wire::NeedRoom{.bytes = bytes,
                            .restoring = restoring,
                            .says_free = device_free.has_value(),
                            .device_free = device_free.value_or(0),
                            .persistent = actors_.at(name).resident,
                            .spilled = actors_.at(name).spilled});
}

wire::Spilled Script::Moves(const std::string& name, Bytes freed) {
  Actor& actor = actors_.at(name);
  actor.resident -= freed;
  actor.spilled += freed;
  return {.request = Told<wire::Spill>(name).value_or(wire::Spill{}).request,
          .freed = freed,
          .persistent = actor.resident,
          .spilled = actor.spilled,
          .movable = true,
          .host_left = HostLeft(name)};
}

Bytes Script::HostLeft(const std::string& name) const {
  const Actor& actor = actors_.at(name);
  return actor.part.host - std::min(actor.part.host, actor.spilled);
}

void Script::Spills(const std::string& name, Bytes freed, bool movable, const std::string& why_not) {
  wire::Spilled answer = Moves(name, freed);
  answer.movable = movable;
  answer.why_not = why_not;
  Says(name, std::move(answer));
}

void Script::SpillsIntoNewMemory(const std::string& name, Bytes freed, absl::Duration taking) {
  wire::Spilled answer = Moves(name, freed);
  answer.movable = true;
  answer.host_taking_ns = static_cast<uint64_t>(absl::ToInt64Nanoseconds(taking));
  Says(name, std::move(answer));
}

void Script::SpillsPart(const std::string& name, Bytes freed) {
  wire::Spilled answer = Moves(name, freed);
  answer.more = true;
  Says(name, std::move(answer));
}

void Script::Restores(const std::string& name, Bytes bytes, absl::Duration took, Bytes piece) {
  Actor& actor = actors_.at(name);
  actor.resident += bytes;
  actor.spilled -= bytes;
  Says(name, wire::Restored{.request = Told<wire::Restore>(name).value_or(wire::Restore{}).request,
                            .restored = bytes,
                            .persistent = actor.resident,
                            .spilled = actor.spilled,
                            .took_ns = static_cast<uint64_t>(absl::ToInt64Nanoseconds(took)),
                            .piece = piece});
}

void Script::StandsAtDoors(const std::string& name) {
  const Actor& actor = actors_.at(name);
  Says(name, wire::Spilled{.persistent = actor.resident,
                           .spilled = actor.spilled,
                           .movable = true,
                           .host_left = HostLeft(name)});
}

void Script::StandsBy(const std::string& name) {
  Says(name, wire::StoodBy{.turn = Told<wire::StandBy>(name).value_or(wire::StandBy{}).turn});
}

void Script::Grows(const std::string& name, std::uint64_t chunk, Bytes size, const std::string& for_whom) {
  Says(name, wire::ArenaGrew{chunk, size, for_whom.empty() ? 0 : IdOf(for_whom)});
}

void Script::Loses(const std::string& name, std::uint64_t chunk) { Says(name, wire::ArenaLost{chunk}); }

void Script::FormsGang(const std::string& gang, const std::vector<std::string>& ranks) {
  for (const std::string& rank : ranks) SaysItsGang(rank, gang, ranks);
}

void Script::SaysItsGang(const std::string& name, const std::string& gang,
                         const std::vector<std::string>& ranks) {
  if (actors_.at(name).part.meets) actors_.at(name).fellows = ranks;
  const auto rank = std::find(ranks.begin(), ranks.end(), name) - ranks.begin();
  Says(name, wire::Gang{gang, static_cast<std::uint64_t>(rank), ranks.size()});
}

// As the client does when it is told where its gang stops: it has begun no later step.
void Script::Acknowledges(const std::string& name, const wire::Yield& yield) {
  Actor& actor = actors_.at(name);
  if (!actor.has_turn) return;
  const bool in_step = !actor.restoring && !actor.in_gap;
  const bool accepted = Done(actor) + (in_step ? 1 : 0) <= yield.stop_step;
  if (!accepted && yield.stop_step == actor.stop_step) actor.stop = false;  // or it has read a later one
  Says(name, wire::YieldAck{yield.turn, yield.stop_step, Done(actor), accepted});
}

void Script::Acknowledges(const std::string& name, bool accepted, std::uint64_t steps) {
  const auto yield = *Told<wire::Yield>(name);
  Says(name, wire::YieldAck{yield.turn, yield.stop_step, steps, accepted});
}

void Script::Stops(const std::string& name) {
  actors_.at(name).stopped = true;
  actors_.at(name).next = absl::InfiniteFuture();
}

void Script::GoesOn(const std::string& name) {
  Actor& actor = actors_.at(name);
  actor.stopped = actor.unread = false;
  if (std::exchange(actor.void_grant, false)) {
    StandsAtDoors(name);
    Asks(name);
  } else if (actor.lives) {
    actor.next = now_;
  }
}

void Script::Dies(const std::string& name) {
  Actor& actor = actors_.at(name);
  actor.alive = actor.has_turn = actor.lives = false;
  actor.resident = 0;
  actor.next = absl::InfiniteFuture();
  for (const std::string& other : actor.fellows) {
    if (finished_.contains(name) || !actors_.contains(other) || !actors_.at(other).lives) continue;
    Actor& fellow = actors_.at(other);
    fellow.failed = true;
    fellow.next = now_;
  }
  Says(name, JobDied{});
}

void Script::HangsUp(const std::string& name) {
  actors_.at(name).has_turn = actors_.at(name).lives = false;
  Says(name, JobHungUp{});
}

void Script::Leaves(const std::string& name) {
  actors_.at(name).has_turn = actors_.at(name).lives = false;
  Says(name, wire::Leave{.keeps_running = true});
}

void Script::CoordinatorRestarts(const std::vector<JobId>& expected,
                                 const std::map<JobId, std::vector<std::string>>& locks,
                                 const std::map<JobId, std::uint64_t>& pids) {
  core_ = std::make_unique<Core>(CoreOptions{.policy = policy_, .runtime_dir = "/run/test"});
  timer_ = absl::InfiniteFuture();
  for (auto& [name, actor] : actors_) actor.told.clear();
  Restarted restarted;
  for (JobId id : expected) restarted.expected.try_emplace(id);
  for (const auto& [id, held] : locks) restarted.expected[id].locks = held;
  for (const auto& [id, pid] : pids) restarted.expected[id].pid = pid;
  Handle(0, std::move(restarted));
}

Script FullDevice(const std::string& policy) {
  Script s(policy, 100);
  s.Joins("a", {.persistent = 30});
  s.Joins("b", {.persistent = 40});
  s.Joins("c", {.persistent = 30});
  s.Asks("a");
  s.Passes(absl::Milliseconds(1));
  s.Asks("b", {.movable = true});
  s.Passes(absl::Milliseconds(1));
  s.Asks("c");
  s.StandsAtDoors("c");
  return s;
}

// --- time -----------------------------------------------------------------------------------------

void Script::Passes(absl::Duration time) { RunsFor(time); }

void Script::RunsFor(absl::Duration time) {
  const absl::Time end = now_ + time;
  while (true) {
    std::string first;
    absl::Time at = timer_;
    for (const auto& [name, actor] : actors_) {
      if (actor.next < at) at = actor.next, first = name;
    }
    if (at > end) break;
    now_ = std::max(now_, at);
    if (first.empty()) {
      timer_ = absl::InfiniteFuture();
      ++ticks_;
      Handle(0, Tick{});
    } else {
      Act(first);
    }
  }
  now_ = end;
}

// --- questions ------------------------------------------------------------------------------------

bool Script::Holds(const std::string& name) const {
  auto job = core_->state().jobs.find(IdOf(name));
  return job != core_->state().jobs.end() && job->second.turn != 0;
}

std::string Script::Holder(const std::string& device) const {
  std::vector<std::string> names;
  for (const auto& [name, actor] : actors_) {
    if (actor.part.device == device && Holds(name)) names.push_back(name);
  }
  return absl::StrJoin(names, ", ");
}

// "-": of one that has never joined here, or of nobody.
std::string Script::NameOf(JobId id) const {
  const auto named = [&](const auto& entry) { return entry.second == id; };
  const auto entry = std::find_if(ids_.begin(), ids_.end(), named);
  return entry == ids_.end() ? "-" : entry->first;
}

int Script::Turns(const std::string& name) const {
  return static_cast<int>(
      std::count_if(turns_.begin(), turns_.end(), [&](const TurnEnded& turn) { return turn.name == name; }));
}

std::uint64_t Script::Steps(const std::string& name) const {
  const Actor& actor = actors_.at(name);
  return actor.steps + (actor.has_turn ? actor.turn_steps : 0);
}

std::map<std::string, absl::Duration> Script::TurnTimes() const {
  std::map<std::string, absl::Duration> times;
  for (const auto& [name, actor] : actors_) {
    if (actor.has_turn && !actor.restoring) times[name] = now_ - actor.granted - actor.ready;
  }
  for (const TurnEnded& turn : turns_) times[turn.name] += turn.end - turn.start - turn.ready;
  return times;
}

double Script::Share(const std::string& name) const {
  absl::Duration own, all;
  for (const TurnEnded& turn : turns_) {
    all += turn.end - turn.start;
    if (turn.name == name) own += turn.end - turn.start;
  }
  return all == absl::ZeroDuration() ? 0 : absl::FDivDuration(own, all);
}

void Script::Tells(const std::string& who, decltype(StoryLine::what) what) {
  if (story_.size() == kStory) story_.pop_front();
  story_.push_back({.at = now_, .who = who, .what = std::move(what)});
}

std::string Script::Story() const {
  std::string story = "\n";
  for (const StoryLine& line : story_)
    absl::StrAppend(&story, std::visit([&](const auto& what) { return ToText(line, what); }, line.what),
                    "\n");
  return story;
}

}  // namespace hocket::coordinator
