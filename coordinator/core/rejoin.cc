// Joining, leaving, dying, and coming back after a restart of the coordinator.
#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "coordinator/core/core.h"
#include "coordinator/core/limits.h"
#include "coordinator/policies/registry.h"
#include "csrc/base/check.h"
#include "csrc/wire/limits.h"

namespace hocket::coordinator {
namespace {

// Not in the middle of a character of several bytes.
std::string CutTo(std::size_t limit, const std::string& text) {
  if (text.size() <= limit) return text;
  const auto continues = [](char byte) { return (static_cast<unsigned char>(byte) & 0xc0) == 0x80; };
  while (limit > 0 && continues(text[limit])) --limit;
  return text.substr(0, limit);
}

}  // namespace

void Core::On(Job*, const JobJoins& event) {
  JobJoins joins = event;
  std::vector<int> former_lanes;
  MoveRecord spills, restores;  // so far, of one that joins again
  for (JobId former : event.replaces) {
    if (joins.join.rejoin) {
      spills = job(former).spills;
      restores = job(former).restores;
    }
    former_lanes.push_back(job(former).lane);
    Replace(job(former), joins);
  }
  const wire::Join& join = joins.join;
  const JobId id = join.job;
  HOCKET_CHECK(id != 0 && id < next_gang_ && !state_.jobs.contains(id)) << "the server gave the id " << id;
  const std::string name = UniqueName(join, joins.user);
  Device& device = DeviceFor(join);
  ++device.jobs;
  Job& job = state_.jobs[id];
  job.id = job.entity = id;
  job.device = &device;
  job.info = join;
  job.info.name = name;
  job.priority = ParsePriority(join.priority);
  job.user = joins.user;
  job.lane = FirstLane(job);
  job.joined = now_;
  Reported(job);
  NoteOthersOfProcess(job);
  job.paused = joins.paused;
  job.known = joins.known;
  job.guarantee = joins.memory_guarantee;
  const OnDevice own(Owner::Job(id), join.device);
  if (joins.time) state_.accounts.emplace(own, *std::move(joins.time));
  if (joins.time_guarantee > 0) state_.guarantees.emplace(own, TimeGuarantee(joins.time_guarantee, now_));
  KeepAccounts();
  anybody_serves_ |= join.serves;
  job.persistent = join.persistent;
  job.spilled = join.spilled;
  job.steps = join.steps;
  job.spills = spills;
  job.restores = restores;
  SendTo(id, wire::Joined{.job = id,
                          .name = job.info.name,
                          .lane_lock = LaneLock(job, job.lane),
                          .sharing_with = SharingWith(job),
                          .hears_movable = true,
                          .hears_parts = true,
                          .fills_arena = true,
                          .hears_headroom = true});
  if (join.rejoin) {
    Rejoin(job, join);
  } else {
    FillArena(job);
  }
  for (int lane : former_lanes) {
    if (lane == job.lane) continue;
    if (const Bytes unmapped = DropUnknown(DeviceOf(job), lane))
      Expect(DeviceOf(job), unmapped, kArenaDropLimit);
  }
}

// The process lives and tells anew what it holds, so nothing of `former` is on its way back. A turn that it
// had goes on where the Join says so. What people have set stays.
void Core::Replace(Job& former, JobJoins& joins) {
  if (joins.join.rejoin) {
    joins.paused |= former.paused;
    joins.join.weight = former.info.weight;
    joins.join.priority = former.info.priority;
    joins.join.total_steps = former.info.total_steps;
    joins.join.group = former.info.group;
    joins.memory_guarantee = former.guarantee;
  }
  const OnDevice own(Owner::Job(former.id), former.info.device);
  auto guarantee = state_.guarantees.extract(own);
  if (joins.join.rejoin && guarantee) joins.time_guarantee = guarantee.mapped().share();
  // It has its turn, so it has not passed it on, and will not now.
  if (joins.join.holds_turn) WillNotPass(former);
  // What it adopted in a turn that it ended meanwhile it could tell nobody.
  const bool ended_unheard = former.turn != 0 && former.told_turn != joins.join.turn;
  if (!former.gone) Depart(former, /*crashed=*/ended_unheard);
  // It tells them anew in its turn, or unmaps them.
  if (former.kept_arena > 0) Expect(DeviceOf(former), former.kept_arena, kArenaDropLimit);
  const JobId id = former.id;
  auto account = state_.accounts.extract(own);
  if (joins.join.rejoin && account) joins.time = std::move(account.mapped());
  --DeviceOf(former).jobs;
  state_.jobs.erase(id);
  active_.erase(id);
}

// What it knows of the arena is the truth only if it has the turn: a chunk that another job has adopted since
// may still stand in its list. So the holder tells all it has, and everybody else forgets.
void Core::Rejoin(Job& job, const wire::Join& join) {
  if (!join.gang.empty()) On(&job, wire::Gang{join.gang, join.gang_rank, join.gang_size});
  // Never two ranks in one lane: they run together. The next Grant puts right what is only unique here.
  const int first = FirstLane(job);
  job.lane = first + static_cast<int>(join.gang_rank);
  for (int lane = 0; lane < std::max(kMostLanes, static_cast<int>(join.gang_size)); ++lane) {
    if (LaneLock(job, first + lane) == join.lane_lock) job.lane = first + lane;
  }
  if (join.holds_turn || join.turn != 0) KeepTurn(job, join.turn, join.holds_turn);
  if (job.turn != 0) return SendTo(job.id, wire::ArenaExport{.to_job = 0, .bare = true});
  // In a step its chunks may be in use: then it forgets them when it has stopped.
  if (job.overstays == 0 || !join.holds_turn) RenewArena(job);
}

// Only ranks of one gang share a turn, each in a lane of its own.
bool Core::MayKeepTurn(const Job& job, TurnNumber number) const {
  auto turn = state_.turns.find(number);
  if (turn == state_.turns.end()) return true;
  const Gang* const gang = GangOf(job);
  return gang != nullptr &&
         std::all_of(turn->second.granted.begin(), turn->second.granted.end(), [&](JobId id) {
           const Job& other = this->job(id);
           return GangOf(other) == gang && (other.lane != job.lane || other.device != job.device);
         });
}

// `told`: the number that it knows its turn by; 0: none, it took the turn alone. A number that was given to
// somebody else since the restart is told to this job only.
void Core::KeepTurn(Job& job, TurnNumber told, bool has_lock) {
  Device& device = DeviceOf(job);
  TurnNumber number = told != 0 ? told : next_turn_;
  if (!MayKeepTurn(job, number)) number = next_turn_;
  next_turn_ = std::max(next_turn_, number + 1);
  if (told == 0) told = number;
  const bool others = device.turn != 0 && device.turn != number;
  // Whoever was promised the next turn may have it in a moment, and is to be beside nobody then.
  const bool beside = others && has_lock && !state_.turns.at(device.turn).next_is_promised &&
                      MayKeepPart(job, state_.turns.at(device.turn));
  if ((others && !beside) || BesideOneSetAside(job)) return AskToStopAtOnce(job, told);
  if (beside) number = device.turn;
  Turn& turn = state_.turns[number];
  if (turn.number == 0)
    turn = Turn{.number = number,
                .entity = job.entity,
                .start = now_,
                .ready = now_,
                .charged = now_,
                .reason = "had it already"};
  if (device.turn == 0) turn.devices.push_back(&device);
  device.turn = job.turn = number;
  job.told_turn = told;
  job.granted = now_;
  TimePasses(job);
  job.steps_before = job.steps;
  if (beside) turn.guests[job.id] = "had it already";
  turn.granted.insert(job.id);
  if (beside) JoinsAgainBeside(job, turn);
  if (has_lock) return;
  for (JobId id : active_) {
    const Job& other = this->job(id);
    const bool in_lane = other.device == job.device && other.lane == job.lane;
    if (id != job.id && in_lane && KeepsLaneInStep(other)) return StandAsideFor(other);
  }
}

// Nobody stands by any longer: who trains went on when the coordinator was gone. So who serves is to go when
// it has nothing to do, and the turn is that of one who trains.
void Core::JoinsAgainBeside(Job& job, Turn& turn) {
  if (Serves(job)) SendYield(job, false, 0);
  if (Serves(turn.entity) && !Serves(job)) {
    SendYield(this->job(turn.entity), false, 0);
    turn.guests[turn.entity] = turn.reason;
    turn.guests.erase(job.id);
    turn.entity = job.entity;
  }
  turn.serves_beside = ServesSomebody(turn);
  CompanyChanged(turn);
  if (StopsAtOnce(turn)) TellToStop(job, turn);  // as the others were told
}

// In its lane is one that was set aside. Who says so last may not be right, but neither is he ended for it.
bool Core::BesideOneSetAside(const Job& job) const {
  return std::any_of(state_.jobs.begin(), state_.jobs.end(), [&](const auto& entry) {
    const Job& other = entry.second;
    return other.set_aside && other.id != job.id && other.device == job.device && other.lane == job.lane;
  });
}

// Two that were beside each other have joined again: each has the lock of its own lane.
bool Core::MayKeepPart(const Job& job, const Turn& turn) const {
  return GangOf(job) == nullptr && std::all_of(turn.granted.begin(), turn.granted.end(), [&](JobId id) {
           return GangOf(this->job(id)) == nullptr && this->job(id).lane != job.lane;
         });
}

// It has the lane's lock, or is before the one who was granted the turn meanwhile: that one waits until this
// one has stopped. A rank that stopped alone in mid-turn could leave its fellows waiting for it with their
// locks, so it is to give its turn when it idles; and who waits for its lock stands aside, or a fellow that
// it waits for in its step would never have the device.
void Core::AskToStopAtOnce(Job& job, TurnNumber told) {
  const Device& device = DeviceOf(job);
  const bool now = GangOf(job) == nullptr;
  job.overstays = told;
  AskOthersThan(job);
  SendTo(job.id, wire::Yield{.turn = told, .now = now, .give_back = now});
  const std::string holder = HolderOf(device);
  Say(absl::StrCat(job.info.name, " joined again with a turn of ", device.name, ", which ",
                   holder.empty() ? "one that does not give its turn up keeps"
                                  : absl::StrCat(holder, " has been granted since"),
                   "; ", job.info.name, " is asked to stop ", now ? "after its step" : "when it idles"),
      "overstays", job.id);
  if (StepMayWait(job)) StandAsideFor(job);
}

void Core::StandAsideFor(const Job& rank) {
  const auto turn = state_.turns.find(DeviceOf(rank).turn);
  if (turn == state_.turns.end()) return;
  const auto waits = std::find_if(turn->second.granted.begin(), turn->second.granted.end(), [&](JobId id) {
    return job(id).device == rank.device && job(id).lane == rank.lane;
  });
  if (waits == turn->second.granted.end()) return;
  if (state_.gangs.contains(turn->second.entity)) return FellowsStandAside(turn->first);
  SetAside(job(*waits));
}

void Core::On(Job* job, const Restarted& event) {
  state_.expected = event.expected;
  state_.window_ends = now_ + kRejoinWindow;
}

void Core::On(Job* job, const wire::Leave& event) {
  if (job == nullptr || job->gone) return;
  Bytes most = event.most_held;  // at one time; what was told before need not have been at the same
  Add(event.most_transient, most);
  job->most_held = std::max(job->most_held, event.most_held);
  if (most > 0) job->most_transient = most - std::min(most, job->most_held);
  IsGone(*job, /*crashed=*/false);  // and had unmapped its lane's arena before it said so
}

// Its process lives, and has mapped what it had.
void Core::On(Job* job, const JobHungUp& event) {
  if (job == nullptr || job->gone) return;
  job->hung_up = true;
  job->hung_up_in_step = (job->turn != 0 || job->overstays != 0) && StepMayWait(*job);
  Depart(*job, /*crashed=*/true, event.steps);
  KeepArena(*job, DropUnknown(DeviceOf(*job), job->lane));
}

void Core::On(Job* job, const JobDied& event) {
  if (job == nullptr) return;
  if (!job->gone) IsGone(*job, /*crashed=*/true, event.steps);
  Erase(*job);
}

// It takes no further part. Its bytes count until its process is dead. `crashed`: where it has the turn, its
// kernels may still write. `steps`: that it has done, for the record of that turn alone: of what it needs it
// has not told as much.
void Core::Depart(Job& job, bool crashed, std::uint64_t steps) {
  std::optional<Promise> standing;
  for (auto& [number, turn] : state_.turns) {
    if (!turn.next_is_promised) continue;
    if (turn.next_is_promised->to == job.id) turn.next_is_promised->to = 0;
    if (turn.next_is_promised->by == job.id) standing = std::exchange(turn.next_is_promised, std::nullopt);
  }
  steps = std::max(steps, job.steps);
  if (job.turn != 0)
    EndPart(job, wire::TurnOver{.steps = steps, .turn_steps = steps - job.steps_before},
            crashed ? PartEnds::kByDeath : PartEnds::kGiven);
  else if (crashed && job.set_aside)
    DropArena(DeviceOf(job), job.lane, job.id);
  LeaveGang(job);
  DeviceOf(job).policy->Forget(job.id);
  passed_over_.erase(job.id);
  job.gone = true;
  job.gone_since = now_;
  job.overstays = 0;
  job.set_aside = false;
  job.waiting = job.in_step = job.held_back = job.held_out = job.lacks_room = job.movable = false;
  NoLongerLacks(job);
  ++DeviceOf(job).departures;
  if (job.spill) RecordSpill(job, *job.spill);
  job.spill.reset();
  job.ahead.reset();
  job.room.reset();
  ForgetArena(job);
  KeepAccounts();
  if (standing) TakePassed(*standing, /*told=*/false);
}

// What it alone knew of its lane's arena it has mapped no longer. So that is free; a driver that does not say
// so yet is asked again.
void Core::IsGone(Job& job, bool crashed, std::uint64_t steps) {
  Depart(job, crashed, steps);
  if (DropUnknown(DeviceOf(job), job.lane) > 0)
    Expect(DeviceOf(job), 0, crashed ? kDeadMemoryLimit : kArenaDropLimit);
}

void Core::Erase(Job& job) {
  Device& device = DeviceOf(job);
  ++device.departures;
  if (const Bytes own = OwnResident(job)) Expect(device, own, kDeadMemoryLimit);
  if (job.kept_arena > 0) Expect(device, 0, kDeadMemoryLimit);
  const JobId id = job.id;
  const OnDevice owner(Owner::Job(id), job.info.device);
  state_.accounts.erase(owner);
  state_.guarantees.erase(owner);
  --device.jobs;
  state_.jobs.erase(id);
  active_.erase(id);
}

// A device is remembered while memory of its dead is on the way back, though no job is left, and while it is
// in the turn of a gang whose other ranks are elsewhere.
void Core::ForgetUnusedDevices() {
  std::erase_if(state_.devices, [&](const auto& entry) {
    const auto& returning = entry.second.returning;
    return entry.second.turn == 0 && entry.second.jobs == 0 &&
           std::none_of(returning.begin(), returning.end(),
                        [&](const Returning& r) { return r.until > now_; });
  });
}

// --- helpers --------------------------------------------------------------------------------------

std::unique_ptr<Policy> Core::MakePolicyNamed(const std::string& name) const {
  std::unique_ptr<Policy> policy = options_.make_policy ? options_.make_policy(name) : *MakePolicy(name);
  policy->Set(state_.policy_settings);
  return policy;
}

Device& Core::DeviceFor(const wire::Join& join) {
  auto [found, fresh] = state_.devices.try_emplace(join.device);
  Device& device = found->second;
  device.capacity =
      std::max(device.capacity, join.capacity);  // one that says less does not take it from others
  if (fresh) {
    device.key = join.device;
    device.name = join.device_name.empty() ? join.device : join.device_name;
    device.policy = MakePolicyNamed(state_.policy);
    device.free_since = now_;
  }
  return device;
}

// Of all his jobs: another user's names are nothing that this one should learn of.
std::string Core::UniqueName(const wire::Join& join, unsigned user) const {
  std::string base = join.name;
  if (base.empty()) {
    const std::vector<std::string> words = absl::StrSplit(join.program, ' ', absl::SkipEmpty());
    const std::vector<std::string> path = absl::StrSplit(words.empty() ? "job" : words.back(), '/');
    base = path.back().empty() ? "job" : path.back();
  }
  auto taken = [&](const std::string& name) {
    return std::any_of(state_.jobs.begin(), state_.jobs.end(), [&](const auto& entry) {
      return entry.second.info.name == name && entry.second.user == user && !entry.second.gone;
    });
  };
  std::string name = CutTo(wire::kMaxName, base);
  for (int i = 2; taken(name); ++i) {
    const std::string ending = absl::StrCat("-", i);
    name = CutTo(wire::kMaxName - ending.size(), base) + ending;
  }
  return name;
}

std::string Core::SharingWith(const Job& job) const {
  std::string names;
  for (const Job* other : Others(job)) {
    if (!other->gone) absl::StrAppend(&names, names.empty() ? "" : ", ", NameFor(job, *other));
  }
  return names;
}

}  // namespace hocket::coordinator
