// Any text is read as a workload or refused with a sentence; what is read can be simulated.
#include <cstddef>
#include <cstdint>
#include <string>

#include "coordinator/simulator/simulator.h"
#include "coordinator/simulator/workload.h"
#include "csrc/base/check.h"

namespace hocket::coordinator {
namespace {

// Others take long, which is no mistake.
bool IsSmall(const Workload& workload) {
  double seconds = 0;
  for (const SimulatedJob& job : workload.jobs) {
    if (job.steps > 20 || job.devices > 1 || job.persistent > 1_GiB || job.transient > 1_GiB) return false;
    seconds +=
        job.arrival_s + job.startup_s + static_cast<double>(job.steps) * (job.step_ms + job.gap_ms) / 1000;
  }
  return workload.jobs.size() <= 6 && seconds < 600;
}

}  // namespace
}  // namespace hocket::coordinator

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace hocket::coordinator;
  const auto workload = ParseWorkload({reinterpret_cast<const char*>(data), size});
  HOCKET_CHECK(workload.ok() || !workload.status().message().empty()) << "refused without a word";
  if (!workload.ok()) return 0;
  for (const auto& job : workload->jobs)
    HOCKET_CHECK(job.steps > 0 && job.weight > 0 && job.step_ms >= 0) << job.name;
  if (!IsSmall(*workload)) return 0;
  const SimulationResult result = Simulate(workload->jobs, {.policy = size % 2 ? "fair" : "srtf"});
  for (const SimulatedEnd& end : result.jobs)
    HOCKET_CHECK(end.end >= end.arrival && end.end < absl::InfiniteDuration()) << end.name << " does not end";
  return 0;
}
