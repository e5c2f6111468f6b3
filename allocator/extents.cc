#include "allocator/extents.h"

#include <algorithm>
#include <iterator>

namespace hocket {

std::vector<Extent> Merged(std::vector<Extent> extents) {
  std::sort(extents.begin(), extents.end(),
            [](const Extent& a, const Extent& b) { return a.offset < b.offset; });
  std::vector<Extent> merged;
  for (const Extent& extent : extents) {
    if (merged.empty() || merged.back().end() < extent.offset) {
      merged.push_back(extent);
    } else {
      merged.back().size = std::max(merged.back().end(), extent.end()) - merged.back().offset;
    }
  }
  return merged;
}

bool Overlaps(const std::vector<Extent>& extents, Bytes offset, Bytes size) {
  const auto behind = std::upper_bound(extents.begin(), extents.end(), offset + size - 1,
                                       [](Bytes last, const Extent& extent) { return last < extent.offset; });
  return behind != extents.begin() && std::prev(behind)->end() > offset;
}

}  // namespace hocket
