#include "coordinator/policies/srtf.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "coordinator/policies/fair.h"

namespace hocket::coordinator {
namespace {

// Of device time had: a job of unknown size counts as its level.
constexpr absl::Duration kLevels[] = {absl::Seconds(1),  absl::Seconds(10), absl::Minutes(1),
                                      absl::Minutes(10), absl::Hours(1),    Srtf::kLastLevel};

absl::Duration Level(absl::Duration served) {
  absl::Duration level;
  for (absl::Duration reached : kLevels) {
    if (served >= reached) level = reached;
  }
  return level;
}

// Who has done all that was told of, and goes on, was told of wrongly.
bool SizeKnown(const JobView& job) { return job.steps < job.total_steps; }

absl::Duration Weighted(const JobView& job) { return Srtf::Remaining(job) / Fair::Share(job); }

}  // namespace

absl::Duration Srtf::Remaining(const JobView& job) {
  if (!SizeKnown(job)) return Level(job.served);
  const std::uint64_t left = job.total_steps - job.steps;
  return job.step.mean() * static_cast<double>(left);  // not measured yet: it comes first, and then is
}

bool Srtf::Before(const JobView& a, const JobView& b) const {
  return std::pair(Weighted(a), a.id) < std::pair(Weighted(b), b.id);
}

std::string Srtf::Reason(const JobView& next) const {
  return SizeKnown(next) ? "least time left for its weight" : "has had least device time for its weight";
}

std::string Srtf::Standing(const JobView& job) const {
  if (job.total_steps > 0 && !SizeKnown(job))
    return absl::StrFormat(
        "it has done more steps than the %d told (hocket set JOB --total-steps N); it has had %.1f s",
        job.total_steps, absl::ToDoubleSeconds(job.served));
  if (!SizeKnown(job))
    return absl::StrFormat("its size is not known (hocket set JOB --total-steps N); it has had %.1f s",
                           absl::ToDoubleSeconds(job.served));
  return absl::StrFormat("%d of %d steps left, %.3g s each: %.1f s", job.total_steps - job.steps,
                         job.total_steps, absl::ToDoubleSeconds(job.step.mean()),
                         absl::ToDoubleSeconds(Remaining(job)));
}

absl::Duration Srtf::Keep(const JobView& holder, absl::Duration held, const GpuView& gpu) const {
  const JobView next = FirstOf(gpu);
  if (SizeKnown(holder)) {
    const bool measured = holder.step.known() || holder.steps > 0;
    return !measured || Before(next, holder) ? absl::ZeroDuration() : absl::InfiniteDuration();
  }
  if (Before(next, holder)) return absl::ZeroDuration();
  for (absl::Duration level : kLevels) {
    if (level > holder.served && level / Fair::Share(holder) > Weighted(next)) return level - holder.served;
  }
  return absl::InfiniteDuration();
}

absl::Duration Srtf::KeepFree(const JobView& absent, const JobView& next) const {
  if (!absent.gap.known() || !Before(absent, next)) return absl::ZeroDuration();
  return absent.gap.Upper() <= next.step.mean() ? absent.gap.Upper() : absl::ZeroDuration();
}

}  // namespace hocket::coordinator
