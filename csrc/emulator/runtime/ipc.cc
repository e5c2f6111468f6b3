// Device memory and events of one process in another, as torch.multiprocessing shares CUDA tensors: the
// driver's, under the runtime's names.
#include <cstring>

#include "csrc/emulator/runtime/call.h"

using hocket::emulator::Finish;

namespace {

template <typename To, typename From>
To SameBytes(const From& from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  std::memcpy(&to, &from, sizeof to);
  return to;
}

}  // namespace

HOCKET_RUNTIME_EXPORT cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t* handle, void* pointer) {
  HOCKET_ENTER();
  return Finish(
      cuIpcGetMemHandle(reinterpret_cast<CUipcMemHandle*>(handle), reinterpret_cast<CUdeviceptr>(pointer)));
}

HOCKET_RUNTIME_EXPORT cudaError_t cudaIpcOpenMemHandle(void** pointer, cudaIpcMemHandle_t handle,
                                                       unsigned flags) {
  HOCKET_ENTER();
  return Finish(
      cuIpcOpenMemHandle(reinterpret_cast<CUdeviceptr*>(pointer), SameBytes<CUipcMemHandle>(handle), flags));
}

HOCKET_RUNTIME_EXPORT cudaError_t cudaIpcCloseMemHandle(void* pointer) {
  HOCKET_ENTER();
  return Finish(cuIpcCloseMemHandle(reinterpret_cast<CUdeviceptr>(pointer)));
}

HOCKET_RUNTIME_EXPORT cudaError_t cudaIpcGetEventHandle(cudaIpcEventHandle_t* handle, cudaEvent_t event) {
  HOCKET_ENTER();
  return Finish(cuIpcGetEventHandle(reinterpret_cast<CUipcEventHandle*>(handle), event));
}

HOCKET_RUNTIME_EXPORT cudaError_t cudaIpcOpenEventHandle(cudaEvent_t* event, cudaIpcEventHandle_t handle) {
  HOCKET_ENTER();
  return Finish(cuIpcOpenEventHandle(event, SameBytes<CUipcEventHandle>(handle)));
}
