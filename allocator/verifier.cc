#include "allocator/verifier.h"

#include <algorithm>
#include <string_view>

#include "absl/hash/hash.h"
#include "csrc/base/check.h"
#include "csrc/base/status_macros.h"

namespace hocket {
namespace {

// Good for this process only, as the copy is.
std::uint64_t Checksum(const HostCopy& copy) {
  Bytes size = 0;
  for (const Extent& extent : copy.extents) size += extent.size;
  return absl::HashOf(std::string_view(reinterpret_cast<const char*>(copy.memory.data()), size));
}

}  // namespace

absl::Status Verifier::Spilled(DevicePtr base, HostCopy& copy) {
  HOCKET_RETURN_IF_ERROR(Compare(base, copy,
                                 "changed on the device while they were copied to the host: something wrote "
                                 "there without the turn, and nobody waited for it"));
  copy.checksum = Checksum(copy);
  return absl::OkStatus();
}

void Verifier::Restoring(DevicePtr base, const HostCopy& copy) const {
  HOCKET_CHECK(Checksum(copy) == copy.checksum)
      << "HOCKET_VERIFY: the bytes of the chunk at 0x" << std::hex << base << std::dec
      << " changed in host memory while they were spilled (to "
      << static_cast<const void*>(copy.memory.data())
      << "): something in this process, or the machine's memory, wrote there";
}

absl::Status Verifier::Restored(DevicePtr base, const HostCopy& copy) {
  return Compare(base, copy, "are not those that were copied back to the device");
}

absl::Status Verifier::Compare(DevicePtr base, const HostCopy& copy, const char* story) {
  const std::byte* expected = copy.memory.data();
  for (const Extent& extent : copy.extents) {
    if (read_.size() < extent.size) read_.resize(extent.size);
    HOCKET_RETURN_IF_ERROR(driver_.CopyToHost(read_.data(), base + extent.offset, extent.size, stream_));
    HOCKET_RETURN_IF_ERROR(driver_.SynchronizeStream(stream_));
    const auto [differs, other] = std::mismatch(expected, expected + extent.size, read_.data());
    HOCKET_CHECK(differs == expected + extent.size)
        << "HOCKET_VERIFY: from 0x" << std::hex << base + extent.offset + (differs - expected) << std::dec
        << " on, bytes of a live range of " << extent.size << " " << story << " (0x" << std::hex
        << std::to_integer<int>(*differs) << " on the host, 0x" << std::to_integer<int>(*other)
        << " on the device)";
    expected += extent.size;
  }
  return absl::OkStatus();
}

}  // namespace hocket
