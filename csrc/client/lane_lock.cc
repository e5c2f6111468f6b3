#include "csrc/client/lane_lock.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "csrc/base/cannot.h"
#include "csrc/base/status_macros.h"

namespace hocket {
namespace {

// Another rank's wait and ours may look like a cycle to the kernel, which sees processes and not turns.
constexpr useconds_t kDeadlockPauseUs = 10'000;

int SetLock(int fd, int command, short type) {
  struct flock lock {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  return fcntl(fd, command, &lock);
}

}  // namespace

void LaneLock::SetPath(const std::string& path) { path_ = path; }

absl::Status LaneLock::Failed(const char* what) const {
  return Cannot(absl::StrCat(what, " the lane's lock ", path_));
}

absl::Status LaneLock::Open() {
  if (file_ && open_path_ == path_) return absl::OkStatus();
  page_.reset();
  tried_page_ = false;
  file_.Reset();
  file_ = UniqueFd(open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!file_) return Failed("open");
  open_path_ = path_;
  return absl::OkStatus();
}

absl::Status LaneLock::Acquire(const std::function<bool()>& interrupted) {
  if (held_) return absl::OkStatus();
  HOCKET_RETURN_IF_ERROR(Open());
  while (SetLock(file_.get(), F_SETLKW, F_WRLCK) != 0) {
    if (errno == EDEADLK) {
      usleep(kDeadlockPauseUs);
    } else if (errno != EINTR) {
      return Failed("take");
    }
    if (interrupted && interrupted()) return absl::CancelledError("interrupted while waiting for the turn");
  }
  held_ = true;
  return absl::OkStatus();
}

absl::Status LaneLock::TryAcquire() {
  if (held_) return absl::OkStatus();
  HOCKET_RETURN_IF_ERROR(Open());
  if (SetLock(file_.get(), F_SETLK, F_WRLCK) != 0) {
    if (errno == EAGAIN || errno == EACCES) return absl::FailedPreconditionError("another process holds it");
    return Failed("take");
  }
  held_ = true;
  return absl::OkStatus();
}

void LaneLock::Release() {
  if (!held_) return;
  (void)SetLock(file_.get(), F_SETLK, F_UNLCK);
  held_ = false;
}

std::shared_ptr<LanePage> LaneLock::Page() {
  if (!held_ && (path_.empty() || !Open().ok())) return nullptr;
  if (!std::exchange(tried_page_, true)) {
    auto mapped = LanePage::Map(file_.get());
    if (mapped.ok()) page_ = *std::move(mapped);
  }
  return page_;
}

}  // namespace hocket
