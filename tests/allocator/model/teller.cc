#include "tests/allocator/model/teller.h"

#include <algorithm>

#include "tests/allocator/model/blocks.h"

namespace hocket::testing {
namespace {

constexpr Slot kRandomSlots = 72;  // the others are the loops'

}  // namespace

Teller::Teller(std::uint64_t seed) : random_(seed) {
  for (std::uint8_t job = 0; job < kJobs; ++job) {
    for (auto& loop : jobs_[job].loops) loop = DrawLoop(job);
  }
  Tell(Kind::kTakeTurn, holder_, {Draw(2)});
}

Operation Teller::Next() {
  if (told_.empty()) Scene();
  const Operation operation = told_.front();
  told_.pop_front();
  return operation;
}

Operation Teller::NextCommon() {
  for (;;) {
    if (told_.empty()) Draw(40) == 0 ? RunLoop() : Draw(40) == 0 ? ToggleStep() : Use();
    const Operation operation = told_.front();
    told_.pop_front();
    if (!operation.IsRare()) return operation;
  }
}

void Teller::Scene() {
  const unsigned draw = Draw(1000);
  if (draw < 8) return HandOver();
  if (draw < 20) return Rarity();
  if (draw < 40) return ToggleStep();
  if (draw < 48) return TogglePool();
  if (draw < 55) {
    if (Draw(4) == 0) return Tell(Kind::kCheckpointPool, holder_, {1 + Draw(2)});
    return Tell(Kind::kReturnToCheckpoint, holder_);
  }
  if (draw < 70) return Tell(Kind::kFree, static_cast<std::uint8_t>(Draw(kJobs)), {Draw(Blocks::kSlots)});
  if (draw < 85) return RunLoop();
  Use();
}

void Teller::Rarity() {
  const auto any = static_cast<std::uint8_t>(Draw(kJobs));
  switch (Draw(22)) {
    case 0:
    case 1:
    case 2:
      return Tell(Kind::kSpill, any, {Draw(30), Draw(4)});
    case 3:
    case 4:
      return Tell(Kind::kEmptyCache, any);
    case 5:
    case 6:
    case 7:
    case 8:
      return Tell(Kind::kRoom, any, {1 + Draw(3)});
    case 9:
      return Tell(Kind::kLimit, any, {Draw(3) == 0 ? 16 + Draw(48) : 0});
    case 10:
      return Tell(Kind::kDeliver, any);
    case 11:
      if (Draw(4) == 0) return Tell(Kind::kDropArena, any);
      return Tell(Kind::kLook, any);
    case 12:
      if (Draw(4) != 0) return Tell(Kind::kLook, any);
      return NewProcess(any);
    case 13:  // an allocation takes the turn
      ClosePools();
      return Tell(Kind::kMalloc, holder_ = any, {Draw(kRandomSlots), DrawSize(), Draw(kStreams)});
    case 14:
      return Tell(Kind::kRestore, any, {1 + Draw(20)});
    case 15:
      return MoveAgainAndAgain();
    case 16:
    case 17:
      for (unsigned count = 8 + Draw(60); count > 0; --count) {
        Tell(Kind::kStage, any, {Draw(Blocks::kSlots), Draw(4)});
      }
      return;
    case 18:
      return Tell(Kind::kAwait, holder_, {1 + Draw(4), Draw(kStreams)});
    case 19:
    case 20:
      for (unsigned count = 1 + Draw(12); count > 0; --count) Tell(Kind::kStray, any, {Draw(Blocks::kSlots)});
      return;
    case 21:
      return Tell(Kind::kNear, any, {1 + Draw(8)});
    default:
      return Tell(Kind::kLook, any);
  }
}

// As if each other job's turn needed all of the device, while some of the job's memory does not change.
void Teller::MoveAgainAndAgain() {
  ClosePools();
  if (Draw(2) == 0) {
    const Stage least = Draw(3);
    for (Slot slot = 0; slot < Blocks::kSlots; ++slot) {
      Tell(Kind::kStage, holder_, {slot, least + Draw(3)});
    }
  }
  for (unsigned times = 1 + Draw(4); times > 0; --times) {
    for (unsigned count = Draw(12); count > 0; --count) Tell(Kind::kDeclare, holder_, {Draw(Blocks::kSlots)});
    Tell(Kind::kPassTurn, holder_, {1});
    Tell(Kind::kTakeTurn, holder_, {Draw(2)});
    if (Draw(4) == 0) Tell(Kind::kAwait, holder_, {1 + Draw(4), Draw(kStreams)});
    if (Draw(4) == 0) Tell(Kind::kWrite, holder_, {Draw(Blocks::kSlots), Draw(kStreams)});
  }
}

void Teller::NewProcess(std::uint8_t job) {
  const bool leaves = Draw(2) == 0;  // otherwise it ends wherever it is, in the midst of a capture too
  if (leaves && job == holder_) ClosePools();
  Tell(leaves ? Kind::kLeave : Kind::kRestart, job, {Draw(4) == 0 ? 1u : 0u, Draw(2)});
  jobs_[job].steps = 0;
  jobs_[job].open_pools.clear();
  if (job != holder_) return;
  holder_ = static_cast<std::uint8_t>(Draw(kJobs));
  Tell(Kind::kTakeTurn, holder_, {Draw(2)});
}

std::uint32_t Teller::DrawSize() {
  switch (Draw(20)) {
    case 0:
      return 1 + Draw(12) * (32 << 10);
    case 1:
      return 1 + Draw(128 << 10);
    default:
      return 1 + Draw(6'000);
  }
}

void Teller::Use() {
  const Slot slot = Draw(kRandomSlots);
  const unsigned draw = Draw(20);
  if (draw < 10) return Tell(Kind::kMalloc, holder_, {slot, DrawSize(), Draw(kStreams)});
  if (draw < 17) return Tell(Kind::kFree, holder_, {slot});
  const Kind kind = draw == 17 ? Kind::kRead : draw == 18 ? Kind::kWrite : Kind::kRecord;
  Tell(kind, holder_, {Draw(Blocks::kSlots), Draw(kStreams)});
}

// Some 40 allocations, most of which die in the loop's body; what is left in a slot at its end survives. Half
// of them are of a few sizes, as in a program: one may be taken for another.
std::vector<Operation> Teller::DrawLoop(std::uint8_t job) {
  const auto draw_slot = [this] { return kRandomSlots + Draw(Blocks::kSlots - kRandomSlots); };
  std::vector<Operation> loop;
  for (unsigned i = 0; i < 40; ++i) {
    const std::uint32_t odd = Draw(8) == 0 ? 1 + Draw(64 << 10) : 1 + Draw(6'000);
    const std::uint32_t size = Draw(2) == 0 ? 512u << Draw(5) : odd;
    loop.push_back({Kind::kMalloc, job, {draw_slot(), size, Draw(12) == 0 ? 1u : 0u}});
    if (Draw(2) == 0) loop.push_back({Kind::kFree, job, {draw_slot()}});
    if (Draw(8) == 0) loop.push_back({Kind::kRead, job, {draw_slot(), Draw(kStreams)}});
  }
  for (Slot slot = kRandomSlots + 4; slot < Blocks::kSlots; ++slot)
    loop.push_back({Kind::kFree, job, {slot}});
  return loop;
}

// A few passes of a loop; one line in 300, at times in 25, is left out, or something else happens before it.
void Teller::RunLoop() {
  while (jobs_[holder_].steps > 0) ToggleStep();
  const std::vector<Operation> loop = jobs_[holder_].loops[Draw(4) == 0];
  const unsigned order = Draw(4) == 0 ? 25 : 300;
  for (unsigned passes = 1 + Draw(4); passes > 0; --passes) {
    Tell(Kind::kBeginStep, holder_);
    ++jobs_[holder_].steps;
    for (const Operation& line : loop) {
      const unsigned draw = Draw(order);
      if (draw == 0) continue;
      if (draw == 1 || draw == 2) Use();
      if (draw == 3 && Draw(10) == 0) Tell(Kind::kEmptyCache, holder_);
      if (draw == 4 && Draw(10) == 0) return HandOver();  // in mid-step
      if (draw == 5 && Draw(4) == 0) Tell(Kind::kRoom, holder_, {1 + Draw(3)});
      told_.push_back(line);
    }
    while (jobs_[holder_].steps > 0) ToggleStep();
  }
}

void Teller::ToggleStep() {
  int& steps = jobs_[holder_].steps;
  const bool begins = steps == 0 || (steps < 3 && Draw(4) == 0);
  Tell(begins ? Kind::kBeginStep : Kind::kEndStep, holder_);
  steps += begins ? 1 : -1;
}

void Teller::TogglePool() {
  Job& job = jobs_[holder_];
  if (job.open_pools.size() < 2 && Draw(3) == 0) {
    job.open_pools.push_back(1 + Draw(2));
    return Tell(Kind::kOpenPool, holder_, {job.open_pools.back(), 1 + Draw(2), Draw(2)});
  }
  ClosePools();
  Tell(Kind::kReleasePool, holder_, {1 + Draw(2)});
}

void Teller::ClosePools() {
  for (const std::uint32_t pool : jobs_[holder_].open_pools) Tell(Kind::kClosePool, holder_, {pool});
  jobs_[holder_].open_pools.clear();
}

void Teller::HandOver() {
  ClosePools();
  if (jobs_[holder_].steps > 0 && Draw(2) == 0) ToggleStep();
  Tell(Kind::kPassTurn, holder_, {Draw(4) == 0 ? 1u : 0u});
  holder_ = static_cast<std::uint8_t>(Draw(kJobs));
  Tell(Kind::kTakeTurn, holder_, {Draw(2)});
}

}  // namespace hocket::testing
