// What the model-based tests do, as data: one operation of one job, which is also one line of a story.
//
//   b allocates slot 17 bytes 12345 stream 1
//   b takes-turn
//
// An operation means the same wherever it stands, and does nothing where it does not apply: so any part of a
// story is a story, and one that fails can be shortened (shrink.h). Slots (blocks.h), streams, pools and jobs
// are named by number, never by address.
#ifndef HOCKET_TESTS_ALLOCATOR_MODEL_OPERATION_H_
#define HOCKET_TESTS_ALLOCATOR_MODEL_OPERATION_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace hocket::testing {

// In the order of the table in operation.cc, which names them and their arguments.
enum class Kind : std::uint8_t {
  // Common: what programs do all the time.
  kMalloc,     // slot, bytes, stream: frees what the slot holds first; without the turn it waits for it
  kFree,       // slot
  kRead,       // slot, stream: a kernel compares every byte
  kWrite,      // slot, stream: a kernel writes other bytes
  kRecord,     // slot, stream: record_stream, before a use or without one
  kBeginStep,  // steps nest
  kEndStep,
  kStage,  // slot, stage: when it has to be back
  // Rare: what moves memory, and what asks.
  kOpenPool,        // pool, stream, captures
  kClosePool,       // pool
  kReleasePool,     // pool
  kCheckpointPool,  // pool
  kReturnToCheckpoint,
  kEmptyCache,
  kPassTurn,   // spill: 1: all of its memory goes to the host at once
  kTakeTurn,   // follows: from whoever has it; 1: to begin a step, so that later stages may follow
  kSpill,      // chunks, part: in chunks; 0: all is one part
  kRestore,    // chunks: before its turn
  kDeclare,    // slot: nobody writes to it, until somebody does
  kAwait,      // stage, stream
  kDeliver,    // the coordinator passes on what the jobs have said of the arena
  kRoom,       // answer (world.h) to the job's next question for room
  kLimit,      // chunks: the job's memory limit
  kDropArena,  // the whole arena, by every job
  kRestart,    // verify, maps (host memory at spilled addresses): its process ends, in the midst of its turn
               // or not, and another takes its place
  kLeave,      // as kRestart, but it leaves the arena first
  kStray,      // slot, without the turn: a thread that nobody knows of reads every byte and writes others
  kNear,  // calls: its turn is near, so host copies that are mapped are taken away, a part with each call
  kLook,  // statistics, snapshot and BlockOf() say what the reference says
  // Mistakes, for the tests of these tests. Never drawn.
  kCorrupt,    // slot: changes a byte
  kSkipWaits,  // from now on waits for the device return at once
};

struct Operation {
  Kind kind = Kind::kLook;
  std::uint8_t job = 0;
  std::array<std::uint32_t, 3> arguments = {};

  // Its line of a story.
  std::string ToString() const;
  bool IsRare() const { return kind > Kind::kStage; }
  friend bool operator==(const Operation&, const Operation&) = default;
};

using Story = std::vector<Operation>;

std::string ToString(const Story& story);
// kInvalidArgument, with the line, where there is no such operation.
absl::StatusOr<Story> ParseStory(const std::string& lines);

}  // namespace hocket::testing

#endif  // HOCKET_TESTS_ALLOCATOR_MODEL_OPERATION_H_
