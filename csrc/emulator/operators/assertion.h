// aten::_assert_async: an assertion on the device.
#ifndef HOCKET_CSRC_EMULATOR_OPERATORS_ASSERTION_H_
#define HOCKET_CSRC_EMULATOR_OPERATORS_ASSERTION_H_

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

namespace hocket::emulator {

// A boxed kernel. Where the first argument's one element is zero, the call succeeds and the process can no
// longer use its devices (hocket_emulator_lose()), as where a kernel of a GPU fails an assertion: the program
// hears of it at its next call. What failed goes to stderr.
void AssertOnDevice(const c10::OperatorHandle& op, torch::jit::Stack* stack);

}  // namespace hocket::emulator

#endif  // HOCKET_CSRC_EMULATOR_OPERATORS_ASSERTION_H_
