#include "coordinator/server/silence.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "coordinator/core/seconds.h"
#include "csrc/base/process.h"

namespace hocket::coordinator {
namespace {

bool IsStopped(std::uint64_t pid) {
  const auto process = ReadProcess(static_cast<int>(pid));
  return process && (process->state == 'T' || process->state == 't');
}

absl::Time At(std::uint64_t monotonic_ns) {
  return absl::FromUnixNanos(static_cast<int64_t>(std::min<std::uint64_t>(monotonic_ns, INT64_MAX)));
}

}  // namespace

std::string WhySilent(const Job& job, const std::optional<wire::PageValues>& page, absl::Time now) {
  const wire::PageValues values = page.value_or(wire::PageValues{});
  // A turn may begin in the midst of a step.
  const absl::Time begun = std::max(At(std::max(values.step_begun_ns, values.last_boundary_ns)), job.granted);
  if (IsStopped(job.info.pid)) {
    return absl::StrCat("does not answer: pid ", job.info.pid,
                        " is stopped, by a signal or a debugger; last sign of life ", Seconds(now - begun),
                        " ago. Let it go on with kill -CONT, or end it");
  }
  const absl::Duration usual = absl::Nanoseconds(static_cast<int64_t>(values.step_time_ns));
  const absl::Duration step = now - begun;
  if (values.in_step == 0 || step < std::max(kHungStep, 10 * usual)) return "";
  return absl::StrCat("has been in one step for ", Seconds(step), "; its steps take ", Seconds(usual),
                      " on average. Does pid ", job.info.pid, " hang? Nobody ends it but you");
}

}  // namespace hocket::coordinator
