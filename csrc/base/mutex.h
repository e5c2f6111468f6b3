// A mutex and its condition, with the annotations that let clang reject unguarded reads.
//
// Over the standard library's, not Abseil's: the thread sanitizer sees pthread's locks, but not those of an
// Abseil library that was built without it.
#ifndef HOCKET_CSRC_BASE_MUTEX_H_
#define HOCKET_CSRC_BASE_MUTEX_H_

#include <chrono>
#include <condition_variable>
#include <mutex>

#include "absl/base/thread_annotations.h"

namespace hocket {

using Clock = std::chrono::steady_clock;

class ABSL_LOCKABLE Mutex {
 public:
  void Lock() ABSL_EXCLUSIVE_LOCK_FUNCTION() { mutex_.lock(); }
  bool TryLock() ABSL_EXCLUSIVE_TRYLOCK_FUNCTION(true) { return mutex_.try_lock(); }
  void Unlock() ABSL_UNLOCK_FUNCTION() { mutex_.unlock(); }
  void AssertHeld() const ABSL_ASSERT_EXCLUSIVE_LOCK() {}

 private:
  friend class Condition;
  std::mutex mutex_;
};

class ABSL_SCOPED_LOCKABLE MutexLock {
 public:
  explicit MutexLock(Mutex* mutex) ABSL_EXCLUSIVE_LOCK_FUNCTION(mutex) : mutex_(mutex) { mutex_->Lock(); }
  ~MutexLock() ABSL_UNLOCK_FUNCTION() { mutex_->Unlock(); }
  MutexLock(const MutexLock&) = delete;

 private:
  Mutex* const mutex_;
};

// The other way round: unlocks for the length of a scope. Clang's analysis takes the mutex for held in it.
class MutexUnlock {
 public:
  explicit MutexUnlock(Mutex* mutex) ABSL_NO_THREAD_SAFETY_ANALYSIS : mutex_(mutex) { mutex_->Unlock(); }
  ~MutexUnlock() ABSL_NO_THREAD_SAFETY_ANALYSIS { mutex_->Lock(); }
  MutexUnlock(const MutexUnlock&) = delete;

 private:
  Mutex* const mutex_;
};

class Condition {
 public:
  void Wait(Mutex* mutex) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    std::unique_lock<std::mutex> lock(mutex->mutex_, std::adopt_lock);
    condition_.wait(lock);
    lock.release();
  }
  void WaitUntil(Mutex* mutex, Clock::time_point deadline) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    std::unique_lock<std::mutex> lock(mutex->mutex_, std::adopt_lock);
    condition_.wait_until(lock, deadline);
    lock.release();
  }
  void NotifyAll() { condition_.notify_all(); }

 private:
  std::condition_variable condition_;
};

}  // namespace hocket

#endif  // HOCKET_CSRC_BASE_MUTEX_H_
