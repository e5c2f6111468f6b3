// What fuzzers let happen: the lower half of a byte; the upper half says in which of 16 slots.
#ifndef HOCKET_TESTS_FUZZ_MOVES_H_
#define HOCKET_TESTS_FUZZ_MOVES_H_

#include <cstdint>

namespace hocket::fuzz {

// In core_fuzz and server_fuzz.
enum class Move : uint8_t {
  kFrame,      // text: a packet as it comes
  kGoodFrame,  // text: a frame whose header is put right
  kDies,       // the process
  kHangsUp,    // only its connection
  kTime,       // short: milliseconds
  kLongTime,   // short: seconds
  kReads,      // byte: which of the next Grants are taken back
  kPeople,     // they set something
  kRestarts,   // the coordinator had been killed
  kPage,       // what jobs say in their shared pages
  kCount
};

// In agent_fuzz: what the coordinator does, then what the job's program does. The slot says more.
enum class AgentMove : uint8_t {
  kFrame,       // text: a packet as it comes
  kGoodFrame,   // text: a frame whose header is put right; odd slots: with a descriptor
  kHangsUp,     // another coordinator can be had
  kIsGone,      // none can, until the next frame
  kBeginsStep,  // odd slots: guessed
  kEndsStep,    // odd slots: not counted
  kAllocates,
  kGoesAway,
  kComesBack,
  kMeets,  // its gang
  kLeaves,
  kCount
};

}  // namespace hocket::fuzz

#endif  // HOCKET_TESTS_FUZZ_MOVES_H_
