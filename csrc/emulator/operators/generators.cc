#include "csrc/emulator/operators/generators.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>

#include <mutex>

namespace hocket::emulator {
namespace {

// What CUDA generators count in.
constexpr uint64_t kOffsetStep = 4;

// Offset 0 is the seed itself; others are spread over all seeds (the finalizer of splitmix64).
uint64_t SeedAt(uint64_t seed, uint64_t offset) {
  if (offset == 0) return seed;
  uint64_t mixed = seed + offset * 0x9E3779B97F4A7C15ull;
  mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9ull;
  mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EBull;
  return mixed ^ (mixed >> 31);
}

uint64_t TakeSeed(at::Generator generator) {
  std::lock_guard<std::mutex> lock(generator.mutex());
  const uint64_t offset = generator.get_offset();
  generator.set_offset(offset + kOffsetStep);
  return SeedAt(generator.current_seed(), offset);
}

}  // namespace

GeneratorTwin::GeneratorTwin(const std::optional<at::Generator>& generator, c10::Device device)
    : cpu_(at::detail::createCPUGenerator(
          TakeSeed(generator ? *generator : at::globalContext().defaultGenerator(device)))) {}

}  // namespace hocket::emulator
