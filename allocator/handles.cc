#include "allocator/handles.h"

#include <vector>

#include "csrc/base/check.h"
#include "csrc/base/status_macros.h"

namespace hocket {
namespace {

// A driver that refuses our arguments has found a bug of ours. Any other refusal comes from a lost context
// or a driver that shuts down: the process is about to end, and what it holds goes back with it.
void CheckTakenBack(const absl::Status& status) {
  HOCKET_CHECK(status.code() != absl::StatusCode::kInvalidArgument) << status.message();
}

}  // namespace

absl::StatusOr<Range> Range::Reserve(const Driver& driver, Bytes size, Bytes alignment) {
  HOCKET_ASSIGN_OR_RETURN(const DevicePtr address, driver.Reserve(size, alignment));
  return Range(driver, address, size);
}

Range& Range::operator=(Range&& other) noexcept {
  std::swap(driver_, other.driver_);
  std::swap(address_, other.address_);
  std::swap(size_, other.size_);
  return *this;
}

Range::~Range() {
  if (driver_ != nullptr) CheckTakenBack(driver_->FreeAddresses(address_, size_));
}

absl::StatusOr<Chunk> Chunk::Create(const Driver& driver, int device, Bytes size) {
  HOCKET_ASSIGN_OR_RETURN(const MemoryHandle handle, driver.CreateMemory(device, size));
  return Chunk(driver, device, handle, size);
}

absl::StatusOr<Chunk> Chunk::CreateOnHost(const Driver& driver, int device, int node, Bytes size) {
  HOCKET_ASSIGN_OR_RETURN(const MemoryHandle handle, driver.CreateHostMemory(node, size));
  return Chunk(driver, device, handle, size);
}

absl::StatusOr<Chunk> Chunk::Import(const Driver& driver, int device, Bytes size,
                                    const UniqueFd& descriptor) {
  HOCKET_ASSIGN_OR_RETURN(const MemoryHandle handle, driver.Import(descriptor));
  return Chunk(driver, device, handle, size);
}

absl::Status Chunk::MapRun(absl::Span<const Chunk* const> chunks, DevicePtr address, bool may_write) {
  std::vector<MemoryHandle> handles;
  for (const Chunk* chunk : chunks) handles.push_back(chunk->handle_);
  const Chunk& first = *chunks.front();
  return first.driver_->MapRun(address, first.size_, handles, first.device_, may_write);
}

Chunk& Chunk::operator=(Chunk&& other) noexcept {
  std::swap(driver_, other.driver_);
  std::swap(device_, other.device_);
  std::swap(handle_, other.handle_);
  std::swap(size_, other.size_);
  return *this;
}

Chunk::~Chunk() {
  if (driver_ != nullptr) CheckTakenBack(driver_->ReleaseMemory(handle_));
}

}  // namespace hocket
