// The plans of one job's loop: which step is worth a plan, and which plan answers to the step that begins.
//
//   a step ends    no plan was followed to its end: if one like it was seen before, it becomes a plan
//   a step begins  the plan that is foreseen: what came after the steps before when they came so the last
//   time
//                  (training nine times, evaluation, training nine times: evaluation)
//   it turns out another: the plan that begins like it so far
//
// Keeps the plans that were used last: fewer where steps are long. Not thread-safe: the allocator's lock
// guards it.
#ifndef HOCKET_ALLOCATOR_PLANS_H_
#define HOCKET_ALLOCATOR_PLANS_H_

#include <deque>
#include <memory>
#include <vector>

#include "allocator/plan.h"

namespace hocket {

class Plans {
 public:
  // The plan that the next step is expected to follow; nullptr: none.
  Plan* Expected() const { return expected_; }
  // Another plan than `but` that begins like the step so far, the next allocation included; nullptr: none.
  Plan* BeginningLike(const std::vector<StepEntry>& begun, const Plan* but) const;
  // A step has ended (an empty one says nothing). `followed`: the plan that it was, to the end and in every
  // place; nullptr: none. Then a plan may be made and others forgotten. Returns the plan of that step;
  // nullptr: it has none. REQUIRES: no other plan is leased.
  Plan* Learn(const std::vector<StepEntry>& step, Plan* followed);

  std::size_t size() const { return plans_.size(); }

 private:
  // More plans than steps remembered: of a loop that goes round more shapes than there are plans, each would
  // be made anew just before it is forgotten again.
  static constexpr std::size_t kPlans = 64;
  static constexpr std::size_t kSeen = 32;                 // steps remembered by their hash
  static constexpr std::size_t kLongPlans = 8;             // kept whatever their length
  static constexpr std::size_t kAllocations = 256 * 1024;  // of all plans, where there are more than those
  static constexpr int kVersions = 4;
  static constexpr std::size_t kRuns = 256;

  // Steps of one kind, one after the other.
  struct Run {
    Plan* plan = nullptr;  // none: steps that have no plan
    std::size_t steps = 0;
  };

  // The plan for a step of these allocations, seen before: made now, or again if their lifetimes have
  // changed.
  Plan* Make(const std::vector<StepEntry>& step);
  // The plan whose step has these allocations, whatever their lifetimes; nullptr: none.
  Plan* Of(const std::vector<StepEntry>& step) const;
  bool Seen(const std::vector<StepEntry>& step);
  // Whether one more plan of so many allocations can be kept without forgetting another.
  bool HasRoomFor(std::size_t allocations) const;
  // `heir`: a plan for the same steps.
  void Forget(const Plan* plan, Plan* heir = nullptr);
  void Remember(Plan* plan);
  // What followed the last run when as many of its steps had come, where the runs before it were most like
  // those that came now; nullptr: that is not known.
  Plan* Foreseen() const;
  // How many runs before these two are the same.
  std::size_t AlikeBefore(std::size_t run, std::size_t other) const;

  std::vector<std::unique_ptr<Plan>> plans_;
  std::deque<std::size_t> seen_;
  std::deque<Run> runs_;  // the last one lasts
  Plan* expected_ = nullptr;
  std::uint64_t uses_ = 0;
};

}  // namespace hocket

#endif  // HOCKET_ALLOCATOR_PLANS_H_
