#include "allocator/plans.h"

#include <algorithm>
#include <optional>
#include <utility>

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

Plan* Plans::Learn(const std::vector<StepEntry>& step, Plan* followed) {
  if (step.empty()) return nullptr;
  if (followed == nullptr && step.size() <= kLongestStep && Seen(step)) followed = Make(step);
  Remember(followed);
  if (followed != nullptr) followed->last_use = ++uses_;
  Plan* const foreseen = Foreseen();
  if (foreseen != nullptr || followed != nullptr) expected_ = foreseen != nullptr ? foreseen : followed;
  return followed;
}

void Plans::Remember(Plan* plan) {
  if (runs_.empty() || runs_.back().plan != plan) runs_.push_back({.plan = plan, .steps = 0});
  ++runs_.back().steps;
  if (runs_.size() > kRuns) runs_.pop_front();
}

std::size_t Plans::AlikeBefore(std::size_t run, std::size_t other) const {
  std::size_t alike = 0;
  const auto same = [](const Run& a, const Run& b) { return a.plan == b.plan && a.steps == b.steps; };
  while (alike < std::min(run, other) && same(runs_[run - alike - 1], runs_[other - alike - 1])) ++alike;
  return alike;
}

Plan* Plans::Foreseen() const {
  const std::size_t now = runs_.size() - 1;
  std::optional<std::size_t> best, best_alike;
  for (std::size_t run = now; run-- > 0;) {
    if (best_alike && run <= *best_alike) break;  // fewer runs lie before it than are alike there
    if (runs_[run].plan != runs_[now].plan || runs_[run].steps < runs_[now].steps) continue;
    const std::size_t alike = AlikeBefore(run, now);
    if (best_alike && alike <= *best_alike) continue;
    best = run;
    best_alike = alike;
  }
  if (!best) return nullptr;
  return runs_[runs_[*best].steps == runs_[now].steps ? *best + 1 : *best].plan;
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
  Plan* const old = Of(step);
  if (old != nullptr) {
    // Another was expected, and so it was not followed.
    if (old->step() == step && !old->stuck()) return old;
    version = old->version + 1;
    if (version > kVersions) return old;
  }
  auto made = std::make_unique<Plan>(step);
  made->version = version;
  if (old != nullptr) Forget(old, made.get());
  while (!HasRoomFor(step.size())) {
    Forget(std::min_element(plans_.begin(), plans_.end(), [](const auto& a, const auto& b) {
             return a->last_use < b->last_use;
           })->get());
  }
  plans_.push_back(std::move(made));
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

void Plans::Forget(const Plan* plan, Plan* heir) {
  for (Run& run : runs_) {
    if (run.plan == plan) run.plan = heir;
  }
  if (expected_ == plan) expected_ = nullptr;
  std::erase_if(plans_, [plan](const auto& kept) { return kept.get() == plan; });
}

}  // namespace hocket
