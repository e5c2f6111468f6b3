// The names and texts of the driver's errors.
#include "csrc/emulator/driver/abi.h"

using hocket::cuda::Result;
namespace cuda = hocket::cuda;

namespace {

struct ErrorText {
  Result result;
  const char* name;
  const char* text;
};

#define HOCKET_ERROR_TEXT(name, number, vendor_name, text) {number, vendor_name, text},
constexpr ErrorText kErrors[] = {
    {cuda::kSuccess, "CUDA_SUCCESS", "no error"},
    {cuda::kInvalidValue, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {cuda::kOutOfMemory, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {cuda::kDeviceUnavailable, "CUDA_ERROR_DEVICE_UNAVAILABLE",
     "CUDA-capable device(s) is/are busy or unavailable"},
    {cuda::kNoDevice, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {cuda::kIllegalAddress, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {cuda::kAssert, "CUDA_ERROR_ASSERT", "device-side assert triggered"},
    {cuda::kLaunchFailed, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    {cuda::kNotReady, "CUDA_ERROR_NOT_READY", "device not ready"},
    HOCKET_DRIVER_ERRORS(HOCKET_ERROR_TEXT)};

const ErrorText* Find(Result result) {
  for (const ErrorText& error : kErrors) {
    if (error.result == result) return &error;
  }
  return nullptr;
}

}  // namespace

HOCKET_DRIVER_API Result cuGetErrorName(Result result, const char** name) {
  const ErrorText* error = Find(result);
  if (name == nullptr) return cuda::kInvalidValue;
  *name = error == nullptr ? nullptr : error->name;
  return error == nullptr ? cuda::kInvalidValue : cuda::kSuccess;
}

HOCKET_DRIVER_API Result cuGetErrorString(Result result, const char** text) {
  const ErrorText* error = Find(result);
  if (text == nullptr) return cuda::kInvalidValue;
  *text = error == nullptr ? nullptr : error->text;
  return error == nullptr ? cuda::kInvalidValue : cuda::kSuccess;
}
