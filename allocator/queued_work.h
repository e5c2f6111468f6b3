// How much work a program has queued on the device, as near as its allocations tell.
//
//   allocations     a1  a2  a3        a4          a5  a6 ...      of a step, in order
//   device work      w1  w2      w3        w4       w5            queued between two of them
//   marks           |       |         |           |               events that the device passes in order
//
// A training loop repeats itself: what followed an allocation in the step before follows it again. So the
// steps are aligned (alignment.h), and each allocation's work is learned from the device's time between two
// marks, shared out among the allocations between them. What is not known yet has a mark before and behind
// it, and so is known when the device has passed them; what is known has one as soon as a quarter of the
// limit would come together without. An allocation may go on when what is queued behind the newest mark that
// was passed, with what it is going to queue, is within the limit.
//
// There is no mark within a piece of work. Where one that is longer than a quarter of the limit is running,
// what is left of it is told by the host's clock: from when the device had passed the mark before it, and all
// of it was queued; if it took no less the last time. And so that the device does not run dry before work
// that is as long as the limit, or longer:
//
//   an eighth of the limit may be queued before it: the host needs some time to wake up and to queue it
//   as much may be queued as the host has needed last time from this allocation to the next, as long as all
//   of it together is no more than the longest piece of a step. (An optimizer thinks for 3 ms, and then
//   queues 3 ms of work. Held up until the device has nothing to do, it lets it idle for as long as it
//   thinks.)
//
// So queued is at most the limit and an eighth, or the longest piece and an eighth of the limit.
//
// The device's time between two marks is the work, and whatever it has waited in between: never less than the
// work. So less than was foreseen is believed at once, more by half when the device cannot have waited, and
// otherwise only when it has been no less for a while, and without the host's time, for which it may have
// waited.
//
// What is not known (a first step, one of other shapes, an evaluation, a step of more than kLongestStep
// allocations) is taken for an eighth of the limit: at most eight such pieces are queued.
//
// Where threads allocate in turns, work is learned of the wrong allocations: afterwards some pieces more, or
// fewer, than the limit allows may be queued (855 of 800 us were seen) until the steps repeat themselves
// again.
//
// Numbers only: no device. Constant time a call on average, constant memory. Not thread-safe.
#ifndef HOCKET_ALLOCATOR_QUEUED_WORK_H_
#define HOCKET_ALLOCATOR_QUEUED_WORK_H_

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "allocator/alignment.h"

namespace hocket {

class QueuedWork {
 public:
  using Nanos = std::chrono::nanoseconds;
  // Marks are counted from 1.
  using MarkNumber = std::uint64_t;

  void SetLimit(Nanos most_queued) { limit_ = most_queued; }

  // What is allocated from now on is of another step than what was before.
  void BeginStep();
  // `now`, here and below: the host's time, since whenever.
  // An allocation; what follows it is not queued yet. True: a mark is to be placed now.
  bool Allocates(Bytes size, Stream stream, Nanos now);
  // It was. `device_waited`: maybe, since the mark before.
  void Marked(bool device_waited, Nanos now);
  // Which mark the device must pass before what follows the last allocation is queued; 0: none, or it has.
  MarkNumber MustPass() const;
  // When it has: the host's time from which on that may be queued, or once the next mark is passed; nullopt:
  // now.
  std::optional<Nanos> MustAwait() const;
  // It is held up no longer.
  void GoesOn(Nanos now) { went_on_ = now; }
  // The device has passed the oldest mark that it had not passed yet; so long after what it had passed
  // before.
  void Passed(Nanos elapsed, Nanos now);
  MarkNumber passed() const { return marked_ - marks_.size(); }
  // There are no marks any more, and the next one has none before it: nothing is known of what is queued.
  void Forget();

  // What is foreseen to be queued behind the newest mark that was passed, with what the last allocation is
  // followed by.
  Nanos Queued() const;
  // Allocations that something is kept of.
  std::size_t kept() const { return now_.size() + before_.size() + stretch_.size() + unpassed_; }

 private:
  // What an allocation is followed by.
  struct Work {
    // `waited`: the device maybe has, for `host` at most, so it is this or less.
    void Learn(Nanos measured, bool waited);
    // It is no less, even if the device has waited for the host.
    Nanos AtLeast() const { return exact ? *work : std::max(work.value_or(Nanos{0}) - host, Nanos{0}); }

    std::optional<Nanos> work;
    Nanos least{0};  // of the last `doubtful` times
    int doubtful = 0;
    bool exact = false;    // it was measured when the device cannot have waited
    bool no_less = false;  // the last time, than was foreseen then
    Nanos host{0};         // the host's time until the next allocation
  };
  using WorkPtr = std::shared_ptr<Work>;
  // A mark that was not passed yet, and the allocations whose work lies between it and the mark before.
  struct Mark {
    std::vector<WorkPtr> stretch;
    Nanos foreseen{0};
    Nanos placed{0};  // the host's time
    bool waited = false;
    bool first = false;     // there is no mark before
    bool by_clock = false;  // what is left of the stretch before it, while it runs
  };

  // Of a stretch. Few pieces of work are so short that their marks would be closer otherwise.
  static constexpr std::size_t kLongest = 256;
  static constexpr std::size_t kMostMarks = 32;

  WorkPtr Foresee(Bytes size, Stream stream);
  Nanos Foreseen(const Work& work) const;
  // So much may be queued before what follows the last allocation.
  Nanos Room() const;
  // A stretch is long, and takes as long as is foreseen.
  bool GoesByClock(const Mark& mark) const;
  static void Learn(const Mark& mark, Nanos elapsed);

  Nanos limit_{0};

  // Of this step and the one before.
  std::vector<StepEntry> now_, before_;
  std::vector<WorkPtr> work_now_, work_before_;
  Alignment alignment_;

  WorkPtr next_;                  // what the last allocation is followed by
  std::vector<WorkPtr> stretch_;  // behind the newest mark, without it
  Nanos stretch_foreseen_{0};
  bool stretch_unknown_ = false;

  std::deque<Mark> marks_;    // not passed yet, the oldest first
  std::size_t unpassed_ = 0;  // allocations in them
  Nanos marks_foreseen_{0};
  MarkNumber marked_ = 0;
  bool begun_ = false;  // a mark is placed already

  Nanos went_on_{0};        // the last allocation
  Nanos newest_passed_{0};  // when that was seen
  // The longest piece of work of this step and the one before, without what the device may have waited for.
  Nanos longest_now_{0}, longest_before_{0};
};

}  // namespace hocket

#endif  // HOCKET_ALLOCATOR_QUEUED_WORK_H_
