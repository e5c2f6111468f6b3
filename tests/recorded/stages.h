// The two places where recorded conversations are played: before a real coordinator, and with a real job.
#ifndef HOCKET_TESTS_RECORDED_STAGES_H_
#define HOCKET_TESTS_RECORDED_STAGES_H_

#include <memory>

#include "tests/recorded/recording.h"

namespace hocket::recorded {

// A real hocketd in a folder of its own. A peer's first line makes its connection.
// Verbs: "hang up", of a peer; "restart": the coordinator is killed and another started; all hang up.
std::unique_ptr<Stage> CoordinatorStage();

// A real job of the client library, whose allocator is a fake. Peer 0 is its coordinator.
// Verbs, done by the job's one thread: "join", "begin step", "end step", "allocate", "join gang", "leave";
// "await": until it has done them all; "busy", "idle": the device; "lack", "lack no more": its allocations
// find no room.
std::unique_ptr<Stage> JobStage();

}  // namespace hocket::recorded

#endif  // HOCKET_TESTS_RECORDED_STAGES_H_
