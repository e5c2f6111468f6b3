// Runs of bytes, as offsets in a chunk or in a region.
#ifndef HOCKET_ALLOCATOR_EXTENTS_H_
#define HOCKET_ALLOCATOR_EXTENTS_H_

#include <vector>

#include "csrc/base/bytes.h"

namespace hocket {

// Bytes [offset, end()).
struct Extent {
  Bytes offset = 0;
  Bytes size = 0;

  Bytes end() const { return offset + size; }
  bool operator==(const Extent&) const = default;
};

// What the extents cover: in order, neither overlapping nor touching each other.
std::vector<Extent> Merged(std::vector<Extent> extents);

// Does [offset, offset + size) overlap one of `extents` (in order, not overlapping)?
bool Overlaps(const std::vector<Extent>& extents, Bytes offset, Bytes size);

}  // namespace hocket

#endif  // HOCKET_ALLOCATOR_EXTENTS_H_
