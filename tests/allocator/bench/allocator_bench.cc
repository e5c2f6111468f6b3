// What an allocation costs on the CPU, on the emulated device. Google Benchmark; run with
// --benchmark_repetitions=10 and quote the median with its spread.
#include <benchmark/benchmark.h>

#include <vector>

#include "csrc/base/check.h"
#include "tests/allocator/emulated_gpu.h"

namespace hocket {
namespace {

using testing::EmulatedGpu;
using testing::ScriptedGate;

std::unique_ptr<CachingAllocator> NewAllocator(ScriptedGate& gate) {
  auto made = CachingAllocator::Create(EmulatedGpu::Get().driver(), {.chunk_size = 2_MiB}, &gate);
  HOCKET_CHECK(made.ok()) << made.status().message();
  return *std::move(made);
}

// A block is taken from the cache and given back, beside `range(0)` blocks in use.
void BM_MallocFree(benchmark::State& state) {
  ScriptedGate gate;
  const auto allocator = NewAllocator(gate);
  std::vector<DevicePtr> others;
  for (int i = 0; i < state.range(0); ++i)
    others.push_back(*allocator->Malloc(4_KiB + 512 * (i % 64), nullptr));
  for (std::size_t i = 0; i < others.size(); i += 2) allocator->Free(others[i]);
  for (auto _ : state) allocator->Free(*allocator->Malloc(8_KiB, nullptr));
  for (std::size_t i = 1; i < others.size(); i += 2) allocator->Free(others[i]);
}
BENCHMARK(BM_MallocFree)->Arg(0)->Arg(100)->Arg(3000);

// The same, in a step, where the transient region has `range(0)` empty chunks of an arena. (A device that
// is large enough: HOCKET_EMULATOR_MODE=timing HOCKET_EMULATOR_MEMORY=160GiB, which takes no host memory.)
void BM_MallocFreeInAStepWithALargeArena(benchmark::State& state) {
  ScriptedGate gate;
  const auto allocator = NewAllocator(gate);
  allocator->BeginStep();
  allocator->Free(*allocator->Malloc(static_cast<Bytes>(state.range(0)) * 2_MiB, nullptr));
  for (auto _ : state) allocator->Free(*allocator->Malloc(8_KiB, nullptr));
  allocator->EndStep();
}
BENCHMARK(BM_MallocFreeInAStepWithALargeArena)->Arg(10)->Arg(100)->Arg(15'000);

// An arena grows by `range(0)` chunks, one by one, and is given back.
void BM_GrowChunkByChunk(benchmark::State& state) {
  ScriptedGate gate;
  std::vector<DevicePtr> blocks(static_cast<std::size_t>(state.range(0)));
  for (auto _ : state) {
    const auto allocator = NewAllocator(gate);
    allocator->BeginStep();
    for (DevicePtr& block : blocks) block = *allocator->Malloc(2_MiB, nullptr);
    for (const DevicePtr block : blocks) allocator->Free(block);
    allocator->EndStep();
    allocator->DropWholeArena();
  }
}
BENCHMARK(BM_GrowChunkByChunk)->Arg(100)->Arg(5'000)->Arg(15'000)->Unit(benchmark::kMillisecond);

// The turn passes and comes back, with `range(0)` arena chunks in use: no driver call but the drain.
void BM_HandOverOfASettledArena(benchmark::State& state) {
  ScriptedGate gate;
  const auto allocator = NewAllocator(gate);
  for (auto _ : state) {
    allocator->BeginStep();
    allocator->Free(*allocator->Malloc(static_cast<Bytes>(state.range(0)) * 2_MiB, nullptr));
    allocator->EndStep();
    allocator->Lock();
    allocator->PassTurn();
    allocator->Unlock();
    Bytes missing = 0;
    HOCKET_CHECK(allocator->TakeTurn(/*for_step=*/false, &missing).ok()) << missing;
  }
}
BENCHMARK(BM_HandOverOfASettledArena)->Arg(1)->Arg(100)->Arg(15'000)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace hocket

BENCHMARK_MAIN();
