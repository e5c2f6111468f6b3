#include "csrc/client/progress.h"

#include <fcntl.h>
#include <time.h>

namespace hocket {
namespace {

// New average = old + (sample - old) / kWeight.
constexpr std::int64_t kWeight = 8;

}  // namespace

std::uint64_t Progress::NowNs() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(now.tv_nsec);
}

UniqueFd Progress::Descriptor() const { return UniqueFd(fcntl(page_.fd(), F_DUPFD_CLOEXEC, 0)); }

void Progress::StepEnded(std::uint64_t begun, bool count) {
  Store(words().in_step, 0);
  if (count) words().steps.fetch_add(1, std::memory_order_relaxed);
  if (begun == 0) return;
  const std::uint64_t ended = NowNs();
  Store(words().last_boundary_ns, ended);
  if (!count || begun < Load(interrupted_ns_)) return;
  const auto sample = static_cast<std::int64_t>(ended - stood_ns_.load(std::memory_order_relaxed) - begun);
  const auto average = static_cast<std::int64_t>(Load(words().step_time_ns));
  const std::int64_t next = average == 0 ? sample : average + (sample - average) / kWeight;
  Store(words().step_time_ns, static_cast<std::uint64_t>(next));
}

void Progress::Holds(const Holdings& held) {
  Store(words().persistent, held.persistent);
  Store(words().transient, held.arena);
  Store(words().spilled, held.spilled);
  Store(words().spilled_total, held.spilled_total);
  Store(words().restored_total, held.restored_total);
  Store(words().strays, held.strays);
  Store(words().step_allocations, held.step_allocations);
  Store(words().planned_allocations, held.planned_allocations);
  Store(words().deviating_allocations, held.deviating_allocations);
  Store(words().survived_total, held.survived_total);
  Store(words().foreseen_total, held.foreseen_total);
  Store(words().adopted, held.adopted);
  Store(words().adopted_last, held.adopted_last);
  Store(words().adopted_total, held.adopted_total);
}

}  // namespace hocket
