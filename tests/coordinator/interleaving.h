// Every order of events, for a few jobs that do all that jobs may do.
//
// A world is a core and a handful of tiny jobs; each may, when it can, ask, give up, run out of room, spill,
// reach its doors, die, acknowledge, or leave a Grant unread for a while, or be held back by a time cap; and
// time may pass. After each event the invariants hold, no device has two holders, and if from there on
// everybody behaves, everybody who waits gets the turn. What does not hold is told as a failure of the test
// that runs, with the history that led there.
#ifndef HOCKET_TESTS_COORDINATOR_INTERLEAVING_H_
#define HOCKET_TESTS_COORDINATOR_INTERLEAVING_H_

#include <cstddef>

#include "csrc/base/bytes.h"

namespace hocket::coordinator {

// Who takes part, on a device of 100 bytes, and what they may do.
struct Cast {
  int jobs = 3;
  int gang = 0;          // the first so many form a gang
  Bytes persistent = 0;  // of each
  bool room = false;     // they may run out of room
  bool parts = false;    // and spill in two parts
  bool ahead = false;    // and restore before their turns
  int servers = 0;       // the last so many serve, and the others stand by for them
  bool deaths = false;
  bool stops = false;     // they may not read a Grant for as long as they like
  double cap = 0;         // of the first's time
  double guarantee = 0;   // the same
  double cap_of_two = 0;  // of the first two together, which are a group
  bool together = false;  // two may run at the same time
  bool go_on = false;     // beside an overdue one, too
  Bytes transient = 0;    // of each, in a turn
  bool passes = false;    // they pass turns on, and may be promised one
  bool last = false;      // who asked last is next, not who asked first
};

// From every state that is reached tries every next event (by replaying its history on a fresh core); states
// that were seen before are not entered again. Breadth first, so that a failure is told by the shortest
// history. Ends at `max_states`; returns how many there were.
size_t TryEverything(const Cast& cast, size_t max_states);

// Goes farther than every order can be tried: 200 events at random, from each of 100 seeds, or of so many as
// HOCKET_TEST_SEEDS says. Returns how often what moved ahead of a turn was paused.
int Walk(const Cast& cast);

}  // namespace hocket::coordinator

#endif  // HOCKET_TESTS_COORDINATOR_INTERLEAVING_H_
