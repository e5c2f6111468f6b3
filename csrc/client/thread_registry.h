// The threads of this process that use the GPU, as far as Hocket has seen: those that began a step or
// allocated device memory, and those that visit: they use what others have allocated (Client::BeginUse). A
// job may be spilled only while all of them stand at doors, or are away, as a visitor is between two uses.
//
// A thread is known from its first visit until it ends. What it still does after that, while its last
// thread_local objects are destroyed (a static hocket::Job is later than those of the main thread), is done
// for nobody's count. Autograd's threads (pt_autograd_*) are seen but not
// counted: they work for a thread that is.
#ifndef HOCKET_CSRC_CLIENT_THREAD_REGISTRY_H_
#define HOCKET_CSRC_CLIENT_THREAD_REGISTRY_H_

#include <pthread.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "csrc/client/mutex.h"

namespace hocket {

class Door;

// One thread as one client knows it. Only that thread touches it, but for what may be said of it while it
// waits (parking.h).
struct ThreadRecord {
  pthread_t thread = pthread_self();
  int depth = 0;                    // steps begun and not ended, nested
  std::uint64_t begun = 0;          // when the outermost began, ns
  bool guessed = false;             // the step under way
  bool helper = false;              // one of autograd's
  bool ended = false;               // counts nowhere any more: its thread has ended, as far as can be seen
  std::atomic<bool> away{false};    // counts as standing at a door (Client::BeginAway)
  std::atomic<bool> parked{false};  // away, without having said so
  bool visits = false;              // it has neither made a step nor allocated
  bool uses = false;                // a helper, within BeginUse() and EndUse()
  bool blocking = false;            // inside the blocking hooks already
  Clock::time_point asked;          // when it was asked last whether the user interrupts its wait
  Door* door = nullptr;             // at which it waits: the innermost
  std::uint64_t room = 0;           // the question for room whose answer it waits for
};

// Whether the calling thread is one of autograd's, which never changes.
bool IsHelper();

class ThreadRegistry {
 public:
  // `gone` is called on a thread that ends inside a step, or away, while it still counts.
  explicit ThreadRegistry(std::function<void(const ThreadRecord&)> gone);
  ~ThreadRegistry();
  ThreadRegistry(const ThreadRegistry&) = delete;

  // The calling thread's record. The first call makes the thread known. Some nanoseconds after that.
  ThreadRecord& Mine();

  // The same; nullptr when this would be the first, or the thread has ended.
  ThreadRecord* Seen() const;

  // Threads that count.
  int known() const;

  // The records of all threads that live, helpers too. None of them ends meanwhile, nor does another become
  // known. `use` may ask for known() only. As `gone`, it is called with a lock of this registry's held.
  void WithAll(absl::FunctionRef<void(const std::vector<ThreadRecord*>&)> use) const;

  // In a forked child: no other thread exists here, and nobody is told of the end of this one.
  void Forget();

 private:
  struct Shared;
  const std::shared_ptr<Shared> shared_;
  const std::uint64_t serial_;
};

}  // namespace hocket

#endif  // HOCKET_CSRC_CLIENT_THREAD_REGISTRY_H_
