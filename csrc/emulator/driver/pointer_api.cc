// What the driver knows about an address.
#include <optional>

#include "csrc/emulator/driver/gpu.h"

using hocket::DevicePtr;
using hocket::cuda::Result;
using namespace hocket::emulator;  // NOLINT: one file of forwarding functions
namespace cuda = hocket::cuda;

namespace {

enum Attribute {
  kContext = 1,
  kMemoryType = 2,
  kDevicePointer = 3,
  kHostPointer = 4,
  kSyncMemops = 6,
  kBufferId = 7,
  kIsManaged = 8,
  kDeviceOrdinal = 9,
  kIsLegacyIpcCapable = 10,
  kRangeStart = 11,
  kRangeSize = 12,
  kMapped = 13,
  kAllowedHandleTypes = 14,
  kAccessFlags = 16,
};

template <typename T>
Result Answer(void* data, T value) {
  *static_cast<T*>(data) = value;
  return cuda::kSuccess;
}

Result DeviceAttribute(void* data, int attribute, DevicePtr address, const MappedRange& range) {
  const Mapping& mapping = range.mapping;
  const bool on_host = mapping.chunk->device() == kOnHost;
  switch (attribute) {
    case kContext:
      if (on_host) return Answer<cuda::Context>(data, nullptr);
      if (const Result result = Gpu::Get().MakeContext(mapping.chunk->device())) return result;
      return Answer(data, Gpu::Get().PrimaryContext(mapping.chunk->device())->handle());
    case kMemoryType:
      return Answer<unsigned>(data, on_host ? cuda::kMemoryTypeHost : cuda::kMemoryTypeDevice);
    case kDevicePointer:
      return Answer<DevicePtr>(data, address);
    case kBufferId:
      return Answer<unsigned long long>(data, mapping.chunk->id());
    case kSyncMemops:
    case kIsManaged:
      return Answer<unsigned>(data, 0);
    case kDeviceOrdinal:
      return Answer<int>(data, on_host ? 0 : mapping.chunk->device());
    case kIsLegacyIpcCapable:
      return Answer<unsigned>(data, mapping.allocated ? 1 : 0);
    case kRangeStart:
      return Answer<DevicePtr>(data, range.address);
    case kRangeSize:
      return Answer<std::size_t>(data, mapping.size);
    case kMapped:
      return Answer<unsigned>(data, 1);
    case kAllowedHandleTypes:
      return Answer<unsigned long long>(data, mapping.allocated || on_host ? 0 : cuda::kHandlePosixFd);
    case kAccessFlags:
      return Answer<int>(data, mapping.access);
    default:
      return cuda::kInvalidValue;
  }
}

Result HostAttribute(void* data, int attribute, DevicePtr address, const PinnedRange& range) {
  switch (attribute) {
    case kContext:
      if (const Result result = Gpu::Get().MakeContext(0)) return result;
      return Answer(data, Gpu::Get().PrimaryContext(0)->handle());
    case kMemoryType:
      return Answer<unsigned>(data, cuda::kMemoryTypeHost);
    case kDevicePointer:
    case kHostPointer:
      return Answer<DevicePtr>(data, address);
    case kIsManaged:
    case kSyncMemops:
    case kIsLegacyIpcCapable:
      return Answer<unsigned>(data, 0);
    case kDeviceOrdinal:
      return Answer<int>(data, 0);
    case kRangeStart:
      return Answer<DevicePtr>(data, range.address);
    case kRangeSize:
      return Answer<std::size_t>(data, range.size);
    case kMapped:
      return Answer<unsigned>(data, 1);
    default:
      return cuda::kInvalidValue;
  }
}

Result PointerAttribute(void* data, int attribute, DevicePtr address) {
  Gpu& gpu = Gpu::Get();
  if (data == nullptr) return cuda::kInvalidValue;
  if (const auto range = gpu.memory().At(address)) return DeviceAttribute(data, attribute, address, *range);
  if (const auto range = gpu.host().At(address)) return HostAttribute(data, attribute, address, *range);
  return cuda::kInvalidValue;
}

}  // namespace

HOCKET_DRIVER_API Result cuPointerGetAttribute(void* data, int attribute, DevicePtr address) {
  HOCKET_ENTER_QUERY();
  return PointerAttribute(data, attribute, address);
}

// Leaves what it does not know at zero, as a GPU's driver does.
HOCKET_DRIVER_API Result cuPointerGetAttributes(unsigned count, int* attributes, void** data,
                                                DevicePtr address) {
  HOCKET_ENTER_QUERY();
  if (attributes == nullptr || data == nullptr) return cuda::kInvalidValue;
  for (unsigned i = 0; i < count; ++i) {
    if (PointerAttribute(data[i], attributes[i], address) == cuda::kSuccess) continue;
    const bool is_wide = attributes[i] == kContext || attributes[i] == kDevicePointer ||
                         attributes[i] == kHostPointer || attributes[i] == kRangeStart ||
                         attributes[i] == kRangeSize;
    if (is_wide) {
      *static_cast<std::uint64_t*>(data[i]) = 0;
    } else {
      *static_cast<int*>(data[i]) = attributes[i] == kDeviceOrdinal ? -2 : 0;
    }
  }
  return cuda::kSuccess;
}

HOCKET_DRIVER_API Result cuPointerSetAttribute(const void*, int attribute, DevicePtr address) {
  HOCKET_ENTER_QUERY();
  return attribute == kSyncMemops && Gpu::Get().memory().At(address) ? cuda::kSuccess : cuda::kInvalidValue;
}
