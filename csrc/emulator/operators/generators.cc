#include "csrc/emulator/operators/generators.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/cuda/CUDAGeneratorImpl.h>

#include <cstring>
#include <deque>
#include <mutex>

#include "csrc/emulator/operators/recording.h"
#include "csrc/emulator/operators/span.h"

namespace hocket::emulator {
namespace {

at::CPUGeneratorImpl* Cpu(const at::Generator& generator) {
  return at::check_generator<at::CPUGeneratorImpl>(generator);
}

// The engine makes its numbers in blocks: how many of the present block are drawn (a new engine has none
// left).
uint64_t DrawnOfBlock(const at::mt19937_data_pod& engine) {
  return engine.left_ == 1 ? at::MERSENNE_STATE_N : engine.next_;
}

bool SameBlock(const at::mt19937& a, const at::mt19937& b) {
  return std::memcmp(a.data().state_.data(), b.data().state_.data(), sizeof(at::mt19937_data_pod::state_)) ==
         0;
}

void Draw(at::mt19937& engine, uint64_t count) {
  for (uint64_t i = 0; i < count; ++i) engine();
}

// The engines that operators have left behind, newest last: a generator goes on where the last operator
// stopped, and a state restored within a step is found here. Another state is drawn up to from its seed.
class Engines {
 public:
  static constexpr size_t kKept = 512;

  at::mt19937 At(uint64_t seed, uint64_t draws) {
    std::lock_guard<std::mutex> lock(mutex_);
    for (auto entry = entries_.rbegin(); entry != entries_.rend(); ++entry) {
      if (entry->seed == seed && entry->draws == draws) return entry->engine;
    }
    at::mt19937 engine(seed);
    Draw(engine, draws);
    return engine;
  }

  void Keep(uint64_t seed, uint64_t draws, const at::mt19937& engine) {
    std::lock_guard<std::mutex> lock(mutex_);
    entries_.push_back({seed, draws, engine});
    if (entries_.size() > kKept) entries_.pop_front();
  }

 private:
  struct Entry {
    uint64_t seed, draws;
    at::mt19937 engine;
  };
  std::mutex mutex_;
  std::deque<Entry> entries_;
};

Engines& TheEngines() {
  static auto* const engines = new Engines;
  return *engines;
}

uint64_t Draws(uint64_t offset) { return offset / kOffsetStep; }

at::Generator TwinAt(uint64_t seed, uint64_t offset) {
  at::Generator twin = at::detail::createCPUGenerator(seed);
  if (offset != 0) Cpu(twin)->set_engine(TheEngines().At(seed, Draws(offset)));
  return twin;
}

uint64_t CountDraws(at::mt19937 engine, const at::mt19937& after) {
  constexpr uint64_t kBlock = at::MERSENNE_STATE_N;
  uint64_t draws = (DrawnOfBlock(after.data()) + kBlock - DrawnOfBlock(engine.data())) % kBlock;
  for (Draw(engine, draws); !SameBlock(engine, after); draws += kBlock) Draw(engine, kBlock);
  return draws;
}

// How much `twin`, which began at this seed and offset, has drawn. Where it stands now is kept.
uint64_t KeepDrawn(uint64_t seed, uint64_t offset, const at::Generator& twin) {
  const at::mt19937 after = Cpu(twin)->engine();
  const uint64_t before = Draws(offset);
  const uint64_t drawn = CountDraws(offset == 0 ? at::mt19937(seed) : TheEngines().At(seed, before), after);
  if (drawn != 0) TheEngines().Keep(seed, before + drawn, after);
  return drawn;
}

int64_t ReadOnDevice(const int64_t* address) {
  return address == nullptr ? 0 : *static_cast<int64_t*>(OnHost(const_cast<int64_t*>(address)));
}

at::Generator& DefaultCpu() {
  static auto* const generator = new at::Generator(at::detail::getDefaultCPUGenerator());
  return *generator;
}

void CopyState(const at::Generator& from, const at::Generator& to) {
  Cpu(to)->set_engine(Cpu(from)->engine());
  Cpu(to)->set_next_float_normal_sample(Cpu(from)->next_float_normal_sample());
  Cpu(to)->set_next_double_normal_sample(Cpu(from)->next_double_normal_sample());
}

}  // namespace

GeneratorTwin::GeneratorTwin(const std::optional<at::Generator>& generator, c10::Device device)
    : cuda_(generator ? *generator : at::globalContext().defaultGenerator(device)),
      captured_(IsCapturing(device)),
      seed_(captured_ ? 0 : cuda_.current_seed()),
      offset_(captured_ ? 0 : cuda_.get_offset()),
      cpu_(TwinAt(seed_, offset_)) {}

GeneratorTwin::~GeneratorTwin() {
  if (!finished_ && !captured_) Finish();
}

std::optional<CapturedDraws> GeneratorTwin::Finish() {
  finished_ = true;
  const uint64_t drawn = KeepDrawn(seed_, offset_, cpu_);
  if (drawn == 0) return captured_ ? std::optional(CapturedDraws()) : std::nullopt;
  std::lock_guard<std::mutex> lock(cuda_.mutex());
  if (!captured_) {
    cuda_.set_offset(offset_ + drawn * kOffsetStep);
    return std::nullopt;
  }
  const at::PhiloxCudaState state =
      at::check_generator<at::CUDAGeneratorImpl>(cuda_)->philox_cuda_state(drawn * kOffsetStep);
  return CapturedDraws{state.seed_.ptr, state.offset_.ptr, state.offset_intragraph_};
}

LaunchedTwin::LaunchedTwin(const CapturedDraws& draws)
    : seed_(static_cast<uint64_t>(ReadOnDevice(draws.seed))),
      offset_(static_cast<uint64_t>(ReadOnDevice(draws.offset)) + draws.within_graph),
      cpu_(TwinAt(seed_, offset_)) {}

LaunchedTwin::~LaunchedTwin() { KeepDrawn(seed_, offset_, cpu_); }

AsDefaultGenerator::AsDefaultGenerator(const at::Generator& twin)
    : twin_(twin), saved_(DefaultCpu().clone()) {
  std::lock_guard<std::mutex> lock(DefaultCpu().mutex());
  CopyState(twin_, DefaultCpu());
}

AsDefaultGenerator::~AsDefaultGenerator() {
  std::lock_guard<std::mutex> lock(DefaultCpu().mutex());
  CopyState(DefaultCpu(), twin_);
  CopyState(saved_, DefaultCpu());
}

}  // namespace hocket::emulator
