// What sharing costs each job (slowdown.h).
#include "coordinator/core/slowdown.h"

#include "coordinator/core/core.h"

namespace hocket::coordinator {

// Time passes for it from now on.
void Core::TimePasses(Job& job) { job.passed = now_; }

// What has passed since was lost so far; none: nobody can say.
void Core::CountLost(Job& job, std::optional<absl::Duration> lost) {
  if (job.passed != absl::InfinitePast()) job.slowdown.Add(job.passed, now_, lost);
  job.passed = now_;
}

void Core::CountAllLost(Job& job) { CountLost(job, now_ - job.passed); }

// Of a part that has ended: with so many steps, after so much time to be ready, and so much of idling at its
// end.
void Core::CountPart(Job& job, absl::Duration ready, absl::Duration idle, std::uint64_t steps) {
  if (job.passed == absl::InfinitePast()) return TimePasses(job);
  const absl::Duration span = now_ - job.passed;
  if (job.after_others && steps == 0) return CountLost(job, span);  // there was no room: a turn for nothing
  const absl::Duration not_run = std::min(span, ready + job.stood);
  if (!job.accompanied) return CountLost(job, not_run);
  if (!job.alone.known()) return CountLost(job, std::nullopt);
  const absl::Duration ran = std::max(absl::ZeroDuration(), span - not_run - idle);
  CountLost(job, not_run + ran - job.alone.mean() * static_cast<double>(steps));
}

// With what lasts now. How far a step is nobody knows: beside others it is taken to be as slow as those
// before.
std::optional<double> Core::SlowdownOf(JobId id, std::uint64_t steps) const {
  const Job& job = this->job(id);
  if (job.passed == absl::InfinitePast() || steps == 0) return std::nullopt;
  Slowdown slowdown = job.slowdown;
  const absl::Duration span = now_ - job.passed;
  if (job.waiting) {
    if (!job.paused) slowdown.Add(job.passed, now_, span);
  } else if (job.turn != 0) {
    const absl::Duration stands = job.stands_by ? now_ - job.stands_since : absl::ZeroDuration();
    const absl::Duration not_run = std::min(span, job.ready.mean() + job.stood + stands);
    const bool both = job.alone.known() && job.beside.known() && job.beside.mean() > absl::ZeroDuration();
    if (!job.accompanied) slowdown.Add(job.passed, now_, not_run);
    if (job.accompanied && both)
      slowdown.Add(
          job.passed, now_,
          not_run + (span - not_run) * (1 - absl::FDivDuration(job.alone.mean(), job.beside.mean())));
  } else if (!job.gone) {
    slowdown.Add(job.passed, now_, absl::ZeroDuration());
  }
  return slowdown.Factor(now_);
}

}  // namespace hocket::coordinator
