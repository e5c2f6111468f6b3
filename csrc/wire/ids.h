// Numbers in a field of bytes: eight each, little-endian.
#ifndef HOCKET_CSRC_WIRE_IDS_H_
#define HOCKET_CSRC_WIRE_IDS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace hocket::wire {

inline std::string PackIds(absl::Span<const std::uint64_t> ids) {
  std::string packed;
  for (const std::uint64_t id : ids) {
    for (int shift = 0; shift < 64; shift += 8) packed.push_back(static_cast<char>(id >> shift));
  }
  return packed;
}

// What is left at the end of less than eight bytes is none.
inline std::vector<std::uint64_t> UnpackIds(absl::string_view packed) {
  std::vector<std::uint64_t> ids;
  for (; packed.size() >= 8; packed.remove_prefix(8)) {
    std::uint64_t id = 0;
    for (int i = 7; i >= 0; --i) id = id << 8 | static_cast<unsigned char>(packed[i]);
    ids.push_back(id);
  }
  return ids;
}

}  // namespace hocket::wire

#endif  // HOCKET_CSRC_WIRE_IDS_H_
