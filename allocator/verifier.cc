#include "allocator/verifier.h"

#include <algorithm>
#include <string_view>

#include "absl/hash/hash.h"
#include "absl/strings/str_cat.h"
#include "csrc/base/check.h"
#include "csrc/base/status_macros.h"

namespace hocket {
namespace {

// Good for this process only, as the copy is.
std::uint64_t Checksum(const HostCopy& copy) {
  std::uint64_t sum = 0;
  (void)copy.ForEach([&](const Extent& extent, const std::byte* bytes) {
    sum = absl::HashOf(sum, std::string_view(reinterpret_cast<const char*>(bytes), extent.size));
    return absl::OkStatus();
  });
  return sum;
}

// The process ends with it.
std::string From(DevicePtr address) {
  return absl::StrCat("HOCKET_VERIFY: from 0x", absl::Hex(address), " on, ");
}

std::string Bytes0x(int host, int device) {
  return absl::StrCat("(0x", absl::Hex(host), " on the host, 0x", absl::Hex(device), " on the device)");
}

}  // namespace

absl::Status Verifier::Spilled(DevicePtr base, HostCopy& copy) {
  HOCKET_ASSIGN_OR_RETURN(const std::optional<Difference> difference, Compare(base, copy));
  HOCKET_CHECK(!difference) << From(difference->address) << "bytes of a live range of " << difference->range
                            << " changed on the device while they were copied to the host: something wrote "
                               "there without the turn, and nobody waited for it "
                            << Bytes0x(difference->host, difference->device);
  copy.checksum = Checksum(copy);
  return absl::OkStatus();
}

absl::Status Verifier::Kept(DevicePtr base, const HostCopy& copy) {
  Restoring(base, copy);
  HOCKET_ASSIGN_OR_RETURN(const std::optional<Difference> difference, Compare(base, copy));
  HOCKET_CHECK(!difference)
      << From(difference->address)
      << "bytes changed that were declared constant: " << constant_at_(difference->address) << ' '
      << Bytes0x(difference->host, difference->device)
      << ". The host's copy of them was to be used again, and the change would have been "
         "lost.\n  Do not declare constant what is written to, or take it back before: "
         "hocket.constant(it, False).";
  return absl::OkStatus();
}

void Verifier::Restoring(DevicePtr base, const HostCopy& copy) const {
  if (copy.chunk) return;  // what device work has written there since is right
  HOCKET_CHECK(Checksum(copy) == copy.checksum)
      << "HOCKET_VERIFY: the bytes of the chunk at 0x" << std::hex << base << std::dec
      << " changed in host memory while they were spilled (to "
      << static_cast<const void*>(copy.memory.data())
      << "): something in this process, or the machine's memory, wrote there";
}

absl::Status Verifier::Restored(DevicePtr base, const HostCopy& copy) {
  HOCKET_ASSIGN_OR_RETURN(const std::optional<Difference> difference, Compare(base, copy));
  HOCKET_CHECK(!difference) << From(difference->address) << "bytes of a live range of " << difference->range
                            << " are not those that were copied back to the device "
                            << Bytes0x(difference->host, difference->device);
  return absl::OkStatus();
}

absl::StatusOr<std::optional<Verifier::Difference>> Verifier::Compare(DevicePtr base, const HostCopy& copy) {
  std::optional<Difference> first;
  HOCKET_RETURN_IF_ERROR(copy.ForEach([&](const Extent& extent, const std::byte* expected) -> absl::Status {
    if (first) return absl::OkStatus();
    if (read_.size() < extent.size) read_.resize(extent.size);
    HOCKET_RETURN_IF_ERROR(driver_.CopyToHost(read_.data(), base + extent.offset, extent.size, stream_));
    HOCKET_RETURN_IF_ERROR(driver_.SynchronizeStream(stream_));
    const auto [differs, other] = std::mismatch(expected, expected + extent.size, read_.data());
    if (differs != expected + extent.size) {
      first = Difference{.address = base + extent.offset + static_cast<Bytes>(differs - expected),
                         .range = extent.size,
                         .host = std::to_integer<int>(*differs),
                         .device = std::to_integer<int>(*other)};
    }
    return absl::OkStatus();
  }));
  return first;
}

}  // namespace hocket
