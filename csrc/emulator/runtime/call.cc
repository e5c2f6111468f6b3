#include "csrc/emulator/runtime/call.h"

#include <array>
#include <cstdio>

#include "csrc/emulator/emulator_api.h"
#include "csrc/emulator/runtime/operators_loader.h"

namespace hocket::emulator {
namespace {

thread_local cudaError_t last_error = cudaSuccess;
thread_local int current_device = 0;
thread_local bool device_is_current = false;

// Nothing here is to be destroyed: programs call at the process's end, when what their threads had is gone.
// So a message is cut at this length.
constexpr size_t kLongestMessage = 1024;
thread_local std::array<char, kLongestMessage> last_message = {};

// The primary context of `device`, retained once for the life of the process.
CUresult PrimaryContext(int device, CUcontext* context) {
  static thread_local std::array<CUcontext, HOCKET_EMULATOR_MAX_DEVICES> contexts = {};
  if (contexts[device] == nullptr) {
    CUdevice handle = 0;
    if (CUresult error = cuDeviceGet(&handle, device)) return error;
    if (CUresult error = cuDevicePrimaryCtxRetain(&contexts[device], handle)) return error;
  }
  *context = contexts[device];
  return CUDA_SUCCESS;
}

CUresult MakeCurrent(int device) {
  CUcontext context = nullptr;
  if (CUresult error = PrimaryContext(device, &context)) return error;
  return cuCtxSetCurrent(context);
}

}  // namespace

int CurrentDevice() { return current_device; }

cudaError_t EnterDuringLoad() {
  static const CUresult started = cuInit(0);
  return static_cast<cudaError_t>(started);
}

cudaError_t Enter() {
  if (device_is_current) return cudaSuccess;
  if (cudaError_t error = EnterDuringLoad()) return error;
  if (CUresult error = MakeCurrent(current_device)) return static_cast<cudaError_t>(error);
  device_is_current = true;
  LoadOperatorsOnce();
  return cudaSuccess;
}

cudaError_t Lost() { return static_cast<cudaError_t>(hocket_emulator_lost()); }

cudaError_t Finish(cudaError_t error) {
  if (error != cudaSuccess && error != cudaErrorNotReady) {
    last_error = error;
    last_message[0] = '\0';
  }
  return error;
}

cudaError_t FinishWith(cudaError_t error, const char* message) {
  last_error = error;
  std::snprintf(last_message.data(), last_message.size(), "%s", message);
  return error;
}

}  // namespace hocket::emulator

using hocket::emulator::current_device;
using hocket::emulator::device_is_current;
using hocket::emulator::EnterDuringLoad;
using hocket::emulator::Finish;
using hocket::emulator::last_error;
using hocket::emulator::last_message;
using hocket::emulator::Lost;

HOCKET_RUNTIME_EXPORT cudaError_t cudaGetDevice(int* device) {
  *device = current_device;
  return cudaSuccess;
}

HOCKET_RUNTIME_EXPORT cudaError_t cudaSetDevice(int device) {
  if (cudaError_t error = EnterDuringLoad()) return Finish(error);
  int count = 0;
  cuDeviceGetCount(&count);
  if (device < 0 || device >= count) return Finish(cudaErrorInvalidDevice);
  if (device != current_device) device_is_current = false;
  current_device = device;
  return Finish(hocket::emulator::Enter());
}

HOCKET_RUNTIME_EXPORT cudaError_t cudaGetLastError() {
  const cudaError_t error = last_error;
  last_error = cudaSuccess;
  return error != cudaSuccess ? error : Lost();
}

HOCKET_RUNTIME_EXPORT cudaError_t cudaPeekAtLastError() {
  return last_error != cudaSuccess ? last_error : Lost();
}

// The message of a refusal names what was refused; other errors have the driver's words.
HOCKET_RUNTIME_EXPORT const char* cudaGetErrorString(cudaError_t error) {
  if (error == cudaErrorNotSupported && last_message[0] != '\0') return last_message.data();
  const char* text = nullptr;
  cuGetErrorString(static_cast<CUresult>(error), &text);
  return text != nullptr ? text : "unknown error";
}

HOCKET_RUNTIME_EXPORT const char* cudaGetErrorName(cudaError_t error) {
  const char* text = nullptr;
  cuGetErrorName(static_cast<CUresult>(error), &text);
  return text != nullptr ? text : "unknown error";
}
