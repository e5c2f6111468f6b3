// What the allocator asks of whoever decides turns.
//
// The client implements it; tests put a scripted one in its place. The allocator knows no sockets and no
// policies: it asks, and obeys what the client tells it (CachingAllocator's client side).
#ifndef HOCKET_ALLOCATOR_GATE_H_
#define HOCKET_ALLOCATOR_GATE_H_

#include <cstdint>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "csrc/base/bytes.h"
#include "csrc/base/unique_fd.h"

namespace hocket {

// Names a chunk of a lane's arena, for all jobs of the lane. Drawn at random by the job that creates it.
using ArenaChunkId = std::uint64_t;

// Thread-safe. The allocator never holds a lock of its own while it calls AwaitTurn(), AwaitRoom() or
// WhileBlocked(). It does hold it while it calls HoldsTurn(), LacksHeadroom(), ArenaGrew() and ArenaLost(),
// so that chunks are announced in the order in which they come and go: these queue a message at most, and
// never call the allocator back or wait for a thread that may.
class Gate {
 public:
  virtual ~Gate() = default;

  // True while this process has the turn and does not give it. One atomic load. Under the allocator's lock
  // the turn does not pass after the answer "true" until the lock is dropped.
  virtual bool HoldsTurn() const = 0;

  // Blocks until this process has the turn; outside a step this begins an implicit turn. The caller is at
  // a door: its job may be spilled meanwhile. An error means that the turn can never come (the
  // message says why) and is handed to the caller of malloc.
  virtual absl::Status AwaitTurn() = 0;

  // The device cannot give `bytes` more. Asks that others make room and blocks until they did (OK: try
  // again) or cannot: kResourceExhausted, whose message says who holds what. The caller is at a door: the
  // turn may pass meanwhile, in the midst of a step too, and then the job may be spilled. So ask HoldsTurn()
  // again, with the allocator locked, whatever the answer.
  virtual absl::Status AwaitRoom(Bytes bytes) = 0;

  // `bytes` fewer are free on the device than should stay so (AllocatorOptions::headroom). Asks that others
  // make room for them meanwhile.
  virtual void LacksHeadroom(Bytes bytes) {}

  // Calls `wait`, which waits for the device: whoever holds what other threads of the program need
  // meanwhile (Python's interpreter) gives it up for so long. The caller is at no door. Nothing is locked.
  virtual void WhileBlocked(absl::FunctionRef<void()> wait) { wait(); }

  // The lane's arena has a new chunk; `descriptor` lets the other jobs of the lane map it.
  virtual void ArenaGrew(ArenaChunkId chunk, Bytes size, UniqueFd descriptor) = 0;

  // These chunks have left the arena: adopted by this job, or released.
  virtual void ArenaLost(ArenaChunkId chunk) = 0;
};

}  // namespace hocket

#endif  // HOCKET_ALLOCATOR_GATE_H_
