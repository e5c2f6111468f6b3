// Ranks that have their turns together.
#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "coordinator/core/core.h"
#include "coordinator/core/limits.h"

namespace hocket::coordinator {

void Core::On(Job* job, const wire::Gang& event) {
  if (job == nullptr || job->gone) return;
  WillNotPass(*job);
  if (GangOf(*job) != nullptr) {
    return Say(absl::StrCat(job->info.name, " is in a gang already and stays there; it named another, '",
                            event.gang, "'"),
               "gang", job->id);
  }
  auto found = std::find_if(state_.gangs.begin(), state_.gangs.end(), [&](const auto& entry) {
    return entry.second.name == event.gang && entry.second.user == job->user;
  });
  Gang fresh{.id = next_gang_, .name = event.gang, .user = job->user, .size = event.size};
  Gang& known = found == state_.gangs.end() ? fresh : found->second;
  std::uint64_t key = event.rank;
  const auto is_of_process = [&](JobId id) { return this->job(id).info.pid == job->info.pid; };
  while (known.ranks.contains(key) && is_of_process(known.ranks.at(key))) key += known.size;
  const bool taken = known.ranks.contains(key);
  if (event.size < 1 || event.rank >= event.size || event.size != known.size || taken) {
    return RejectJob(*job,
                     absl::StrCat("Gang from ", job->info.name, " says rank ", event.rank, " of ", event.size,
                                  "; gang '", event.gang, "' has ", known.Here(), " ranks of ", known.size,
                                  " already", taken ? ", that one among them" : ""));
  }
  if (found == state_.gangs.end()) found = state_.gangs.emplace(next_gang_++, std::move(fresh)).first;
  Gang& gang = found->second;
  gang.ranks[key] = job->id;
  gang.last_came = now_;
  if (!gang.complete && gang.Here() < gang.size) return;
  Complete(gang);
  const std::string ranks =
      key >= event.size
          ? absl::StrCat(" uses ", DeviceOf(*job).name, ", too, in rank ", event.rank, ", and its ranks")
      : gang.Here() == gang.size ? absl::StrCat(" is complete: its ", gang.size, " ranks")
                                 : absl::StrCat(" has a rank again: ", gang.Here(), " of its ", gang.size);
  Say(absl::StrCat(NameOf(gang.id), ranks, " have their turns together"), "gang");
}

void Core::On(Job* job, const wire::YieldAck& event) {
  if (job == nullptr || job->turn == 0 || event.turn != job->told_turn) return;
  Turn& turn = state_.turns.at(job->turn);
  job->steps = std::max(job->steps, event.step);
  auto gang = state_.gangs.find(turn.entity);
  const bool current =
      gang != state_.gangs.end() && event.stop_step == gang->second.base[job->id] + turn.stop;
  if (!turn.asked_stop || !current || event.accepted) return;
  NameStop(turn, std::uint64_t{1} << std::min(++turn.renamed, 10));
}

// --- who belongs together -------------------------------------------------------------------------

Core::Ranks Core::RanksOf(EntityId entity) const {
  auto gang = state_.gangs.find(entity);
  if (gang == state_.gangs.end()) return state_.jobs.contains(entity) ? Ranks{entity} : Ranks();
  Ranks ranks;
  for (const auto& [rank, id] : gang->second.ranks) ranks.push_back(id);
  return ranks;
}

Devices Core::DevicesOf(EntityId entity) const {
  Devices devices;
  for (JobId id : RanksOf(entity)) {
    Device* const device = job(id).device;
    if (std::find(devices.begin(), devices.end(), device) == devices.end()) devices.push_back(device);
  }
  return devices;
}

bool Core::Uses(EntityId entity, const Device& device) const {
  const Ranks ranks = RanksOf(entity);
  return std::any_of(ranks.begin(), ranks.end(), [&](JobId id) { return job(id).device == &device; });
}

// It, or its gang.
bool Core::Uses(const Job& job, const Device& device) const {
  return job.device == &device || (job.entity != job.id && Uses(job.entity, device));
}

unsigned Core::UserOf(EntityId entity) const {
  auto gang = state_.gangs.find(entity);
  if (gang != state_.gangs.end()) return gang->second.user;
  return state_.jobs.contains(entity) ? job(entity).user : 0;
}

std::string Core::NameOf(EntityId entity) const {
  auto gang = state_.gangs.find(entity);
  if (gang == state_.gangs.end()) {
    return state_.jobs.contains(entity) ? job(entity).info.name : absl::StrCat("job ", entity);
  }
  std::string name = absl::StrCat("gang ", gang->second.name, " (");
  for (JobId id : RanksOf(entity)) absl::StrAppend(&name, name.back() == '(' ? "" : ", ", job(id).info.name);
  return name + ")";
}

const Gang* Core::GangOf(const Job& job) const {
  for (const auto& [id, gang] : state_.gangs) {
    for (const auto& [rank, member] : gang.ranks) {
      if (member == job.id) return &gang;
    }
  }
  return nullptr;
}

// Ranks may use no GPU at all (a server of parameters, say). The others would otherwise begin by themselves
// for ever, and could wait in their steps for each other, and for those of another such gang.
void Core::CompleteLateGangs() {
  for (auto& [id, gang] : state_.gangs) {
    if (now_ < CompleteAt(gang)) continue;
    Complete(gang);
    Say(absl::StrCat(NameOf(id), " has its turns with ", gang.Here(), " of its ", gang.size,
                     " ranks: no other has used a device for ", absl::FormatDuration(kGangPatience)),
        "gang");
  }
}

absl::Time Core::CompleteAt(const Gang& gang) const {
  return gang.complete || gang.ranks.size() < 2 ? absl::InfiniteFuture() : gang.last_came + kGangPatience;
}

// Also when a rank comes again, and others have left meanwhile.
void Core::Complete(Gang& gang) {
  gang.complete = true;
  for (JobId id : RanksOf(gang.id)) {
    Job& rank = job(id);
    DeviceOf(rank).policy->Forget(rank.entity);
    passed_over_.erase(rank.entity);
    gang.base[id] = rank.steps;
    rank.entity = gang.id;
  }
  for (JobId id : RanksOf(gang.id)) {
    if (job(id).waiting && !job(id).held_back && !job(id).held_out)
      DeviceOf(job(id)).policy->Asked(ViewOf(gang.id));
  }
  KeepOnlyRanks(gang);
  AdoptTurnsOfRanks(gang);
}

// Who runs beside a rank is not of the gang, and the others of it wait for this one in its step.
void Core::KeepOnlyRanks(Gang& gang) {
  std::vector<JobId> others;
  for (JobId id : RanksOf(gang.id)) {
    const auto turn = state_.turns.find(job(id).turn);
    if (turn == state_.turns.end()) continue;
    std::copy_if(turn->second.granted.begin(), turn->second.granted.end(), std::back_inserter(others),
                 [&](JobId other) { return GangOf(job(other)) != &gang; });
  }
  for (JobId id : others) {
    if (job(id).turn != 0) SetAside(job(id));
  }
  for (JobId id : RanksOf(gang.id)) {
    const auto turn = state_.turns.find(job(id).turn);
    if (turn == state_.turns.end() || turn->second.guests.empty()) continue;
    turn->second.guests.clear();
    CompanyChanged(turn->second);
  }
}

// Turns that ranks have had by themselves become one, the gang's.
void Core::AdoptTurnsOfRanks(Gang& gang) {
  Turn* first = nullptr;
  for (JobId id : RanksOf(gang.id)) {
    Job& rank = job(id);
    if (rank.turn == 0 || (first != nullptr && rank.turn == first->number)) continue;
    Turn& own = state_.turns.at(rank.turn);
    own.entity = gang.id;
    own.in_order = false;
    if (first == nullptr) {
      first = &own;
      continue;
    }
    for (JobId member : own.granted) job(member).turn = first->number;
    for (Device* device : own.devices) device->turn = first->number;
    first->asked_idle &= own.asked_idle;  // or its ranks would never hear the question
    first->granted.insert(own.granted.begin(), own.granted.end());
    first->devices.insert(first->devices.end(), own.devices.begin(), own.devices.end());
    const TurnNumber merged = own.number;
    state_.turns.erase(merged);
  }
  if (first != nullptr && first->asked_stop) NameStop(*first, 1);
}

// --- stopping together ----------------------------------------------------------------------------

std::uint64_t Core::RelativeSteps(const Job& job) const {
  const auto& base = state_.gangs.at(job.entity).base;
  auto found = base.find(job.id);
  const std::uint64_t from = found == base.end() ? 0 : found->second;
  return job.steps > from ? job.steps - from : 0;
}

// A rank that comes while the turn lasts has part in it, unless it has come to where all stop.
bool Core::MayJoinTurn(const Job& job, const Turn& turn) const {
  if (!state_.gangs.contains(turn.entity)) return turn.granted.empty();
  return !turn.asked_stop || RelativeSteps(job) < turn.stop;
}

void Core::NameStop(Turn& turn, std::uint64_t margin) {
  Gang& gang = state_.gangs.at(turn.entity);
  std::uint64_t furthest = 0;
  for (JobId id : RanksOf(turn.entity)) furthest = std::max(furthest, RelativeSteps(job(id)));
  turn.stop = furthest + margin;
  for (JobId id : turn.granted) SendYield(job(id), true, gang.base[id] + turn.stop);
}

absl::Time Core::RealignTime(const Turn& turn) const {
  absl::Time at = absl::InfiniteFuture();
  if (!turn.asked_stop || !state_.gangs.contains(turn.entity)) return at;
  for (JobId id : RanksOf(turn.entity)) {
    const Job& rank = job(id);
    if (rank.waiting && !rank.paused && !MayJoinTurn(rank, turn))
      at = std::min(at, rank.asked + kRealignAfter);
  }
  return at;
}

void Core::Realign(Turn& turn) {
  Gang& gang = state_.gangs.at(turn.entity);
  for (JobId id : RanksOf(turn.entity)) gang.base[id] = job(id).steps;
  Say(absl::StrCat(NameOf(turn.entity), ": a rank waits where the others have not come for ",
                   absl::FormatDuration(kRealignAfter), "; their steps are counted anew"),
      "gang");
  NameStop(turn, 1);
}

// A rank has given its part up for want of room, or waits for a device that it cannot have, perhaps in the
// midst of a step, which the others cannot end without it: they keep what they hold until then, each alone in
// its lane, and the devices go to others.
void Core::FellowsStandAside(TurnNumber number) {
  const auto turn = state_.turns.find(number);
  if (turn == state_.turns.end() || !state_.gangs.contains(turn->second.entity)) return;
  const std::set<JobId> fellows = turn->second.granted;
  for (JobId id : fellows) SetAside(job(id));
}

// Turns that have a device which a rank of this one's gang waits for, or another job of this one's processes.
// Nearly always none: a gang has all its devices, or none, but where a rank has begun before its gang was
// known, or has another device of its own.
std::set<TurnNumber> Core::AwaitedBy(const Turn& turn) const {
  std::set<TurnNumber> awaited;
  for (JobId id : RanksOf(turn.entity)) awaited.merge(AwaitedBy(job(id)));
  for (JobId id : turn.granted) awaited.merge(AwaitedBy(job(id)));
  awaited.erase(turn.number);
  return awaited;
}

// The same of its process alone.
std::set<TurnNumber> Core::AwaitedBy(const Job& job) const {
  std::set<TurnNumber> awaited;
  for (JobId id : active_) {
    const Job& other = this->job(id);
    const TurnNumber there = DeviceOf(other).turn;
    if (other.waiting && there != 0 && other.info.pid == job.info.pid) awaited.insert(there);
  }
  return awaited;
}

// And those that these wait for, and so on.
std::set<TurnNumber> Core::AllAwaited(std::set<TurnNumber> seen) const {
  std::vector<TurnNumber> to_look_at(seen.begin(), seen.end());
  while (!to_look_at.empty()) {
    const Turn& next = state_.turns.at(to_look_at.back());
    to_look_at.pop_back();
    for (TurnNumber number : AwaitedBy(next)) {
      if (seen.insert(number).second) to_look_at.push_back(number);
    }
  }
  return seen;
}

bool Core::AwaitsItself(const Turn& turn) const { return AllAwaited(AwaitedBy(turn)).contains(turn.number); }

// Of gangs that have begun crosswise, each in a step on a device that a rank of another waits for, or a
// process with the turn of a device that a rank waits for, the last to begin stands aside: it has a turn when
// all its devices are free.
void Core::UntieGangs() {
  if (state_.gangs.empty() || state_.turns.size() < 2) return;
  for (;;) {
    const auto tied = std::find_if(state_.turns.rbegin(), state_.turns.rend(), [&](const auto& entry) {
      return state_.gangs.contains(entry.second.entity) && AwaitsItself(entry.second);
    });
    if (tied == state_.turns.rend()) return;
    Say(absl::StrCat(
            NameOf(tied->second.entity), " has begun on ", tied->second.devices.front()->name,
            " before it was known as a gang, and needs a device of one that waits for this one: it stands "
            "aside until it can have all its devices"),
        "gang");
    FellowsStandAside(tied->first);
  }
}

// It was set aside in the midst of its step, and has had the time to end it: so it stands there for one that
// waits.
bool Core::AwaitsFellow(const Job& job) const {
  const Gang* const gang = job.set_aside ? GangOf(job) : nullptr;
  if (gang == nullptr || now_ < job.left + std::max(kCannotSpillLimit, 2 * job.step.mean())) return false;
  const auto& ranks = gang->ranks;
  return std::any_of(ranks.begin(), ranks.end(),
                     [&](const auto& rank) { return this->job(rank.second).waiting; });
}

// A gang has its turn when all its devices are free, whichever of them is looked at first, and keeps those
// that come free for itself: the policy of a device may not be asked at all for long. So a single job that
// has waited while so many gangs began on its device is next there.
EntityId Core::BehindGangs(const Entities& candidates) const {
  EntityId behind = 0;
  int most = kMaxPassedOver - 1;
  for (EntityId entity : candidates) {
    const auto found = state_.jobs.find(entity);
    if (found == state_.jobs.end() || found->second.gangs_first <= most) continue;
    most = found->second.gangs_first;
    behind = entity;
  }
  return behind;
}

bool Core::LeavesToSingles(EntityId entity) const {
  const auto ranks = RanksOf(entity);
  return ranks.size() > 1 && std::any_of(ranks.begin(), ranks.end(), [&](JobId id) {
           return BehindGangs(Candidates(DeviceOf(job(id)))) != 0;
         });
}

// A turn of a gang begins there.
void Core::NoteBehindGang(const Device& device) {
  for (EntityId entity : Candidates(device)) {
    if (const auto found = state_.jobs.find(entity); found != state_.jobs.end()) ++found->second.gangs_first;
  }
}

void Core::LeaveGang(Job& job) {
  for (auto gang = state_.gangs.begin(); gang != state_.gangs.end(); ++gang) {
    auto& ranks = gang->second.ranks;
    if (std::erase_if(ranks, [&](const auto& entry) { return entry.second == job.id; }) == 0) continue;
    gang->second.base.erase(job.id);
    job.entity = job.id;
    if (!ranks.empty()) return;
    for (auto& [key, device] : state_.devices) device.policy->Forget(gang->first);
    passed_over_.erase(gang->first);
    state_.gangs.erase(gang);
    return;
  }
}

}  // namespace hocket::coordinator
