// Loads libhocket_emulator_operators.so into processes that have torch, so that a program (Python or C++)
// sets nothing and calls nothing to have its CUDA operators computed.
#ifndef HOCKET_CSRC_EMULATOR_RUNTIME_OPERATORS_LOADER_H_
#define HOCKET_CSRC_EMULATOR_RUNTIME_OPERATORS_LOADER_H_

namespace hocket::emulator {

// Where libtorch_cuda is loaded and the operators are not yet: loads them from this library's own folder.
// Does nothing in other processes. A library that cannot be loaded ends the process with the reason:
// every operator after it would fail for a reason that nobody could guess.
void LoadOperatorsOnce();

}  // namespace hocket::emulator

// The same, for a program that knows that torch has been imported (python/hocket/emulator).
extern "C" __attribute__((visibility("default"))) void hocket_emulator_load_operators();

#endif  // HOCKET_CSRC_EMULATOR_RUNTIME_OPERATORS_LOADER_H_
