// Which allocations of a step outlive it, learned from the step before.
//
// A training loop repeats itself: the n-th allocation of a step has the size and the fate of the n-th of the
// step before. So each step is written down as a sequence of allocations with their lifetimes, and while the
// next step runs, its allocations are aligned with that sequence (alignment.h). An allocation that is aligned
// with a survivor is predicted to be one. A wrong prediction costs memory in the wrong region for one step,
// never correctness: what is alive at a hand-over decides.
//
// The first step is special: the optimizer's state is born in it and stays. So of its survivors only those
// that have been freed since are expected again.
//
// Constant time a call. Not thread-safe: the allocator's lock guards it.
#ifndef HOCKET_ALLOCATOR_SURVIVORS_H_
#define HOCKET_ALLOCATOR_SURVIVORS_H_

#include <cstdint>
#include <vector>

#include "allocator/alignment.h"

namespace hocket {

// Names an allocation of a step. step == 0: outside every step.
struct Birth {
  std::uint32_t step = 0;
  std::uint32_t index = 0;
};

// A survivor of the step before was freed, at this time of the present step.
struct Departure {
  std::uint32_t index = 0;  // of the allocation, in its step
  DevicePtr address = 0;
  std::uint32_t time = 0;
};

class Survivors {
 public:
  // Steps nest or overlap on several threads: the outermost counts. True if this was the outermost.
  bool BeginStep();
  // REQUIRES: a step is under way. True if it was the outermost: step() is whole now.
  bool EndStep();
  bool InStep() const { return depth_ > 0; }

  // An allocation of `size` bytes, now, is written down. Beyond kLongestStep it is not: the step is too long
  // then to be learned from.
  Birth Allocated(Bytes size, Stream stream);
  // To be asked once for each allocation, in their order, unless SkipPrediction() is called for it: is it
  // predicted to outlive the step? Outside a step that is assumed of all.
  bool Predict(Bytes size, Stream stream);
  // Somebody else (a plan) has predicted this one.
  void SkipPrediction() { alignment_.Skip(); }
  // The allocation of that birth, which lies at `address`, is freed.
  void Freed(Birth birth, DevicePtr address = 0);

  // The present step, or the last one.
  const std::vector<StepEntry>& step() const { return now_; }
  bool IsOfThisStep(Birth birth) const { return birth.step == step_; }
  // Of the last step before the present one that allocated anything.
  std::size_t known_allocations() const { return last_.size(); }
  // What that step left and has been freed since.
  const std::vector<Departure>& departures() const { return departures_; }
  // The present step, or the last one, made the same allocations as the one before it.
  bool Repeats() const;

 private:
  static constexpr std::uint32_t kFirst = 1;

  int depth_ = 0;
  std::uint32_t step_ = 0;   // counted from kFirst
  std::uint32_t clock_ = 0;  // allocations and frees of this step
  std::vector<StepEntry> now_;
  std::vector<StepEntry> last_;
  std::vector<bool> gone_;  // of the first step: survivors that have been freed since
  std::vector<Departure> departures_;
  std::vector<Departure> left_between_;  // since the last step's end
  Alignment alignment_;
};

}  // namespace hocket

#endif  // HOCKET_ALLOCATOR_SURVIVORS_H_
