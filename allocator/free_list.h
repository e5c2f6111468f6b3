// Free blocks by size, and of equal ones by address: best fit finds the first that is large enough.
//
// Size and address of a block are one word, the size in its upper half, both in units of kBlockUnit, the
// address from the region's base on. Words are compared by one instruction, and twice as many of them lie in
// a node of the tree as pairs would. So a region has kMostAddresses at most.
//
// Not thread-safe.
#ifndef HOCKET_ALLOCATOR_FREE_LIST_H_
#define HOCKET_ALLOCATOR_FREE_LIST_H_

#include <cstdint>
#include <optional>

#include "absl/container/btree_set.h"
#include "allocator/cuda_abi.h"
#include "csrc/base/bytes.h"

namespace hocket {

inline constexpr Bytes kBlockUnit = 512;

class FreeList {
 public:
  static constexpr Bytes kMostAddresses = kBlockUnit << 32;

  struct Entry {
    Bytes size = 0;
    DevicePtr address = 0;
  };

  explicit FreeList(DevicePtr base) : base_(base) {}

  // REQUIRES, of all three: multiples of kBlockUnit; the block lies within the region.
  void Insert(Bytes size, DevicePtr address) { words_.insert(WordOf(size, address)); }
  void Erase(Bytes size, DevicePtr address) { words_.erase(WordOf(size, address)); }
  bool Contains(Bytes size, DevicePtr address) const { return words_.contains(WordOf(size, address)); }

  // The smallest of at least `size`, of these the lowest. `size` may be anything.
  std::optional<Entry> BestFit(Bytes size) const {
    const auto found = FirstOf(size);
    return found == words_.end() ? std::nullopt : std::optional(EntryOf(*found));
  }
  // The lowest of at least `size`, which may be anything. Looks at all of them.
  std::optional<Entry> LowestFit(Bytes size) const {
    std::optional<Entry> lowest;
    for (auto at = FirstOf(size); at != words_.end(); ++at) {
      const Entry entry = EntryOf(*at);
      if (!lowest || entry.address < lowest->address) lowest = entry;
    }
    return lowest;
  }
  // REQUIRES: not empty.
  Bytes Largest() const { return EntryOf(*words_.rbegin()).size; }

  // In order.
  template <typename Function>
  void ForEach(Function&& f) const {
    for (const std::uint64_t word : words_) f(EntryOf(word));
  }
  bool empty() const { return words_.empty(); }
  std::size_t size() const { return words_.size(); }

 private:
  std::uint64_t WordOf(Bytes size, DevicePtr address) const {
    return size / kBlockUnit << 32 | (address - base_) / kBlockUnit;
  }
  // A program may ask for more than a word can say.
  absl::btree_set<std::uint64_t>::const_iterator FirstOf(Bytes size) const {
    return size >= kMostAddresses ? words_.end() : words_.lower_bound(WordOf(size, base_));
  }
  Entry EntryOf(std::uint64_t word) const {
    return {.size = (word >> 32) * kBlockUnit, .address = base_ + (word & 0xffff'ffff) * kBlockUnit};
  }

  DevicePtr base_;
  absl::btree_set<std::uint64_t> words_;
};

}  // namespace hocket

#endif  // HOCKET_ALLOCATOR_FREE_LIST_H_
