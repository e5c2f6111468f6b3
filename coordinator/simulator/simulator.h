// A node simulated: the coordinator's own core and policies, one core for each device, under a synthetic
// clock.
//
//   workload -> (start-up) -> placed on a device -> Core::Handle(event) -> actions -> played jobs -> events
//
// A played job behaves as the client does: it asks, takes its bytes back, steps, gives the turn up at the end
// of a step when asked to, or between two steps when it is away or idle, and spills when told to. Steps of a
// turn are not events: a turn costs two or three, however long it is.
//
// A job stays on the device where it was placed. Policies that let one job run at a time (srtf, queue) place
// a job of known size when it would run there at once; all others are placed at once where the fewest are.
// Start-up takes host time only, on at most `starting` jobs at once, in the policy's order.
//
// The same workload and options give the same result. Not simulated: transient memory, interference (turns
// are exclusive), noise in step times, gangs.
#ifndef HOCKET_COORDINATOR_SIMULATOR_SIMULATOR_H_
#define HOCKET_COORDINATOR_SIMULATOR_SIMULATOR_H_

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "coordinator/simulator/workload.h"

namespace hocket::coordinator {

struct SimulationOptions {
  std::string policy = "fair";  // REQUIRES: a known one, or kQueue (queue.h)
  int devices = 1;
  Bytes capacity = 16_GiB;  // of each
  double switch_share = 0.02;
  absl::Duration hand_over;  // from a grant until the job runs, when nothing has to move
  double link = 20e9;        // bytes a second, each way
  int starting = 0;          // jobs that start up at once; 0: any number
};

// What became of a job; times since the beginning.
struct SimulatedEnd {
  std::string name;
  absl::Duration arrival;
  absl::Duration first_step;
  absl::Duration end;
  absl::Duration alone;  // what it would have taken with the node for itself
};

struct SimulationResult {
  std::vector<SimulatedEnd> jobs;  // in the order of arrival
  absl::Duration makespan;
  absl::Duration busy;  // device time in steps, of all devices
  std::uint64_t turns = 0;
  Bytes moved = 0;  // spilled and restored
};

SimulationResult Simulate(const std::vector<SimulatedJob>& workload, const SimulationOptions& options);

}  // namespace hocket::coordinator

#endif  // HOCKET_COORDINATOR_SIMULATOR_SIMULATOR_H_
