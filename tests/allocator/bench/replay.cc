// Replays a recorded history of allocations (history.h, on stdin) over the allocator, with a hand-over after
// every step, and says what it cost. The last step is repeated as often as asked (the last three in turn,
// where they differ).
//
//   zcat gpt.txt.gz | hocket_allocator_replay 16MiB 20 [--json]
//
// --json: a line of JSON for each step instead (bytes; what was counted, of this step alone; "steady":
// whether the last recorded step was repeated, not the last three in turn).
//
// Run with HOCKET_EMULATOR_MEMORY large enough for the history; no byte of it is touched.
#include <cstdio>
#include <iostream>
#include <string>
#include <vector>

#include "allocator/caching_allocator.h"
#include "csrc/base/check.h"
#include "tests/allocator/bench/history.h"
#include "tests/allocator/emulated_gpu.h"

namespace hocket {
namespace {

class Replay {
 public:
  Replay(Bytes chunk, bool steady, bool json) : steady_(steady), json_(json) {
    auto made = CachingAllocator::Create(gpu_.driver(), {.chunk_size = chunk}, &gate_);
    HOCKET_CHECK(made.ok()) << made.status().message();
    allocator_ = *std::move(made);
  }

  void Run(const bench::History& history) {
    blocks_.resize(history.blocks);
    for (const bench::Step& step : history.steps) {
      if (step.number != step_) Boundary(step.number);
      for (const bench::Event& event : step.events) event.frees ? Free(event) : Allocate(event);
    }
    Boundary(-1);
  }

 private:
  void Allocate(const bench::Event& event) {
    const auto block = allocator_->Malloc(event.size, nullptr);
    HOCKET_CHECK(block.ok()) << block.status().message();
    blocks_[event.block] = *block;
    live_ += event.size;
    live_peak_ = std::max(live_peak_, live_);
    const Holdings held = allocator_->Held();
    held_peak_ = std::max(held_peak_, held.persistent + held.arena);
  }
  void Free(const bench::Event& event) {
    allocator_->Free(blocks_[event.block]);
    live_ -= event.size;
  }

  void Boundary(int next) {
    if (step_ >= 0) allocator_->EndStep();
    allocator_->Lock();
    allocator_->PassTurn();
    allocator_->Unlock();
    const Holdings held = allocator_->Held();
    json_ ? PrintJson(held) : Print(held);
    before_ = held;
    Bytes missing = 0;
    HOCKET_CHECK(allocator_->TakeTurn(/*for_step=*/false, &missing).ok()) << missing;
    if (next >= 0) allocator_->BeginStep();
    step_ = next;
    live_peak_ = live_;
    held_peak_ = 0;
    gpu_.ForgetCalls();
  }

  void Print(const Holdings& held) {
    auto calls = gpu_.Calls();
    std::printf(
        "step %2d  live peak %7.1f MiB  held peak %7.1f (%.3f x)  after: live %7.1f, persistent %7.1f, arena "
        "%7.1f  "
        "adopted %6.1f  create %d map %d unmap %d\n",
        step_, MiB(live_peak_), MiB(held_peak_), held_peak_ / static_cast<double>(live_peak_), MiB(live_),
        MiB(held.persistent), MiB(held.arena), MiB(held.adopted_total - before_.adopted_total),
        calls["MemCreate"], calls["MemMap"], calls["MemUnmap"]);
  }
  void PrintJson(const Holdings& held) const {
    std::printf(
        "{\"step\": %d, \"live\": %zu, \"persistent\": %zu, \"arena\": %zu, \"adopted\": %zu, "
        "\"survived\": %zu, \"foreseen\": %zu, \"allocations\": %zu, \"planned\": %zu, "
        "\"deviating\": %zu, \"steady\": %s}\n",
        step_, live_, held.persistent, held.arena, held.adopted_total - before_.adopted_total,
        held.survived_total - before_.survived_total, held.foreseen_total - before_.foreseen_total,
        held.step_allocations - before_.step_allocations,
        held.planned_allocations - before_.planned_allocations,
        held.deviating_allocations - before_.deviating_allocations, steady_ ? "true" : "false");
  }
  static double MiB(Bytes bytes) { return static_cast<double>(bytes) / (1 << 20); }

  testing::EmulatedGpu& gpu_ = testing::EmulatedGpu::Get();
  testing::ScriptedGate gate_;
  const bool steady_;
  const bool json_;
  std::unique_ptr<CachingAllocator> allocator_;
  std::vector<DevicePtr> blocks_;
  Holdings before_;  // at the last boundary
  int step_ = -1;
  Bytes live_ = 0;
  Bytes live_peak_ = 0;
  Bytes held_peak_ = 0;
};

}  // namespace
}  // namespace hocket

int main(int argc, char** argv) {
  const auto chunk = hocket::ParseBytes(argc >= 2 ? argv[1] : "");
  const bool json = argc == 4 && std::string(argv[3]) == "--json";
  if (!chunk.ok() || (argc > 3 && !json)) {
    std::fprintf(stderr, "usage: hocket_allocator_replay CHUNK_SIZE [REPETITIONS [--json]] < HISTORY\n");
    return 2;
  }
  auto history = hocket::bench::History::Read(std::cin);
  const int times = argc >= 3 ? std::atoi(argv[2]) : 0;
  const bool steady = history.Steady();
  steady ? history.Repeat(times) : history.Cycle(times, /*outlives=*/true);
  hocket::Replay(*chunk, steady, json).Run(history);
  return 0;
}
