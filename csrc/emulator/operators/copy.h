// aten::copy_ on, to and from the emulated device.
#ifndef HOCKET_CSRC_EMULATOR_OPERATORS_COPY_H_
#define HOCKET_CSRC_EMULATOR_OPERATORS_COPY_H_

#include <ATen/core/Tensor.h>

namespace hocket::emulator {

at::Tensor& Copy(at::Tensor& self, const at::Tensor& source, bool non_blocking);

}  // namespace hocket::emulator

#endif  // HOCKET_CSRC_EMULATOR_OPERATORS_COPY_H_
