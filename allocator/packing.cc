#include "allocator/packing.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace hocket {
namespace {

constexpr Bytes kSmallShare = 4096;   // small: less than this part of the peak
constexpr Bytes kSmallLodger = 1024;  // not worth a look: less than this part of it
constexpr Bytes kSmallGain = 256;     // nor is so little less than the peak
constexpr std::size_t kMostLodgers = 512;

using Index = std::uint32_t;

// (time, block), in order of time; where one block ends and another begins, the end comes first.
struct Moment {
  std::uint32_t time;
  bool begins;
  Index block;

  bool operator<(const Moment& other) const {
    return time != other.time ? time < other.time : begins < other.begins;
  }
};

template <typename Blocks>
std::vector<Moment> Moments(absl::Span<const Lifetime> all, const Blocks& chosen) {
  std::vector<Moment> moments;
  moments.reserve(2 * chosen.size());
  for (const Index block : chosen) {
    moments.push_back({all[block].begin, true, block});
    moments.push_back({all[block].end, false, block});
  }
  std::stable_sort(moments.begin(), moments.end());
  return moments;
}

// What is placed already, in order of place.
class Placed {
 public:
  // The lowest place that is free for `size` bytes from `begin` to `end`; it is taken from now on.
  Bytes Take(Bytes size, std::uint32_t begin, std::uint32_t end) {
    const Bytes place = Find(size, begin, end);
    Add(place, size, begin, end);
    return place;
  }
  Bytes Find(Bytes size, std::uint32_t begin, std::uint32_t end) const {
    Bytes place = 0;
    for (const Entry& other : entries_) {
      if (other.begin >= end || begin >= other.end) continue;
      if (other.from >= place + size) break;
      place = std::max(place, other.to);
    }
    return place;
  }
  void Add(Bytes place, Bytes size, std::uint32_t begin, std::uint32_t end) {
    const Entry entry{place, place + size, begin, end};
    const auto behind = std::lower_bound(entries_.begin(), entries_.end(), entry,
                                         [](const Entry& a, const Entry& b) { return a.from < b.from; });
    entries_.insert(behind, entry);
  }

 private:
  struct Entry {
    Bytes from, to;
    std::uint32_t begin, end;
  };
  std::vector<Entry> entries_;
};

// Best fit in the order of time; places are counted from the strip's start. Returns the strip's size.
Bytes PackStrip(absl::Span<const Lifetime> all, const std::vector<Index>& small, std::vector<Bytes>& places) {
  std::map<Bytes, Bytes> free;                // place -> size
  std::set<std::pair<Bytes, Bytes>> by_size;  // (size, place)
  Bytes end = 0;
  const auto give = [&](Bytes place, Bytes size) {
    auto next = free.lower_bound(place);
    if (next != free.end() && next->first == place + size) {
      by_size.erase({next->second, next->first});
      size += next->second;
      next = free.erase(next);
    }
    if (next != free.begin() && std::prev(next)->first + std::prev(next)->second == place) {
      --next;
      by_size.erase({next->second, next->first});
      place = next->first;
      size += next->second;
      free.erase(next);
    }
    free.emplace(place, size);
    by_size.emplace(size, place);
  };
  for (const Moment& moment : Moments(all, small)) {
    const Bytes size = all[moment.block].size;
    if (!moment.begins) {
      give(places[moment.block], size);
      continue;
    }
    auto best = by_size.lower_bound({size, 0});
    if (best == by_size.end()) {
      give(end, size);
      end += size;
      best = by_size.lower_bound({size, 0});
    }
    const auto [found, place] = *best;
    by_size.erase(best);
    free.erase(place);
    if (found > size) {
      free.emplace(place + size, found - size);
      by_size.emplace(found - size, place + size);
    }
    places[moment.block] = place;
  }
  return end;
}

// Where the rooms have a place for the block, in each of them; empty: one has none.
std::vector<Bytes> PlacesFor(const Lifetime& block, absl::Span<const Placed> placed,
                             absl::Span<const Room> rooms) {
  std::vector<Bytes> places;
  for (std::size_t i = 0; i < rooms.size(); ++i) {
    places.push_back(placed[i].Find(block.size, block.begin, block.end));
    if (places.back() + block.size > rooms[i].size) return {};
  }
  return places;
}

// Those of the blocks, without `out`, that are alive when most is.
std::vector<Index> AtThePeak(absl::Span<const Lifetime> blocks, const std::vector<Moment>& moments,
                             const std::vector<bool>& out) {
  Bytes live = 0, peak = 0;
  std::uint32_t when = 0;
  for (const Moment& moment : moments) {
    if (out[moment.block]) continue;
    live = moment.begins ? live + blocks[moment.block].size : live - blocks[moment.block].size;
    if (live > peak) when = moment.time;
    peak = std::max(peak, live);
  }
  std::vector<Index> found;
  for (Index i = 0; i < blocks.size(); ++i) {
    if (!out[i] && blocks[i].begin <= when && when < blocks[i].end) found.push_back(i);
  }
  return found;
}

}  // namespace

Bytes LivePeak(absl::Span<const Lifetime> blocks) {
  std::vector<Index> all(blocks.size());
  for (Index i = 0; i < all.size(); ++i) all[i] = i;
  Bytes live = 0;
  Bytes peak = 0;
  for (const Moment& moment : Moments(blocks, all)) {
    live = moment.begins ? live + blocks[moment.block].size : live - blocks[moment.block].size;
    peak = std::max(peak, live);
  }
  return peak;
}

std::vector<Lodger> ChooseLodgers(absl::Span<const Lifetime> blocks, absl::Span<const Room> rooms) {
  const Bytes border = LivePeak(blocks) / kSmallLodger;
  std::vector<Placed> placed(rooms.size());
  for (std::size_t i = 0; i < rooms.size(); ++i) {
    for (const Stay& stay : rooms[i].taken) placed[i].Add(stay.place, stay.size, stay.begin, stay.end);
  }
  std::vector<Index> all(blocks.size());
  for (Index i = 0; i < all.size(); ++i) all[i] = i;
  const std::vector<Moment> moments = Moments(blocks, all);
  std::vector<bool> out(blocks.size()), tried(blocks.size());
  std::vector<Lodger> lodgers;
  for (bool more = true; more && lodgers.size() < kMostLodgers;) {
    std::vector<Index> candidates = AtThePeak(blocks, moments, out);
    std::erase_if(candidates, [&](Index i) { return tried[i] || blocks[i].size <= border; });
    std::stable_sort(candidates.begin(), candidates.end(),
                     [&](Index a, Index b) { return blocks[a].size > blocks[b].size; });
    more = false;
    for (const Index i : candidates) {
      tried[i] = true;
      std::vector<Bytes> places = PlacesFor(blocks[i], placed, rooms);
      if (places.empty()) continue;
      for (std::size_t room = 0; room < rooms.size(); ++room) {
        placed[room].Add(places[room], blocks[i].size, blocks[i].begin, blocks[i].end);
      }
      lodgers.push_back({i, std::move(places)});
      out[i] = more = true;
    }
  }
  std::vector<Lifetime> rest;
  for (const Index i : all) {
    if (!out[i]) rest.push_back(blocks[i]);
  }
  if ((LivePeak(blocks) - LivePeak(rest)) < LivePeak(blocks) / kSmallGain) lodgers.clear();
  return lodgers;
}

Packing Pack(absl::Span<const Lifetime> blocks, absl::Span<const Extent> taken) {
  Packing packing{.offsets = std::vector<Bytes>(blocks.size()), .footprint = 0};
  const Bytes border = LivePeak(blocks) / kSmallShare;
  std::vector<Index> large, small;
  for (Index i = 0; i < blocks.size(); ++i) (blocks[i].size > border ? large : small).push_back(i);
  std::stable_sort(large.begin(), large.end(),
                   [&](Index a, Index b) { return blocks[a].size > blocks[b].size; });

  Placed placed;
  for (const Extent& extent : taken) placed.Add(extent.offset, extent.size, 0, kForEver);
  for (const Index i : large) {
    packing.offsets[i] = placed.Take(blocks[i].size, blocks[i].begin, blocks[i].end);
  }
  if (!small.empty()) {
    const Bytes size = PackStrip(blocks, small, packing.offsets);
    const Bytes strip = placed.Take(size, 0, kForEver);
    for (const Index i : small) packing.offsets[i] += strip;
  }
  for (Index i = 0; i < blocks.size(); ++i) {
    packing.footprint = std::max(packing.footprint, packing.offsets[i] + blocks[i].size);
  }
  return packing;
}

}  // namespace hocket
