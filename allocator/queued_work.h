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
// The device's time between two marks is the work, and whatever it has waited in between: never less than the
// work. So less than was foreseen is believed at once, more by half when the device cannot have waited, and
// otherwise only when it has been no less for a while.
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
  // An allocation; what follows it is not queued yet. True: a mark is to be placed now.
  bool Allocates(Bytes size, Stream stream);
  // It was. `device_waited`: maybe, since the mark before.
  void Marked(bool device_waited);
  // Which mark the device must pass before what follows the last allocation is queued; 0: none, or it has.
  MarkNumber MustPass() const;
  // The device has passed the oldest mark that it had not passed yet; so long after what it had passed
  // before.
  void Passed(Nanos elapsed);
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
    // `waited`: the device maybe has, so it is this or less.
    void Learn(Nanos measured, bool waited);

    std::optional<Nanos> work;
    Nanos least{0};  // of the last `doubtful` times
    int doubtful = 0;
  };
  using WorkPtr = std::shared_ptr<Work>;
  // A mark that was not passed yet, and the allocations whose work lies between it and the mark before.
  struct Mark {
    std::vector<WorkPtr> stretch;
    Nanos foreseen{0};
    bool waited = false;
    bool first = false;  // there is no mark before
  };

  // Of a stretch. Few pieces of work are so short that their marks would be closer otherwise.
  static constexpr std::size_t kLongest = 256;
  static constexpr std::size_t kMostMarks = 32;

  WorkPtr Foresee(Bytes size, Stream stream);
  Nanos Foreseen(const Work& work) const;
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
};

}  // namespace hocket

#endif  // HOCKET_ALLOCATOR_QUEUED_WORK_H_
