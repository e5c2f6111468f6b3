// A holder's pauses, for those whose bytes are there.
//
// Where bytes move at a hand-over, a turn lasts so long that this costs little (Quantum). A holder that
// pauses between its steps, to load data, would leave the device idle meanwhile, unless the pause is longer
// than the bytes take there and back. But some of those who wait may have all their bytes on the device: they
// fit beside the holder. They have its pauses, at no cost, and the holder *stays*: until its turn would have
// been over nobody has the device for whom bytes would have to move.
//
// A stay ends early where the holder is away for as long as its bytes would take there and back. So does a
// turn that is kept in pauses because only others wait: the holder is told how long.
#include <algorithm>
#include <utility>

#include "coordinator/core/core.h"
#include "coordinator/core/limits.h"

namespace hocket::coordinator {
namespace {

// Below it nothing moves any more: an average of nothing becomes small, and never nothing.
constexpr absl::Duration kNoSwitchCost = absl::Microseconds(1);
// Few bytes cost what messages and wake-ups take: up to so long that is believed.
constexpr absl::Duration kMessages = absl::Milliseconds(10);
// In bytes a second, PCIe 5.0 x16 in one direction. Bytes move also while host memory is taken for those that
// follow: no turn in which it was costs less than they take by this.
constexpr double kFastLink = 63e9;

// By what they are as a rule, not at the least: how long they are is learned where they are lent, so one long
// pause would keep all that follow from being so.
bool PausesLong(const Estimate& gap) { return gap.known() && gap.mean() > kIdleLimit; }

// What comes back before the turn counts as if it had come in it: it has kept nobody waiting, and the link as
// busy. What taking host memory took does not: that comes once. `link`: what it takes at its best.
absl::Duration CostOf(const Job& job, const Turn& turn, const wire::TurnOver& last, const LinkRate& link) {
  Bytes moved = turn.spilled;
  Add(last.restored, moved);
  Add(job.restored_ahead, moved);
  const auto in_turn =
      absl::Nanoseconds(static_cast<int64_t>(std::min<uint64_t>(last.drain_ns + last.ready_ns, INT64_MAX)));
  const absl::Duration again = std::max(
      in_turn - turn.host_taking, std::min(in_turn, absl::Seconds(static_cast<double>(moved) / kFastLink)));
  return std::min(job.ahead_time + again, std::max(2 * link.LeastTimeFor(moved), kMessages));
}

}  // namespace

// A single job that has had a turn, and for whose next one nothing has to move.
bool Core::IsThere(EntityId entity) const {
  const auto found = state_.jobs.find(entity);
  if (found == state_.jobs.end()) return false;
  const Job& job = found->second;
  return GangOf(job) == nullptr && job.left != absl::InfinitePast() && job.spilled == 0 && job.need == 0 &&
         !job.spill;
}

bool Core::LendsPauses(const Turn& turn) const {
  const Device& device = *turn.devices.front();
  if (!MayLend(device) || turn.devices.size() != 1 || turn.company) return false;
  if (!PausesLong(SlowestOf(turn.entity, &Job::gap).gap)) return false;
  const Bytes coming = Promised(job(turn.entity));
  if (Free(device) < coming) return false;  // others are going to be moved for it
  const Entities waiting = Candidates(device);
  return std::any_of(waiting.begin(), waiting.end(), [&](EntityId entity) { return IsThere(entity); });
}

// Its pauses are long enough to be of use to others.
bool Core::PausesAreOfUse(const Job& job) const { return MayLend(DeviceOf(job)) && PausesLong(job.gap); }

// A single job between two steps, for no longer than usual: it asks again in a moment.
bool Core::InUsualPause(const Job& job) const {
  const Estimate& gap = job.gap;
  return GangOf(job) == nullptr && !job.paused && !job.held_out && !job.waiting && job.turn == 0 &&
         job.left != absl::InfinitePast() && gap.known() && now_ < job.left + gap.Upper();
}

// Not where gangs, or requests, or jobs in company have rules of their own.
bool Core::MayLend(const Device& device) const {
  return state_.gangs.empty() && !anybody_serves_ && !device.policy->RunsSeveral();
}

// `job` gives its turn up in a pause, or before one, that somebody can use. Of turns that were given while a
// stay lasted none begins another: between two stays all who wait are chosen from.
void Core::BeginStay(const Job& job, const Turn& turn) {
  if (turn.within_stay || SwitchCost(job.entity) == absl::ZeroDuration() || !LendsPauses(turn)) return;
  Device& device = DeviceOf(job);
  device.stays = job.entity;
  device.stays_until = EndOfQuantum(turn);
}

absl::Time Core::StayEnds(const Device& device) const {
  const Job& job = this->job(device.stays);
  if (job.turn != 0 || (job.waiting && Eligible(job.entity))) return device.stays_until;
  return std::min(device.stays_until, job.left + LongIdle(job.entity));
}

bool Core::StayLasts(const Device& device) const {
  if (device.stays == 0 || now_ >= device.stays_until || !MayLend(device)) return false;
  const auto found = state_.jobs.find(device.stays);
  if (found == state_.jobs.end()) return false;
  const Job& job = found->second;
  const bool away =
      job.gone || job.paused || job.unresponsive || job.spill || job.spilled > 0 || job.after_others;
  return !away && now_ < StayEnds(device);
}

bool Core::Stays(const Job& job) const {
  const Device& device = DeviceOf(job);
  return device.stays == job.entity && StayLasts(device);
}

// --- what a turn costs ------------------------------------------------------------------------------

// Bytes, for this turn.
bool Core::HasMoved(const Job& job, const Turn& turn, const wire::TurnOver& last) {
  return last.restored > 0 || turn.spilled > 0 || job.restored_ahead > 0;
}

// What getting here cost, when bytes had to move for it; nothing when none had to. A cost that comes where
// there was none is believed at once: the memory that others have is new. (In others' pauses, and in a stay
// of its own, nothing moves: that says nothing of the turns outside of them, and is not learned.)
//
// When bytes go to the host for the first time, memory has to be taken and pinned there, which takes ten
// times as long as the bytes, and seldom comes again. Who spills says how long that took, and it is not
// counted. An older one does not: so nothing counts as more than twice what the link takes at its best; and a
// first cost, of when that was not known, gives way to the next one where that is much less.
void Core::LearnSwitchCost(Job& job, const Turn& turn, const wire::TurnOver& last) {
  const absl::Duration cost =
      HasMoved(job, turn, last) ? CostOf(job, turn, last, DeviceOf(job).link) : absl::ZeroDuration();
  const absl::Duration usual = job.switch_cost.value_or(absl::ZeroDuration());
  const bool none = usual == absl::ZeroDuration();
  const bool was_first = std::exchange(job.first_cost, none && cost > absl::ZeroDuration()) &&
                         cost > absl::ZeroDuration() && 2 * cost < usual;
  job.switch_cost = none || was_first ? cost : usual * 0.7 + cost * 0.3;
  if (*job.switch_cost < kNoSwitchCost) job.switch_cost = absl::ZeroDuration();
}

// --- one that becomes long --------------------------------------------------------------------------

// A pause of which nobody knows how long it will be is waited for as long as the bytes would take there and
// back: so it costs at most twice what it had to (as who rents skis until they would have cost their price;
// Karlin et al., Competitive Snoopy Caching, 1988). Not by gangs: of their ranks one idles while others wait
// for it on the device. Infinite future: the holder is not asked for that.
absl::Time Core::AskLongIdleTime(const Turn& turn) const {
  if (turn.asked_idle || turn.asked_long_idle || turn.company || state_.gangs.contains(turn.entity))
    return absl::InfiniteFuture();
  if (SwitchCost(turn.entity) == absl::ZeroDuration() || !job(turn.entity).info.heeds_idle)
    return absl::InfiniteFuture();
  const absl::Time ask = turn.start + HolderBegins(turn);
  return ask + LongIdle(turn.entity) < EndOfQuantum(turn) ? ask : absl::InfiniteFuture();
}

absl::Duration Core::LongIdle(EntityId entity) const { return std::min(2 * SwitchCost(entity), kMaxQuantum); }

void Core::AskIfLongIdle(Turn& turn) {
  turn.asked_long_idle = true;
  const auto limit = static_cast<std::uint64_t>(absl::ToInt64Nanoseconds(LongIdle(turn.entity)));
  const Job& job = this->job(turn.entity);
  SendTo(job.id, wire::Yield{.turn = job.told_turn, .idle_ns = limit});
}

}  // namespace hocket::coordinator
