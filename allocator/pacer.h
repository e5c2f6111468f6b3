// Holds a program up that runs too far ahead of the device (CachingAllocator::SetPace).
//
// QueuedWork decides; this places its marks, which are events on the streams that are allocated on, asks
// whether the device has passed them, and waits. Marks are taken for passed in the order in which they were
// placed, on whatever streams. The device's time is that of the last one passed on any stream: what went on
// beside it on another is counted once.
//
// What is left of a long piece of work is told by the host's clock (queued_work.h), which is asked again,
// with the device, every few hundred microseconds: a piece that was foreseen longer than it is holds nobody
// up.
//
// A driver that fails is left alone until the next step, or another pace: marks are forgotten then, and
// nobody is held up.
//
// Thread-safe. Its lock is held for calls of the driver that do not wait for the device, never while a thread
// waits. A process that is forked must not call Pace(), in the child.
#ifndef HOCKET_ALLOCATOR_PACER_H_
#define HOCKET_ALLOCATOR_PACER_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "allocator/driver.h"
#include "allocator/gate.h"
#include "allocator/host_clock.h"
#include "allocator/queued_work.h"
#include "csrc/base/mutex.h"

namespace hocket {

class Pacer {
 public:
  // `driver` is borrowed and must outlive the pacer. Calls it only while there is a pace.
  Pacer(const Driver& driver, ContextHandle context, HostClock clock)
      : driver_(driver), context_(context), clock_(clock) {}
  ~Pacer();
  Pacer(const Pacer&) = delete;
  Pacer& operator=(const Pacer&) = delete;

  // 0: none. Without a lock, as the next two.
  void SetPace(std::chrono::nanoseconds most_queued) {
    if (pace_.exchange(most_queued.count(), kRelaxed) != most_queued.count()) changes_.fetch_add(1, kRelaxed);
  }
  bool On() const { return pace_.load(kRelaxed) > 0; }
  void BeginStep() {
    if (On()) steps_.fetch_add(1, kRelaxed);
  }

  // The calling thread allocates, and then queues work on `stream`. Waits until there is room for it, inside
  // Gate::WhileBlocked() (`gate` may be null). Nothing is locked by the caller; no graph is captured.
  void Pace(Bytes size, Stream stream, Gate* gate);

 private:
  static constexpr auto kRelaxed = std::memory_order_relaxed;

  struct Event {
    EventHandle handle = nullptr;
    int waiting = 0;     // threads
    bool spare = false;  // as soon as nobody waits for it
  };
  struct Mark {
    Event* event;
    Stream stream;
  };

  // Takes note of what was said without the lock.
  void CatchUp() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Place(Stream stream) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Takes note of the marks that the device has passed, as far as `last`.
  absl::Status Look(QueuedWork::MarkNumber last) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status PassOldest() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // False: it failed.
  bool Await(QueuedWork::MarkNumber mark, Gate* gate) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void AwaitPart(Gate* gate) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Wait(Event& event, Gate* gate) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // True: it failed, and nothing is done until the next step.
  bool Failed(const absl::Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Forget() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<Event*> Take() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Spare(Event* event) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Driver& driver_;
  const ContextHandle context_;
  const HostClock clock_;

  std::atomic<std::int64_t> pace_{0};      // nanoseconds
  std::atomic<std::uint64_t> changes_{0};  // of it
  std::atomic<std::uint64_t> steps_{0};    // begun

  Mutex mutex_;
  QueuedWork work_ ABSL_GUARDED_BY(mutex_);
  std::uint64_t changes_seen_ ABSL_GUARDED_BY(mutex_) = 0;
  std::uint64_t steps_seen_ ABSL_GUARDED_BY(mutex_) = 0;
  bool rests_ ABSL_GUARDED_BY(mutex_) = false;
  std::deque<Mark> marks_ ABSL_GUARDED_BY(mutex_);        // not passed yet, the oldest first
  Event* device_time_ ABSL_GUARDED_BY(mutex_) = nullptr;  // of those passed, the last on the device
  std::vector<Event*> spare_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<Event>> events_ ABSL_GUARDED_BY(mutex_);  // all
};

}  // namespace hocket

#endif  // HOCKET_ALLOCATOR_PACER_H_
