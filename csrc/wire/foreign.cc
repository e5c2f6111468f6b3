#include "csrc/wire/foreign.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

namespace hocket::wire {
namespace {

using Device = std::uint64_t;  // its numbers; 0: none

// None: it cannot be seen without asking somebody, or not at all.
bool Look(int fd, struct statx& info) {
  return statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE, &info) == 0;
}

Device DeviceOf(const struct statx& info) {
  return std::uint64_t{info.stx_dev_major} << 32 | info.stx_dev_minor;
}

// Where the kernel has files that lie in no file system: an eventfd is one.
Device OfTheKernelsOwn() {
  const UniqueFd own(eventfd(0, EFD_CLOEXEC));
  struct statx info {};
  return own && Look(own.get(), info) ? DeviceOf(info) : 0;
}

class Closer {
 public:
  static Closer& Get() {
    static Closer& closer = *new Closer;  // its thread may be in a close() when everything else ends
    return closer;
  }

  void Close(UniqueFd fd, unsigned user) {
    const std::lock_guard lock(mutex_);
    waiting_.emplace_back(std::move(fd), user);
    ++count_;
    ++count_of_[user];
    if (!started_) Start();
    changed_.notify_one();
  }
  // Asked for each packet that comes.
  int count() const { return count_.load(std::memory_order_relaxed); }
  int CountOf(unsigned user) {
    const std::lock_guard lock(mutex_);
    const auto found = count_of_.find(user);
    return found == count_of_.end() ? 0 : found->second;
  }

 private:
  // Where no thread can be had they are kept, and the next one tries again.
  void Start() {
    try {
      std::thread([this] { Run(); }).detach();
      started_ = true;
    } catch (const std::system_error&) {
    }
  }

  void Run() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return !waiting_.empty(); });
      auto [next, user] = std::move(waiting_.front());
      waiting_.pop_front();
      lock.unlock();
      next.Reset();
      lock.lock();
      --count_;
      if (--count_of_[user] == 0) count_of_.erase(user);
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::pair<UniqueFd, unsigned>> waiting_;  // and whose they are
  std::atomic<int> count_{0};                          // and of the one that is being closed
  std::map<unsigned, int> count_of_;                   // the same
  bool started_ = false;
};

}  // namespace

bool IsForeign(int fd) {
  if (fcntl(fd, F_GET_SEALS) >= 0) return false;  // a memfd, or shared memory
  static std::atomic<Device> kernels_own{0};      // none yet, also where no descriptor was left to look with
  if (kernels_own == 0) kernels_own = OfTheKernelsOwn();
  struct statx info {};
  // A container's rules may forbid the question: then nobody can say, and memory is not to be refused.
  if (!Look(fd, info)) return errno != ENOSYS && errno != EPERM;
  return !S_ISCHR(info.stx_mode) && DeviceOf(info) != kernels_own;
}

void CloseElsewhere(UniqueFd fd, unsigned user) { Closer::Get().Close(std::move(fd), user); }

int ForeignOnes() { return Closer::Get().count(); }

int ForeignOnesOf(unsigned user) { return Closer::Get().CountOf(user); }

}  // namespace hocket::wire
