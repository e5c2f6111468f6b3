// What a simulation showed, in the numbers by which schedulers are compared; and the command line's way to
// it.
#ifndef HOCKET_COORDINATOR_SIMULATOR_REPORT_H_
#define HOCKET_COORDINATOR_SIMULATOR_REPORT_H_

#include <string>

#include "coordinator/simulator/simulator.h"
#include "nlohmann/json.hpp"

namespace hocket::coordinator {

// {jobs, mean_jct_s, median_jct_s, p95_jct_s, p99_jct_s (job completion time: from arrival to end),
// mean_queue_s (from arrival to the first step), makespan_s, mean_slowdown (completion time over time alone),
// busy (share of all devices' time until the last end that was spent in steps; of steps beside others
// counts what they take alone, so it may be over 1), turns, moved (bytes), peak
// (bytes of the fullest device)}. A percentile p is the sorted value at floor(p * n). With `each`: "ends"
// [{name, arrival_s, first_step_s (null: there was none), end_s (null: it has not ended, and is in no other
// number), alone_s, steps, and with --every-s served_s: device time had until then}].
nlohmann::json Report(const SimulationResult& result, int devices, bool each);

// hocketd simulate FILE [flags]: prints {"simulated": true, options, "policies": {name: report}} on stdout.
// Returns the exit status: 0, 1 (FILE cannot be simulated, or a policy of the user's own has failed) or 2
// (wrong flags), with a sentence on stderr.
int SimulateMain(int argc, char** argv);

}  // namespace hocket::coordinator

#endif  // HOCKET_COORDINATOR_SIMULATOR_REPORT_H_
