// A thread stands at a door for as long as this lives.
#ifndef HOCKET_CSRC_CLIENT_DOOR_H_
#define HOCKET_CSRC_CLIENT_DOOR_H_

#include "csrc/client/mutex.h"
#include "csrc/client/thread_registry.h"

namespace hocket {

class Door {
 public:
  // Counts the thread in `threads`, or in `helpers` if it is one of autograd's; both guarded by `mutex`.
  Door(const ThreadRecord& me, Mutex& mutex, int& threads, int& helpers)
      : mutex_(mutex), count_(me.helper ? helpers : threads) {
    MutexLock lock(&mutex_);
    ++count_;
  }
  ~Door() {
    MutexLock lock(&mutex_);
    --count_;
  }
  Door(const Door&) = delete;

 private:
  Mutex& mutex_;
  int& count_;
};

}  // namespace hocket

#endif  // HOCKET_CSRC_CLIENT_DOOR_H_
