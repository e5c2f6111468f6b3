// Steps, and placing by plan (plans.h).
//
//   BeginStep        the plan of this step is expected
//   first Malloc     memory is put behind its places and lent to it
//   Malloc           a place of the plan's, or one that it names in persistent memory (homes.h) if that is
//                    free; what deviates goes to best fit, outside the lease; where that has no memory for
//                    it, the lease ends: a step that is not the plan's needs what the plan has
//   EndStep          followed to the end: the lease goes on into the next step; otherwise it ends. A plan
//                    that does not know its survivors' homes learns them
//   PassTurn, Spill, memory short, ...  EndLease first: they see a region of plain blocks. In mid-step the
//                    plan is left by that, and best fit serves the rest of the step
#include <algorithm>
#include <utility>

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
  CountSurvivors();
  most_alive_ = std::max(most_alive_, static_cast<Bytes>(stats_.active_bytes[kAggregate].current));
  look_alikes_.clear();
  if (survivors_.step().empty()) return;
  steps_ended_ = std::min(steps_ended_ + 1, kFirstSteps);
  const bool followed = plan_ != nullptr && plan_->Finished() && plan_->deviations() == 0;
  if (followed) {
    plan_->Followed();
  } else {
    EndLease();
  }
  Plan* const plan = plans_.Learn(survivors_.step(), plan_);
  if (plan != nullptr && plan->WantsHomes()) LearnHomes(*plan);
}

void AllocatorImpl::LearnHomes(Plan& plan) {
  const std::vector<StepEntry>& step = survivors_.step();
  if (survivors_.departures().empty() || !survivors_.Repeats()) return;
  absl::flat_hash_map<std::uint32_t, std::size_t> numbers;  // of entries, in `homes`
  std::vector<Homes::Home> homes;
  for (const Departure& departure : survivors_.departures()) {
    if (!step[departure.index].survives() || step[departure.index].stream != plan.stream()) continue;
    numbers[departure.index] = homes.size();
    homes.push_back({.entry = departure.index, .left = departure.time, .address = {departure.address, 0}});
  }
  if (homes.empty()) return;
  const BlockMap& blocks = persistent_->blocks();
  std::vector<Extent> empty, taken;
  for (const auto& [address, block] : blocks.blocks()) {
    const bool born_now = block.state == Block::State::kAllocated && survivors_.IsOfThisStep(block.birth);
    const auto number = born_now ? numbers.find(block.birth.index) : numbers.end();
    if (number != numbers.end()) {
      homes[number->second].address[1] = address;
    } else if (block.state != Block::State::kFree || block.pool != 0) {
      taken.push_back({address, block.size});
    } else if (block.stream == plan.stream() || block.stream == kAnyStream) {
      AddInUsedChunks(block, empty);
    }
  }
  // In the first steps some lie elsewhere.
  const bool settled =
      std::all_of(homes.begin(), homes.end(), [&](const Homes::Home& home) ABSL_NO_THREAD_SAFETY_ANALYSIS {
        return home.address[1] != 0 && IsBacked(home.address[0], step[home.entry].size);
      });
  EndLease();
  if (!plan.SetHomes(settled ? Homes::Of(step, std::move(homes), empty, taken) : std::nullopt)) return;
  // What the arena no longer needs then is known after some steps: of the first plan that has them. Later
  // ones do not put off what is due.
  if (std::exchange(lodgers_came_, true)) return;
  steps_since_tidy_ = 0;
  ForgetArenaUse();
}

// What the turn has needed so far is told at its end all the same.
void AllocatorImpl::ForgetArenaUse() {
  turn_peak_ = std::max(turn_peak_, ArenaInUse());
  transient_->blocks().ForgetUse();
}

bool AllocatorImpl::IsBacked(DevicePtr address, Bytes size) const {
  const Region& region = persistent_->region();
  if (!region.Contains(address)) return false;
  const Position last = region.PositionOf(address + size - 1);
  for (Position position = region.PositionOf(address); position <= last; ++position) {
    if (!persistent_->blocks().backed(position)) return false;
  }
  return true;
}

void AllocatorImpl::AddInUsedChunks(const Block& free, std::vector<Extent>& extents) const {
  const Region& region = persistent_->region();
  const Position last = region.PositionOf(free.end() - 1);
  for (Position position = region.PositionOf(free.address); position <= last; ++position) {
    if (persistent_->blocks().live_blocks(position) == 0) continue;
    const DevicePtr begin = std::max(free.address, region.AddressOf(position));
    extents.push_back({begin, std::min(free.end(), region.AddressOf(position + 1)) - begin});
  }
}

Block* AllocatorImpl::TakeHome(const Request& request) {
  BlockMap& blocks = persistent_->blocks();
  const DevicePtr home = plan_->home();
  Block* block = blocks.AllocateIfFree(home, request.size, request.stream);
  if (block == nullptr && BackHome(home, request.size)) {
    block = blocks.AllocateIfFree(home, request.size, request.stream);
  }
  if (block == nullptr) plan_->Missed();
  return block;
}

bool AllocatorImpl::BackHome(DevicePtr address, Bytes size) {
  const Region& region = persistent_->region();
  const Position last = region.PositionOf(address + size - 1);
  std::vector<Position> missing;
  for (Position position = region.PositionOf(address); position <= last; ++position) {
    if (region.state(position) == Region::State::kEmpty) missing.push_back(position);
  }
  if (missing.empty() || Reserved() + missing.size() * chunk_size_ > limit_) return false;
  const InContext in_context(driver_, context_);
  const bool backed =
      std::all_of(missing.begin(), missing.end(), [&](Position position) ABSL_NO_THREAD_SAFETY_ANALYSIS {
        absl::StatusOr<Chunk> chunk = NewPrivateChunk(/*any_of_arena=*/false);
        return chunk.ok() && persistent_->Back(position, *chunk, 0, kAnyStream).ok();
      });
  CountReserved();
  return backed;
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
  if (answer.block == nullptr && plan_->deviations() > kDeviations + plan_->step().size() / 8) {
    EndLease();
    answer.at_home = false;
  }
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
  if (plan.homes()) {
    plan.SetOdd(plan.homes()->IsOdd([this](DevicePtr address) ABSL_NO_THREAD_SAFETY_ANALYSIS {
      const Block* const block = persistent_->blocks().Find(address);
      return block != nullptr && block->address == address;
    }));
  }
  plan_ = &plan;
  return true;
}

bool AllocatorImpl::BackPlaces(const Plan& plan) {
  const Region& region = transient_->region();
  std::vector<bool> needed(region.positions());
  if (plan.footprint() > needed.size() * chunk_size_) return false;
  for (const Extent& extent : plan.covered()) {
    for (Bytes i = extent.offset / chunk_size_; i <= (extent.end() - 1) / chunk_size_; ++i) needed[i] = true;
  }
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
  constexpr Bytes kWorthAWait = 64, kWorthOneWait = 1024;  // one part in so many
  EndLease();
  const Bytes unused = UnusedPrivate() + (arena_too ? UnusedArena() : 0);
  const Bytes worth = arena_too && std::exchange(lodgers_came_, false) ? kWorthOneWait : kWorthAWait;
  if (unused * worth > Reserved() && WaitForDevice().ok()) {
    const InContext in_context(driver_, context_);
    AllStreamsPassed();
    ReleaseEmptyPrivate(*persistent_);
    ReleaseEmptyPrivate(*transient_);
    if (arena_too) TrimArena(/*idle_turns=*/0);
    CountReserved();
  }
  if (!arena_too) return;
  steps_since_tidy_ = 0;
  ForgetArenaUse();
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
