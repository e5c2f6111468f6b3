// Owners of what the driver gives: addresses, memory, the bond of the two.
//
//   Range     addresses without memory         (reserved ... freed)
//   Chunk     memory without an address        (created or imported ... released)
//
// Move-only; they give back what they hold when they die. A Chunk may be mapped when it dies: the driver
// keeps the memory until it is unmapped too, so whoever maps it (Region) unmaps first. A driver that fails
// to take something back is a bug of ours, and stops the process with the driver's words, unless the driver
// is shutting down (the process ends: everything goes back with it).
#ifndef HOCKET_ALLOCATOR_HANDLES_H_
#define HOCKET_ALLOCATOR_HANDLES_H_

#include <utility>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "allocator/driver.h"

namespace hocket {

class Range {
 public:
  // `driver` is borrowed and must outlive the range.
  static absl::StatusOr<Range> Reserve(const Driver& driver, Bytes size, Bytes alignment);

  Range() = default;
  Range(Range&& other) noexcept { *this = std::move(other); }
  Range& operator=(Range&& other) noexcept;
  ~Range();

  DevicePtr address() const { return address_; }
  Bytes size() const { return size_; }
  DevicePtr end() const { return address_ + size_; }
  bool Contains(DevicePtr address) const { return address - address_ < size_; }

 private:
  Range(const Driver& driver, DevicePtr address, Bytes size)
      : driver_(&driver), address_(address), size_(size) {}

  const Driver* driver_ = nullptr;
  DevicePtr address_ = 0;
  Bytes size_ = 0;
};

class Chunk {
 public:
  static absl::StatusOr<Chunk> Create(const Driver& driver, int device, Bytes size);
  // Memory of a node of the host, for `device` to reach.
  static absl::StatusOr<Chunk> CreateOnHost(const Driver& driver, int device, int node, Bytes size);
  // The memory that another process exported as `descriptor`.
  static absl::StatusOr<Chunk> Import(const Driver& driver, int device, Bytes size,
                                      const UniqueFd& descriptor);

  Chunk() = default;
  Chunk(Chunk&& other) noexcept { *this = std::move(other); }
  Chunk& operator=(Chunk&& other) noexcept;
  ~Chunk();

  explicit operator bool() const { return driver_ != nullptr; }
  Bytes size() const { return size_; }
  // REQUIRES: it has memory.
  const Driver& driver() const { return *driver_; }

  absl::StatusOr<UniqueFd> Export() const { return driver_->Export(handle_); }
  absl::Status MapAt(DevicePtr address) const { return driver_->Map(address, size_, handle_, device_); }
  // One behind the other, from `address` on; not `may_write`: for reading alone. An error: none of them is
  // there. REQUIRES: all are like the first.
  static absl::Status MapRun(absl::Span<const Chunk* const> chunks, DevicePtr address, bool may_write = true);
  // Where it is mapped; with those that are mapped behind it there may be more of them in `size`.
  absl::Status UnmapFrom(DevicePtr address, Bytes size) const { return driver_->Unmap(address, size); }
  absl::Status UnmapFrom(DevicePtr address) const { return UnmapFrom(address, size_); }
  absl::Status LetWriteAt(DevicePtr address, Bytes size, bool may_write) const {
    return driver_->LetWrite(address, size, device_, may_write);
  }

 private:
  Chunk(const Driver& driver, int device, MemoryHandle handle, Bytes size)
      : driver_(&driver), device_(device), handle_(handle), size_(size) {}

  const Driver* driver_ = nullptr;
  int device_ = 0;
  MemoryHandle handle_ = 0;
  Bytes size_ = 0;
};

}  // namespace hocket

#endif  // HOCKET_ALLOCATOR_HANDLES_H_
