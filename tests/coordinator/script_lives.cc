// Actors that live: they do their steps, grow, spill, restore and meet their fellows by themselves, as jobs
// do.
#include <algorithm>
#include <utility>

#include "coordinator/core/limits.h"
#include "csrc/base/check.h"
#include "tests/coordinator/script.h"

namespace hocket::coordinator {

void Script::Lives(const std::string& name) {
  Actor& actor = actors_.at(name);
  actor.lives = true;
  if (actor.part.meets) StandsAtDoors(name);
  Asks(name);
  actor.failed = std::any_of(actor.fellows.begin(), actor.fellows.end(), [&](const std::string& fellow) {
    const auto found = actors_.find(fellow);
    return found != actors_.end() && !found->second.alive && !finished_.contains(fellow);
  });
  if (actor.failed) actor.next = now_;
}

void Script::Hear(const std::string& name, const wire::Message& message) {
  Actor& actor = actors_.at(name);
  actor.told.push_back(message);
  if (auto* grant = std::get_if<wire::Grant>(&message)) {
    HearGrant(actor, name, *grant);
  } else if (auto* yield = std::get_if<wire::Yield>(&message);
             yield != nullptr && actor.promise && actor.promise->turn == yield->turn) {
    actor.promised_yield = *yield;
  } else if (yield != nullptr && yield->now) {
    actor.stop = actor.idle = true;
    actor.shorter = absl::ZeroDuration();
    actor.pass = yield->pass;
    actor.stop_step = yield->stop_step;
    if (actor.lives && actor.part.meets && yield->stop_step > 0) unanswered_.emplace_back(name, *yield);
    LooksInGap(actor);
  } else if (yield != nullptr) {
    actor.idle = true;
    actor.shorter = absl::Nanoseconds(yield->idle_ns);
    LooksInGap(actor);
  } else if (auto* spill = std::get_if<wire::Spill>(&message);
             spill != nullptr && actor.lives && !actor.stopped) {
    const absl::Duration moves = LinkTime(std::min<Bytes>(spill->bytes, actor.resident));
    actor.next = std::min(actor.next, now_ + actor.part.spill_time + moves);
  } else if (auto* restore = std::get_if<wire::Restore>(&message);
             restore != nullptr && actor.lives && !actor.stopped) {
    const absl::Duration moves = LinkTime(std::min<Bytes>(restore->bytes, actor.spilled));
    actor.next = std::min(actor.next, now_ + actor.part.restore_time + moves);
  } else if (auto* room = std::get_if<wire::Room>(&message);
             room != nullptr && actor.lives && !actor.stopped) {
    actor.steps_aside = room->step_aside;
    actor.next = now_;
    if (!room->ok) actor.refused = true;
  }
}

void Script::HearGrant(Actor& actor, const std::string& name, const wire::Grant& grant) {
  const auto promise = std::exchange(actor.promise, std::nullopt);
  const auto yield = std::exchange(actor.promised_yield, std::nullopt);
  if (grant.pass != 0 && !grant.passed) {
    actor.promise = grant;
    return;
  }
  if (grant.passed && (!promise || promise->pass != grant.pass)) return;  // obeyed already
  HOCKET_CHECK(!actor.has_turn) << name << " is granted a turn while having one\n" << Story();
  actor.has_turn = true;
  actor.turn = grant.turn;
  actor.stop = actor.in_gap = false;
  actor.idle = grant.contended;
  actor.shorter = absl::ZeroDuration();
  actor.turn_steps = actor.restored = 0;
  actor.ready = absl::ZeroDuration();
  actor.granted = now_;
  actor.restoring = true;
  actor.unread = actor.stopped;
  const bool moves = link_ > 0 && JobOf(name).ahead;  // to its end, first
  if (actor.lives && !actor.stopped && !moves) actor.next = now_;
  if (grant.passed && yield) Hear(name, *yield);
}

void Script::Act(const std::string& name) {
  Actor& actor = actors_.at(name);
  actor.next = absl::InfiniteFuture();
  if (actor.refused || actor.failed) return Dies(name);
  if (JobOf(name).ahead) return AnswerRestore(actor, name);
  if (JobOf(name).spill) return AnswerSpill(actor, name);
  if (!actor.has_turn) {
    StandsAtDoors(name);
    return Asks(name);
  }
  if (std::exchange(actor.steps_aside, false)) {
    GivesUp(name, {.steps = actor.turn_steps, .movable = true, .stood_aside = true});
    return Asks(name, {.need = actor.spilled + actor.to_grow});
  }
  if (actor.restoring) return BeginTurn(actor, name);
  actor.in_gap ? EndGap(actor, name) : EndStep(actor, name);
}

// As the client does: what fits comes back, and room is asked for the rest.
void Script::BeginTurn(Actor& actor, const std::string& name) {
  const Bytes back = std::min(actor.spilled, FreeBytes(actor.part.device));
  actor.restored += back;
  actor.resident += back;
  actor.spilled -= back;
  if (actor.spilled > 0)
    return NeedsRoom(name, actor.spilled, /*restoring=*/true, FreeBytes(actor.part.device));
  if (actor.restored > 0) Reports(actor, name);
  if (!Grows(actor, name)) return;
  actor.restoring = false;
  actor.ready = now_ - actor.granted + actor.part.ready;
  if (actor.restored > 0) actor.ready += actor.part.restore_time + LinkTime(actor.restored);
  actor.next = actor.granted + actor.ready + StepTime(actor);
}

// As long as others leave the device to it for its part of the step; as things stand at its begin.
absl::Duration Script::StepTime(const Actor& actor) const {
  double duties = 0;
  for (const auto& [name, other] : actors_) {
    if (other.part.device == actor.part.device && other.has_turn) duties += other.part.duty;
  }
  return actor.part.step * std::max(1.0, duties);
}

// What has changed in a turn. (Of the others a turn's end tells that soon enough.)
void Script::Reports(const Actor& actor, const std::string& name) {
  if (actor.part.meets || actor.part.grows_after > 0)
    Says(name, wire::Report{.persistent = actor.resident, .spilled = actor.spilled, .steps = Done(actor)});
}

// False: it lacks room.
bool Script::Grows(Actor& actor, const std::string& name) {
  if (actor.to_grow == 0 || Done(actor) < actor.part.grows_after) return true;
  if (FreeBytes(actor.part.device) < actor.to_grow) {
    NeedsRoom(name, actor.to_grow);
    return false;
  }
  actor.resident += std::exchange(actor.to_grow, 0);
  Reports(actor, name);
  return true;
}

// True: its fellows have come as far.
bool Script::Meets(Actor& actor) {
  actor.at_meeting = true;
  return std::all_of(actor.fellows.begin(), actor.fellows.end(), [&](const std::string& name) {
    if (!actors_.contains(name)) return false;  // it has not joined yet
    const Actor& fellow = actors_.at(name);
    return Done(fellow) > Done(actor) || (Done(fellow) == Done(actor) && fellow.at_meeting);
  });
}

bool Script::Stops(const Actor& actor) const {
  return actor.stop && (!actor.part.meets || Done(actor) >= actor.stop_step);
}

void Script::EndStep(Actor& actor, const std::string& name) {
  if (!Grows(actor, name) || (actor.part.meets && !Meets(actor))) return;
  ++actor.turn_steps;
  actor.at_meeting = false;
  for (const std::string& other : actor.fellows) {  // all are there
    if (actors_.at(other).at_meeting) actors_.at(other).next = now_;
  }
  actor.stepped = now_;
  if (actor.part.total_steps > 0 && actor.steps + actor.turn_steps >= actor.part.total_steps) {
    GivesUp(name, {.steps = actor.turn_steps, .ready = actor.ready, .restored = actor.restored});
    finished_[name] = now_;
    return Dies(name);
  }
  if (!Stops(actor)) {
    actor.in_gap = true;
    actor.gap_ends = now_ + actor.part.gap;
    return LooksInGap(actor);
  }
  GivesUp(
      name,
      {.steps = actor.turn_steps, .ready = actor.ready, .restored = actor.restored, .passed = actor.pass});
  AsksAfter(actor, name, actor.part.gap);
}

// Between two steps: after the idle limit a job that somebody waits for gives its turn up, also when it is
// asked later.
void Script::LooksInGap(Actor& actor) {
  if (!actor.lives || actor.stopped || !actor.has_turn || !actor.in_gap) return;
  const absl::Time began = actor.gap_ends - actor.part.gap;
  actor.next = std::clamp(began + std::max(kIdleLimit, actor.shorter), now_, std::max(now_, actor.gap_ends));
}

void Script::EndGap(Actor& actor, const std::string& name) {
  const absl::Duration left = actor.gap_ends - now_;
  const absl::Duration idled = actor.part.gap - left;
  const bool long_enough = left > absl::ZeroDuration() && idled >= actor.shorter;
  const bool gives = Stops(actor) || (actor.idle && long_enough);
  if (!gives) {
    actor.in_gap = left > absl::ZeroDuration();
    actor.next = actor.in_gap ? actor.gap_ends : now_ + StepTime(actor);
    return;
  }
  actor.in_gap = false;
  GivesUp(name, {.steps = actor.turn_steps,
                 .ready = actor.ready,
                 .restored = actor.restored,
                 .idle = idled,
                 .passed = actor.pass});
  AsksAfter(actor, name, left);
}

void Script::AsksAfter(Actor& actor, const std::string& name, absl::Duration gap) {
  if (gap > absl::ZeroDuration()) {
    actor.next = now_ + gap;
    return;
  }
  StandsAtDoors(name);
  Asks(name);
}

void Script::AnswerRestore(Actor& actor, const std::string& name) {
  const auto order = *Told<wire::Restore>(name);
  const Bytes bytes = std::min({Bytes{order.bytes}, actor.spilled, FreeBytes(actor.part.device)});
  Disturb(actor, bytes);
  Restores(name, bytes, actor.part.restore_time + LinkTime(bytes));
  if (const auto& spill = JobOf(name).spill) actor.next = now_ + LinkTime(spill->bytes);
  if (const auto& ahead = JobOf(name).ahead) actor.next = now_ + LinkTime(ahead->bytes);
  if (actor.has_turn) actor.next = now_;
}

void Script::AnswerSpill(Actor& actor, const std::string& name) {
  const auto order = *Told<wire::Spill>(name);
  const Bytes bytes = std::min<Bytes>({order.bytes, actor.resident, HostLeft(name)});
  Disturb(actor, bytes);
  Spills(name, bytes, true, bytes < order.bytes ? "its host memory is full" : "");
  if (!actor.has_turn && !JobOf(name).waiting) actor.next = now_;
}

absl::Duration Script::LinkTime(Bytes bytes) const {
  return link_ == 0 ? absl::ZeroDuration() : absl::Seconds(static_cast<double>(bytes) / link_);
}

// Whoever is in a step shares the link with it.
void Script::Disturb(const Actor& mover, Bytes bytes) {
  for (auto& [name, other] : actors_) {
    const bool in_step = other.lives && other.has_turn && !other.restoring && !other.in_gap;
    if (in_step && other.part.device == mover.part.device && &other != &mover)
      other.next += other.part.copies * LinkTime(bytes);
  }
}

Bytes Script::FreeBytes(const std::string& device) const {
  Bytes used = 0;
  for (const auto& [name, actor] : actors_) {
    if (actor.part.device == device) used += actor.resident;
  }
  return used < capacity_ ? capacity_ - used : 0;
}

}  // namespace hocket::coordinator
