#include "allocator/plans.h"

#include <algorithm>

#include "absl/hash/hash.h"

namespace hocket {
namespace {

std::size_t HashOf(const std::vector<StepEntry>& step) {
  std::size_t hash = step.size();
  for (const StepEntry& entry : step) {
    hash = absl::HashOf(hash, entry.size, entry.stream, entry.survives());
  }
  return hash;
}

}  // namespace

Plan* Plans::BeginningLike(const std::vector<StepEntry>& begun, const Plan* but) const {
  for (const auto& plan : plans_) {
    if (plan.get() != but && plan->BeginsLike(begun)) return plan.get();
  }
  return nullptr;
}

void Plans::Learn(const std::vector<StepEntry>& step, Plan* followed) {
  if (step.empty()) return;
  if (followed == nullptr && step.size() <= kLongestStep && Seen(step)) followed = Make(step);
  if (last_ != nullptr) last_->successor = followed;
  last_ = followed;
  if (followed == nullptr) return;
  followed->last_use = ++uses_;
  expected_ = followed->successor != nullptr ? followed->successor : followed;
}

bool Plans::Seen(const std::vector<StepEntry>& step) {
  const std::size_t hash = HashOf(step);
  if (std::find(seen_.begin(), seen_.end(), hash) != seen_.end()) return true;
  seen_.push_back(hash);
  if (seen_.size() > kSeen) seen_.pop_front();
  return false;
}

Plan* Plans::Make(const std::vector<StepEntry>& step) {
  int version = 1;
  if (Plan* old = Of(step)) {
    // Another was expected, and so it was not followed.
    if (old->step() == step && !old->stuck()) return old;
    version = old->version + 1;
    if (version > kVersions) return old;
    Forget(old);
  }
  while (!HasRoomFor(step.size())) {
    Forget(std::min_element(plans_.begin(), plans_.end(), [](const auto& a, const auto& b) {
             return a->last_use < b->last_use;
           })->get());
  }
  plans_.push_back(std::make_unique<Plan>(step));
  plans_.back()->version = version;
  return plans_.back().get();
}

Plan* Plans::Of(const std::vector<StepEntry>& step) const {
  for (const auto& plan : plans_) {
    if (plan->step().size() == step.size() && plan->BeginsLike(step)) return plan.get();
  }
  return nullptr;
}

bool Plans::HasRoomFor(std::size_t allocations) const {
  if (plans_.size() < kLongPlans) return true;
  for (const auto& plan : plans_) allocations += plan->step().size();
  return plans_.size() < kPlans && allocations <= kAllocations;
}

void Plans::Forget(const Plan* plan) {
  for (const auto& other : plans_) {
    if (other->successor == plan) other->successor = nullptr;
  }
  if (last_ == plan) last_ = nullptr;
  if (expected_ == plan) expected_ = nullptr;
  std::erase_if(plans_, [plan](const auto& kept) { return kept.get() == plan; });
}

}  // namespace hocket
