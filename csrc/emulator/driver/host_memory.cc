#include "csrc/emulator/driver/host_memory.h"

#include <sys/mman.h>

#include <iterator>

#include "csrc/emulator/driver/process.h"

namespace hocket::emulator {
namespace {

constexpr Bytes kPage = 4096;

}  // namespace

cuda::Result HostMemory::Allocate(Bytes size, unsigned flags, void** address) {
  if (size == 0) return cuda::kInvalidValue;
  void* memory =
      mmap(nullptr, RoundUp(size, kPage), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return cuda::kOutOfMemory;
  const std::lock_guard lock(mutex_);
  const auto start = reinterpret_cast<std::uint64_t>(memory);
  ranges_[start] = PinnedRange{start, size, flags, true};
  *address = memory;
  return cuda::kSuccess;
}

cuda::Result HostMemory::Register(void* address, Bytes size, unsigned flags) {
  if (address == nullptr || size == 0) return cuda::kInvalidValue;
  const auto start = reinterpret_cast<std::uint64_t>(address);
  if (IsFileOnDisk(start, size)) return cuda::kInvalidValue;
  const std::lock_guard lock(mutex_);
  const auto next = ranges_.lower_bound(start);
  if (next != ranges_.end() && next->first < start + size) return cuda::kHostAlreadyRegistered;
  if (next != ranges_.begin()) {
    const PinnedRange& before = std::prev(next)->second;
    if (before.address + before.size > start) return cuda::kHostAlreadyRegistered;
  }
  ranges_[start] = PinnedRange{start, size, flags, false};
  return cuda::kSuccess;
}

cuda::Result HostMemory::Free(void* address) {
  const std::lock_guard lock(mutex_);
  const auto range = ranges_.find(reinterpret_cast<std::uint64_t>(address));
  if (range == ranges_.end() || !range->second.allocated) return cuda::kInvalidValue;
  munmap(address, RoundUp(range->second.size, kPage));
  ranges_.erase(range);
  return cuda::kSuccess;
}

cuda::Result HostMemory::Unregister(void* address) {
  const std::lock_guard lock(mutex_);
  const auto range = ranges_.find(reinterpret_cast<std::uint64_t>(address));
  if (range == ranges_.end() || range->second.allocated) return cuda::kHostNotRegistered;
  ranges_.erase(range);
  return cuda::kSuccess;
}

std::optional<PinnedRange> HostMemory::At(std::uint64_t address) const {
  const std::lock_guard lock(mutex_);
  const auto after = ranges_.upper_bound(address);
  if (after == ranges_.begin()) return std::nullopt;
  const PinnedRange& range = std::prev(after)->second;
  if (address - range.address >= range.size) return std::nullopt;
  return range;
}

bool HostMemory::IsPinned(std::uint64_t address, Bytes size) const {
  const std::optional<PinnedRange> range = At(address);
  return range && size <= range->size - (address - range->address);
}

}  // namespace hocket::emulator
