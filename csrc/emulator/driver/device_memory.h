// Addresses, memory and the bond of the two, as one process sees them.
//
// At start one window of addresses is reserved: the lower half holds device addresses, the upper half
// their aliases, a fixed distance above. Device addresses of device memory stay PROT_NONE, so host code that
// follows one faults; a chunk that is mapped with access appears at the alias only, where copies and kernels
// reach it. A chunk is one memfd. It counts against its device (shared_state.h) as long as a process holds a
// handle or a mapping of it.
//
// A chunk of host memory (kOnHost) is mapped in the same way. Where the host is given access to it, and only
// there, its bytes appear at the device address itself too.
//
//   Reserve -> [range] -- Map --> [mapped] -- SetAccess --> [accessible]
//                 ^                  |                          |
//                 +------ Unmap -----+--------------------------+
//
// Errors are the driver's: an address outside a range, over a mapping, or in the middle of one that is to be
// unmapped is kInvalidValue; a handle that was released is kInvalidValue; a full device is kOutOfMemory.
//
// Thread-safe.
#ifndef HOCKET_CSRC_EMULATOR_DRIVER_DEVICE_MEMORY_H_
#define HOCKET_CSRC_EMULATOR_DRIVER_DEVICE_MEMORY_H_

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/functional/function_ref.h"
#include "csrc/base/bytes.h"
#include "csrc/base/unique_fd.h"
#include "csrc/emulator/driver/abi.h"
#include "csrc/emulator/driver/shared_state.h"

namespace hocket::emulator {

// The unit in which cuMemAlloc takes memory.
inline constexpr Bytes kAllocationUnit = Bytes{64} << 10;

// The addresses; reserved once, never given back.
class Window {
 public:
  // Aligned to `granularity`.
  explicit Window(Bytes granularity);
  DevicePtr base() const { return base_; }
  Bytes size() const { return size_; }
  std::ptrdiff_t alias_offset() const { return static_cast<std::ptrdiff_t>(size_); }
  bool HasDeviceAddress(std::uint64_t address) const { return address - base_ < size_; }
  bool HasAlias(std::uint64_t address) const { return address - base_ - size_ < size_; }

 private:
  DevicePtr base_ = 0;
  Bytes size_ = 0;
};

// Memory without an address, of a device or of the host (kOnHost), held by this process as long as the object
// lives.
class Chunk {
 public:
  Chunk(SharedState& state, std::uint64_t id, int device, Bytes size, UniqueFd file);
  ~Chunk();

  std::uint64_t id() const { return id_; }
  int device() const { return device_; }
  Bytes size() const { return size_; }
  const UniqueFd& file() const { return file_; }
  // True once another process has been able to see it.
  bool shared() const { return shared_; }
  void MarkShared() { shared_ = true; }
  // How many mappings it has. The lock of DeviceMemory guards it.
  int& mappings() { return mappings_; }
  // In a forked child: closes the descriptor and leaves the tables alone.
  void Abandon() { file_.Reset(); }

 private:
  SharedState& state_;
  const std::uint64_t id_;
  const int device_;
  const Bytes size_;
  UniqueFd file_;
  std::atomic<bool> shared_{false};  // marked by one thread while another's kernels are checked
  int mappings_ = 0;
};

struct Mapping {
  Bytes size = 0;
  Bytes offset = 0;
  std::shared_ptr<Chunk> chunk;
  int access = 0;          // of the device
  int host_access = 0;     // host memory only
  bool allocated = false;  // by Allocate()
};

// A mapping with its address.
struct MappedRange {
  DevicePtr address = 0;
  Mapping mapping;
};

// What the time of a call depends on: a mapping, or memory that has a handle.
struct Extent {
  Bytes size = 0;
  int device = 0;     // kOnHost: the host's memory
  bool last = false;  // nothing else in this process holds that memory
};

class DeviceMemory {
 public:
  // `state` must outlive it; `granularity` is the unit of mapping, a power of two.
  DeviceMemory(SharedState& state, Bytes granularity)
      : state_(state), granularity_(granularity), window_(granularity) {}

  const Window& window() const { return window_; }
  Bytes granularity() const { return granularity_; }

  // --- addresses ---
  cuda::Result Reserve(Bytes size, Bytes alignment, DevicePtr hint, DevicePtr* address);
  cuda::Result FreeAddresses(DevicePtr address, Bytes size);

  // --- chunks and their handles ---
  cuda::Result Create(int device, Bytes size, cuda::MemoryHandle* handle);
  cuda::Result Release(cuda::MemoryHandle handle);
  // A descriptor of the chunk, the caller's to close.
  cuda::Result Export(cuda::MemoryHandle handle, int* descriptor);
  cuda::Result Import(int descriptor, cuda::MemoryHandle* handle);
  // A further handle of the chunk mapped at `address`.
  cuda::Result Retain(DevicePtr address, cuda::MemoryHandle* handle);
  std::shared_ptr<Chunk> Find(cuda::MemoryHandle handle) const;

  // --- the bond ---
  cuda::Result Map(DevicePtr address, Bytes size, Bytes offset, cuda::MemoryHandle handle);
  // All that is mapped there, which may be nothing; kInvalidValue, and nothing has happened, where
  // CanUnmap() is false.
  cuda::Result Unmap(DevicePtr address, Bytes size);
  // True for addresses of one range that hold no part of a mapping but whole ones, none by Allocate().
  bool CanUnmap(DevicePtr address, Bytes size) const;
  // Exactly one or several whole mappings, here and below.
  cuda::Result SetAccess(DevicePtr address, Bytes size, int access);
  // kInvalidValue where device memory is mapped.
  cuda::Result SetHostAccess(DevicePtr address, Bytes size, int access);

  // --- all in one: memory with its address ---
  cuda::Result Allocate(int device, Bytes size, DevicePtr* address);
  // kInvalidValue when Allocate() did not give `address`.
  cuda::Result FreeAllocation(DevicePtr address);
  // An Allocate()d or mapped chunk of another process, mapped here.
  cuda::Result AllocateImported(int descriptor, DevicePtr* address);

  // What Release() and Unmap() would concern.
  std::optional<Extent> Held(cuda::MemoryHandle handle) const;
  std::vector<Extent> Mapped(DevicePtr address, Bytes size) const;
  // The mapping at `address`, if any.
  std::optional<MappedRange> At(DevicePtr address) const;
  // Whether anything is mapped twice in this process.
  bool HasDoubles() const { return doubles_ > 0; }
  // The other addresses of this process at which [address, address + size) of one mapping is mapped, too.
  std::vector<DevicePtr> Elsewhere(DevicePtr address, Bytes size) const;
  // True when host memory is mapped at `address`.
  bool IsOnHost(DevicePtr address) const;
  // True when all of it is mapped with at least this access (kAccessRead, kAccessReadWrite).
  bool Accessible(DevicePtr address, Bytes size, int access = cuda::kAccessRead) const;
  // The same, and that it is memory of a device.
  bool IsResident(DevicePtr address, Bytes size, int access) const;
  // "the nearest mapped memory is 2.0 MiB at 0x... (0x... bytes before it)", for messages about faults.
  std::string Nearest(DevicePtr address) const;

  // Around fork(): no table is half-changed in the child, whose descriptors are then closed.
  void Lock() { mutex_.lock(); }
  void Unlock() { mutex_.unlock(); }
  void AbandonAll();

 private:
  // True when all of it is mapped, and `is` true of each mapping. REQUIRES: mutex_ is not held.
  bool AllMapped(DevicePtr address, Bytes size, absl::FunctionRef<bool(const Mapping&)> is) const;

  using Handles = std::map<cuda::MemoryHandle, std::shared_ptr<Chunk>>;

  // REQUIRES: mutex_ is held, for all below.
  cuda::Result ReserveLocked(Bytes size, Bytes alignment, DevicePtr hint, DevicePtr* address);
  bool IsWhole(DevicePtr address, Bytes size) const;
  bool CanUnmapLocked(DevicePtr address, Bytes size) const;
  bool InOneRange(DevicePtr address, Bytes size) const;
  bool Overlaps(DevicePtr address, Bytes size) const;
  std::shared_ptr<Chunk> CreateChunk(int device, Bytes size, cuda::Result* result);
  std::shared_ptr<Chunk> ImportChunk(int descriptor, cuda::Result* result);
  // The chunk of that id where this process holds it already.
  std::shared_ptr<Chunk> Known(std::uint64_t id) const;
  void Remember(const std::shared_ptr<Chunk>& chunk);
  cuda::MemoryHandle AddHandle(std::shared_ptr<Chunk> chunk);
  cuda::Result MapWhole(std::shared_ptr<Chunk> chunk, DevicePtr* address);
  // Makes the mapping's bytes appear, at the alias or, to the host, at `address`.
  cuda::Result Show(DevicePtr address, Mapping& mapping, int access);
  cuda::Result ShowToHost(DevicePtr address, Mapping& mapping, int access);
  void HideFromHost(DevicePtr address, const Mapping& mapping);
  std::map<DevicePtr, Mapping>::const_iterator Containing(DevicePtr address) const;

  SharedState& state_;
  const Bytes granularity_;
  const Window window_;
  mutable std::mutex mutex_;
  // Guarded by mutex_:
  std::map<DevicePtr, Bytes> ranges_;
  std::map<DevicePtr, Mapping> mappings_;
  Handles handles_;
  std::unordered_map<std::uint64_t, std::weak_ptr<Chunk>> known_;  // by id; of some the chunk is gone
  cuda::MemoryHandle next_handle_ = 1;

  std::atomic<int> doubles_{0};  // mappings beyond the first of their chunk
};

}  // namespace hocket::emulator

#endif  // HOCKET_CSRC_EMULATOR_DRIVER_DEVICE_MEMORY_H_
