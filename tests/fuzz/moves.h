// What core_fuzz and server_fuzz let happen: the lower half of a byte; the upper half says in which of 16
// slots.
#ifndef HOCKET_TESTS_FUZZ_MOVES_H_
#define HOCKET_TESTS_FUZZ_MOVES_H_

#include <cstdint>

namespace hocket::fuzz {

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

}  // namespace hocket::fuzz

#endif  // HOCKET_TESTS_FUZZ_MOVES_H_
