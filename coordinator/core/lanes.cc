// Who is in which lane, and what becomes of lanes that nobody needs.
//
// One lane is enough for a user's jobs that have their turns one after the other: the first. There are more
// while jobs run at the same time (guests.cc), while a gang has several ranks on a device (gangs.cc), and
// beside a holder that does not give his turn up (overdue.cc). Whoever serves has one of its own
// (serving.cc).
//
// No lane is ever two users': whoever is in a lane gets the descriptors of its arena. So the jobs of each
// user on a device have a block of numbers of their own, which is nobody else's as long as one of them, or a
// chunk, is there.
#include <algorithm>
#include <set>

#include "absl/algorithm/container.h"
#include "coordinator/core/core.h"
#include "coordinator/core/limits.h"

namespace hocket::coordinator {

// Of the block of numbers of its user: where he has jobs already, else the lowest in which there is nothing.
int Core::FirstLane(const Job& job) const {
  std::set<int> used;
  for (const auto& [id, other] : state_.jobs) {
    if (id == job.id || other.device != job.device) continue;
    if (other.user == job.user) return FirstLaneBeside(other.lane);
    used.insert(FirstLaneBeside(other.lane));
  }
  for (const auto& [lane, arena] : DeviceOf(job).lanes) {
    if (!arena.arena.empty() && !used.empty()) used.insert(FirstLaneBeside(lane));
  }
  int first = 0;
  while (used.contains(first)) first += kLanesOfAUser;
  return first;
}

// It has its lane's lock in the midst of a step that others may have to end with it: nobody can wait for
// that. Its process may only have lost its connection, and come again.
bool Core::KeepsLaneInStep(const Job& job) const {
  return job.hung_up_in_step || (job.overstays != 0 && StepMayWait(job));
}

// He may be in a step, and wait there for whoever would wait for that lock: one whose own step waits for
// others, or has another device meanwhile. Single jobs wait for the lock, as for each holder's.
bool Core::IsOfOneExpected(const Job& job, int lane) const {
  const bool has_it = absl::c_any_of(state_.expected, [&](const auto& entry) {
    const std::vector<std::string>& locks = entry.second.locks;
    return !locks.empty() && absl::c_linear_search(locks, LaneLock(job, lane));
  });
  return has_it && StepMayWait(job);
}

// A rank keeps the lane it has had, also before its gang is complete (again), and so does who serves, and so
// do single jobs as long as some run beside each other: going to another one means to map its arena. If
// somebody runs in it: the lowest in which nobody does.
int Core::LaneOf(const Job& job) const {
  const auto in = [&](const Job& other, int lane) {
    return other.id != job.id && other.device == job.device && other.lane == lane;
  };
  const auto taken = [&](int lane) {
    const bool runs = std::any_of(active_.begin(), active_.end(), [&](JobId id) {
      const Job& other = this->job(id);
      return in(other, lane) && (other.turn != 0 || other.set_aside || KeepsLaneInStep(other));
    });
    return runs || IsOfOneExpected(job, lane);
  };
  const bool keeps = GangOf(job) != nullptr || Serves(job) || now_ < DeviceOf(job).lanes_until;
  int lane = keeps ? job.lane : FirstLaneBeside(job.lane);
  if (!taken(lane)) return lane;
  lane = FirstLaneBeside(job.lane);
  while (taken(lane)) ++lane;
  return lane;
}

bool Core::LaneInUse(const Device& device, int lane) const {
  const auto in_lane = [&](JobId id) { return job(id).device == &device && job(id).lane == lane; };
  const bool runs = std::any_of(active_.begin(), active_.end(), [&](JobId id) {
    return in_lane(id) && (job(id).turn != 0 || job(id).overstays != 0);
  });
  const bool expected =
      !state_.expected.empty() && std::any_of(state_.jobs.begin(), state_.jobs.end(), [&](const auto& entry) {
        return in_lane(entry.first) && IsOfOneExpected(entry.second, lane);
      });
  return runs || expected || std::any_of(state_.gangs.begin(), state_.gangs.end(), [&](const auto& gang) {
           const auto& ranks = gang.second.ranks;
           return std::any_of(ranks.begin(), ranks.end(),
                              [&](const auto& rank) { return in_lane(rank.second); });
         });
}

// Nobody runs in it, and somebody does in another, or it is not its user's first. A gang keeps its lanes. Who
// serves keeps its own, since it runs again with the next request, and is no reason to close another. That
// another user has the turn is a reason only where room is lacking: the next turn is perhaps this one's.
bool Core::MayClose(const Device& device, int lane, CloseFor why) const {
  const auto serves = [&](int in) {
    return anybody_serves_ && std::any_of(state_.jobs.begin(), state_.jobs.end(), [&](const auto& entry) {
             const Job& job = entry.second;
             return Serves(job) && !job.gone && job.lane == in && job.device == &device;
           });
  };
  if (LaneInUse(device, lane) || serves(lane)) return false;
  return LaneIndex(lane) > 0 || std::any_of(device.lanes.begin(), device.lanes.end(), [&](const auto& other) {
           const bool counts = why == CloseFor::kRoom || FirstLaneBeside(other.first) == lane;
           return other.first != lane && counts && LaneInUse(device, other.first) && !serves(other.first);
         });
}

absl::Time Core::CloseLanesAt(const Device& device) const {
  const bool any = std::any_of(device.lanes.begin(), device.lanes.end(), [&](const auto& lane) {
    return !lane.second.arena.empty() && MayClose(device, lane.first, CloseFor::kTime);
  });
  return any ? device.lanes_until : absl::InfiniteFuture();
}

void Core::CloseLanes(Device& device) {
  ForgetEmptyLanes(device);
  if (now_ >= CloseLanesAt(device)) GiveLanesBack(device, CloseFor::kTime);
}

// The arenas of all lanes that nobody uses now. Returns how much that is.
Bytes Core::GiveLanesBack(Device& device, CloseFor why) {
  Bytes given = 0;
  for (auto& [index, lane] : device.lanes) {
    if (lane.arena.empty() || !MayClose(device, index, why)) continue;
    Add(lane.arena.size(), given);
    lane.arena.Clear();
    for (auto& [id, job] : state_.jobs) {
      if (job.gone || job.device != &device || job.lane != index) continue;
      ForgetArena(job);
      SendTo(id, wire::ArenaDrop{.chunk = 0});
    }
  }
  if (given > 0) Expect(device, 0, kArenaDropLimit);
  return given;
}

// What the last one who was in it knew of its arena has gone with him (DropUnknown()).
void Core::ForgetEmptyLanes(Device& device) {
  const bool several = std::any_of(device.lanes.begin(), device.lanes.end(),
                                   [](const auto& lane) { return lane.first >= kLanesOfAUser; });
  std::erase_if(device.lanes, [&](const auto& lane) {
    const bool kept = lane.first == 0 && !several;
    const bool empty = std::none_of(state_.jobs.begin(), state_.jobs.end(), [&](const auto& entry) {
      return !entry.second.gone && entry.second.device == &device && entry.second.lane == lane.first;
    });
    return empty && !kept;
  });
}

}  // namespace hocket::coordinator
