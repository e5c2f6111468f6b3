// Operators in CUDA graphs.
//
// While a stream captures, a GPU computes nothing; the graph does, each time it is launched. Here an operator
// runs during the capture all the same, so that its results have sizes (the driver puts back what it
// overwrote), and is recorded: the same CPU kernel over the same addresses, computed again at each launch.
//
//   capture   Recording begins -> the operator runs -> Keep(how to compute it again, what it touches)
//   launch    the driver calls it on the launching thread, in the stream's order
//
// What it may hold on to are host tensors and addresses: as on a GPU, a graph does not keep device memory
// alive.
#ifndef HOCKET_CSRC_EMULATOR_OPERATORS_RECORDING_H_
#define HOCKET_CSRC_EMULATOR_OPERATORS_RECORDING_H_

#include <ATen/core/Tensor.h>
#include <ATen/core/stack.h>

#include <functional>
#include <vector>

#include "csrc/emulator/emulator_api.h"
#include "csrc/emulator/operators/alias.h"

namespace hocket::emulator {

// Calls `change` for every defined tensor in `value`, which may be a list, and puts its result in its place.
void ForEachTensor(c10::IValue& value, const std::function<at::Tensor(const at::Tensor&)>& change);

// Where on the device an operator's results were put: what it allocated is copied there at each launch.
class RecordedResults {
 public:
  // The next of the operator's tensors, in order: as the CPU kernel gave it, and what stands for it on the
  // device.
  void Add(const at::Tensor& result, const at::Tensor& on_device);
  // It wrote what has no one place in memory: launches fail.
  void CannotBeLaunched() { dense_ = false; }
  // The last values on `stack` are the results of a launch. Throws where one has other sizes or strides than
  // in the capture, or where one was or is not dense.
  void Write(torch::jit::Stack& stack) const;
  // What the arguments' aliases and the copies touch.
  std::vector<HocketEmulatorRange> Touched(const Aliases& aliases) const;

 private:
  struct Place {
    void* address;  // nullptr: the operator returned an argument or a view of one, nothing is to be copied
    size_t bytes;
    std::vector<int64_t> sizes, strides;
  };
  std::vector<Place> places_;
  bool dense_ = true;
};

// Does the current stream of `device` capture?
bool IsCapturing(c10::Device device);

// From construction to Keep() or destruction: one operator on the current stream of `device`.
class Recording {
 public:
  // Does nothing where that stream does not capture.
  explicit Recording(c10::Device device);
  // Without Keep(), nothing becomes part of the graph: the operator threw.
  ~Recording();
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

  bool active() const { return active_; }
  // `compute` throws where it cannot; its message is printed and the launch fails.
  void Keep(const char* name, const std::vector<HocketEmulatorRange>& touched, std::function<void()> compute);

 private:
  const c10::Device device_;
  bool active_;
};

}  // namespace hocket::emulator

#endif  // HOCKET_CSRC_EMULATOR_OPERATORS_RECORDING_H_
