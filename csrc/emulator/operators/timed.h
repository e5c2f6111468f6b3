// Timing mode: operators that take their time as one piece of work, by what they do (work.h) and not by the
// kernels that this torch launches for them. A convolution has cuDNN's kernel on a GPU and a dozen others
// here; and a reduction's or an attention's kernels do not tell how much they read.
#ifndef HOCKET_CSRC_EMULATOR_OPERATORS_TIMED_H_
#define HOCKET_CSRC_EMULATOR_OPERATORS_TIMED_H_

#include <torch/library.h>

namespace hocket::emulator {

// Takes them where every call with real tensors comes by, below autograd and above the device's own kernels,
// which then run as ever: memory, checks and order are theirs. `library`: of aten and
// DispatchKey::BackendSelect.
void InstallTimed(torch::Library& library);

}  // namespace hocket::emulator

#endif  // HOCKET_CSRC_EMULATOR_OPERATORS_TIMED_H_
