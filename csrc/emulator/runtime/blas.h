// Handles of the vendor's math libraries. A handle only remembers its stream: in values mode torch's
// operators never reach these libraries, in timing mode their calls take time on that stream.
#ifndef HOCKET_CSRC_EMULATOR_RUNTIME_BLAS_H_
#define HOCKET_CSRC_EMULATOR_RUNTIME_BLAS_H_

#include <cuda_runtime_api.h>
#include <library_types.h>

namespace hocket::emulator {

struct LibraryHandle {
  cudaStream_t stream = nullptr;
};

// Bytes of one number; a complex one has two.
int ElementBytes(cudaDataType type);

// Timing mode: a call of `function` takes `microseconds` on the stream of its handle.
void TakeTime(const void* handle, const char* function, double microseconds);

}  // namespace hocket::emulator

#endif  // HOCKET_CSRC_EMULATOR_RUNTIME_BLAS_H_
