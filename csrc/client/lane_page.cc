#include "csrc/client/lane_page.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <climits>

#include "csrc/base/cannot.h"

namespace hocket {
namespace {

std::uint32_t* Address(std::atomic<std::uint32_t>& bell) { return reinterpret_cast<std::uint32_t*>(&bell); }

// Writing to what is allocated needs no more room there. Elsewhere (copy on write, a network) it may, and a
// write for which there is none kills the process.
bool KeepsWhatIsAllocated(int fd) {
  constexpr long kXfs = 0x58465342;
  struct statfs system {};
  if (fstatfs(fd, &system) != 0) return false;
  return system.f_type == TMPFS_MAGIC || system.f_type == RAMFS_MAGIC || system.f_type == EXT4_SUPER_MAGIC ||
         system.f_type == kXfs;
}

}  // namespace

absl::StatusOr<std::shared_ptr<LanePage>> LanePage::Map(int fd) {
  if (!KeepsWhatIsAllocated(fd))
    return absl::UnavailableError("the lane's page is on a file system that may need room for it again");
  struct stat file {};
  if (fstat(fd, &file) != 0) return Cannot("see the size of the lane's page");
  if (file.st_size < static_cast<off_t>(sizeof(Words))) {
    if (const int error = posix_fallocate(fd, 0, sizeof(Words)); error != 0)
      return Cannot("allocate the lane's page", error);
  }
  void* const words = mmap(nullptr, sizeof(Words), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (words == MAP_FAILED) return Cannot("map the lane's page");
  return std::shared_ptr<LanePage>(new LanePage(static_cast<Words*>(words)));
}

LanePage::~LanePage() { munmap(words_, sizeof(Words)); }

void LanePage::Pass(std::uint64_t number) {
  words_->passed.store(number, std::memory_order_release);
  Ring();
}

void LanePage::Ring() {
  words_->bell.fetch_add(1, std::memory_order_release);
  syscall(SYS_futex, Address(words_->bell), FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

bool LanePage::Await(std::uint32_t bell, Clock::duration limit) const {
  timespec time{};
  const bool limited = limit != Clock::duration::max();
  if (limited) {
    const auto ns = std::chrono::duration_cast<std::chrono::nanoseconds>(limit).count();
    time = {.tv_sec = ns / 1'000'000'000, .tv_nsec = ns % 1'000'000'000};
  }
  const long woken =
      syscall(SYS_futex, Address(words_->bell), FUTEX_WAIT, bell, limited ? &time : nullptr, nullptr, 0);
  return woken != 0 && errno == EINTR;
}

}  // namespace hocket
