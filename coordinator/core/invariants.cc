#include <algorithm>
#include <set>
#include <utility>

#include "coordinator/core/core.h"
#include "csrc/base/check.h"

namespace hocket::coordinator {
namespace {

void CheckJob(const Job& job, const State& state) {
  HOCKET_CHECK(!(job.waiting && job.turn != 0)) << job.info.name << " waits and has turn " << job.turn;
  HOCKET_CHECK(!(job.spill && job.turn != 0))
      << job.info.name << " is being spilled in its turn " << job.turn;
  HOCKET_CHECK(!(job.movable && job.turn != 0)) << job.info.name << " counts as movable in its turn";
  HOCKET_CHECK(!job.set_aside || job.overstays != 0)
      << job.info.name << " is set aside and overstays nothing";
  HOCKET_CHECK(!(job.overstays != 0 && job.turn != 0))
      << job.info.name << " overstays in its turn " << job.turn;
  HOCKET_CHECK(!(job.gone && (job.waiting || job.turn != 0)))
      << job.info.name << " has left and still takes part";
  HOCKET_CHECK(state.devices.contains(job.info.device)) << job.info.name << " has no device";
  HOCKET_CHECK(!(job.grant_open && job.turn == 0)) << job.info.name << " has no turn, but an open Grant";
  HOCKET_CHECK(!(job.taken_back && (job.waiting || job.turn != 0)))
      << job.info.name << " has asked again, but counts as one whose Grant was taken back";
  HOCKET_CHECK(!job.told_stand_by || job.turn != 0) << job.info.name << " stands by and has no turn";
  HOCKET_CHECK(!job.stands_by || job.told_stand_by) << job.info.name << " stands by and was not told to";
  HOCKET_CHECK(!job.held_out || job.waiting) << job.info.name << " is held out and does not wait";
  HOCKET_CHECK(!job.held_back || job.waiting) << job.info.name << " is held back and does not wait";
  if (job.turn == 0) return;
  auto turn = state.turns.find(job.turn);
  HOCKET_CHECK(turn != state.turns.end()) << job.info.name << " has turn " << job.turn << ", which is over";
  HOCKET_CHECK(turn->second.granted.contains(job.id)) << job.info.name << " is not in its turn " << job.turn;
  HOCKET_CHECK(state.devices.at(job.info.device).turn == job.turn)
      << job.info.name << "'s device is another's";
}

}  // namespace

void Core::CheckInvariants() const {
  const std::set<EntityId> in_vain = WaitInVain();
  // (Where it is late, due_ is before now_: the timer fires once all that was said before has been heard.)
  HOCKET_CHECK(timer_ > due_) << "a timer is to fire at " << timer_ << ", and it is " << due_;
  for (const auto& [id, job] : state_.jobs) {
    CheckJob(job, state_);
    HOCKET_CHECK(!Active(job) || active_.contains(id))
        << job.info.name << " takes part, and is not looked at";
    HOCKET_CHECK(job.held_out == (job.waiting && IsOut(job)))
        << job.info.name << " is " << (job.held_out ? "" : "not ") << "held out alone";
    HOCKET_CHECK(!job.held_out || in_vain.count(job.entity) == 0)
        << job.info.name << " waits for room, and nobody goes on who could give it back";
    const absl::Time until = HeldBackUntil(job.entity);
    HOCKET_CHECK(!job.waiting || job.held_back == (now_ < until))
        << job.info.name << " is " << (job.held_back ? "" : "not ") << "held back, at " << now_
        << "; its cap says until " << until;
  }
  for (const auto& [key, device] : state_.devices) {
    const auto there =
        std::count_if(state_.jobs.begin(), state_.jobs.end(),
                      [&, key = key](const auto& entry) { return entry.second.info.device == key; });
    HOCKET_CHECK(device.jobs == static_cast<std::size_t>(there))
        << device.name << " counts " << device.jobs << " jobs, and has " << there;
  }
  const auto is_there = [&](const OnDevice& of) {
    return std::any_of(state_.jobs.begin(), state_.jobs.end(), [&](const auto& entry) {
      return entry.second.info.device == of.second && Owns(of.first, entry.second);
    });
  };
  for (const auto& [of, account] : state_.accounts)
    HOCKET_CHECK(is_there(of) || state_.quotas.contains(of.first))
        << "no job on " << of.second << " pays into its time account";
  for (const auto& [of, guarantee] : state_.guarantees)
    HOCKET_CHECK(is_there(of)) << "no job on " << of.second << " has its time guaranteed";
  for (const auto& [id, gang] : state_.gangs)
    HOCKET_CHECK(!gang.held_out || !Granted(id)) << NameOf(id) << " is held out and has a turn";
  std::map<std::pair<DeviceKey, int>, unsigned> users;
  for (const auto& [id, job] : state_.jobs) {
    if (job.gone) continue;
    const auto [lane, first] = users.try_emplace({job.info.device, job.lane}, job.user);
    HOCKET_CHECK(lane->second == job.user)
        << job.info.name << " of uid " << job.user << " is in a lane of uid " << lane->second;
    HOCKET_CHECK(UserOf(job.entity) == job.user)
        << job.info.name << " of uid " << job.user << " is in a gang of uid " << UserOf(job.entity);
  }
  for (const auto& [number, turn] : state_.turns) {
    HOCKET_CHECK(!turn.granted.empty()) << "turn " << number << " is nobody's";
    HOCKET_CHECK(!turn.link_paused || (LinkFreeAt(turn) > now_ && timer_ <= LinkFreeAt(turn)))
        << "in turn " << number << " bytes wait until " << LinkFreeAt(turn) << ", and the timer is at "
        << timer_;
    std::set<std::pair<DeviceKey, int>> lanes;
    for (JobId id : turn.granted) {
      const Job& rank = job(id);
      HOCKET_CHECK(lanes.emplace(rank.info.device, rank.lane).second)
          << rank.info.name << " is in lane " << rank.lane << " with another";
      const bool guest = turn.guests.contains(id);
      const bool together = guest || rank.entity == turn.entity || GangOf(rank) != nullptr;
      HOCKET_CHECK(!guest || (rank.entity != turn.entity && rank.entity == id))
          << rank.info.name << " is a guest in its own turn, or a gang's rank";
      HOCKET_CHECK(together && rank.turn == number) << rank.info.name << " has part in turn " << number;
    }
    for (const auto& [id, other] : state_.jobs)
      HOCKET_CHECK(!other.set_aside || !lanes.contains({other.info.device, other.lane}))
          << other.info.name << " was set aside in lane " << other.lane << ", which is in use";
    HOCKET_CHECK(turn.guests.size() < turn.granted.size())
        << "turn " << number << " has guests and no holder";
    HOCKET_CHECK(turn.guests.empty() || (turn.devices.size() == 1 && !state_.gangs.contains(turn.entity)))
        << "a gang has guests in turn " << number;
    HOCKET_CHECK((!turn.guests.empty() && TrainersOf(turn).size() > 1) == turn.company.has_value())
        << "turn " << number << " has no company, or has it alone";
    HOCKET_CHECK(!StandsBy(turn) || ServesSomebody(turn) || !RequestsIn(turn).empty())
        << "in turn " << number << " somebody stands by for nobody";
    const auto trainers = TrainersOf(turn);
    const auto told =
        std::count_if(trainers.begin(), trainers.end(), [&](JobId id) { return job(id).told_stop; });
    HOCKET_CHECK(!turn.in_order || (turn.asked_stop && !state_.gangs.contains(turn.entity) && told > 0 &&
                                    told < static_cast<std::ptrdiff_t>(trainers.size())))
        << "turn " << number << " is to stop in order, and " << told << " have been told";
    for (const auto& [id, reason] : turn.guests)
      HOCKET_CHECK(turn.granted.contains(id)) << id << " is a guest and has no part in turn " << number;
    for (const Device* device : turn.devices)
      HOCKET_CHECK(device->turn == number) << device->key << " is not in turn " << number;
  }
  for (const auto& [key, device] : state_.devices) {
    HOCKET_CHECK(device.turn == 0 || state_.turns.contains(device.turn)) << key << " has a turn that is over";
    if (device.turn != 0 || reserved_ != 0 || device.kept_until > now_) continue;
    for (EntityId entity : Candidates(device))
      HOCKET_CHECK(!DevicesFree(entity)) << NameOf(entity) << " waits for " << key << ", which is free";
  }
}

}  // namespace hocket::coordinator
