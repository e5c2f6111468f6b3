// Any text is read as a workload or refused with a sentence; what is read can be simulated.
#include <cstddef>
#include <cstdint>
#include <string>

#include "coordinator/simulator/workload.h"
#include "csrc/base/check.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto workload = hocket::coordinator::ParseWorkload({reinterpret_cast<const char*>(data), size});
  HOCKET_CHECK(workload.ok() || !workload.status().message().empty()) << "refused without a word";
  if (!workload.ok()) return 0;
  for (const auto& job : workload->jobs)
    HOCKET_CHECK(job.steps > 0 && job.weight > 0 && job.step_ms >= 0) << job.name;
  return 0;
}
