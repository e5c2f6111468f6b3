// The CUDA driver calls this project makes, and no others, typed.
//
// The functions are found in libcuda.so.1 at run time (driver_table.h), so a build needs no CUDA toolkit, and
// on the emulated GPU the same code finds another library: addresses stay, bytes are real, touching
// unmapped memory faults.
//
// On every call: a size is > 0 and, for memory without an address, a multiple of Granularity(). A call
// that fails changes nothing. An error's message names the call, its numbers and the driver's own error; its
// code is kResourceExhausted when the driver is out of memory, kUnavailable without driver or device, else
// kInternal. Calls that act "in the context" need UseContext() on the calling thread first.
//
// Thread-safe: it holds nothing but the table, and whether a kernel has failed.
#ifndef HOCKET_ALLOCATOR_DRIVER_H_
#define HOCKET_ALLOCATOR_DRIVER_H_

#include <atomic>
#include <chrono>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "allocator/cuda_abi.h"
#include "allocator/driver_table.h"
#include "csrc/base/bytes.h"
#include "csrc/base/unique_fd.h"

namespace hocket {

using EventHandle = cuda::Event;
using ContextHandle = cuda::Context;
using MemoryHandle = cuda::MemoryHandle;

struct DeviceMemory {
  Bytes free = 0;  // what the driver would still give, to whom ever asks first
  Bytes total = 0;
};

class Driver {
 public:
  // Finds the driver and initialises it. kUnavailable, with the reason and what to do, where there is no
  // driver or it sees no device.
  static absl::StatusOr<std::unique_ptr<Driver>> Open();
  // As above, over another table.
  static absl::StatusOr<std::unique_ptr<Driver>> Open(const DriverTable& table);

  // --- devices; `device` is an ordinal ---
  absl::StatusOr<int> DeviceCount() const;
  absl::StatusOr<std::string> DeviceName(int device) const;
  // "GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx", as nvidia-smi writes it.
  absl::StatusOr<std::string> DeviceUuid(int device) const;
  absl::StatusOr<Bytes> DeviceCapacity(int device) const;
  // kUnavailable when the device cannot map memory by handle or export handles as descriptors.
  absl::Status CheckVirtualMemory(int device) const;

  // Whether host memory can lie behind the device's addresses in chunks of `size`: OK with the node of the
  // host to take it from. kUnimplemented: it cannot, or not in that size.
  absl::StatusOr<int> NodeToMap(int device, Bytes size) const;

  // kUnavailable, with what to do, when its compute mode lets only one process use it at a time, or none.
  absl::Status CheckSharing(int device) const;

  // --- contexts and threads ---
  // The device's primary context, the one PyTorch uses; kept alive until the process ends. kUnavailable: as
  // CheckSharing() says.
  absl::StatusOr<ContextHandle> PrimaryContext(int device) const;
  absl::Status UseContext(ContextHandle context) const;
  // nullptr: none.
  ContextHandle CurrentContext() const;
  // This thread's calls no longer invalidate captures that other threads have under way. Returns the mode
  // before, for SetCaptureMode().
  int RelaxCaptureMode() const;
  void SetCaptureMode(int mode) const;
  // The error that lasts (cuda::kLastingErrors), as "CUDA_ERROR_ASSERT (710)", once a call has answered it:
  // what was queued is over, and nothing can be queued any more. Empty: none has. Constant time.
  std::string LastingError() const;
  // Waits for everything queued in the current context. May spin.
  absl::Status Synchronize() const;

  // --- memory ---
  // Of the current context's device.
  absl::StatusOr<DeviceMemory> MemoryInfo() const;
  // The unit of mapping, in bytes. A power of two.
  absl::StatusOr<Bytes> Granularity(int device) const;

  // Address space with nothing behind it, aligned to `alignment` (0: the granularity).
  absl::StatusOr<DevicePtr> Reserve(Bytes size, Bytes alignment) const;
  absl::Status FreeAddresses(DevicePtr address, Bytes size) const;

  // Device memory without an address, exportable as a descriptor. kResourceExhausted: the device is full.
  absl::StatusOr<MemoryHandle> CreateMemory(int device, Bytes size) const;
  // Pinned host memory of a node, of no use to other processes. kResourceExhausted: the host is full.
  absl::StatusOr<MemoryHandle> CreateHostMemory(int node, Bytes size) const;
  // Gives the handle up; the memory is free when no mapping and no exported descriptor is left either.
  absl::Status ReleaseMemory(MemoryHandle handle) const;

  // Puts memory behind addresses, readable and writable by `device`.
  absl::Status Map(DevicePtr address, Bytes size, MemoryHandle handle, int device) const;
  // Several, `each` bytes large, one behind the other, made reachable by one call. An error: none is there.
  // Not `may_write`: the device may only read there.
  absl::Status MapRun(DevicePtr address, Bytes each, absl::Span<const MemoryHandle> handles, int device,
                      bool may_write = true) const;
  // What Map() has put behind addresses can be written by `device`, or only read. Work that is queued already
  // must not write there. An error: it is as before; drivers may refuse to forbid.
  absl::Status LetWrite(DevicePtr address, Bytes size, int device, bool may_write) const;
  // Host memory that Map() has put behind addresses can be read and written by the host there, too.
  absl::Status LetHostAccess(DevicePtr address, Bytes size, int node) const;
  // REQUIRES: exactly what one Map() mapped, or several one behind the other; nothing queued still uses it.
  // An error: all of it is there still.
  absl::Status Unmap(DevicePtr address, Bytes size) const;

  absl::StatusOr<UniqueFd> Export(MemoryHandle handle) const;
  // The caller keeps `descriptor`.
  absl::StatusOr<MemoryHandle> Import(const UniqueFd& descriptor) const;

  // Pins host memory, so that copies to and from it are asynchronous.
  absl::Status RegisterHost(void* address, Bytes size) const;
  absl::Status UnregisterHost(void* address) const;

  // Queued on `stream`; the bytes have arrived when the stream is done.
  absl::Status CopyToHost(void* to, DevicePtr from, Bytes size, Stream stream) const;
  absl::Status CopyToDevice(DevicePtr to, const void* from, Bytes size, Stream stream) const;

  // --- streams and events, in the context ---
  absl::StatusOr<Stream> CreateStream() const;  // non-blocking: not ordered with the default stream
  absl::Status DestroyStream(Stream stream) const;
  absl::Status SynchronizeStream(Stream stream) const;
  // Whether a graph is being captured on it; one whose capture has failed, and was not ended, does no more.
  absl::StatusOr<bool> IsCapturing(Stream stream) const;

  absl::StatusOr<EventHandle> CreateEvent() const;       // no timing, waiting does not spin
  absl::StatusOr<EventHandle> CreateTimedEvent() const;  // waiting does not spin
  absl::Status DestroyEvent(EventHandle event) const;
  absl::Status RecordEvent(EventHandle event, Stream stream) const;
  // Records behind everything queued on every stream of the context. kUnimplemented where the driver has no
  // such call.
  absl::Status RecordContextEvent(ContextHandle context, EventHandle event) const;
  // True when what was recorded is done.
  absl::StatusOr<bool> EventDone(EventHandle event) const;
  absl::Status WaitForEvent(EventHandle event) const;
  // The device's time from one timed event to another, of its streams, whichever comes first there.
  // REQUIRES: both are done.
  absl::StatusOr<std::chrono::nanoseconds> Elapsed(EventHandle from, EventHandle to) const;

 private:
  explicit Driver(const DriverTable& table) : call_(table) {}

  std::string ErrorName(cuda::Result result) const;
  // OK, or the error of `what`, which names the call and its numbers.
  template <typename... Args>
  absl::Status Check(cuda::Result result, const Args&... what) const;

  const DriverTable call_;
  mutable std::atomic<cuda::Result> lasting_error_ = cuda::kSuccess;
};

}  // namespace hocket

#endif  // HOCKET_ALLOCATOR_DRIVER_H_
