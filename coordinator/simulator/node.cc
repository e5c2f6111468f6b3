#include "coordinator/simulator/node.h"

#include <algorithm>
#include <utility>

#include "coordinator/core/limits.h"
#include "coordinator/own/own_policy.h"
#include "coordinator/policies/registry.h"
#include "coordinator/policies/srtf.h"
#include "coordinator/simulator/queue.h"

namespace hocket::coordinator {
namespace {

constexpr int kParts = 32;  // of a large spill, as csrc/client has it

constexpr absl::Duration kPatience = absl::Minutes(10);  // with an own policy: for what hangs

std::unique_ptr<Policy> MakeOwn(const std::string& name, std::string& trouble) {
  const auto give_up = [&trouble](const std::string& why) {
    if (trouble.empty()) trouble = why;
  };
  auto policy =
      std::make_unique<OwnPolicy>(name, OwnPolicyOptions{.patience = kPatience, .give_up = give_up});
  policy->Await(kPatience);
  return policy;
}

std::unique_ptr<Policy> MakeSimulated(const std::string& name, std::string& trouble) {
  if (IsOwnPolicy(name)) return MakeOwn(name, trouble);
  if (name == kQueue) return std::make_unique<Queue>();
  return *MakePolicy(name);
}

}  // namespace

Node::Node(const SimulationOptions& options, Plan plan)
    : options_(options),
      plan_(std::move(plan)),
      core_({.policy = options.policy,
             .switch_share = options.switch_share,
             .policy_settings = {.most_together = options.together},
             .make_policy = [this](const std::string& name) { return MakeSimulated(name, trouble_); }}) {}

void Node::Place(Player& player, absl::Time now) {
  now_ = now;
  const SimulatedJob& job = *player.job;
  players_[player.id] = &player;
  player.spilled = std::min(job.persistent, options_.capacity);
  wire::Join join{.name = job.name, .device = "gpu", .capacity = options_.capacity, .weight = job.weight};
  join.pid = player.id;  // each is a process of its own
  join.priority = job.priority;
  join.heeds_restore = true;
  join.heeds_idle = true;
  join.total_steps = job.told();
  join.job = player.id;
  Handle(player.id, JobJoins{std::move(join), job.user});
  Handle(player.id, wire::Wait{});
}

void Node::Tick(absl::Time now) {
  now_ = now;
  if (now < timer_) return;  // another one was set since
  timer_ = absl::InfiniteFuture();
  Handle(0, coordinator::Tick{});
}

bool Node::Act(Player& player, absl::Time now) {
  now_ = now;
  if (player.restore.request != 0) {
    AnswerRestore(player);
    return false;
  }
  if (player.spill.request != 0) {
    AnswerSpill(player);
    return false;
  }
  if (player.turn == 0) {
    Handle(player.id, wire::Wait{.need = player.spilled, .gang_step = player.steps});
    return false;
  }
  if (!player.running) {
    player.steps_aside ? StepAside(player) : Run(player);
    return false;
  }
  GiveUp(player);
  if (player.steps < player.job->steps) return false;
  player.end.end = now - absl::UnixEpoch();
  ++player.generation;  // nothing more is to be done, nor a spill that it was just told
  resident_ -= player.resident;
  players_.erase(player.id);
  Handle(player.id, JobDied{});
  return true;
}

// A step's time is known before it has been measured: from earlier runs.
JobView Node::InOrder(const Policy& policy, size_t others, absl::Time now) {
  now_ = now;
  std::vector<JobView> views;
  for (const auto& [id, player] : players_) {
    JobView view = core_.ViewOf(id);
    if (!view.step.known()) view.step = Estimate(player->step.mean());
    view.steps = Steps(*player, now);
    views.push_back(std::move(view));
  }
  return policy.Order(std::move(views))[others];
}

size_t Node::DoneWithin(absl::Duration time, absl::Time now) {
  size_t soon = 0;
  for (const auto& [id, player] : players_) {
    JobView view{
        .served = Served(*player, now), .steps = Steps(*player, now), .total_steps = player->job->told()};
    view.step = Estimate(player->step.mean());
    soon += Srtf::Remaining(view) < time;
  }
  return soon;
}

std::uint64_t Node::Steps(const Player& player, absl::Time now) {
  now_ = now;
  return player.steps + (player.running ? StepsDone(player) : 0);
}

absl::Duration Node::Served(const Player& player, absl::Time now) {
  now_ = now;
  if (!player.running) return player.served;
  const std::uint64_t done = StepsDone(player);
  const absl::Duration in_steps = player.step.Of(player.steps, done);
  const absl::Duration of_next = Done(player) - in_steps - player.gap * static_cast<std::int64_t>(done);
  return player.served + in_steps + std::max(absl::ZeroDuration(), of_next);
}

// --- the core's side ------------------------------------------------------------------------------

void Node::Handle(JobId job, decltype(Event::what) what) {
  const std::vector<Action> actions = core_.Handle({.at = now_, .job = job, .what = std::move(what)});
  for (const Action& action : actions) {
    if (auto* send = std::get_if<Send>(&action)) {
      auto player = players_.find(send->to);
      if (player != players_.end()) Hear(*player->second, send->message);
    } else if (auto* timer = std::get_if<SetTimer>(&action)) {
      timer_ = timer->at;
      plan_(timer->at, 0);
    } else if (std::holds_alternative<TurnEnded>(action)) {
      ++turns_;
    }
  }
  for (const Action& action : actions) {
    if (auto* look = std::get_if<LookAt>(&action)) Handle(look->job, SeenOf(*players_.at(look->job)));
  }
}

void Node::Hear(Player& player, const wire::Message& message) {
  if (auto* grant = std::get_if<wire::Grant>(&message)) {
    player.turn = grant->turn;
    player.granted = now_;
    player.running = player.stop_asked = player.asked_room = false;
    player.idle_asked = grant->contended;
    player.shorter_pauses = absl::ZeroDuration();
    player.restored = 0;
    if (player.restore.request == 0) Next(player, now_);
  } else if (auto* yield = std::get_if<wire::Yield>(&message)) {
    player.idle_asked = true;
    player.shorter_pauses = absl::Nanoseconds(yield->idle_ns);
    player.stop_asked |= yield->now;
    if (player.running) PlanEndOfTurn(player);
  } else if (auto* spill = std::get_if<wire::Spill>(&message)) {
    player.spill = *spill;
    if (player.restore.request == 0) PlanSpill(player);
  } else if (auto* restore = std::get_if<wire::Restore>(&message)) {
    player.restore = *restore;
    Next(player, now_ + Transfer(std::min<Bytes>(restore->bytes, player.spilled)));
  } else if (auto* room = std::get_if<wire::Room>(&message)) {
    player.steps_aside = room->step_aside;
    Next(player, now_);
  }
}

// --- the jobs' side -------------------------------------------------------------------------------

void Node::Next(Player& player, absl::Time at) {
  ++player.generation;
  player.next = at;
  plan_(at, player.id);
}

// While the others' bytes are copied out in parts, those of the parts before are copied in.
absl::Time Node::Restored(const Player& player) const {
  const absl::Duration alone = Transfer(player.restored);
  if (!player.asked_room) return now_ + alone;
  return std::max(player.granted + alone, now_ + alone / kParts);
}

absl::Duration Node::Transfer(Bytes bytes) const {
  return absl::Seconds(static_cast<double>(bytes) / options_.link);
}

void Node::Resides(Player& player, Bytes more) {
  player.resident += more;
  resident_ += more;
  peak_ = std::max(peak_, resident_);
}

Bytes Node::Free() const { return options_.capacity - std::min(resident_, options_.capacity); }

// Takes its bytes back, or makes them, or asks for room for them; then it steps.
void Node::Run(Player& player) {
  if (player.spilled > Free()) {
    player.asked_room = true;
    return Handle(player.id, wire::NeedRoom{.bytes = player.spilled - Free(), .restoring = player.steps > 0});
  }
  if (RateOf(player) == 0)
    return Handle(player.id, wire::NeedRoom{.bytes = std::max<Bytes>(1, player.job->transient)});
  const bool first = player.steps == 0;  // then nothing comes back: it makes it
  const Bytes back = std::exchange(player.spilled, 0);
  Resides(player, back);
  player.restored = first ? 0 : back;
  moved_ += player.restored;
  player.running = true;
  player.began = player.since = options_.hand_over + Restored(player);
  player.done = absl::ZeroDuration();
  player.rate = 1;
  if (first) player.end.first_step = player.began - absl::UnixEpoch();
  running_.insert(player.id);
  SetRates();
  PlanEndOfTurn(player);
}

// --- beside others

double Node::RateOf(const Player& player) const {
  double rate = 1;
  for (JobId id : running_) {
    if (id == player.id) continue;
    const auto beside = options_.pairs.find(player.job->kind);
    if (beside == options_.pairs.end()) continue;
    const auto share = beside->second.find(players_.at(id)->job->kind);
    if (share != beside->second.end()) rate *= share->second;
  }
  return rate;
}

// Somebody has come or gone.
void Node::SetRates() {
  for (JobId id : running_) {
    Player& player = *players_.at(id);
    const double rate = RateOf(player);
    if (rate == player.rate) continue;
    player.done = std::max(absl::ZeroDuration(), Done(player));
    player.since = std::max(player.since, now_);
    player.rate = rate;
    if (player.next > now_) PlanEndOfTurn(player);  // else it ends here as well
  }
}

// Of this turn's steps and gaps, by the time that they take alone.
absl::Duration Node::Done(const Player& player) const {
  const absl::Duration since = now_ - player.since;
  return player.done + (player.rate == 1 ? since : since * player.rate);
}

// That so much is done, if nobody comes or goes. Rounded up: then it is done.
absl::Time Node::When(const Player& player, absl::Duration done) const {
  const absl::Duration more = done - player.done;
  if (player.rate == 1) return player.since + more;
  return player.since + more / player.rate + absl::Nanoseconds(1 + 1 / player.rate);
}

// Its last step before this turn ended before others came, wherever that was.
StepsSeen Node::SeenOf(const Player& player) const {
  const std::uint64_t ended = player.running ? StepsDone(player) : 0;
  const absl::Duration done = player.step.Of(player.steps, ended) +
                              player.gap * static_cast<std::int64_t>(std::max<std::uint64_t>(ended, 1) - 1);
  return {.steps = player.steps + ended,
          .at = ended > 0 ? std::min(now_, When(player, done)) : player.granted};
}

// Steps of this turn that have ended by now.
std::uint64_t Node::StepsDone(const Player& player) const {
  return player.step.Within(player.steps, player.gap, Done(player));
}

void Node::PlanEndOfTurn(Player& player) {
  const std::uint64_t left = player.job->steps - player.steps;
  const auto until_end_of = [&](std::uint64_t step) {  // counted from 1
    return player.step.Of(player.steps, step) + player.gap * static_cast<std::int64_t>(step - 1);
  };
  const absl::Time done = When(player, until_end_of(left));
  const std::uint64_t ended = StepsDone(player);
  const absl::Duration until_begin = until_end_of(ended + 1) - player.step.Of(player.steps + ended, 1);
  const absl::Time next_end = When(player, until_end_of(ended + 1));
  const absl::Time begins = When(player, until_begin), paused = When(player, until_begin - player.gap);
  const bool in_gap = ended > 0 && now_ < begins;
  const absl::Duration limit =
      std::max(player.job->away ? absl::ZeroDuration() : kIdleLimit, player.shorter_pauses);
  const absl::Time idle = std::max(now_, paused + limit);
  absl::Time at = done;
  if (player.stop_asked) {
    at = in_gap ? std::min(begins, idle) : next_end;
  } else if (player.idle_asked && player.gap > limit) {
    at = in_gap && idle < begins ? idle : next_end + limit;
  }
  Next(player, std::max(now_, std::min(at, done)));
}

void Node::GiveUp(Player& player) {
  const std::uint64_t done = std::min(StepsDone(player), player.job->steps - player.steps);
  const absl::Duration ready = player.began - player.granted;
  const absl::Duration in_steps = player.step.Of(player.steps, done);
  const absl::Duration until_next = in_steps + player.gap * static_cast<std::int64_t>(done);
  const absl::Time begin_of_next = When(player, until_next);
  const absl::Duration idle =
      done == 0 ? absl::ZeroDuration()
                : std::max(absl::ZeroDuration(), now_ - When(player, until_next - player.gap));
  player.steps += done;
  player.served += in_steps;
  busy_ += in_steps;
  player.asks = std::max(now_, begin_of_next);
  player.running = false;
  running_.erase(player.id);
  SetRates();
  const TurnNumber turn = std::exchange(player.turn, 0);
  Handle(player.id, wire::TurnOver{.turn = turn,
                                   .steps = player.steps,
                                   .turn_steps = done,
                                   .persistent = player.resident,
                                   .transient_peak = player.job->transient,
                                   .movable = true,
                                   .ready_ns = static_cast<std::uint64_t>(absl::ToInt64Nanoseconds(ready)),
                                   .restored = player.restored,
                                   .idle_ns = static_cast<std::uint64_t>(absl::ToInt64Nanoseconds(idle))});
  const std::uint64_t noticed = core_.state().jobs.at(player.id).watch.noticed();
  if (noticed > player.end.slower.size()) player.end.slower.push_back(player.steps);
  if (player.steps < player.job->steps && player.spill.request == 0) Next(player, player.asks);
}

// There is no room for its bytes before others have had a turn.
void Node::StepAside(Player& player) {
  player.steps_aside = false;
  player.asks = now_;
  Handle(
      player.id,
      wire::TurnOver{.turn = std::exchange(player.turn, 0),
                     .steps = player.steps,
                     .persistent = player.resident,
                     .spilled = Spilled(player),
                     .transient_peak = player.job->transient,
                     .movable = true,
                     .ready_ns = static_cast<std::uint64_t>(absl::ToInt64Nanoseconds(now_ - player.granted)),
                     .stood_aside = true});
  if (player.spill.request == 0) Next(player, now_);
}

void Node::PlanSpill(Player& player) {
  Next(player, now_ + Transfer(std::min<Bytes>(player.spill.bytes, player.resident)));
}

// Of a job that has not begun nothing is spilled, and nothing comes back: it has made nothing yet.
Bytes Node::Spilled(const Player& player) { return player.steps == 0 ? 0 : player.spilled; }

void Node::AnswerRestore(Player& player) {
  const wire::Restore order = std::exchange(player.restore, wire::Restore{});
  const Bytes back = std::min({Bytes{order.bytes}, Spilled(player), Free()});
  player.spilled -= back;
  Resides(player, back);
  moved_ += back;
  const absl::Duration took = Transfer(back);
  Handle(player.id, wire::Restored{.request = order.request,
                                   .restored = back,
                                   .persistent = player.resident,
                                   .spilled = Spilled(player),
                                   .took_ns = static_cast<std::uint64_t>(absl::ToInt64Nanoseconds(took))});
  if (player.restore.request != 0) return;  // the next one
  if (player.spill.request != 0) {
    PlanSpill(player);
  } else if (player.turn != 0) {
    Next(player, now_);
  }
}

void Node::AnswerSpill(Player& player) {
  const wire::Spill spill = std::exchange(player.spill, wire::Spill{});
  const Bytes freed = std::min<Bytes>(spill.bytes, player.resident);
  player.resident -= freed;
  resident_ -= freed;
  player.spilled += freed;
  moved_ += freed;
  const bool waits = core_.state().jobs.at(player.id).waiting;
  Handle(player.id, wire::Spilled{.request = spill.request,
                                  .freed = freed,
                                  .persistent = player.resident,
                                  .spilled = Spilled(player),
                                  .movable = true});
  if (!waits && player.turn == 0) Next(player, std::max(now_, player.asks));  // it was between two steps
}

}  // namespace hocket::coordinator
