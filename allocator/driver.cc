#include "allocator/driver.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "csrc/base/check.h"
#include "csrc/base/status_macros.h"

namespace hocket {
namespace {

absl::StatusCode CodeOf(cuda::Result result) {
  if (result >= cuda::kCaptureErrors[0] && result <= cuda::kCaptureErrors[1])
    return absl::StatusCode::kFailedPrecondition;
  switch (result) {
    case cuda::kOutOfMemory:
      return absl::StatusCode::kResourceExhausted;
    case cuda::kNoDevice:
      return absl::StatusCode::kUnavailable;
    case cuda::kInvalidValue:
      return absl::StatusCode::kInvalidArgument;
    default:
      return absl::StatusCode::kInternal;
  }
}

bool Lasts(cuda::Result result) {
  return std::find(std::begin(cuda::kLastingErrors), std::end(cuda::kLastingErrors), result) !=
         std::end(cuda::kLastingErrors);
}

std::string Hex(DevicePtr address) { return absl::StrCat("0x", absl::Hex(address)); }

cuda::AllocationProperties PropertiesFor(int device) {
  cuda::AllocationProperties properties{};
  properties.type = cuda::kAllocationPinned;
  properties.requested_handle_types = cuda::kHandlePosixFd;
  properties.location = {cuda::kLocationDevice, device};
  return properties;
}

cuda::AllocationProperties HostProperties(int node) {
  cuda::AllocationProperties properties{};
  properties.type = cuda::kAllocationPinned;
  properties.location = {cuda::kLocationHostNode, node};
  return properties;
}

std::string FormatUuid(const cuda::Uuid& uuid) {
  const std::string hex =
      absl::BytesToHexString(absl::string_view(reinterpret_cast<const char*>(uuid.bytes), sizeof uuid.bytes));
  return absl::StrCat("GPU-", hex.substr(0, 8), "-", hex.substr(8, 4), "-", hex.substr(12, 4), "-",
                      hex.substr(16, 4), "-", hex.substr(20));
}

}  // namespace

template <typename... Args>
absl::Status Driver::Check(cuda::Result result, const Args&... what) const {
  if (result == cuda::kSuccess) return absl::OkStatus();
  if (Lasts(result)) lasting_error_.store(result, std::memory_order_relaxed);
  return absl::Status(CodeOf(result), absl::StrCat(what..., ": ", ErrorName(result)));
}

std::string Driver::LastingError() const {
  const cuda::Result error = lasting_error_.load(std::memory_order_relaxed);
  return error == cuda::kSuccess ? "" : ErrorName(error);
}

std::string Driver::ErrorName(cuda::Result result) const {
  const char* name = nullptr;
  if (call_.GetErrorName(result, &name) != cuda::kSuccess || name == nullptr) {
    return absl::StrCat("driver error ", result);
  }
  return absl::StrCat(name, " (", result, ")");
}

absl::StatusOr<std::unique_ptr<Driver>> Driver::Open() {
  HOCKET_ASSIGN_OR_RETURN(DriverTable table, DriverTable::Load());
  return Open(table);
}

absl::StatusOr<std::unique_ptr<Driver>> Driver::Open(const DriverTable& table) {
  auto driver = std::unique_ptr<Driver>(new Driver(table));
  if (const cuda::Result result = table.Init(0); result != cuda::kSuccess) {
    return absl::UnavailableError(
        absl::StrCat("the CUDA driver does not start: cuInit: ", driver->ErrorName(result),
                     ".\n  See what nvidia-smi says, or try without a GPU: "
                     "hocket emulate -- CMD"));
  }
  return driver;
}

absl::StatusOr<int> Driver::DeviceCount() const {
  int count = 0;
  HOCKET_RETURN_IF_ERROR(Check(call_.DeviceGetCount(&count), "cuDeviceGetCount"));
  return count;
}

absl::StatusOr<std::string> Driver::DeviceName(int device) const {
  char name[256] = {};
  HOCKET_RETURN_IF_ERROR(
      Check(call_.DeviceGetName(name, sizeof name - 1, device), "cuDeviceGetName(", device, ")"));
  return std::string(name);
}

absl::StatusOr<std::string> Driver::DeviceUuid(int device) const {
  cuda::Uuid uuid{};
  HOCKET_RETURN_IF_ERROR(Check(call_.DeviceGetUuid(&uuid, device), "cuDeviceGetUuid(", device, ")"));
  return FormatUuid(uuid);
}

absl::StatusOr<Bytes> Driver::DeviceCapacity(int device) const {
  std::size_t bytes = 0;
  HOCKET_RETURN_IF_ERROR(Check(call_.DeviceTotalMem(&bytes, device), "cuDeviceTotalMem(", device, ")"));
  return bytes;
}

absl::Status Driver::CheckVirtualMemory(int device) const {
  for (const int attribute : {cuda::kAttributeVirtualMemory, cuda::kAttributePosixHandles}) {
    int value = 0;
    HOCKET_RETURN_IF_ERROR(Check(call_.DeviceGetAttribute(&value, attribute, device), "cuDeviceGetAttribute(",
                                 attribute, ", ", device, ")"));
    if (value == 0) {
      return absl::UnavailableError(
          absl::StrCat("device ", device, " cannot map memory that other processes share (driver attribute ",
                       attribute, " is 0).\n  Jobs on it can run, but not share its memory."));
    }
  }
  return absl::OkStatus();
}

// A driver that does not know the attribute (CUDA 12) may have the thing; then trying tells.
absl::StatusOr<int> Driver::NodeToMap(int device, Bytes size) const {
  int can = 0, node = 0;
  const bool says = call_.DeviceGetAttribute(&can, cuda::kAttributeHostMapping, device) == cuda::kSuccess;
  if ((says && can == 0) ||
      call_.DeviceGetAttribute(&node, cuda::kAttributeHostNode, device) != cuda::kSuccess) {
    return absl::UnimplementedError(
        absl::StrCat("the driver cannot map host memory at addresses of device ", device));
  }
  node = std::max(node, 0);
  const cuda::AllocationProperties properties = HostProperties(node);
  std::size_t unit = 0;
  const cuda::Result asked = call_.MemGetAllocationGranularity(&unit, &properties, cuda::kGranularityMinimum);
  if (asked != cuda::kSuccess || unit == 0 || size % unit != 0) {
    return absl::UnimplementedError(absl::StrCat("the driver maps no host memory in chunks of ",
                                                 FormatBytes(size), " (its unit: ", FormatBytes(unit), ")"));
  }
  return node;
}

absl::Status Driver::CheckSharing(int device) const {
  int mode = 0;
  if (call_.DeviceGetAttribute(&mode, cuda::kAttributeComputeMode, device) != cuda::kSuccess)
    return absl::OkStatus();
  const char* const lets = mode == cuda::kComputeModeExclusiveProcess ? "only one process at a time"
                           : mode == cuda::kComputeModeProhibited     ? "no process"
                                                                      : nullptr;
  if (lets == nullptr) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("the compute mode of device ", device, " lets ", lets,
                                             " use it, unless MPS serves it.\n  As root: nvidia-smi -i ",
                                             device, " -c DEFAULT"));
}

absl::StatusOr<ContextHandle> Driver::PrimaryContext(int device) const {
  ContextHandle context = nullptr;
  const cuda::Result result = call_.PrimaryCtxRetain(&context, device);
  if (result == cuda::kDeviceUnavailable) HOCKET_RETURN_IF_ERROR(CheckSharing(device));
  HOCKET_RETURN_IF_ERROR(Check(result, "cuDevicePrimaryCtxRetain(", device, ")"));
  return context;
}

absl::Status Driver::UseContext(ContextHandle context) const {
  return Check(call_.CtxSetCurrent(context), "cuCtxSetCurrent");
}

ContextHandle Driver::CurrentContext() const {
  ContextHandle context = nullptr;
  return call_.CtxGetCurrent(&context) == cuda::kSuccess ? context : nullptr;
}

int Driver::RelaxCaptureMode() const {
  int mode = cuda::kCaptureRelaxed;
  call_.ThreadExchangeStreamCaptureMode(&mode);
  return mode;
}

void Driver::SetCaptureMode(int mode) const { call_.ThreadExchangeStreamCaptureMode(&mode); }

absl::Status Driver::Synchronize() const { return Check(call_.CtxSynchronize(), "cuCtxSynchronize"); }

absl::StatusOr<DeviceMemory> Driver::MemoryInfo() const {
  std::size_t free = 0;
  std::size_t total = 0;
  HOCKET_RETURN_IF_ERROR(Check(call_.MemGetInfo(&free, &total), "cuMemGetInfo"));
  return DeviceMemory{free, total};
}

absl::StatusOr<Bytes> Driver::Granularity(int device) const {
  const cuda::AllocationProperties properties = PropertiesFor(device);
  std::size_t granularity = 0;
  HOCKET_RETURN_IF_ERROR(
      Check(call_.MemGetAllocationGranularity(&granularity, &properties, cuda::kGranularityMinimum),
            "cuMemGetAllocationGranularity(", device, ")"));
  return granularity;
}

absl::StatusOr<DevicePtr> Driver::Reserve(Bytes size, Bytes alignment) const {
  DevicePtr address = 0;
  HOCKET_RETURN_IF_ERROR(Check(call_.MemAddressReserve(&address, size, alignment, 0, 0),
                               "cuMemAddressReserve(", FormatBytes(size), ")"));
  return address;
}

absl::Status Driver::FreeAddresses(DevicePtr address, Bytes size) const {
  return Check(call_.MemAddressFree(address, size), "cuMemAddressFree(", Hex(address), ", ",
               FormatBytes(size), ")");
}

absl::StatusOr<MemoryHandle> Driver::CreateMemory(int device, Bytes size) const {
  const cuda::AllocationProperties properties = PropertiesFor(device);
  MemoryHandle handle = 0;
  HOCKET_RETURN_IF_ERROR(Check(call_.MemCreate(&handle, size, &properties, 0), "cuMemCreate(",
                               FormatBytes(size), ", device ", device, ")"));
  return handle;
}

absl::StatusOr<MemoryHandle> Driver::CreateHostMemory(int node, Bytes size) const {
  const cuda::AllocationProperties properties = HostProperties(node);
  MemoryHandle handle = 0;
  HOCKET_RETURN_IF_ERROR(Check(call_.MemCreate(&handle, size, &properties, 0), "cuMemCreate(",
                               FormatBytes(size), ", host node ", node, ")"));
  return handle;
}

absl::Status Driver::ReleaseMemory(MemoryHandle handle) const {
  return Check(call_.MemRelease(handle), "cuMemRelease");
}

absl::Status Driver::Map(DevicePtr address, Bytes size, MemoryHandle handle, int device) const {
  return MapRun(address, size, {&handle, 1}, device);
}

absl::Status Driver::MapRun(DevicePtr address, Bytes each, absl::Span<const MemoryHandle> handles, int device,
                            bool may_write) const {
  absl::Status status;
  Bytes mapped = 0;
  for (const MemoryHandle handle : handles) {
    status = Check(call_.MemMap(address + mapped, each, 0, handle, 0), "cuMemMap(", Hex(address + mapped),
                   ", ", FormatBytes(each), ")");
    if (!status.ok()) break;
    mapped += each;
  }
  if (status.ok()) status = LetWrite(address, mapped, device, may_write);
  if (!status.ok() && mapped > 0) {
    const absl::Status undone = Unmap(address, mapped);
    HOCKET_CHECK(undone.code() != absl::StatusCode::kInvalidArgument) << undone.message();
  }
  return status;
}

absl::Status Driver::LetWrite(DevicePtr address, Bytes size, int device, bool may_write) const {
  const cuda::AccessDescription access{{cuda::kLocationDevice, device},
                                       may_write ? cuda::kAccessReadWrite : cuda::kAccessRead};
  return Check(call_.MemSetAccess(address, size, &access, 1), "cuMemSetAccess(", Hex(address), ", ",
               FormatBytes(size), may_write ? ", read and write)" : ", read)");
}

absl::Status Driver::LetHostAccess(DevicePtr address, Bytes size, int node) const {
  const cuda::AccessDescription access{{cuda::kLocationHostNode, node}, cuda::kAccessReadWrite};
  return Check(call_.MemSetAccess(address, size, &access, 1), "cuMemSetAccess(", Hex(address), ", ",
               FormatBytes(size), ", host)");
}

absl::Status Driver::Unmap(DevicePtr address, Bytes size) const {
  return Check(call_.MemUnmap(address, size), "cuMemUnmap(", Hex(address), ", ", FormatBytes(size), ")");
}

absl::StatusOr<UniqueFd> Driver::Export(MemoryHandle handle) const {
  int descriptor = -1;
  HOCKET_RETURN_IF_ERROR(
      Check(call_.MemExport(&descriptor, handle, cuda::kHandlePosixFd, 0), "cuMemExportToShareableHandle"));
  return UniqueFd(descriptor);
}

absl::StatusOr<MemoryHandle> Driver::Import(const UniqueFd& descriptor) const {
  MemoryHandle handle = 0;
  void* shareable = reinterpret_cast<void*>(static_cast<std::intptr_t>(descriptor.get()));
  HOCKET_RETURN_IF_ERROR(Check(call_.MemImport(&handle, shareable, cuda::kHandlePosixFd),
                               "cuMemImportFromShareableHandle(descriptor ", descriptor.get(), ")"));
  return handle;
}

absl::Status Driver::RegisterHost(void* address, Bytes size) const {
  return Check(call_.MemHostRegister(address, size, cuda::kHostRegisterPortable), "cuMemHostRegister(",
               FormatBytes(size), ")");
}

absl::Status Driver::UnregisterHost(void* address) const {
  return Check(call_.MemHostUnregister(address), "cuMemHostUnregister");
}

absl::Status Driver::CopyToHost(void* to, DevicePtr from, Bytes size, Stream stream) const {
  return Check(call_.MemcpyDtoHAsync(to, from, size, stream), "cuMemcpyDtoHAsync(", Hex(from), ", ",
               FormatBytes(size), ")");
}

absl::Status Driver::CopyToDevice(DevicePtr to, const void* from, Bytes size, Stream stream) const {
  return Check(call_.MemcpyHtoDAsync(to, from, size, stream), "cuMemcpyHtoDAsync(", Hex(to), ", ",
               FormatBytes(size), ")");
}

absl::StatusOr<Stream> Driver::CreateStream() const {
  Stream stream = nullptr;
  HOCKET_RETURN_IF_ERROR(Check(call_.StreamCreate(&stream, cuda::kStreamNonBlocking), "cuStreamCreate"));
  return stream;
}

absl::Status Driver::DestroyStream(Stream stream) const {
  return Check(call_.StreamDestroy(stream), "cuStreamDestroy");
}

absl::Status Driver::SynchronizeStream(Stream stream) const {
  return Check(call_.StreamSynchronize(stream), "cuStreamSynchronize");
}

absl::StatusOr<bool> Driver::IsCapturing(Stream stream) const {
  int status = cuda::kCaptureNone;
  HOCKET_RETURN_IF_ERROR(Check(call_.StreamIsCapturing(stream, &status), "cuStreamIsCapturing"));
  return status == cuda::kCaptureActive;
}

absl::StatusOr<EventHandle> Driver::CreateEvent() const {
  EventHandle event = nullptr;
  HOCKET_RETURN_IF_ERROR(Check(
      call_.EventCreate(&event, cuda::kEventBlockingSync | cuda::kEventDisableTiming), "cuEventCreate"));
  return event;
}

absl::StatusOr<EventHandle> Driver::CreateTimedEvent() const {
  EventHandle event = nullptr;
  HOCKET_RETURN_IF_ERROR(Check(call_.EventCreate(&event, cuda::kEventBlockingSync), "cuEventCreate(timed)"));
  return event;
}

absl::Status Driver::DestroyEvent(EventHandle event) const {
  return Check(call_.EventDestroy(event), "cuEventDestroy");
}

absl::Status Driver::RecordEvent(EventHandle event, Stream stream) const {
  return Check(call_.EventRecord(event, stream), "cuEventRecord");
}

absl::Status Driver::RecordContextEvent(ContextHandle context, EventHandle event) const {
  constexpr cuda::Result kNotSupported = 801;
  const cuda::Result result =
      call_.CtxRecordEvent == nullptr ? kNotSupported : call_.CtxRecordEvent(context, event);
  if (result == kNotSupported) return absl::UnimplementedError("the driver has no cuCtxRecordEvent");
  return Check(result, "cuCtxRecordEvent");
}

absl::StatusOr<bool> Driver::EventDone(EventHandle event) const {
  const cuda::Result result = call_.EventQuery(event);
  if (result == cuda::kNotReady) return false;
  HOCKET_RETURN_IF_ERROR(Check(result, "cuEventQuery"));
  return true;
}

absl::Status Driver::WaitForEvent(EventHandle event) const {
  return Check(call_.EventSynchronize(event), "cuEventSynchronize");
}

absl::StatusOr<std::chrono::nanoseconds> Driver::Elapsed(EventHandle from, EventHandle to) const {
  float milliseconds = 0;
  HOCKET_RETURN_IF_ERROR(Check(call_.EventElapsedTime(&milliseconds, from, to), "cuEventElapsedTime"));
  return std::chrono::nanoseconds(std::llround(double{milliseconds} * 1e6));
}

}  // namespace hocket
