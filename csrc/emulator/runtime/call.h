// What every call of the emulated CUDA runtime does first and last.
//
//   torch -> cudaXxx (here) -> cuXxx (csrc/emulator/driver) -> shared device state
//
// The runtime keeps no device state of its own: a device's memory, streams and events are the driver's.
// It keeps, per thread, the current device and the last error, as the real runtime does.
//
// Enter() makes the thread's device current in the driver (retaining its primary context the first time)
// and, once per process, loads the operators (operators_loader.h). Finish() records an error for
// cudaGetLastError() and returns it. Driver and runtime number their errors alike, so a CUresult is a
// cudaError_t.
#ifndef HOCKET_CSRC_EMULATOR_RUNTIME_CALL_H_
#define HOCKET_CSRC_EMULATOR_RUNTIME_CALL_H_

#include <cuda.h>
#include <cuda_runtime_api.h>

// A symbol that torch's libraries find here before they find the vendor's.
#define HOCKET_RUNTIME_EXPORT extern "C" __attribute__((visibility("default")))

namespace hocket::emulator {

// Readies the driver, this thread's context and the operators. Not cudaSuccess: the call cannot go on.
cudaError_t Enter();

// As Enter(), for calls that torch's libraries may make while they are being loaded: touches no context
// and loads no operators.
cudaError_t EnterDuringLoad();

// What a kernel of this process has failed with, for good; cudaSuccess: none has.
cudaError_t Lost();

// Records `error` for cudaGetLastError() unless it is a success, and returns it.
cudaError_t Finish(cudaError_t error);
inline cudaError_t Finish(CUresult result) { return Finish(static_cast<cudaError_t>(result)); }

// Records `error`, described by `message` (kept until this thread's next one), and returns it.
cudaError_t FinishWith(cudaError_t error, const char* message);

// The device that cudaSetDevice() chose on this thread.
int CurrentDevice();

}  // namespace hocket::emulator

// Begins a call: returns its error if the emulated device cannot be used, or no longer.
#define HOCKET_ENTER()                                                         \
  if (cudaError_t error = ::hocket::emulator::Enter(); error != cudaSuccess) { \
    return ::hocket::emulator::Finish(error);                                  \
  }                                                                            \
  if (cudaError_t error = ::hocket::emulator::Lost(); error != cudaSuccess) {  \
    return ::hocket::emulator::Finish(error);                                  \
  }

#endif  // HOCKET_CSRC_EMULATOR_RUNTIME_CALL_H_
