// Descriptors that a forked child must not keep: a lock that every copy of the file holds (flock), the end of
// a pipe whose last copy is waited for. O_CLOEXEC closes them in programs that are started; in a child that
// only forks (a worker that loads data) a handler of the fork does.
//
// Forks that run no handlers (_Fork, clone) keep their copies.
#ifndef HOCKET_CSRC_CLIENT_UNFORKED_FD_H_
#define HOCKET_CSRC_CLIENT_UNFORKED_FD_H_

#include "absl/status/status.h"
#include "csrc/base/unique_fd.h"

namespace hocket {

// Owns a descriptor and closes it; in a child that is forked meanwhile its copy is closed at once. Such a
// child must not use it. Descriptors of different objects may be made and closed by several threads.
class UnforkedFd {
 public:
  UnforkedFd() = default;
  ~UnforkedFd() { Reset(); }
  UnforkedFd(const UnforkedFd&) = delete;

  // REQUIRES: empty. A child that was forked before this keeps its copy.
  void Keep(UniqueFd fd);
  // REQUIRES: empty. A pipe, closed on exec; this becomes the end to write to. No child ever has a copy of
  // it.
  absl::Status MakePipe(UniqueFd& read_end);

  int get() const { return fd_.get(); }
  explicit operator bool() const { return static_cast<bool>(fd_); }
  void Reset();

  // The handler of forks; nobody else calls it.
  static void AfterForkInChild();

 private:
  void Enlist(UniqueFd fd);  // with the list locked

  UniqueFd fd_;
  UnforkedFd* next_ = nullptr;
};

// While one lives, a fork by its thread leaves the child all descriptors: it is about to start a program.
class ForksForProgram {
 public:
  ForksForProgram();
  ~ForksForProgram();
  ForksForProgram(const ForksForProgram&) = delete;
};

}  // namespace hocket

#endif  // HOCKET_CSRC_CLIENT_UNFORKED_FD_H_
