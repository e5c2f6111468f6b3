// The driver's functions that deal with devices and contexts.
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "csrc/emulator/driver/gpu.h"
#include "csrc/emulator/driver/shared_state.h"

using hocket::cuda::Device;
using hocket::cuda::Result;
using hocket::cuda::Uuid;
using namespace hocket::emulator;  // NOLINT: one file of forwarding functions
namespace cuda = hocket::cuda;

namespace {

// The emulated device is shaped like a GPU of compute capability 9.0 with 132 multiprocessors, so that
// libraries choose the same code paths as there. Attributes not listed are 0.
struct AttributeValue {
  int attribute;
  int value;
};
constexpr AttributeValue kAttributes[] = {
    {1, 1024},         // threads per block
    {2, 1024},         // block, x
    {3, 1024},         // block, y
    {4, 64},           // block, z
    {5, 2147483647},   // grid, x
    {6, 65535},        // grid, y
    {7, 65535},        // grid, z
    {8, 49152},        // shared memory per block
    {9, 65536},        // constant memory
    {10, 32},          // warp size
    {11, 2147483647},  // pitch
    {12, 65536},       // registers per block
    {13, 1980000},     // clock rate, kHz
    {14, 512},         // texture alignment
    {15, 1},           // overlap of copies and kernels
    {16, 132},         // multiprocessors
    {19, 1},           // can map host memory
    {31, 1},           // concurrent kernels
    {36, 2619000},     // memory clock rate, kHz
    {37, 5120},        // memory bus width
    {38, 52428800},    // L2 cache size
    {39, 2048},        // threads per multiprocessor
    {40, 3},           // copy engines
    {41, 1},           // unified addressing
    {75, 9},           // compute capability, major
    {76, 0},           // compute capability, minor
    {78, 1},           // stream priorities
    {79, 1},           // global L1 cache
    {80, 1},           // local L1 cache
    {81, 233472},      // shared memory per multiprocessor
    {82, 65536},       // registers per multiprocessor
    {90, 1},           // compute preemption
    {91, 1},           // host pointers of registered memory can be used
    {95, 1},           // cooperative launch
    {97, 232448},      // shared memory per block, opt-in
    {99, 1},           // host registration
    {102, 1},          // virtual memory management
    {103, 1},          // handles as file descriptors
    {106, 32},         // blocks per multiprocessor
    {111, 1024},       // reserved shared memory per block
    {120, 1},          // clusters
    {125, 1},          // interprocess events
    {129, 1},          // unified function pointers
};

constexpr int kPciBusId = 33;
constexpr const char* kName = "Hocket emulated GPU";

// Differs between users, names and ordinals; the same in every process.
Uuid UuidOf(int device) {
  const std::string seed =
      absl::StrCat("hocket-emulator-", OwnerOf(Settings::Get()), "-", Settings::Get().name, "-", device);
  Uuid uuid;
  for (int half = 0; half < 2; ++half) {
    std::uint64_t hash = 14695981039346656037ull + half;  // FNV-1a
    for (char c : seed) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ull;
    std::memcpy(uuid.bytes + 8 * half, &hash, 8);
  }
  return uuid;
}

Result CheckDevice(Device device) {
  return Gpu::Get().IsDevice(device) ? cuda::kSuccess : cuda::kInvalidDevice;
}

Result CurrentOrError(Context** context) {
  *context = CurrentContext();
  return *context == nullptr ? cuda::kInvalidContext : cuda::kSuccess;
}

}  // namespace

#define HOCKET_CHECK_DEVICE(device) \
  HOCKET_ENTER_QUERY();             \
  if (const Result result = CheckDevice(device)) return result

HOCKET_DRIVER_API Result cuInit(unsigned flags) { return flags != 0 ? cuda::kInvalidValue : Gpu::Start(); }

HOCKET_DRIVER_API Result cuDriverGetVersion(int* version) {
  if (version == nullptr) return cuda::kInvalidValue;
  *version = cuda::kDriverVersion;
  return cuda::kSuccess;
}

// --- devices ---

HOCKET_DRIVER_API Result cuDeviceGetCount(int* count) {
  HOCKET_ENTER_QUERY();
  if (count == nullptr) return cuda::kInvalidValue;
  *count = Gpu::Get().state().devices();
  return cuda::kSuccess;
}

HOCKET_DRIVER_API Result cuDeviceGet(Device* device, int ordinal) {
  HOCKET_CHECK_DEVICE(ordinal);
  *device = ordinal;
  return cuda::kSuccess;
}

HOCKET_DRIVER_API Result cuDeviceGetName(char* name, int length, Device device) {
  HOCKET_CHECK_DEVICE(device);
  if (name == nullptr || length <= 0) return cuda::kInvalidValue;
  std::snprintf(name, static_cast<std::size_t>(length), "%s", kName);
  return cuda::kSuccess;
}

HOCKET_DRIVER_API Result cuDeviceGetUuid_v2(Uuid* uuid, Device device) {
  HOCKET_CHECK_DEVICE(device);
  *uuid = UuidOf(device);
  return cuda::kSuccess;
}
HOCKET_DRIVER_API Result cuDeviceGetUuid(Uuid* uuid, Device device) {
  return cuDeviceGetUuid_v2(uuid, device);
}

HOCKET_DRIVER_API Result cuDeviceTotalMem_v2(std::size_t* bytes, Device device) {
  HOCKET_CHECK_DEVICE(device);
  *bytes = Gpu::Get().state().memory();
  return cuda::kSuccess;
}

HOCKET_DRIVER_API Result cuDeviceGetAttribute(int* value, int attribute, Device device) {
  HOCKET_CHECK_DEVICE(device);
  if (value == nullptr || attribute <= 0) return cuda::kInvalidValue;
  *value = attribute == kPciBusId ? device + 1 : 0;
  if (attribute == cuda::kAttributeComputeMode && Settings::Get().exclusive)
    *value = cuda::kComputeModeExclusiveProcess;
  if (attribute == cuda::kAttributeHostMapping) *value = Settings::Get().host_mapping ? 1 : 0;
  for (const AttributeValue& known : kAttributes) {
    if (known.attribute == attribute) *value = known.value;
  }
  return cuda::kSuccess;
}

HOCKET_DRIVER_API Result cuDeviceGetPCIBusId(char* text, int length, Device device) {
  HOCKET_CHECK_DEVICE(device);
  std::snprintf(text, static_cast<std::size_t>(length), "0000:%02x:00.0", static_cast<unsigned>(device + 1));
  return cuda::kSuccess;
}

HOCKET_DRIVER_API Result cuDeviceGetByPCIBusId(Device* device, const char* text) {
  HOCKET_ENTER_QUERY();
  unsigned bus = 0;
  if (device == nullptr || std::sscanf(text, "%*x:%x:", &bus) != 1) return cuda::kInvalidValue;
  *device = static_cast<int>(bus) - 1;
  return CheckDevice(*device);
}

HOCKET_DRIVER_API Result cuDeviceCanAccessPeer(int* can, Device device, Device peer) {
  HOCKET_CHECK_DEVICE(device);
  *can = Settings::Get().peers && device != peer ? 1 : 0;
  return CheckDevice(peer);
}

// --- primary contexts ---

HOCKET_DRIVER_API Result cuDevicePrimaryCtxRetain(cuda::Context* handle, Device device) {
  HOCKET_CHECK_DEVICE(device);
  if (const Result result = Gpu::Get().MakeContext(device)) return result;
  *handle = Gpu::Get().PrimaryContext(device)->handle();
  return cuda::kSuccess;
}

// The context stays until the process ends: whoever else retained it goes on.
HOCKET_DRIVER_API Result cuDevicePrimaryCtxRelease_v2(Device device) {
  HOCKET_CHECK_DEVICE(device);
  return Gpu::Get().HasContext(device) ? cuda::kSuccess : cuda::kInvalidContext;
}

HOCKET_DRIVER_API Result cuDevicePrimaryCtxSetFlags_v2(Device device, unsigned flags) {
  HOCKET_CHECK_DEVICE(device);
  if (Gpu::Get().MakeContext(device) == cuda::kSuccess) Gpu::Get().PrimaryContext(device)->flags = flags;
  return cuda::kSuccess;
}

HOCKET_DRIVER_API Result cuDevicePrimaryCtxGetState(Device device, unsigned* flags, int* active) {
  HOCKET_CHECK_DEVICE(device);
  const bool exists = Gpu::Get().HasContext(device);
  *flags = exists ? Gpu::Get().PrimaryContext(device)->flags.load() : 0;
  *active = exists ? 1 : 0;
  return cuda::kSuccess;
}

// --- contexts of the calling thread ---

HOCKET_DRIVER_API Result cuCtxGetCurrent(cuda::Context* handle) {
  HOCKET_ENTER_QUERY();
  Context* context = CurrentContext();
  *handle = context == nullptr ? nullptr : context->handle();
  return cuda::kSuccess;
}

HOCKET_DRIVER_API Result cuCtxSetCurrent(cuda::Context handle) {
  HOCKET_ENTER_QUERY();
  Context* context = Gpu::Get().Find(handle);
  if (handle != nullptr && context == nullptr) return cuda::kInvalidContext;
  SetCurrentContext(context);
  return cuda::kSuccess;
}

HOCKET_DRIVER_API Result cuCtxPushCurrent_v2(cuda::Context handle) {
  HOCKET_ENTER_QUERY();
  Context* context = Gpu::Get().Find(handle);
  if (context == nullptr) return cuda::kInvalidContext;
  return PushContext(context);
}

HOCKET_DRIVER_API Result cuCtxPopCurrent_v2(cuda::Context* handle) {
  HOCKET_ENTER_QUERY();
  Context* context = nullptr;
  if (const Result result = PopContext(&context)) return result;
  if (handle != nullptr) *handle = context->handle();
  return cuda::kSuccess;
}

HOCKET_DRIVER_API Result cuCtxGetDevice(Device* device) {
  HOCKET_ENTER_QUERY();
  Context* context;
  if (const Result result = CurrentOrError(&context)) return result;
  *device = context->device();
  return cuda::kSuccess;
}

HOCKET_DRIVER_API Result cuCtxGetDevice_v2(Device* device, cuda::Context handle) {
  HOCKET_ENTER_QUERY();
  const Context* context = Gpu::Get().Find(handle);
  if (context == nullptr) return cuda::kInvalidContext;
  *device = context->device();
  return cuda::kSuccess;
}

HOCKET_DRIVER_API Result cuCtxGetFlags(unsigned* flags) {
  HOCKET_ENTER_QUERY();
  Context* context;
  if (const Result result = CurrentOrError(&context)) return result;
  *flags = context->flags;
  return cuda::kSuccess;
}

HOCKET_DRIVER_API Result cuCtxGetApiVersion(cuda::Context, unsigned* version) {
  HOCKET_ENTER_QUERY();
  *version = cuda::kDriverVersion;
  return cuda::kSuccess;
}

HOCKET_DRIVER_API Result cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  HOCKET_ENTER_QUERY();
  if (least != nullptr) *least = 0;
  if (greatest != nullptr) *greatest = -5;
  return cuda::kSuccess;
}
