// A thread stands at a door: from its making until Leave(), or its end.
#ifndef HOCKET_CSRC_CLIENT_DOOR_H_
#define HOCKET_CSRC_CLIENT_DOOR_H_

#include "csrc/client/mutex.h"
#include "csrc/client/thread_registry.h"

namespace hocket {

// Who stands at doors.
struct AtDoors {
  int threads = 0;   // known ones
  int in_steps = 0;  // of these: in the midst of a step, in an allocation
  int helpers = 0;   // autograd's
};

// REQUIRES: the mutex that guards `counts` is held whenever this is made, left or destroyed: who is let in
// stops standing there in the instant in which that is decided.
class Door {
 public:
  Door(const ThreadRecord& me, AtDoors& counts)
      : helper_(me.helper), in_step_(me.depth > 0), counts_(counts), stands_(!me.ended) {
    if (stands_) Count(1);
  }
  ~Door() { Leave(); }
  Door(const Door&) = delete;

  void Leave() {
    if (stands_) Count(-1);
    stands_ = false;
  }

 private:
  void Count(int by) {
    if (helper_) {
      counts_.helpers += by;
      return;
    }
    counts_.threads += by;
    if (in_step_) counts_.in_steps += by;
  }

  const bool helper_;
  const bool in_step_;
  AtDoors& counts_;
  bool stands_;
};

}  // namespace hocket

#endif  // HOCKET_CSRC_CLIENT_DOOR_H_
