// Random numbers: torch.Generator("cuda") draws what torch.Generator("cpu") draws.
//
// A CUDA generator's state is a seed and an offset, nothing more; programs save and restore just these
// (checkpointing, torch.cuda.get_rng_state). The n-th drawing operator since the seed was set therefore
// draws from a CPU generator that is a function of (seed, offset) alone: at offset 0 it is the CPU generator
// with that seed, so the first drawing operator after manual_seed(s) gives the CPU's own values.
#ifndef HOCKET_CSRC_EMULATOR_OPERATORS_GENERATORS_H_
#define HOCKET_CSRC_EMULATOR_OPERATORS_GENERATORS_H_

#include <ATen/core/Generator.h>

#include <optional>

namespace hocket::emulator {

// For one operator: a CPU generator in the state that the CUDA generator says. The CUDA generator's offset
// moves on when the twin is made, so no two operators draw the same numbers.
class GeneratorTwin {
 public:
  // `generator` is a CUDA generator, or nothing for `device`'s default one.
  GeneratorTwin(const std::optional<at::Generator>& generator, c10::Device device);

  const at::Generator& cpu() const { return cpu_; }

 private:
  at::Generator cpu_;
};

}  // namespace hocket::emulator

#endif  // HOCKET_CSRC_EMULATOR_OPERATORS_GENERATORS_H_
