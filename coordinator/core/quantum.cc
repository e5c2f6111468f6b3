// How long a turn lasts while others wait for it: when its holder is asked for it between two steps, and when
// to stop after one.
#include <algorithm>
#include <vector>

#include "coordinator/core/core.h"
#include "coordinator/core/limits.h"

namespace hocket::coordinator {

// From when on it is to give the turn up between two steps. Where bytes have to move for the others, not for
// a gap that is over before they would have moved there and back.
absl::Time Core::IdleTime(const Turn& turn) const {
  const absl::Duration cost = SwitchCost(turn.entity);
  if (cost == absl::ZeroDuration()) return turn.start;
  const Estimate& gap = SlowestOf(turn.entity, &Job::gap).gap;
  const bool pays = (gap.known() && gap.mean() > LongIdle(turn.entity)) || LendsPauses(turn);
  return pays ? turn.start : EndOfQuantum(turn);
}

// Nothing has moved for a turn that another one has within a stay, so no time is paid for: it is over as soon
// as anybody can have the device.
absl::Time Core::EndOfQuantum(const Turn& turn) const {
  if (turn.stays_until) return *turn.stays_until;
  if (!turn.within_stay) return turn.start + std::max(Quantum(turn.entity), QuantumTogether(turn));
  const Device& device = *turn.devices.front();
  return StayLasts(device) && Candidates(device).empty() ? device.stays_until : turn.start;
}

// Then the holder can be asked to stop at once: it does so at the end of a step, and there is no timer to
// wake us in between.
bool Core::FirstStepOutlasts(const Turn& turn, absl::Time stop) const {
  if (turn.company || turn.place_kept_until > now_ || state_.gangs.contains(turn.entity)) return false;
  const Estimator& step = job(turn.entity).step;
  return step.settled() && stop < turn.start + step.mean();
}

// The question wakes a thread of the holder. Not just when it begins to use its turn: there it would be in
// its way, and the answer would be no. Nor shortly before it is asked to `stop`, which says this, too.
absl::Time Core::AskIdleTime(const Turn& turn, absl::Time stop) const {
  const absl::Time ask = std::max(IdleTime(turn), turn.start + HolderBegins(turn));
  return stop > ask && stop - ask <= kHolderBegins ? stop : ask;
}

absl::Duration Core::HolderBegins(const Turn& turn) const {
  return std::min(kHolderBegins, SlowestOf(turn.entity, &Job::step).step.mean() / 2);
}

// Nothing where no bytes had to move lately.
absl::Duration Core::SwitchCost(EntityId entity) const {
  absl::Duration cost;
  for (JobId id : RanksOf(entity)) cost = std::max(cost, job(id).switch_cost.value_or(absl::ZeroDuration()));
  return cost;
}

absl::Duration Core::Quantum(EntityId entity) const {
  return std::min(kMaxQuantum, SwitchCost(entity) * (1 / state_.switch_share - 1));
}

// They do not end together: those with shorter steps wait for the one with the longest, half a step of theirs
// on average. That costs as a hand-over does.
absl::Duration Core::QuantumTogether(const Turn& turn) const {
  if (!turn.company) return absl::ZeroDuration();
  absl::Duration shortest = absl::InfiniteDuration();
  const auto trainers = TrainersOf(turn);
  for (JobId id : trainers) shortest = std::min(shortest, StepBeside(job(id)));
  const absl::Duration idle = shortest / 2 / static_cast<double>(trainers.size());
  return std::min(kMaxQuantum, idle * (1 / state_.switch_share - 1));
}

// It would give the turn up after the step anyhow, when it has idled for a while: that while is for the
// others.
bool Core::IdlesAfterEachStep(const Turn& turn) const {
  const Estimate& gap = SlowestOf(turn.entity, &Job::gap).gap;
  return gap.known() && gap.Lower() > kIdleLimit && IdleTime(turn) == turn.start;
}

absl::Time Core::StopTime(const Turn& turn) const {
  if (!turn.company && IdlesAfterEachStep(turn)) return std::max(turn.start, turn.place_kept_until);
  absl::Time stop = std::max(EndOfQuantum(turn), turn.place_kept_until);
  for (const Device* used : turn.devices) {
    const Device& device = *used;
    const Entities waiting = Candidates(device);
    if (waiting.empty()) continue;
    stop = std::max(
        stop, now_ + device.policy->Keep(ViewOf(turn.entity), now_ - turn.charged, ViewOf(device, waiting)));
  }
  return StopForGuarantees(turn, stop);
}

}  // namespace hocket::coordinator
