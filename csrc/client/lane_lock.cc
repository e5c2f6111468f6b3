#include "csrc/client/lane_lock.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "csrc/base/cannot.h"
#include "csrc/base/status_macros.h"

namespace hocket {
namespace {

// A lock that another process holds is tried again after an eighth of the time waited so far, within these:
// who gets it late has waited that much longer at most.
constexpr absl::Duration kShortestPause = absl::Microseconds(50), kLongestPause = absl::Milliseconds(5);

int SetLock(int fd, int command, short type) {
  struct flock lock {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  return fcntl(fd, command, &lock);
}

UniqueFd OpenFile(const std::string& path) {
  return UniqueFd(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
}

bool IsAt(const std::string& path, const UniqueFd& file) {
  struct stat open {
  }, there{};
  return fstat(file.get(), &open) == 0 && stat(path.c_str(), &there) == 0 && open.st_dev == there.st_dev &&
         open.st_ino == there.st_ino;
}

}  // namespace

void LaneLock::SetPath(const std::string& path) { path_ = path; }

absl::Status LaneLock::Failed(const char* what) const {
  return Cannot(absl::StrCat(what, " the lane's lock ", path_));
}

absl::Status LaneLock::Open() {
  if (file_ && open_path_ == path_) return absl::OkStatus();
  Use(UniqueFd());
  Use(OpenFile(path_));
  return file_ ? absl::OkStatus() : Failed("open");
}

void LaneLock::Use(UniqueFd file) {
  page_.reset();
  tried_page_ = false;
  file_ = std::move(file);
  open_path_ = path_;
}

// Jobs that have opened different files would neither keep each other out nor see what is passed. Where no
// other file can be had, the one that is open serves.
void LaneLock::FollowPath() {
  if (!file_ || open_path_ != path_ || IsAt(path_, file_)) return;
  if (UniqueFd next = OpenFile(path_)) Use(std::move(next));
}

absl::Status LaneLock::Acquire(absl::FunctionRef<bool(bool signal)> ends) {
  absl::Duration waited;
  for (;;) {
    const absl::Status tried = TryAcquire();
    if (!absl::IsFailedPrecondition(tried)) return tried;
    const absl::Duration pause = std::clamp(waited / 8, kShortestPause, kLongestPause);
    waited += pause;
    const timespec sleep = absl::ToTimespec(pause);
    const bool signal = nanosleep(&sleep, nullptr) != 0;
    if (ends(signal)) return absl::CancelledError("not waited for any longer");
  }
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
  if (!held_) {
    FollowPath();
    if (path_.empty() || !Open().ok()) return nullptr;
  }
  if (!std::exchange(tried_page_, true)) {
    auto mapped = LanePage::Map(file_.get());
    if (mapped.ok()) page_ = *std::move(mapped);
  }
  return page_;
}

}  // namespace hocket
