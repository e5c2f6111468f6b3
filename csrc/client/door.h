// A thread stands at a door: from its making until Leave(), or its end. While the program's own code runs in
// the midst of its wait (a signal's handler), it has left and comes back.
#ifndef HOCKET_CSRC_CLIENT_DOOR_H_
#define HOCKET_CSRC_CLIENT_DOOR_H_

#include <utility>

#include "csrc/client/mutex.h"
#include "csrc/client/thread_registry.h"

namespace hocket {

// Who stands at doors.
struct AtDoors {
  int threads = 0;          // known ones
  int in_steps = 0;         // of these: in the midst of a step, in an allocation
  int helpers = 0;          // autograd's
  int helpers_at_work = 0;  // of these: within BeginUse() and EndUse()
};

// REQUIRES: the mutex that guards `counts` is held whenever this is made, left or destroyed: who is let in
// stops standing there in the instant in which that is decided.
class Door {
 public:
  Door(ThreadRecord& me, AtDoors& counts)
      : me_(me),
        helper_(me.helper),
        at_work_(me.uses),
        in_step_(me.depth > 0),
        counts_(counts),
        outer_(std::exchange(me.door, this)) {
    Return();
  }
  ~Door() {
    Leave();
    me_.door = outer_;
  }
  Door(const Door&) = delete;

  void Leave() {
    if (stands_) Count(-1);
    stands_ = false;
  }
  bool stands() const { return stands_; }
  void Return() {
    if (stands_ || me_.ended) return;
    stands_ = true;
    Count(1);
  }

 private:
  void Count(int by) {
    if (helper_) {
      counts_.helpers += by;
      if (at_work_) counts_.helpers_at_work += by;
      return;
    }
    counts_.threads += by;
    if (in_step_) counts_.in_steps += by;
  }

  ThreadRecord& me_;
  const bool helper_;
  const bool at_work_;
  const bool in_step_;
  AtDoors& counts_;
  Door* const outer_;  // at which this thread waited when own code came to this one
  bool stands_ = false;
};

}  // namespace hocket

#endif  // HOCKET_CSRC_CLIENT_DOOR_H_
