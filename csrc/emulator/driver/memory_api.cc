// The driver's functions that deal with memory.
#include <algorithm>
#include <optional>
#include <vector>

#include "csrc/emulator/driver/call_time.h"
#include "csrc/emulator/driver/gpu.h"
#include "csrc/emulator/driver/process.h"

using hocket::Bytes;
using hocket::DevicePtr;
using hocket::cuda::AccessDescription;
using hocket::cuda::AllocationProperties;
using hocket::cuda::MemoryHandle;
using hocket::cuda::MemoryLocation;
using hocket::cuda::Result;
using namespace hocket::emulator;  // NOLINT: one file of forwarding functions
namespace cuda = hocket::cuda;

namespace {

DeviceMemory& Memory() { return Gpu::Get().memory(); }

// Check mode: memory is about to go; every use of it must be over.
void CheckOver(const char* name, std::uint64_t address, Bytes size) {
  if (Order* order = Gpu::Get().order()) order->Goes(name, address, size);
}

void Forget(std::uint64_t address, Bytes size) {
  if (Order* order = Gpu::Get().order()) order->Forget(address, size);
}

bool IsHost(const MemoryLocation& location) {
  return location.type == cuda::kLocationHost || location.type == cuda::kLocationHostNode;
}

// Of the machine's one NUMA node, or of any: such memory is no other process's.
Result CheckHostProperties(const AllocationProperties& properties) {
  if (!Settings::Get().host_mapping) return cuda::kNotSupported;
  if (properties.location.type == cuda::kLocationHost) {
    return properties.requested_handle_types == 0 ? cuda::kSuccess : cuda::kInvalidValue;
  }
  return properties.location.id == 0 ? cuda::kSuccess : cuda::kInvalidDevice;
}

// What the emulated devices can do: pinned memory on a device, exportable as a descriptor, or on the host.
Result CheckProperties(const AllocationProperties* properties) {
  if (properties == nullptr || properties->type != cuda::kAllocationPinned) return cuda::kInvalidValue;
  if ((properties->requested_handle_types & ~cuda::kHandlePosixFd) != 0) return cuda::kNotSupported;
  if (IsHost(properties->location)) return CheckHostProperties(*properties);
  // Among others the node of the thread that calls, which memory of its own is not created at.
  if (properties->location.type != cuda::kLocationDevice) return cuda::kInvalidValue;
  return Gpu::Get().IsDevice(properties->location.id) ? cuda::kSuccess : cuda::kInvalidDevice;
}

// What a call over those addresses concerns, where its time depends on it.
std::vector<Extent> Mapped(const CallTime& time, DevicePtr address, Bytes size) {
  return time.Counts() ? Memory().Mapped(address, size) : std::vector<Extent>();
}

}  // namespace

// First line of the functions that need no context. What a GPU's driver answers to them when a kernel has
// failed has not been measured, so both are there.
#define HOCKET_ENTER_MEMORY()            \
  HOCKET_ENTER_QUERY();                  \
  if (Settings::Get().lost_memory_calls) \
    if (const Result lost = Gpu::Lost()) return lost

HOCKET_DRIVER_API Result cuMemGetInfo_v2(std::size_t* free, std::size_t* total) {
  HOCKET_ENTER();
  Context* context = CurrentContext();
  if (context == nullptr) return cuda::kInvalidContext;
  SharedState& state = Gpu::Get().state();
  const Bytes used = state.UsedBytes(context->device());
  if (free != nullptr) *free = state.memory() - std::min(used, state.memory());
  if (total != nullptr) *total = state.memory();
  return cuda::kSuccess;
}

// --- addresses, chunks and the bond of the two ---

HOCKET_DRIVER_API Result cuMemGetAllocationGranularity(std::size_t* granularity,
                                                       const AllocationProperties* properties, int option) {
  HOCKET_ENTER_MEMORY();
  if (granularity == nullptr || option < 0 || option > 1) return cuda::kInvalidValue;
  if (const Result result = CheckProperties(properties)) return result;
  *granularity = Memory().granularity();
  return cuda::kSuccess;
}

HOCKET_DRIVER_API Result cuMemAddressReserve(DevicePtr* address, std::size_t size, std::size_t alignment,
                                             DevicePtr hint, unsigned long long flags) {
  HOCKET_ENTER_MEMORY();
  if (address == nullptr || flags != 0) return cuda::kInvalidValue;
  return Memory().Reserve(size, alignment, hint, address);
}

HOCKET_DRIVER_API Result cuMemAddressFree(DevicePtr address, std::size_t size) {
  HOCKET_ENTER_MEMORY();
  return Memory().FreeAddresses(address, size);
}

HOCKET_DRIVER_API Result cuMemCreate(MemoryHandle* handle, std::size_t size,
                                     const AllocationProperties* properties, unsigned long long flags) {
  HOCKET_ENTER_MEMORY();
  CallTime time;
  if (handle == nullptr || flags != 0) return cuda::kInvalidValue;
  if (const Result result = CheckProperties(properties)) return result;
  const int device = IsHost(properties->location) ? kOnHost : properties->location.id;
  const Result result = Memory().Create(device, size, handle);
  if (result == cuda::kSuccess) time.Creates(device, size);
  return result;
}

HOCKET_DRIVER_API Result cuMemRelease(MemoryHandle handle) {
  HOCKET_ENTER_MEMORY();
  CallTime time;
  const std::optional<Extent> held = Memory().Held(handle);
  const Result result = Memory().Release(handle);
  if (result == cuda::kSuccess && held) time.Releases(*held);
  return result;
}

HOCKET_DRIVER_API Result cuMemMap(DevicePtr address, std::size_t size, std::size_t offset,
                                  MemoryHandle handle, unsigned long long flags) {
  HOCKET_ENTER_MEMORY();
  CallTime time;
  const std::optional<Extent> held = Memory().Held(handle);
  const Result result = flags != 0 ? cuda::kInvalidValue : Memory().Map(address, size, offset, handle);
  if (result == cuda::kSuccess && held) time.Maps(held->device, size);
  return result;
}

HOCKET_DRIVER_API Result cuMemUnmap(DevicePtr address, std::size_t size) {
  HOCKET_ENTER_MEMORY();
  CallTime time;
  if (!Memory().CanUnmap(address, size)) return cuda::kInvalidValue;
  CheckOver("unmap", address, size);
  const std::vector<Extent> mapped = Mapped(time, address, size);
  const Result result = Memory().Unmap(address, size);
  Forget(address, size);
  if (result == cuda::kSuccess) {
    for (const Extent& mapping : mapped) time.Unmaps(mapping);
  }
  return result;
}

HOCKET_DRIVER_API Result cuMemSetAccess(DevicePtr address, std::size_t size, const AccessDescription* access,
                                        std::size_t count) {
  HOCKET_ENTER_MEMORY();
  CallTime time;
  if (access == nullptr || count == 0) return cuda::kInvalidValue;
  std::optional<int> of_devices, of_host;
  for (std::size_t i = 0; i < count; ++i) {
    const MemoryLocation& location = access[i].location;
    if (!IsHost(location) && location.type != cuda::kLocationDevice) return cuda::kNotSupported;
    if (location.type == cuda::kLocationDevice && !Gpu::Get().IsDevice(location.id))
      return cuda::kInvalidDevice;
    std::optional<int>& flags = IsHost(location) ? of_host : of_devices;
    flags = std::max(flags.value_or(cuda::kAccessNone), access[i].flags);
  }
  if (of_host) {
    if (const Result result = Memory().SetHostAccess(address, size, *of_host)) return result;
  }
  if (of_devices) {
    if (const Result result = Memory().SetAccess(address, size, *of_devices)) return result;
  }
  for (const Extent& mapping : Mapped(time, address, size)) {
    for (std::size_t i = 0; i < count; ++i)
      time.LetsReach(IsHost(access[i].location) ? kOnHost : access[i].location.id, mapping);
  }
  return cuda::kSuccess;
}

HOCKET_DRIVER_API Result cuMemGetAccess(unsigned long long* flags, const MemoryLocation* location,
                                        DevicePtr address) {
  HOCKET_ENTER_MEMORY();
  const auto mapped = Memory().At(address);
  if (flags == nullptr || location == nullptr || !mapped) return cuda::kInvalidValue;
  const Mapping& mapping = mapped->mapping;
  *flags = static_cast<unsigned long long>(IsHost(*location) ? mapping.host_access : mapping.access);
  return cuda::kSuccess;
}

HOCKET_DRIVER_API Result cuMemExportToShareableHandle(void* shareable, MemoryHandle handle, int type,
                                                      unsigned long long flags) {
  HOCKET_ENTER_MEMORY();
  if (shareable == nullptr || flags != 0) return cuda::kInvalidValue;
  if (type != cuda::kHandlePosixFd) return cuda::kNotSupported;
  return Memory().Export(handle, static_cast<int*>(shareable));
}

HOCKET_DRIVER_API Result cuMemImportFromShareableHandle(MemoryHandle* handle, void* shareable, int type) {
  HOCKET_ENTER_MEMORY();
  if (handle == nullptr) return cuda::kInvalidValue;
  if (type != cuda::kHandlePosixFd) return cuda::kNotSupported;
  return Memory().Import(static_cast<int>(reinterpret_cast<std::intptr_t>(shareable)), handle);
}

HOCKET_DRIVER_API Result cuMemRetainAllocationHandle(MemoryHandle* handle, void* address) {
  HOCKET_ENTER_MEMORY();
  if (handle == nullptr) return cuda::kInvalidValue;
  return Memory().Retain(reinterpret_cast<DevicePtr>(address), handle);
}

HOCKET_DRIVER_API Result cuMemGetAllocationPropertiesFromHandle(AllocationProperties* properties,
                                                                MemoryHandle handle) {
  HOCKET_ENTER_MEMORY();
  const std::shared_ptr<Chunk> chunk = Memory().Find(handle);
  if (properties == nullptr || chunk == nullptr) return cuda::kInvalidValue;
  *properties = AllocationProperties();
  properties->type = cuda::kAllocationPinned;
  const bool on_host = chunk->device() == kOnHost;
  properties->requested_handle_types = on_host ? 0 : cuda::kHandlePosixFd;
  properties->location = on_host ? MemoryLocation{cuda::kLocationHostNode, 0}
                                 : MemoryLocation{cuda::kLocationDevice, chunk->device()};
  return cuda::kSuccess;
}

// --- memory with its address ---

HOCKET_DRIVER_API Result cuMemAlloc_v2(DevicePtr* address, std::size_t size) {
  HOCKET_ENTER();
  Context* context = CurrentContext();
  if (context == nullptr) return cuda::kInvalidContext;
  if (const Result result = Gpu::Get().captures().CheckUnsafe()) return result;
  return address == nullptr ? cuda::kInvalidValue : Memory().Allocate(context->device(), size, address);
}

// Waits for the device first, as a GPU's driver does.
HOCKET_DRIVER_API Result cuMemFree_v2(DevicePtr address) {
  HOCKET_ENTER();
  if (address == 0) return cuda::kSuccess;
  const auto mapped = Memory().At(address);
  if (!mapped || mapped->address != address || !mapped->mapping.allocated) return cuda::kInvalidValue;
  if (const Result result = Gpu::Get().captures().CheckUnsafe()) return result;
  Gpu::Get().streams().Synchronize(mapped->mapping.chunk->device());
  Forget(address, mapped->mapping.size);
  return Memory().FreeAllocation(address);
}

HOCKET_DRIVER_API Result cuMemGetAddressRange_v2(DevicePtr* base, std::size_t* size, DevicePtr address) {
  HOCKET_ENTER();
  const auto mapped = Memory().At(address);
  if (!mapped) return cuda::kNotFound;
  if (base != nullptr) *base = mapped->address;
  if (size != nullptr) *size = mapped->mapping.size;
  return cuda::kSuccess;
}

// --- host memory ---

HOCKET_DRIVER_API Result cuMemHostAlloc(void** address, std::size_t size, unsigned flags) {
  HOCKET_ENTER();
  CallTime time;
  if (const Result result = Gpu::Get().captures().CheckUnsafe()) return result;
  if (address == nullptr) return cuda::kInvalidValue;
  const Result result = Gpu::Get().host().Allocate(size, flags, address);
  if (result == cuda::kSuccess) time.AllocatesOnHost(size);
  return result;
}

HOCKET_DRIVER_API Result cuMemAllocHost_v2(void** address, std::size_t size) {
  return cuMemHostAlloc(address, size, 0);
}

HOCKET_DRIVER_API Result cuMemFreeHost(void* address) {
  HOCKET_ENTER();
  if (address == nullptr) return cuda::kSuccess;
  const auto range = Gpu::Get().host().At(reinterpret_cast<std::uint64_t>(address));
  if (range) CheckOver("free of pinned memory", range->address, range->size);
  if (range) Forget(range->address, range->size);
  return Gpu::Get().host().Free(address);
}

HOCKET_DRIVER_API Result cuMemHostRegister_v2(void* address, std::size_t size, unsigned flags) {
  HOCKET_ENTER();
  CallTime time;
  const Result result = Gpu::Get().host().Register(address, size, flags);
  if (result == cuda::kSuccess && time.Counts())
    time.Pins(size, Resident(reinterpret_cast<std::uint64_t>(address), size));
  return result;
}

HOCKET_DRIVER_API Result cuMemHostUnregister(void* address) {
  HOCKET_ENTER();
  const auto range = Gpu::Get().host().At(reinterpret_cast<std::uint64_t>(address));
  if (range) CheckOver("unregistering of host memory", range->address, range->size);
  if (range) Forget(range->address, range->size);
  return Gpu::Get().host().Unregister(address);
}

HOCKET_DRIVER_API Result cuMemHostGetDevicePointer_v2(DevicePtr* device_address, void* address, unsigned) {
  HOCKET_ENTER();
  const auto start = reinterpret_cast<std::uint64_t>(address);
  if (device_address == nullptr || !Gpu::Get().host().At(start)) return cuda::kInvalidValue;
  *device_address = start;
  return cuda::kSuccess;
}

HOCKET_DRIVER_API Result cuMemHostGetFlags(unsigned* flags, void* address) {
  HOCKET_ENTER();
  const auto range = Gpu::Get().host().At(reinterpret_cast<std::uint64_t>(address));
  if (flags == nullptr || !range) return cuda::kInvalidValue;
  *flags = range->flags;
  return cuda::kSuccess;
}
