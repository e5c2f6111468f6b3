// What a kernel, or an operator that is taken as one, has to do: what the timing model (cost.h) makes a time
// of. Plain C++, because pieces of the emulated GPU say it to each other that share no libraries
// (emulator_api.h).
#ifndef HOCKET_CSRC_EMULATOR_TIMING_KERNEL_WORK_H_
#define HOCKET_CSRC_EMULATOR_TIMING_KERNEL_WORK_H_

namespace hocket::emulator::timing {

// Kinds of work that have rates of their own.
enum class OperatorClass {
  kOther,
  kElementwise,
  kReduction,
  kNormalisation,  // softmax too
  kGather,         // embeddings and indices, both ways
  kOptimizer,      // over lists of tensors: foreach and fused
  kConvolution,
  kAttention,
};

struct KernelWork {
  OperatorClass of = OperatorClass::kOther;
  double bytes = 0;       // that go through device memory, each as often as it is read or written
  double operations = 0;  // floating-point; counted for convolutions and attention only
  int element = 4;        // bytes of one
};

}  // namespace hocket::emulator::timing

#endif  // HOCKET_CSRC_EMULATOR_TIMING_KERNEL_WORK_H_
