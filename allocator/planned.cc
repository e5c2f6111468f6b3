// Steps, and placing by plan (plans.h).
//
//   BeginStep        the plan of this step is expected
//   first Malloc     memory is put behind its places and lent to it
//   Malloc           a place of the plan's; what deviates goes to best fit, outside the lease; where that has
//                    no memory for it, the lease ends: a step that is not the plan's needs what the plan has
//   EndStep          followed to the end: the lease goes on into the next step; otherwise it ends
//   PassTurn, Spill, memory short, ...  EndLease first: they see a region of plain blocks. In mid-step the
//                    plan is left by that, and best fit serves the rest of the step
#include <algorithm>

#include "allocator/allocator_impl.h"

namespace hocket {
namespace {

// A step with more deviations than this (and an eighth of its allocations) is not the plan's.
constexpr std::size_t kDeviations = 32;

// As many as the turns after which a hand-over gives back what is not used.
constexpr int kStepsUntilTidy = Arena::kIdleTurns;

}  // namespace

void AllocatorImpl::BeginStep() {
  MutexLock lock(&mutex_);
  if (!survivors_.BeginStep()) return;
  pacer_.BeginStep();
  PollVacated();
  PayForGathering();
  ReturnHostMemory();
  // The first ones leave much that later ones do not use: gradients, for one, lie elsewhere from then on.
  const bool after_a_first_one = steps_ended_ > 0 && steps_ended_ < kFirstSteps;
  const bool after_many = ++steps_since_tidy_ > kStepsUntilTidy;
  if ((after_many || after_a_first_one) && HoldsTurn() && !Capturing()) Tidy(/*arena_too=*/after_many);
  Plan* const expected = plans_.Expected();
  may_follow_plan_ = expected != nullptr;
  if (plan_ == expected && plan_ != nullptr) {
    plan_->BeginStep();
  } else {
    EndLease();
  }
}

void AllocatorImpl::EndStep() {
  MutexLock lock(&mutex_);
  if (!survivors_.EndStep()) return;
  most_alive_ = std::max(most_alive_, static_cast<Bytes>(stats_.active_bytes[kAggregate].current));
  look_alikes_.clear();
  if (survivors_.step().empty()) return;
  steps_ended_ = std::min(steps_ended_ + 1, kFirstSteps);
  const bool followed = plan_ != nullptr && plan_->Finished() && plan_->deviations() == 0;
  if (!followed) EndLease();
  plans_.Learn(survivors_.step(), plan_);
}

Plan::Answer AllocatorImpl::AskPlan(Bytes size, Stream stream) {
  if (!survivors_.InStep() || !may_follow_plan_) return {};
  if (plan_ == nullptr && !Lease(*plans_.Expected(), /*may_move=*/true)) {
    may_follow_plan_ = false;
    return {};
  }
  const std::vector<StepEntry>& step = survivors_.step();
  Plan::Answer answer = plan_->Next(size, stream);
  if (!answer.known) {
    if (Plan* other = plans_.BeginningLike(step, plan_)) {
      EndLease();
      may_follow_plan_ = Lease(*other, /*may_move=*/false);
      if (!may_follow_plan_) return {};
      other->BeginStep(step.size() - 1);
      answer = other->Next(size, stream);
    }
  }
  if (answer.block == nullptr && plan_->deviations() > kDeviations + plan_->step().size() / 8) EndLease();
  return answer;
}

bool AllocatorImpl::Lease(Plan& plan, bool may_move) {
  std::vector<Extent> taken = transient_->blocks().Taken(plan.stream());
  if (!transient_->vacated().empty() && !plan.FitsAround(taken)) {
    // Places do not move, and are not packed anew, for holes that are soon gone.
    if (Capturing() || !WaitForDevice().ok()) return false;
    const InContext in_context(driver_, context_);
    AllStreamsPassed();
    taken = transient_->blocks().Taken(plan.stream());
  }
  plan.PlaceAround(taken, may_move);
  if (!BackPlaces(plan)) return false;
  transient_->blocks().Lease(plan.footprint(), plan.stream());
  plan.BeginLease(transient_->region().address());
  plan_ = &plan;
  return true;
}

bool AllocatorImpl::BackPlaces(const Plan& plan) {
  const Region& region = transient_->region();
  std::vector<bool> needed(region.positions());
  if (plan.footprint() > needed.size() * chunk_size_) return false;
  plan.ForEachPlace([&](Bytes offset, Bytes size) {
    for (Bytes i = offset / chunk_size_; i <= (offset + size - 1) / chunk_size_; ++i) needed[i] = true;
  });
  std::vector<Position> missing;
  for (Position position = 0; position * chunk_size_ < plan.footprint(); ++position) {
    if (needed[position] && region.state(position) == Region::State::kEmpty) missing.push_back(position);
  }
  if (missing.empty()) return true;
  const std::size_t lacking = missing.size() - std::min(missing.size(), arena_.free_chunks());
  std::vector<Position> gathered =
      Gatherable(plan.stream(), lacking, [&](Position position) { return needed[position]; });
  if (gathered.size() < lacking) {
    gathered.clear();
    UnplaceOutside(needed);
  }
  if (Reserved() + (missing.size() - gathered.size()) * chunk_size_ > limit_) return false;
  const Stream order = gathered.empty() ? kAnyStream : plan.stream();
  const InContext in_context(driver_, context_);
  bool backed = true;
  for (const Position position : missing) backed = backed && BackTransient(position, order, gathered).ok();
  CountReserved();
  return backed;
}

void AllocatorImpl::UnplaceOutside(const std::vector<bool>& needed) {
  std::vector<Position> empty = transient_->EmptyPositions(Region::State::kArena);
  std::erase_if(empty, [&](Position position) { return needed[position]; });
  if (empty.empty() || Capturing() || !WaitForDevice().ok()) return;
  const InContext in_context(driver_, context_);
  AllStreamsPassed();
  for (const Position position : empty) {
    const ArenaChunkId id = transient_->region().arena_id(position);
    absl::StatusOr<Chunk> chunk = transient_->Unback(position);
    if (chunk.ok()) arena_.Return(id, *std::move(chunk));
  }
  CountReserved();
}

Bytes AllocatorImpl::UnusedPrivate() const {
  return (Releasable(*persistent_).size() + Releasable(*transient_).size()) * chunk_size_;
}

Bytes AllocatorImpl::UnusedArena() const {
  Bytes unused = 0;
  if (ArenaInUse() == arena_.size() * chunk_size_) return unused;
  arena_.ForEach([&](const Arena::Member& member) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    const bool used = member.position && transient_->blocks().used(*member.position);
    if (member.created_here && !used) unused += chunk_size_;
  });
  return unused;
}

// Giving back needs the device idle, and a wait is worth it only for a good part of what is held.
void AllocatorImpl::Tidy(bool arena_too) {
  constexpr Bytes kWorthAWait = 64;  // one part in so many
  EndLease();
  const Bytes unused = UnusedPrivate() + (arena_too ? UnusedArena() : 0);
  if (unused * kWorthAWait > Reserved() && WaitForDevice().ok()) {
    const InContext in_context(driver_, context_);
    AllStreamsPassed();
    ReleaseEmptyPrivate(*persistent_);
    ReleaseEmptyPrivate(*transient_);
    if (arena_too) TrimArena(/*idle_turns=*/0);
    CountReserved();
  }
  if (!arena_too) return;
  steps_since_tidy_ = 0;
  transient_->blocks().ForgetUse();
}

// Here, and not when a turn passes: somebody waits then.
void AllocatorImpl::ReturnHostMemory() {
  if (host_->taken() == 0) return;
  const InContext in_context(driver_, context_);
  host_->ReturnIdle(Clock::now());
}

void AllocatorImpl::EndLease() {
  if (plan_ == nullptr) return;
  plan_->ForEachUsed([this](DevicePtr address, Bytes size)
                         ABSL_NO_THREAD_SAFETY_ANALYSIS { transient_->blocks().MarkUsed(address, size); });
  transient_->blocks().EndLease(plan_->EndLease());
  plan_ = nullptr;
  if (!survivors_.step().empty()) may_follow_plan_ = false;
}

}  // namespace hocket
