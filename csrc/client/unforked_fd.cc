#include "csrc/client/unforked_fd.h"

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include <utility>

#include "csrc/base/cannot.h"
#include "csrc/client/mutex.h"

namespace hocket {
namespace {

struct Unforked {
  // From before a fork until after it the thread that forks has it: so in the child the list says what the
  // child has copies of, no number of it is of another file, and the child never finds it locked.
  Mutex mutex;
  UnforkedFd* first = nullptr;  // guarded by mutex
};

// Never destroyed: children are forked while the process ends, too.
Unforked& TheUnforked() {
  static Unforked* const unforked = new Unforked;
  return *unforked;
}

thread_local bool forks_for_program = false;

void BeforeFork() ABSL_NO_THREAD_SAFETY_ANALYSIS { TheUnforked().mutex.Lock(); }

void AfterForkInParent() ABSL_NO_THREAD_SAFETY_ANALYSIS { TheUnforked().mutex.Unlock(); }

void Install() {
  static const bool installed =
      pthread_atfork(BeforeFork, AfterForkInParent, UnforkedFd::AfterForkInChild) == 0;
  (void)installed;
}

}  // namespace

// The objects lie on the stacks of threads that do not exist here; the memory does.
void UnforkedFd::AfterForkInChild() ABSL_NO_THREAD_SAFETY_ANALYSIS {
  if (!forks_for_program) {
    UnforkedFd* each = std::exchange(TheUnforked().first, nullptr);
    while (each != nullptr) {
      each->fd_.Reset();
      each = std::exchange(each->next_, nullptr);
    }
  }
  TheUnforked().mutex.Unlock();
}

void UnforkedFd::Enlist(UniqueFd fd) {
  fd_ = std::move(fd);
  next_ = std::exchange(TheUnforked().first, this);
}

void UnforkedFd::Keep(UniqueFd fd) {
  Install();
  MutexLock lock(&TheUnforked().mutex);
  Enlist(std::move(fd));
}

absl::Status UnforkedFd::MakePipe(UniqueFd& read_end) {
  Install();
  MutexLock lock(&TheUnforked().mutex);
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return Cannot("make a pipe");
  read_end = UniqueFd(ends[0]);
  Enlist(UniqueFd(ends[1]));
  return absl::OkStatus();
}

void UnforkedFd::Reset() {
  if (!fd_) return;
  MutexLock lock(&TheUnforked().mutex);
  UnforkedFd** link = &TheUnforked().first;
  while (*link != this) link = &(*link)->next_;
  *link = std::exchange(next_, nullptr);
  fd_.Reset();
}

ForksForProgram::ForksForProgram() { forks_for_program = true; }
ForksForProgram::~ForksForProgram() { forks_for_program = false; }

}  // namespace hocket
