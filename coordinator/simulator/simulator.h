// A node simulated: the coordinator's own core and policies, one core for each device, under a synthetic
// clock.
//
//   workload -> (start-up) -> placed on a device -> Core::Handle(event) -> actions -> played jobs -> events
//
// A played job behaves as the client does: it asks, takes its bytes back, steps, gives the turn up at the end
// of a step when asked to, or between two steps when it is away or idle, and spills when told to. Steps of a
// turn are not events: a turn costs two or three, however long it is.
//
// A job stays on the device where it was placed, which is where the fewest are. It waits for its place until
// there is a device where fewer than `at_once` others come before it: by the policy under srtf, else by
// arrival. (A job of unknown size does not wait under srtf; it goes where the fewest are that have not
// stepped back to the last level.) Start-up takes host time only, of at most `starting` jobs at once, in the
// same order, and before a job has its place.
//
// `plain` jobs are the baseline without Hocket: a job starts up only once it has a place where its bytes fit
// beside the others', holds them until its end, and nothing ever moves. Turns at the ends of steps stand in
// for the driver's time-slicing.
//
// Under `pack` several have part in one turn, as the core and the policy decide by what they measure. Each
// then runs at its share of its speed alone beside the other (Pairs); beside two or more, at the product of
// its shares beside each of them: nobody has measured three. One that does not fit beside another (share 0)
// finds no room there, and stands aside. Whose `transient` bytes do not fit beside others' is no guest.
//
// A policy of the user's own is a program for each device that has had jobs (own/own_policy.h), which is
// waited for. Once one has failed the rest is played under fair, and is not worth looking at.
//
// The same workload and options give the same result, under an own policy if it reads no clock and nothing
// else but what it is told. Not simulated: arenas (but for who fits beside whom),
// gangs (but see cluster.h).
#ifndef HOCKET_COORDINATOR_SIMULATOR_SIMULATOR_H_
#define HOCKET_COORDINATOR_SIMULATOR_SIMULATOR_H_

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "coordinator/policies/policy.h"
#include "coordinator/simulator/workload.h"

namespace hocket::coordinator {

struct SimulationOptions {
  std::string policy = "fair";  // REQUIRES: a known one, one of the user's own, or kQueue (queue.h)
  int devices = 1;
  Bytes capacity = 16_GiB;  // of each
  double switch_share = 0.02;
  absl::Duration hand_over;  // from a grant until the job runs, when nothing has to move
  double link = 20e9;        // bytes a second, each way
  int starting = 0;          // jobs that start up at once; 0: any number
  int at_once = 0;           // jobs of a device; 0: one under srtf and kQueue, else any number
  int nodes = 0;             // of `devices` each: a cluster (cluster.h); 0: this node
  absl::Duration until = absl::InfiniteDuration();  // nothing that happens later is played
  absl::Duration every = absl::InfiniteDuration();  // SimulatedEnd::served has a value for each
  bool plain = false;                               // REQUIRES: each job fits a device by itself
  int together = PolicySettings().most_together;    // pack: so many in one turn
  Pairs pairs = {};                                 // REQUIRES: pack: of all kinds that jobs have
};

// What became of a job; times since the beginning.
struct SimulatedEnd {
  std::string name;
  absl::Duration arrival;
  absl::Duration first_step;  // infinite: there was none
  absl::Duration end;         // infinite: it has not ended
  std::uint64_t steps = 0;
  std::vector<std::uint64_t> slower;   // so many steps it had done when it was noticed that they were slower
  std::vector<absl::Duration> served;  // device time had, after each `every`, until the last event
  absl::Duration alone;                // what it would have taken with the node for itself
};

struct SimulationResult {
  std::vector<SimulatedEnd> jobs;  // in the order of arrival
  absl::Duration makespan;
  absl::Duration busy;  // what all steps that were done take alone, of all devices
  std::uint64_t turns = 0;
  Bytes moved = 0;      // spilled and restored
  Bytes peak = 0;       // of the fullest device
  std::string trouble;  // why an own policy has failed; empty: none has
};

SimulationResult Simulate(const std::vector<SimulatedJob>& workload, const SimulationOptions& options);

}  // namespace hocket::coordinator

#endif  // HOCKET_COORDINATOR_SIMULATOR_SIMULATOR_H_
