// The driver's functions that pass events and allocations to other processes as 64 opaque bytes.
#include <fcntl.h>
#include <unistd.h>

#include <cstring>

#include "absl/strings/str_cat.h"
#include "csrc/emulator/driver/gpu.h"
#include "csrc/emulator/driver/process.h"

using hocket::DevicePtr;
using hocket::UniqueFd;
using hocket::cuda::Event;
using hocket::cuda::IpcHandle;
using hocket::cuda::Result;
using namespace hocket::emulator;  // NOLINT: one file of forwarding functions
namespace cuda = hocket::cuda;

namespace {

// Where the memory's descriptor lies: in a process that must still be the one it was.
struct MemoryHandleBytes {
  std::int64_t start_time;
  std::int32_t pid;
  std::int32_t descriptor;
};

}  // namespace

HOCKET_DRIVER_API Result cuIpcGetEventHandle(IpcHandle* handle, Event event_handle) {
  HOCKET_ENTER();
  const auto event = Gpu::Get().events().Find(event_handle);
  if (event == nullptr || event->shared() == nullptr) return cuda::kInvalidHandle;
  *handle = event->shared()->Handle();
  return cuda::kSuccess;
}

HOCKET_DRIVER_API Result cuIpcOpenEventHandle(Event* event, IpcHandle handle) {
  HOCKET_ENTER();
  const Context* context = CurrentContext();
  if (context == nullptr) return cuda::kInvalidContext;
  Gpu& gpu = Gpu::Get();
  std::shared_ptr<SharedEvent> shared = SharedEvent::Open(gpu.state(), handle);
  if (shared == nullptr) return cuda::kMapFailed;
  constexpr unsigned kFlags = cuda::kEventInterprocess | cuda::kEventDisableTiming;
  *event = gpu.events().Add(
      std::make_shared<EventState>(context->device(), kFlags, gpu.streams(), std::move(shared)));
  return cuda::kSuccess;
}

HOCKET_DRIVER_API Result cuIpcGetMemHandle(IpcHandle* handle, DevicePtr address) {
  HOCKET_ENTER();
  const auto mapped = Gpu::Get().memory().At(address);
  if (handle == nullptr || !mapped || !mapped->mapping.allocated) return cuda::kInvalidValue;
  mapped->mapping.chunk->MarkShared();
  const MemoryHandleBytes bytes{StartTime(getpid()).value_or(0), getpid(),
                                mapped->mapping.chunk->file().get()};
  *handle = IpcHandle();
  std::memcpy(handle->bytes, &bytes, sizeof(bytes));
  return cuda::kSuccess;
}

HOCKET_DRIVER_API Result cuIpcOpenMemHandle_v2(DevicePtr* address, IpcHandle handle, unsigned) {
  HOCKET_ENTER();
  MemoryHandleBytes bytes;
  std::memcpy(&bytes, handle.bytes, sizeof(bytes));
  if (address == nullptr || !ProcessLives(bytes.pid, bytes.start_time)) return cuda::kInvalidValue;
  const UniqueFd fd(
      open(absl::StrCat("/proc/", bytes.pid, "/fd/", bytes.descriptor).c_str(), O_RDWR | O_CLOEXEC));
  return fd ? Gpu::Get().memory().AllocateImported(fd.get(), address) : cuda::kMapFailed;
}

HOCKET_DRIVER_API Result cuIpcCloseMemHandle(DevicePtr address) {
  HOCKET_ENTER();
  Gpu& gpu = Gpu::Get();
  const auto mapped = gpu.memory().At(address);
  if (!mapped || mapped->address != address || !mapped->mapping.allocated) return cuda::kInvalidValue;
  gpu.streams().Synchronize(mapped->mapping.chunk->device());
  if (Order* order = gpu.order()) order->Forget(address, mapped->mapping.size);
  return gpu.memory().FreeAllocation(address);
}
