// A cluster simulated: gangs on nodes of several devices, all placed anew at every arrival and every end.
//
// No core has part in it, for a core keeps a job where it is: this is the order of a policy alone, with what
// other simulators of clusters take for granted, so that their published results can be met before any claim
// is made. Jobs go through the policy's order; each gets its devices if there are enough: on one node where
// a node has as many, else whole nodes. Others step in behind one for which there are too few. A job that
// gets devices after it had none pays `hand_over` (a restart) before it goes on.
//
// The same workload and options give the same result. Not simulated: memory, start-ups, gaps (a step is
// step_ms + gap_ms long).
#ifndef HOCKET_COORDINATOR_SIMULATOR_CLUSTER_H_
#define HOCKET_COORDINATOR_SIMULATOR_CLUSTER_H_

#include <vector>

#include "coordinator/simulator/simulator.h"

namespace hocket::coordinator {

// REQUIRES: options.policy is one whose order needs no memory of its own (srtf, fifo); no job needs more
// devices than there are, nor more than a node's if it is no multiple of them.
SimulationResult SimulateCluster(const std::vector<SimulatedJob>& workload, const SimulationOptions& options);

}  // namespace hocket::coordinator

#endif  // HOCKET_COORDINATOR_SIMULATOR_CLUSTER_H_
