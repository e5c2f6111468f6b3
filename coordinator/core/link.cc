// The host link, while somebody uses his turn.
//
// What moves ahead of the next turn (ahead.cc) shares the link with the holder's own copies. How much his
// steps suffer from that is learned (link_sense.h). Where they do, others' bytes move in small parts with
// pauses between them, so that the link is busy for them for the share of his time that slows him down by no
// more than `hocket policy --link-bound` says. What was moved too much is made up for before more is, in his
// next turn, too. A part goes to its end: nobody can be stopped in the midst of one.
//
// Whatever a holder waits for himself is not held up: he asks for room (memory.cc), and nothing moves ahead
// meanwhile. Nor is anything where nobody has the turn.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "coordinator/core/core.h"

namespace hocket::coordinator {
namespace {

// Less is not worth a pause, or a timer.
constexpr absl::Duration kLeastOwed = absl::Microseconds(1);

}  // namespace

void Core::On(Job* job, const SetLinkBound& event) {
  for (auto& [id, holder] : state_.jobs) {
    if (holder.turn != 0) PayForLink(holder);
  }
  state_.link_bound = event.bound;
}

// In its turn, or in more of it: its own bytes come back first.
void Core::RestoresFrom(Job& job, absl::Time begin) {
  job.link.from = begin + DeviceOf(job).link.TimeFor(job.spilled);
}

Foretold Core::ForetoldMove(const Job& job, Bytes bytes) const {
  const LinkRate& link = DeviceOf(job).link;
  if (link.bytes_per_s() == 0) return {.bytes = bytes};
  return {.bytes = bytes, .time = link.TimeFor(bytes)};
}

// `bytes` of `mover` have moved. Time is counted by the rate that the link has shown: a process that slept
// took nothing of it.
void Core::CountMoved(const Job& mover, Bytes bytes) {
  Device& device = DeviceOf(mover);
  const absl::Duration took = device.link.TimeFor(bytes);
  if (device.turn == 0 || took == absl::ZeroDuration()) return;
  bool counted = false;
  for (JobId id : state_.turns.at(device.turn).granted) {
    Job& holder = job(id);
    const bool waits = holder.room && holder.room->asked;
    if (id == mover.id || holder.device != &device || now_ <= holder.link.from || waits) continue;
    const absl::Duration beside = std::min(took, now_ - holder.link.from);
    PayForLink(holder);
    holder.link.time += beside;
    holder.link.owed += beside;
    counted = true;
  }
  if (!counted) return;
  Add(bytes, device.beside);
  device.beside_time += took;
}

// What is owed to it is made up for as it uses its turn.
void Core::PayForLink(Job& job) {
  const double share = LinkShare(job);
  const absl::Duration used = now_ - std::max(job.link.paid_until, job.link.from);
  job.link.paid_until = now_;
  if (used > absl::ZeroDuration())
    job.link.owed = std::max(absl::ZeroDuration(), job.link.owed - used * share);
  if (share == 1) job.link.owed = absl::ZeroDuration();
}

double Core::LinkShare(const Job& job) const { return job.link.sense.Share(state_.link_bound); }

std::optional<double> Core::LinkShareUsed(const Job& job) const {
  if (job.turn == 0 || now_ <= job.link.from) return std::nullopt;
  return absl::FDivDuration(job.link.time, now_ - job.link.from);
}

// Of several who run at the same time, the one decides who suffers most.
double Core::LinkShare(const Turn& turn) const {
  double share = 1;
  for (JobId id : turn.granted) share = std::min(share, LinkShare(job(id)));
  return share;
}

absl::Time Core::LinkFreeAt(const Turn& turn) const {
  absl::Time free_at = absl::InfinitePast();
  for (JobId id : turn.granted) {
    const Job& holder = job(id);
    const double share = LinkShare(holder);
    free_at = std::max(free_at, holder.link.from);
    if (share == 0 || share == 1 || holder.link.owed < kLeastOwed) continue;
    free_at =
        std::max(free_at, std::max(holder.link.paid_until, holder.link.from) + holder.link.owed / share);
  }
  return free_at;
}

void Core::LearnLink(Job& job, absl::Duration step, std::uint64_t steps) {
  PayForLink(job);
  if (step <= absl::ZeroDuration()) return;
  job.link.sense.Add(step, job.link.time / static_cast<double>(steps), state_.link_bound);
}

std::string Core::ExplainLink(const Job& job) const {
  const std::optional<double> used = LinkShareUsed(job), slowdown = job.link.sense.slowdown();
  if (!used || (*used == 0 && !slowdown)) return "";
  std::string text = absl::StrFormat("; others' bytes have had the link for %.1f %% of that", 100 * *used);
  if (!slowdown) return text;
  const double share = LinkShare(job);
  absl::StrAppendFormat(&text, ", which slows it down by %.2f times as much", *slowdown);
  if (share == 1) return text;
  if (share == 0) return absl::StrCat(text, "; in this turn they wait, to see what its steps take alone");
  return absl::StrCat(text, absl::StrFormat(": they may have it for %.1f %%", 100 * share));
}

}  // namespace hocket::coordinator
