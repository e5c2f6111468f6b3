// The page of a lane: who has the turn tells the next job itself that it goes on.
//
// A few bytes at the begin of the lane's lock file, which all jobs of the lane map. The coordinator promises
// a waiting job the turn after the present one (wire::Grant::pass, a number that it never gives twice) and
// tells the holder that somebody waits for that number (wire::Yield::pass). The holder writes it when the
// turn is over, after it has released the lane's lock and told the coordinator: one thread is woken for a
// hand-over, not one of the coordinator's and one of the next job's, one after the other.
//
// The page says nothing about who may touch the arena: that is the lock's. A number that nobody waits for is
// read by nobody. What a process wrote before Pass() is seen by whoever has seen the number.
//
//   bytes 0 to 3    bell: has another value after each Pass() and Ring(); a futex
//   bytes 8 to 15   the number that was passed last; 0: none yet
//
// The layout never changes: jobs of several versions share a lane. Thread-safe, and between processes.
#ifndef HOCKET_CSRC_CLIENT_LANE_PAGE_H_
#define HOCKET_CSRC_CLIENT_LANE_PAGE_H_

#include <atomic>
#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "csrc/base/mutex.h"

namespace hocket {

class LanePage {
 public:
  // Of the open file of a lane's lock, which gets the bytes where it lacks them. kUnavailable, with the
  // reason: there is no room for them, it cannot be mapped, or its file system is none of tmpfs, ext4 and
  // xfs, where they stay once they are allocated.
  static absl::StatusOr<std::shared_ptr<LanePage>> Map(int fd);
  ~LanePage();
  LanePage(const LanePage&) = delete;

  void Pass(std::uint64_t number);
  std::uint64_t passed() const { return words_->passed.load(std::memory_order_acquire); }

  // Wakes all who wait, of all processes: whatever else they wait for has changed.
  void Ring();
  std::uint32_t bell() const { return words_->bell.load(std::memory_order_acquire); }
  // Blocks until the bell has another value than `bell`, a signal was delivered to this thread (then true),
  // or `limit` is over (Clock::duration::max(): never); it may return sooner.
  bool Await(std::uint32_t bell, Clock::duration limit) const;

 private:
  struct Words {
    std::atomic<std::uint32_t> bell;
    std::uint32_t unused;
    std::atomic<std::uint64_t> passed;
  };
  static_assert(std::atomic<std::uint64_t>::is_always_lock_free && sizeof(Words) == 16);

  explicit LanePage(Words* words) : words_(words) {}

  Words* const words_;
};

}  // namespace hocket

#endif  // HOCKET_CSRC_CLIENT_LANE_PAGE_H_
