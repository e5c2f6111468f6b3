// Offline packing: a place for each of many blocks whose lifetimes are known.
//
// The large ones first, largest first, each at the lowest place that is free for its whole life. What is
// small against the whole (a few thousandths) lies in a strip of its own, placed in the order of time: there
// are many of them, and where they lie hardly matters.
//
//   place ^   +------------------+ strip |.:.:.|:.|.|
//         |   |    b    |  +-----+---+
//         |   +----+----+--+    d    |
//         |   | a  |   c   +---------+
//         +---+----+-------+----------> time
//
// On six recorded trainings the result is 1.000 to 1.010 times the largest sum of what is alive at once,
// where best fit in the order of time needs up to 1.09 times (docs/decisions/0007).
//
// Knows only numbers. Thread-safe.
#ifndef HOCKET_ALLOCATOR_PACKING_H_
#define HOCKET_ALLOCATOR_PACKING_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "allocator/extents.h"

namespace hocket {

inline constexpr std::uint32_t kForEver = ~std::uint32_t{0};

// A block that lives in [begin, end), in any unit of time. REQUIRES: begin < end, size > 0.
struct Lifetime {
  Bytes size = 0;
  std::uint32_t begin = 0;
  std::uint32_t end = 0;
};

struct Packing {
  std::vector<Bytes> offsets;  // of each block, in the order given
  Bytes footprint = 0;         // where the last one ends
};

// Blocks that live at the same time do not overlap, and none overlaps an extent of `taken` (sorted by offset,
// not overlapping). Takes time with the square of the number of large blocks: 40 ms for the 11,000 of a
// ResNet-50's step.
Packing Pack(absl::Span<const Lifetime> blocks, absl::Span<const Extent> taken = {});

// The largest sum of sizes alive at once: no packing can be smaller.
Bytes LivePeak(absl::Span<const Lifetime> blocks);

// Memory in which others lie for part of the time: they have `taken`, and what is behind `size`.
struct Stay {
  Bytes place = 0;
  Bytes size = 0;
  std::uint32_t begin = 0, end = 0;
};
struct Room {
  std::vector<Stay> taken;
  Bytes size = 0;
};

struct Lodger {
  std::uint32_t block = 0;
  std::vector<Bytes> places;  // one in each of the rooms
};
// Which blocks to put elsewhere than the others, so that the largest sum of what is left is small: of those
// alive at its peak the largest that has a place in each of the rooms, as long as there is one. Few, as a
// rule, and none where they would be of little use. Takes time with their number times that of the blocks.
std::vector<Lodger> ChooseLodgers(absl::Span<const Lifetime> blocks, absl::Span<const Room> rooms);

}  // namespace hocket

#endif  // HOCKET_ALLOCATOR_PACKING_H_
