// Sharing device memory and events with other processes the way torch.multiprocessing does: refused, saying
// what to do instead. (Hocket itself shares chunks by the driver's file descriptors.)
#include "csrc/emulator/runtime/call.h"

using hocket::emulator::FinishWith;

namespace {

cudaError_t RefuseSharing() {
  return FinishWith(cudaErrorNotSupported,
                    "the emulated GPU cannot share CUDA tensors or events between processes (CUDA IPC); "
                    "send CPU tensors and move them there");
}

}  // namespace

HOCKET_RUNTIME_EXPORT cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t*, void*) { return RefuseSharing(); }

HOCKET_RUNTIME_EXPORT cudaError_t cudaIpcOpenMemHandle(void**, cudaIpcMemHandle_t, unsigned) {
  return RefuseSharing();
}

HOCKET_RUNTIME_EXPORT cudaError_t cudaIpcCloseMemHandle(void*) { return RefuseSharing(); }

HOCKET_RUNTIME_EXPORT cudaError_t cudaIpcGetEventHandle(cudaIpcEventHandle_t*, cudaEvent_t) {
  return RefuseSharing();
}

HOCKET_RUNTIME_EXPORT cudaError_t cudaIpcOpenEventHandle(cudaEvent_t*, cudaIpcEventHandle_t) {
  return RefuseSharing();
}
