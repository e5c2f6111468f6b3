// What the emulated GPU cannot do, it refuses by name: an error from the call, and one line on stderr the
// first time. It never crashes and never pretends to have done it.
#ifndef HOCKET_CSRC_EMULATOR_RUNTIME_REFUSAL_H_
#define HOCKET_CSRC_EMULATOR_RUNTIME_REFUSAL_H_

#include <cuda_runtime_api.h>

namespace hocket::emulator {

// Values mode: a kernel without a CPU twin. cudaErrorNotSupported, whose message names the kernel.
cudaError_t RefuseKernel(const void* host_function);

}  // namespace hocket::emulator

// A function of the vendor's libraries that nobody here implements (generate_refusals.py makes one caller
// for each). Returns the library's own "not supported" code; the name tells which library it is.
// Timing mode: a cuBLAS function computes nothing anyway, so it takes the shortest time on the stream of
// `handle`, its first argument, and succeeds.
extern "C" int hocket_emulator_refuse(const char* function, const void* handle);

#endif  // HOCKET_CSRC_EMULATOR_RUNTIME_REFUSAL_H_
