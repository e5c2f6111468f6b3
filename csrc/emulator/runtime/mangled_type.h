// Types of elements in the mangled names of PyTorch's kernels.
#ifndef HOCKET_CSRC_EMULATOR_RUNTIME_MANGLED_TYPE_H_
#define HOCKET_CSRC_EMULATOR_RUNTIME_MANGLED_TYPE_H_

namespace hocket::emulator {

// Bytes of an element of the type whose mangled name begins there; four if it is not spelt out.
double MangledTypeBytes(const char* type);

}  // namespace hocket::emulator

#endif  // HOCKET_CSRC_EMULATOR_RUNTIME_MANGLED_TYPE_H_
