#include "csrc/emulator/driver/device_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "csrc/emulator/driver/process.h"
#include "csrc/emulator/emulator_api.h"

namespace hocket::emulator {
namespace {

#if defined(__SANITIZE_THREAD__)
constexpr bool kThreadSanitizer = true;
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
constexpr bool kThreadSanitizer = true;
#else
constexpr bool kThreadSanitizer = false;
#endif
#else
constexpr bool kThreadSanitizer = false;
#endif

// Half a window. The thread sanitizer knows 1.5 TiB of addresses and ends the process outside them.
constexpr Bytes kLargestHalf = kThreadSanitizer ? Bytes{1} << 37 : Bytes{1} << 42;
constexpr Bytes kSmallestHalf = Bytes{1} << 34;

char* Pointer(std::uint64_t address) { return reinterpret_cast<char*>(address); }

std::string ChunkName(std::uint64_t token, int device, std::uint64_t id) {
  return absl::StrFormat("hocket-%016x-%d-%016x", token, device, id);
}

// Makes `size` bytes of memory without an address that carries its chunk's name.
UniqueFd MakeFile(const std::string& name, Bytes size) {
  UniqueFd file = AboveStandard(UniqueFd(memfd_create(name.c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING)));
  if (!file || ftruncate(file.get(), static_cast<off_t>(size)) != 0) return UniqueFd();
  fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
  return file;
}

cuda::Result MapFile(const Mapping& mapping, std::uint64_t address, int access) {
  const int protection = access == cuda::kAccessReadWrite ? PROT_READ | PROT_WRITE
                         : access == cuda::kAccessRead    ? PROT_READ
                                                          : PROT_NONE;
  void* const at = Pointer(address);
  if (mmap(at, mapping.size, protection, MAP_SHARED | MAP_FIXED, mapping.chunk->file().get(),
           static_cast<off_t>(mapping.offset)) == MAP_FAILED) {
    return cuda::kOutOfMemory;
  }
  madvise(at, mapping.size, MADV_DONTFORK);
  return cuda::kSuccess;
}

void MapNothing(std::uint64_t address, Bytes size) {
  mmap(Pointer(address), size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

// Who the chunk behind an exported descriptor is, as its maker named it.
struct Exported {
  unsigned long token = 0;
  int device = 0;
  unsigned long id = 0;
  Bytes size = 0;
};

std::optional<Exported> Identify(int descriptor) {
  char name[256] = {};
  const std::string link = absl::StrCat("/proc/self/fd/", descriptor);
  struct stat info;
  Exported exported;
  if (readlink(link.c_str(), name, sizeof(name) - 1) <= 0 || fstat(descriptor, &info) != 0)
    return std::nullopt;
  if (std::sscanf(name, "/memfd:hocket-%16lx-%d-%16lx", &exported.token, &exported.device, &exported.id) !=
      3) {
    return std::nullopt;
  }
  exported.size = static_cast<Bytes>(info.st_size);
  return exported;
}

}  // namespace

Window::Window(Bytes granularity) {
  for (Bytes half = kLargestHalf; half >= kSmallestHalf; half /= 2) {
    // One granule more, so that the base can be aligned to it.
    void* address =
        mmap(nullptr, 2 * half + granularity, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (address == MAP_FAILED) continue;
    base_ = RoundUp(reinterpret_cast<std::uint64_t>(address), granularity);
    size_ = half;
    madvise(address, 2 * half + granularity, MADV_DONTDUMP);
    return;
  }
  hocket_emulator_fatal(
      "cannot reserve 32 GiB of addresses for the emulated GPU: raise the limit (ulimit -v).");
}

Chunk::Chunk(SharedState& state, std::uint64_t id, int device, Bytes size, UniqueFd file)
    : state_(state), id_(id), device_(device), size_(size), file_(std::move(file)) {}

Chunk::~Chunk() {
  file_.Reset();
  state_.DropChunk(id_);
}

// --- addresses ---

cuda::Result DeviceMemory::Reserve(Bytes size, Bytes alignment, DevicePtr hint, DevicePtr* address) {
  const std::lock_guard lock(mutex_);
  return ReserveLocked(size, alignment, hint, address);
}

// The first gap that is large enough, at `hint` where that is free.
cuda::Result DeviceMemory::ReserveLocked(Bytes size, Bytes alignment, DevicePtr hint, DevicePtr* address) {
  alignment = std::max(alignment, granularity_);
  if (size == 0 || size % granularity_ != 0 || (alignment & (alignment - 1)) != 0) return cuda::kInvalidValue;
  DevicePtr candidate = RoundUp(window_.base() + granularity_, alignment);
  auto next = ranges_.begin();
  if (hint % alignment == 0 && window_.HasDeviceAddress(hint)) {
    next = ranges_.lower_bound(hint);
    const bool below_is_clear =
        next == ranges_.begin() || std::prev(next)->first + std::prev(next)->second <= hint;
    if (below_is_clear && (next == ranges_.end() || hint + size <= next->first)) candidate = hint;
    next = candidate == hint ? next : ranges_.begin();
  }
  for (; next != ranges_.end() && next->first < candidate + size; ++next) {
    candidate = std::max(candidate, RoundUp(next->first + next->second, alignment));
  }
  if (size > window_.size() || candidate + size > window_.base() + window_.size()) return cuda::kOutOfMemory;
  ranges_[candidate] = size;
  *address = candidate;
  return cuda::kSuccess;
}

cuda::Result DeviceMemory::FreeAddresses(DevicePtr address, Bytes size) {
  const std::lock_guard lock(mutex_);
  const auto range = ranges_.find(address);
  if (range == ranges_.end() || range->second != size || Overlaps(address, size)) return cuda::kInvalidValue;
  ranges_.erase(range);
  return cuda::kSuccess;
}

bool DeviceMemory::InOneRange(DevicePtr address, Bytes size) const {
  const auto after = ranges_.upper_bound(address);
  if (after == ranges_.begin() || size == 0) return false;
  const auto& [start, length] = *std::prev(after);
  return size <= length && address - start <= length - size;
}

std::map<DevicePtr, Mapping>::const_iterator DeviceMemory::Containing(DevicePtr address) const {
  auto after = mappings_.upper_bound(address);
  if (after == mappings_.begin()) return mappings_.end();
  const auto before = std::prev(after);
  return address - before->first < before->second.size ? before : mappings_.end();
}

bool DeviceMemory::Overlaps(DevicePtr address, Bytes size) const {
  if (Containing(address) != mappings_.end()) return true;
  const auto next = mappings_.lower_bound(address);
  return next != mappings_.end() && next->first < address + size;
}

// --- chunks and their handles ---

std::shared_ptr<Chunk> DeviceMemory::CreateChunk(int device, Bytes size, cuda::Result* result) {
  *result = cuda::kOutOfMemory;
  const std::uint64_t id = state_.AddChunk(device, size);
  if (id == 0) return nullptr;
  UniqueFd file = MakeFile(ChunkName(state_.token(), device, id), size);
  if (!file) {
    state_.DropChunk(id);
    return nullptr;
  }
  auto chunk = std::make_shared<Chunk>(state_, id, device, size, std::move(file));
  Remember(chunk);
  *result = cuda::kSuccess;
  return chunk;
}

std::shared_ptr<Chunk> DeviceMemory::ImportChunk(int descriptor, cuda::Result* result) {
  *result = cuda::kInvalidValue;
  const std::optional<Exported> exported = Identify(descriptor);
  if (!exported || exported->token != state_.token() || exported->device >= state_.devices()) return nullptr;
  *result = cuda::kSuccess;
  if (std::shared_ptr<Chunk> known = Known(exported->id)) return known;
  *result = cuda::kOutOfMemory;
  UniqueFd file(fcntl(descriptor, F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
  if (!file || !state_.HoldChunk(exported->id, exported->device, exported->size)) return nullptr;
  auto chunk =
      std::make_shared<Chunk>(state_, exported->id, exported->device, exported->size, std::move(file));
  chunk->MarkShared();
  Remember(chunk);
  *result = cuda::kSuccess;
  return chunk;
}

std::shared_ptr<Chunk> DeviceMemory::Known(std::uint64_t id) const {
  const auto known = known_.find(id);
  return known == known_.end() ? nullptr : known->second.lock();
}

void DeviceMemory::Remember(const std::shared_ptr<Chunk>& chunk) {
  if (known_.size() > 2 * (handles_.size() + mappings_.size()) + 64)
    std::erase_if(known_, [](const auto& known) { return known.second.expired(); });
  known_[chunk->id()] = chunk;
}

cuda::MemoryHandle DeviceMemory::AddHandle(std::shared_ptr<Chunk> chunk) {
  handles_[next_handle_] = std::move(chunk);
  return next_handle_++;  // never given twice: a handle used after its release is found out
}

cuda::Result DeviceMemory::Create(int device, Bytes size, cuda::MemoryHandle* handle) {
  if (size == 0 || size % granularity_ != 0) return cuda::kInvalidValue;
  const std::lock_guard lock(mutex_);
  cuda::Result result;
  std::shared_ptr<Chunk> chunk = CreateChunk(device, size, &result);
  if (chunk != nullptr) *handle = AddHandle(std::move(chunk));
  return result;
}

cuda::Result DeviceMemory::Release(cuda::MemoryHandle handle) {
  const std::lock_guard lock(mutex_);
  return handles_.erase(handle) == 1 ? cuda::kSuccess : cuda::kInvalidValue;
}

cuda::Result DeviceMemory::Export(cuda::MemoryHandle handle, int* descriptor) {
  const std::lock_guard lock(mutex_);
  const auto found = handles_.find(handle);
  if (found == handles_.end()) return cuda::kInvalidValue;
  *descriptor = fcntl(found->second->file().get(), F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  if (*descriptor < 0) return cuda::kOutOfMemory;
  found->second->MarkShared();
  return cuda::kSuccess;
}

cuda::Result DeviceMemory::Import(int descriptor, cuda::MemoryHandle* handle) {
  const std::lock_guard lock(mutex_);
  cuda::Result result;
  std::shared_ptr<Chunk> chunk = ImportChunk(descriptor, &result);
  if (chunk != nullptr) *handle = AddHandle(std::move(chunk));
  return result;
}

cuda::Result DeviceMemory::Retain(DevicePtr address, cuda::MemoryHandle* handle) {
  const std::lock_guard lock(mutex_);
  const auto mapping = Containing(address);
  if (mapping == mappings_.end() || mapping->second.allocated) return cuda::kInvalidValue;
  *handle = AddHandle(mapping->second.chunk);
  return cuda::kSuccess;
}

std::shared_ptr<Chunk> DeviceMemory::Find(cuda::MemoryHandle handle) const {
  const std::lock_guard lock(mutex_);
  const auto found = handles_.find(handle);
  return found == handles_.end() ? nullptr : found->second;
}

// --- the bond ---

cuda::Result DeviceMemory::Map(DevicePtr address, Bytes size, Bytes offset, cuda::MemoryHandle handle) {
  const std::lock_guard lock(mutex_);
  const auto found = handles_.find(handle);
  if (found == handles_.end() || !InOneRange(address, size) || Overlaps(address, size))
    return cuda::kInvalidValue;
  const Bytes whole = found->second->size();
  if ((address | size | offset) % granularity_ != 0 || offset > whole || size > whole - offset) {
    return cuda::kInvalidValue;
  }
  mappings_[address] = Mapping{size, offset, found->second};
  if (++found->second->mappings() > 1) ++doubles_;
  return cuda::kSuccess;
}

bool DeviceMemory::IsWhole(DevicePtr address, Bytes size) const {
  const DevicePtr end = address + size;
  for (auto mapping = mappings_.find(address); address != end; ++mapping) {
    if (mapping == mappings_.end() || mapping->first != address || mapping->second.size > end - address)
      return false;
    address += mapping->second.size;
  }
  return size > 0;
}

bool DeviceMemory::CanUnmapLocked(DevicePtr address, Bytes size) const {
  if ((address | size) % granularity_ != 0 || !InOneRange(address, size)) return false;
  const auto cut = Containing(address);
  if (cut != mappings_.end() && cut->first != address) return false;
  const auto first = mappings_.lower_bound(address), last = mappings_.lower_bound(address + size);
  return std::all_of(first, last, [&](const auto& mapping) {
    return !mapping.second.allocated && mapping.second.size <= address + size - mapping.first;
  });
}

bool DeviceMemory::CanUnmap(DevicePtr address, Bytes size) const {
  const std::lock_guard lock(mutex_);
  return CanUnmapLocked(address, size);
}

cuda::Result DeviceMemory::Unmap(DevicePtr address, Bytes size) {
  const std::lock_guard lock(mutex_);
  if (!CanUnmapLocked(address, size)) return cuda::kInvalidValue;
  const auto first = mappings_.lower_bound(address), last = mappings_.lower_bound(address + size);
  MapNothing(address + window_.alias_offset(), size);
  for (auto mapping = first; mapping != last; ++mapping) {
    HideFromHost(mapping->first, mapping->second);
    if (--mapping->second.chunk->mappings() > 0) --doubles_;
  }
  mappings_.erase(first, last);
  return cuda::kSuccess;
}

cuda::Result DeviceMemory::SetAccess(DevicePtr address, Bytes size, int access) {
  const std::lock_guard lock(mutex_);
  if (!IsWhole(address, size)) return cuda::kInvalidValue;
  for (auto m = mappings_.find(address); m != mappings_.end() && m->first < address + size; ++m) {
    if (const cuda::Result result = Show(m->first, m->second, access)) return result;
  }
  return cuda::kSuccess;
}

cuda::Result DeviceMemory::SetHostAccess(DevicePtr address, Bytes size, int access) {
  const std::lock_guard lock(mutex_);
  if (!IsWhole(address, size)) return cuda::kInvalidValue;
  const auto first = mappings_.find(address), last = mappings_.lower_bound(address + size);
  const auto on_host = [](const auto& mapping) { return mapping.second.chunk->device() == kOnHost; };
  if (!std::all_of(first, last, on_host)) return cuda::kInvalidValue;
  for (auto mapping = first; mapping != last; ++mapping) {
    if (const cuda::Result result = ShowToHost(mapping->first, mapping->second, access)) return result;
  }
  return cuda::kSuccess;
}

cuda::Result DeviceMemory::Show(DevicePtr address, Mapping& mapping, int access) {
  const cuda::Result result = MapFile(mapping, address + window_.alias_offset(), access);
  if (result == cuda::kSuccess) mapping.access = access;
  return result;
}

cuda::Result DeviceMemory::ShowToHost(DevicePtr address, Mapping& mapping, int access) {
  const cuda::Result result = MapFile(mapping, address, access);
  if (result == cuda::kSuccess) mapping.host_access = access;
  return result;
}

void DeviceMemory::HideFromHost(DevicePtr address, const Mapping& mapping) {
  if (mapping.host_access != cuda::kAccessNone) MapNothing(address, mapping.size);
}

// --- all in one ---

cuda::Result DeviceMemory::MapWhole(std::shared_ptr<Chunk> chunk, DevicePtr* address) {
  const Bytes reserved = RoundUp(chunk->size(), granularity_);
  if (const cuda::Result result = ReserveLocked(reserved, 0, 0, address)) return result;
  Mapping mapping{chunk->size(), 0, std::move(chunk)};
  mapping.allocated = true;
  const cuda::Result result = Show(*address, mapping, cuda::kAccessReadWrite);
  if (result == cuda::kSuccess) {
    mappings_[*address] = std::move(mapping);
  } else {
    ranges_.erase(*address);
  }
  return result;
}

cuda::Result DeviceMemory::Allocate(int device, Bytes size, DevicePtr* address) {
  if (size == 0) return cuda::kInvalidValue;
  const std::lock_guard lock(mutex_);
  cuda::Result result;
  std::shared_ptr<Chunk> chunk = CreateChunk(device, RoundUp(size, kAllocationUnit), &result);
  return chunk == nullptr ? result : MapWhole(std::move(chunk), address);
}

cuda::Result DeviceMemory::AllocateImported(int descriptor, DevicePtr* address) {
  const std::lock_guard lock(mutex_);
  cuda::Result result;
  std::shared_ptr<Chunk> chunk = ImportChunk(descriptor, &result);
  return chunk == nullptr ? result : MapWhole(std::move(chunk), address);
}

cuda::Result DeviceMemory::FreeAllocation(DevicePtr address) {
  const std::lock_guard lock(mutex_);
  const auto mapping = mappings_.find(address);
  if (mapping == mappings_.end() || !mapping->second.allocated) return cuda::kInvalidValue;
  MapNothing(address + window_.alias_offset(), mapping->second.size);
  mappings_.erase(mapping);
  ranges_.erase(address);
  return cuda::kSuccess;
}

std::optional<Extent> DeviceMemory::Held(cuda::MemoryHandle handle) const {
  const std::lock_guard lock(mutex_);
  const auto found = handles_.find(handle);
  if (found == handles_.end()) return std::nullopt;
  const std::shared_ptr<Chunk>& chunk = found->second;
  return Extent{chunk->size(), chunk->device(), chunk.use_count() == 1};
}

std::vector<Extent> DeviceMemory::Mapped(DevicePtr address, Bytes size) const {
  const std::lock_guard lock(mutex_);
  std::vector<Extent> extents;
  const auto last = mappings_.lower_bound(address + size);
  for (auto mapping = mappings_.lower_bound(address); mapping != last; ++mapping) {
    const std::shared_ptr<Chunk>& chunk = mapping->second.chunk;
    extents.push_back({mapping->second.size, chunk->device(), chunk.use_count() == 1});
  }
  return extents;
}

std::optional<MappedRange> DeviceMemory::At(DevicePtr address) const {
  const std::lock_guard lock(mutex_);
  const auto mapping = Containing(address);
  if (mapping == mappings_.end()) return std::nullopt;
  return MappedRange{mapping->first, mapping->second};
}

std::vector<DevicePtr> DeviceMemory::Elsewhere(DevicePtr address, Bytes size) const {
  const std::lock_guard lock(mutex_);
  const auto here = Containing(address);
  std::vector<DevicePtr> elsewhere;
  if (here == mappings_.end() || here->second.chunk->mappings() < 2) return elsewhere;
  const Bytes from = here->second.offset + (address - here->first);  // in the chunk
  for (const auto& [start, mapping] : mappings_) {
    const bool same = mapping.chunk == here->second.chunk && start != here->first;
    if (!same || from + size <= mapping.offset || from >= mapping.offset + mapping.size) continue;
    elsewhere.push_back(start + from - mapping.offset);
  }
  return elsewhere;
}

bool DeviceMemory::IsOnHost(DevicePtr address) const {
  const std::lock_guard lock(mutex_);
  const auto mapping = Containing(address);
  return mapping != mappings_.end() && mapping->second.chunk->device() == kOnHost;
}

bool DeviceMemory::AllMapped(DevicePtr address, Bytes size,
                             absl::FunctionRef<bool(const Mapping&)> is) const {
  const std::lock_guard lock(mutex_);
  const DevicePtr end = address + size;
  while (address < end) {
    const auto mapping = Containing(address);
    if (mapping == mappings_.end() || !is(mapping->second)) return false;
    address = mapping->first + mapping->second.size;
  }
  return true;
}

bool DeviceMemory::Accessible(DevicePtr address, Bytes size, int access) const {
  return AllMapped(address, size, [access](const Mapping& mapping) { return mapping.access >= access; });
}

bool DeviceMemory::IsResident(DevicePtr address, Bytes size, int access) const {
  return AllMapped(address, size, [access](const Mapping& mapping) {
    return mapping.access >= access && mapping.chunk->device() != kOnHost;
  });
}

std::string DeviceMemory::Nearest(DevicePtr address) const {
  const std::lock_guard lock(mutex_);
  const auto above = mappings_.upper_bound(address);
  auto nearest = above;
  if (above != mappings_.begin()) {
    const auto below = std::prev(above);
    const Bytes down = address - below->first - std::min(address - below->first, below->second.size);
    if (above == mappings_.end() || down < above->first - address) nearest = below;
  }
  if (nearest == mappings_.end()) return "nothing is mapped";
  return absl::StrFormat("the nearest mapped memory is %s at 0x%x", FormatBytes(nearest->second.size),
                         nearest->first);
}

void DeviceMemory::AbandonAll() {
  for (const auto& [handle, chunk] : handles_) chunk->Abandon();
  for (const auto& [address, mapping] : mappings_) mapping.chunk->Abandon();
}

}  // namespace hocket::emulator
