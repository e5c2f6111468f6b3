// The lock of a lane: the kernel holds it for the living process that may touch the lane's arena.
//
// It does not depend on anybody's health but the kernel's: a process that dies drops it, a forked child does
// not have it, a coordinator that lost its mind cannot give it twice. A POSIX record lock, because those
// belong to a process; so the file must be opened once in it (closing any other descriptor of the same file
// would drop the lock).
//
// Not thread-safe: the owner of the turn's phase uses it.
#ifndef HOCKET_CSRC_CLIENT_LANE_LOCK_H_
#define HOCKET_CSRC_CLIENT_LANE_LOCK_H_

#include <memory>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "csrc/base/unique_fd.h"
#include "csrc/client/lane_page.h"

namespace hocket {

class LaneLock {
 public:
  // The file to lock from now on, made where missing (0600). A lock that is held stays on the old file until
  // Release().
  void SetPath(const std::string& path);
  const std::string& path() const { return path_; }

  // Waits until the lock is ours, without a deadline: somebody alive holds it. It is tried at once, and again
  // in pauses of at most 5 ms; after each, `ends` is asked whether to wait on, and told whether a signal has
  // come: true gives kCancelled. (A wait in the kernel could hear of nothing but signals.) kUnavailable, with
  // path and errno's text, when the file cannot be opened or locked. Held already: OK.
  absl::Status Acquire(absl::FunctionRef<bool(bool signal)> ends);

  // As Acquire(), but kFailedPrecondition when somebody else holds it.
  absl::Status TryAcquire();

  void Release();
  // The lane's page: of the file whose lock is held, else of the path, where another file may lie by now (who
  // tidies /tmp has removed the old one): that is the one to lock from then on, too. Null: it cannot be had.
  std::shared_ptr<LanePage> Page();
  bool held() const { return held_; }
  // -1: none open.
  int fd() const { return file_.get(); }

 private:
  absl::Status Open();
  void Use(UniqueFd file);
  void FollowPath();
  absl::Status Failed(const char* what) const;

  std::string path_;
  std::string open_path_;
  UniqueFd file_;
  std::shared_ptr<LanePage> page_;  // of file_; null: not tried yet, or it cannot be had
  bool tried_page_ = false;
  bool held_ = false;
};

}  // namespace hocket

#endif  // HOCKET_CSRC_CLIENT_LANE_LOCK_H_
