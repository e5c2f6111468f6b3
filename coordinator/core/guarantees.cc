// Shares of a device's time that are guaranteed, to jobs, groups and users.
//
// Whoever is owed something has his turns before all others, the one who is owed most first, and keeps them
// until it is paid; what is left is the policy's matter. So guarantees hold under every policy, and no policy
// knows of them: a turn that it would have given to somebody else is not charged.
#include <algorithm>

#include "absl/strings/str_format.h"
#include "coordinator/core/core.h"
#include "coordinator/core/limits.h"

namespace hocket::coordinator {

void Core::On(Job* job, const SetTimeGuarantee& event) {
  if (job == nullptr) return;
  UseTimeSoFar();
  const OnDevice own(Owner::Job(job->id), job->info.device);
  if (event.share == 0) {
    state_.guarantees.erase(own);
  } else {
    state_.guarantees.try_emplace(own, event.share, now_).first->second.SetShare(event.share);
  }
}

double Core::TimeGuaranteeOf(const Owner& owner, const Job& job) const {
  auto guarantee = state_.guarantees.find({owner, job.info.device});
  return guarantee == state_.guarantees.end() ? 0 : guarantee->second.share();
}

bool Core::Owns(const Owner& owner, EntityId entity) const {
  const auto ranks = RanksOf(entity);
  return std::any_of(ranks.begin(), ranks.end(), [&](JobId id) { return Owns(owner, job(id)); });
}

bool Core::Owns(const Owner& owner, const Turn& turn) const {
  return Owns(owner, turn.entity) ||
         std::any_of(turn.guests.begin(), turn.guests.end(),
                     [&](const auto& guest) { return Owns(owner, job(guest.first)); });
}

// By the one of its ranks that did so first.
absl::Time Core::BeganToUse(const Device& device) const {
  absl::Time began = now_;
  if (device.turn == 0) return began;
  for (JobId id : state_.turns.at(device.turn).granted) {
    if (job(id).device == &device) began = std::min(began, BeganToUse(job(id), job(id).ready.mean()));
  }
  return began;
}

absl::Duration Core::Uncounted(const Device& device, absl::Time from) const {
  return std::max(absl::ZeroDuration(), now_ - std::max(from, device.counted_until));
}

TimeGuarantee::Turns Core::TurnsOf(const OnDevice& of) const {
  TimeGuarantee::Turns turns;
  for (const auto& [id, job] : state_.jobs) {
    if (job.gone || job.info.device != of.second) continue;
    absl::Duration& longest = Owns(of.first, job.entity) ? turns.own : turns.others;
    longest = std::max({longest, job.step.Upper(), Quantum(job.entity)});
  }
  return turns;
}

void Core::CountUse(Device& device, absl::Time from, bool contended) {
  from = std::max(from, device.counted_until);
  device.counted_until = now_;
  if (device.turn == 0) return;
  const Turn& turn = state_.turns.at(device.turn);
  for (auto& [of, guarantee] : state_.guarantees) {
    if (of.second == device.key) guarantee.Count(from, now_, Owns(of.first, turn), contended, TurnsOf(of));
  }
}

absl::Duration Core::OwedNow(const OnDevice& of) const {
  const TimeGuarantee& guarantee = state_.guarantees.at(of);
  const Device& device = state_.devices.at(of.second);
  if (device.turn == 0) return guarantee.OwedAfter(absl::ZeroDuration(), false);
  const Turn& turn = state_.turns.at(device.turn);
  const absl::Duration since = turn.contended ? Uncounted(device, BeganToUse(device)) : absl::ZeroDuration();
  return guarantee.OwedAfter(since, Owns(of.first, turn));
}

// Zero: nothing.
absl::Duration Core::Owed(EntityId entity, const DeviceKey& device) const {
  absl::Duration owed;
  for (const auto& [of, guarantee] : state_.guarantees) {
    if (of.second == device && Owns(of.first, entity)) owed = std::max(owed, OwedNow(of));
  }
  return owed;
}

// Those who are owed something first. `order`: as the policy has it.
void Core::PutOwedFirst(const DeviceKey& device, std::vector<JobView>& order) const {
  if (state_.guarantees.empty()) return;
  std::map<EntityId, absl::Duration> owed;
  for (const JobView& view : order) owed[view.id] = Owed(view.id, device);
  std::stable_sort(order.begin(), order.end(),
                   [&](const JobView& a, const JobView& b) { return owed[a.id] > owed[b.id]; });
}

std::vector<JobView> Core::InTurnOrder(const Device& device, const Entities& waiting) const {
  std::vector<JobView> order = InOrder(*device.policy, ViewOf(device, waiting));
  PutOwedFirst(device.key, order);
  return order;
}

// Requests go first.
Core::Next Core::PickNext(const Device& device, const Entities& waiting) const {
  for (EntityId entity : waiting) {
    if (Serves(entity)) return {.entity = entity, .reason = "serves: requests go first"};
  }
  std::vector<JobView> order = InOrder(*device.policy, ViewOf(device, waiting));
  const EntityId policys = order.front().id;
  PutOwedFirst(device.key, order);
  const EntityId first = order.front().id;
  if (first == policys) return {.entity = first, .reason = device.policy->Reason(order.front())};
  return {.entity = first,
          .reason = absl::StrFormat("owed %.2f s of the time that is guaranteed to it",
                                    absl::ToDoubleSeconds(Owed(first, device.key))),
          .by_guarantee = true};
}

// `stop`, as the policy has it: later for a holder who is still owed something, sooner where somebody who
// waits is owed more than he. Never before the end of the quantum.
absl::Time Core::StopForGuarantees(const Turn& turn, absl::Time stop) const {
  if (state_.guarantees.empty()) return stop;
  for (const Device* device : turn.devices) {
    const Entities waiting = Candidates(*device);
    const absl::Duration owed = Owed(turn.entity, device->key);
    double pays = 1;  // a second of its turn takes so much off that
    for (const auto& [of, guarantee] : state_.guarantees) {
      if (of.second == device->key && Owns(of.first, turn.entity) && OwedNow(of) == owed)
        pays = 1 - guarantee.share();
    }
    if (owed > absl::ZeroDuration()) stop = std::max(stop, now_ + owed / std::max(pays, 1e-9));
    for (const auto& [of, guarantee] : state_.guarantees) {
      const bool waits = std::any_of(waiting.begin(), waiting.end(),
                                     [&, &of = of](EntityId entity) { return Owns(of.first, entity); });
      if (of.second != device->key || !waits || Owns(of.first, turn.entity)) continue;
      const absl::Duration ahead = owed - OwedNow(of);
      const double closes = guarantee.share() + (owed > absl::ZeroDuration() ? pays : 0);
      const absl::Duration until = std::max(absl::ZeroDuration(), ahead / closes);
      stop = std::min(stop, std::max(turn.start + Quantum(turn.entity), now_ + until));
    }
  }
  return stop;
}

}  // namespace hocket::coordinator
