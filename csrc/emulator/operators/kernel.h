// A kernel that runs on the calling thread in place of the current stream.
#ifndef HOCKET_CSRC_EMULATOR_OPERATORS_KERNEL_H_
#define HOCKET_CSRC_EMULATOR_OPERATORS_KERNEL_H_

#include <c10/core/Device.h>

#include "csrc/emulator/emulator_api.h"

namespace hocket::emulator {

// The current stream of `device`, whose context is current on this thread then.
HocketEmulatorStream CurrentStream(c10::Device device);

// Where a kernel's results go.
enum class Results {
  kGiven,  // into what it is given
  kFresh,  // into new memory
};

// From construction to destruction the calling thread runs the kernel `name` in place of the current stream
// of `device`: the stream's earlier work is done by then, and (check mode) the uses of `ranges` are verified
// and recorded. `name` and `ranges` must outlive it. Kernels nest.
// kFresh: as on a GPU, something has been allocated before the kernel uses memory that was not on the device.
class Kernel {
 public:
  Kernel(const char* name, c10::Device device, const HocketEmulatorRange* ranges, size_t count,
         Results results = Results::kGiven);
  ~Kernel();
  Kernel(const Kernel&) = delete;
  Kernel& operator=(const Kernel&) = delete;

 private:
  const HocketEmulatorStream stream_;
  const HocketEmulatorRange* const ranges_;
  const size_t count_;
};

// The kernel that began last on this thread.
const char* LastKernel();

}  // namespace hocket::emulator

#endif  // HOCKET_CSRC_EMULATOR_OPERATORS_KERNEL_H_
