// Bytes that come back before the turn that needs them.
//
// While a turn lasts that others wait for, the one who is to follow restores into what is free, and those
// whose turns are farther away are spilled for him: so his turn begins with less to move, or with nothing. He
// is chosen once in a turn. What is brought back for one who is not next after all is spilled like anything
// else. Nothing is done where the holder has found no room itself, and no more than its own copies bear
// (link.cc). docs/decisions/0019 has the reasons.
#include <algorithm>

#include "coordinator/core/core.h"
#include "coordinator/core/limits.h"

namespace hocket::coordinator {
namespace {

// Of one order, or a piece where that is larger: the job does nothing else while it obeys.
constexpr Bytes kPart = Bytes{256} << 20;

// The same, where pauses are to keep the link free for the holder: shorter ones disturb it less at once.
constexpr Bytes kLimitedPart = Bytes{32} << 20;

// A holder that has asked for room while it grew is expected to grow as far in so many turns more. Where it
// does, it finds the room there, and is quiet: with fewer it would meet restored bytes all the time.
constexpr int kRememberedTurns = 8;

}  // namespace

absl::Time AnswerLimit(const RestoreOrder& order) { return order.sent + kAnswerLimit; }

void Core::On(Job* job, const wire::Restored& event) {
  if (job == nullptr) return;
  job->persistent = event.persistent;
  job->spilled = event.spilled;
  job->piece = event.piece;
  if (job->waiting) job->need = job->lacked + job->spilled;
  if (!job->ahead || job->ahead->request != event.request) return;
  const RestoreOrder order = *std::exchange(job->ahead, std::nullopt);
  if (!job->taken_back) job->unresponsive = false;
  const Bytes restored = std::min<Bytes>(event.restored, order.bytes);
  const auto took = absl::Nanoseconds(static_cast<int64_t>(std::min<uint64_t>(event.took_ns, INT64_MAX)));
  DeviceOf(*job).link.Add(restored, now_ - order.sent);
  if (job->turn == 0) CountMoved(*job, restored);
  job->restored_ahead += restored;
  const Bytes copied = std::min<Bytes>(event.copied, restored);
  job->restored_total += copied;
  job->ahead_time += std::min(took, now_ - order.sent);
  job->restores.Add(order.foretold,
                    {.bytes = restored, .copied = copied, .time = std::min(took, now_ - order.sent)});
  auto turn = state_.turns.find(order.turn);
  // Somebody whom nobody knows of has it. What is freed from now on is there.
  if (restored == 0 && order.bytes >= event.piece && turn != state_.turns.end())
    turn->second.no_use = std::max(turn->second.no_use, RoomAhead(turn->second));
}

void Core::LookAhead(Turn& turn) {
  turn.link_paused = false;
  const bool settled = std::none_of(turn.granted.begin(), turn.granted.end(),
                                    [&](JobId id) { return job(id).room.has_value(); });
  if (!settled || turn.lacks_room || turn.devices.size() != 1) return;
  if (turn.next == 0) turn.next = NextAfter(turn);
  auto found = state_.jobs.find(turn.next);
  if (found == state_.jobs.end() || !MayRestore(found->second)) return;
  const double share = LinkShare(turn);
  if (share == 0) return;
  turn.link_paused = now_ < LinkFreeAt(turn);
  if (turn.link_paused) return;
  Job& next = found->second;
  const Bytes missing = next.spilled - std::min(next.spilled, next.ahead ? next.ahead->bytes : 0);
  const Bytes room = RoomAhead(turn) - std::min(RoomAhead(turn), turn.no_use);
  const Bytes part = std::max(share < 1 ? kLimitedPart : kPart, next.piece);
  // No more at once than he can soon use: whoever spills gets no turn before he has done. Nor less than a
  // part, as long as more is coming: it would be ordered, freed and ordered again, a message each, until the
  // rest has come.
  if (missing > room && Coming(next) < std::min(missing - room, part))
    AskToSpill(next, std::min(missing - room, share < 1 ? part : 2 * part), Behind(turn, next),
               /*guaranteed_too=*/false);
  const Bytes bytes = std::min({room, missing, part});
  if (next.ahead || bytes == 0 || bytes < next.piece) return;
  next.ahead = RestoreOrder{.request = next_restore_++,
                            .bytes = bytes,
                            .turn = turn.number,
                            .sent = now_,
                            .foretold = ForetoldMove(next, bytes)};
  SendTo(next.id, wire::Restore{.request = next.ahead->request, .bytes = bytes});
}

// Once, when the holder has been asked to stop, to whoever is next by then: a job foresees its turns only
// where its waits are alike.
void Core::SayNear(Turn& turn) {
  if (!turn.asked_stop || turn.in_order || turn.said_near || turn.devices.size() != 1) return;
  const auto found = state_.jobs.find(NextAfter(turn));
  if (found == state_.jobs.end()) return;
  turn.said_near = true;
  if (!MayRestore(found->second)) return;
  const absl::Time not_before = turn.ready + SlowestOf(turn.entity, &Job::step).step.Lower();
  const absl::Duration in = std::max(absl::ZeroDuration(), not_before - now_);
  SendTo(found->first, wire::Near{.wait = found->second.wait,
                                  .in_ns = static_cast<std::uint64_t>(absl::ToInt64Nanoseconds(in))});
}

// The policy is asked when somebody waits for whom it would matter, and nobody who waits is being spilled: he
// is no candidate meanwhile, and may be the next all the same. A gang's ranks have several devices.
JobId Core::NextAfter(const Turn& turn) const {
  bool matters = false;
  for (JobId id : active_) {
    const Job& other = job(id);
    if (!other.waiting || other.device != turn.devices.front()) continue;
    if (other.spill && !other.unresponsive) return 0;
    matters |= other.turn == 0 && MayRestore(other);
  }
  if (!matters) return 0;
  const Device& device = *turn.devices.front();
  const Entities waiting = NotAfterOthers(Candidates(device));
  return waiting.empty() ? 0 : InTurnOrder(device, waiting).front().id;
}

bool Core::MayRestore(const Job& job) const {
  return job.waiting && job.spilled > 0 && !job.paused && !job.gone && !job.spill && !job.unresponsive &&
         !job.held_back && !job.held_out && job.info.heeds_restore;
}

// Of those that can be spilled for `next`, the ones that wait, and have their turns after him; the one whose
// turn is farthest away first. Who does not wait may want his memory in the next moment, before him. The
// policy is asked again when it is others who wait and can be spilled.
std::vector<Job*> Core::Behind(Turn& turn, const Job& next) {
  std::vector<std::pair<JobId, bool>> candidates;
  for (const Job* other : Others(next)) {
    if (other->waiting && CanBeSpilled(*other) && !Stays(*other))
      candidates.emplace_back(other->id, other->paused || other->held_out);
  }
  if (candidates != turn.candidates_behind) {
    turn.behind = BehindInOrder(next, candidates);
    turn.candidates_behind = std::move(candidates);
  }
  std::vector<Job*> victims;
  for (JobId id : turn.behind) victims.push_back(&job(id));
  return victims;
}

std::vector<JobId> Core::BehindInOrder(const Job& next,
                                       const std::vector<std::pair<JobId, bool>>& candidates) const {
  std::vector<JobId> behind;
  Entities entities = {next.entity};
  for (const auto& [id, paused] : candidates) {
    if (paused) {
      behind.push_back(id);
    } else if (std::count(entities.begin(), entities.end(), job(id).entity) == 0) {
      entities.push_back(job(id).entity);
    }
  }
  if (entities.size() == 1) return behind;
  const Device& device = DeviceOf(next);
  const std::vector<JobView> order = InTurnOrder(device, entities);
  for (auto view = order.rbegin(); view != order.rend() && view->id != next.entity; ++view) {
    for (const auto& [id, paused] : candidates) {
      if (!paused && job(id).entity == view->id) behind.push_back(id);
    }
  }
  return behind;
}

// What it will hold when others have made the room that it asks for.
void Core::RememberReach(const Job& job, Bytes grows_by) {
  auto turn = state_.turns.find(job.turn);
  if (turn == state_.turns.end()) return;
  const Device& device = DeviceOf(job);
  const Bytes held = std::min(device.capacity, job.persistent + Arena(device));
  turn->second.reach = std::max(turn->second.reach, held + std::min(grows_by, device.capacity - held));
}

void Core::LearnReach(Job& job, const Turn& turn) const {
  if (turn.reach > 0) {
    job.reach = turn.reach;
    job.quiet_turns = 0;
  } else if (job.reach > 0 && ++job.quiet_turns >= kRememberedTurns) {
    job.reach = 0;
  }
}

// Its bytes that are on their way back, or all that it is expected to grow by: that includes them. Its
// lane's arena may be still to be made.
Bytes Core::Promised(const Job& holder) const {
  const Bytes held = holder.persistent + Arena(DeviceOf(holder));
  return std::max(holder.spilled + Growth(holder, holder.lane), holder.reach - std::min(holder.reach, held));
}

// What is free, less what is promised: to the holder, and to those who restore already.
Bytes Core::RoomAhead(const Turn& turn) const {
  Bytes promised = 0;
  for (JobId id : active_) {
    const Job& job = this->job(id);
    if (job.device != turn.devices.front()) continue;
    if (job.turn != 0) promised += Promised(job);
    if (job.ahead) promised += job.ahead->bytes;
  }
  const Bytes free = Free(*turn.devices.front());
  return free - std::min(free, promised);
}

}  // namespace hocket::coordinator
