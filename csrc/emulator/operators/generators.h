// Random numbers: torch.Generator("cuda") draws what torch.Generator("cpu") draws.
//
// A CUDA generator's state is a seed and an offset, nothing more, and programs save and restore just these
// (activation checkpointing, torch.cuda.get_rng_state). Its twin is the CPU's generator with that seed after
// as many 32-bit draws as the offset says (in steps of kOffsetStep, which is what CUDA's generators count
// in). After each drawing operator the draws are counted and the offset moves on. So the same seed gives the
// CPU's own values, however many operators draw, and a restored state gives them again. One difference
// remains: the second value of a pair of normal numbers that an operator did not need is dropped, because no
// offset could tell of it; the CPU keeps it for the next operator.
#ifndef HOCKET_CSRC_EMULATOR_OPERATORS_GENERATORS_H_
#define HOCKET_CSRC_EMULATOR_OPERATORS_GENERATORS_H_

#include <ATen/core/Generator.h>

#include <optional>

namespace hocket::emulator {

inline constexpr uint64_t kOffsetStep = 4;

// Where a launch of a CUDA graph finds the generator's state: torch puts seed and offset there before it, and
// the operator has its own place behind the offset. Without addresses the operator drew nothing.
struct CapturedDraws {
  const int64_t* seed = nullptr;  // device addresses
  const int64_t* offset = nullptr;
  uint64_t within_graph = 0;
};

// For one operator: a CPU generator in the state that the CUDA generator says. Destruction counts what was
// drawn and moves the CUDA generator on. Where the stream captures there is no such state: any numbers are
// drawn, and their count becomes the graph's.
class GeneratorTwin {
 public:
  // `generator` is a CUDA generator, or nothing for `device`'s default one.
  GeneratorTwin(const std::optional<at::Generator>& generator, c10::Device device);
  ~GeneratorTwin();
  GeneratorTwin(const GeneratorTwin&) = delete;
  GeneratorTwin& operator=(const GeneratorTwin&) = delete;

  const at::Generator& cpu() const { return cpu_; }
  // What destruction does, now. Nothing outside a capture.
  std::optional<CapturedDraws> Finish();

 private:
  at::Generator cuda_;
  const bool captured_;
  const uint64_t seed_, offset_;
  at::Generator cpu_;
  bool finished_ = false;
};

// For one operator of a graph that is launched: the CPU generator in the state that the launch says.
class LaunchedTwin {
 public:
  explicit LaunchedTwin(const CapturedDraws& draws);
  ~LaunchedTwin();
  LaunchedTwin(const LaunchedTwin&) = delete;
  LaunchedTwin& operator=(const LaunchedTwin&) = delete;

  const at::Generator& cpu() const { return cpu_; }

 private:
  const uint64_t seed_, offset_;
  at::Generator cpu_;
};

// The same for an operator that draws from the default generator without being given one: meanwhile the CPU's
// default generator is in the state of `twin`'s; afterwards it is as it was, and `twin`'s has drawn.
// `twin` must outlive it.
class AsDefaultGenerator {
 public:
  explicit AsDefaultGenerator(const at::Generator& twin);
  ~AsDefaultGenerator();
  AsDefaultGenerator(const AsDefaultGenerator&) = delete;
  AsDefaultGenerator& operator=(const AsDefaultGenerator&) = delete;

 private:
  const at::Generator twin_, saved_;
};

}  // namespace hocket::emulator

#endif  // HOCKET_CSRC_EMULATOR_OPERATORS_GENERATORS_H_
