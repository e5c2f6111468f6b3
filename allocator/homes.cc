#include "allocator/homes.h"

#include <algorithm>
#include <utility>

namespace hocket {
namespace {

// What of [0, end of the last) is in none of `extents`, which may overlap, for ever.
std::vector<Stay> Between(std::vector<Extent> extents) {
  std::vector<Stay> between;
  Bytes end = 0;
  for (const Extent& extent : Merged(std::move(extents))) {
    if (extent.offset > end) between.push_back({end, extent.offset - end, 0, kForEver});
    end = extent.end();
  }
  return between;
}

bool Overlap(const std::vector<Stay>& stays) {
  std::vector<Stay> sorted = stays;
  std::sort(sorted.begin(), sorted.end(), [](const Stay& a, const Stay& b) { return a.place < b.place; });
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    const Stay& a = sorted[i];
    for (std::size_t j = i + 1; j < sorted.size() && sorted[j].place < a.place + a.size; ++j) {
      if (a.begin < sorted[j].end && sorted[j].begin < a.end) return true;
    }
  }
  return false;
}

}  // namespace

std::optional<Homes> Homes::Of(const std::vector<StepEntry>& step, std::vector<Home> homes,
                               const std::vector<Extent>& empty, const std::vector<Extent>& taken) {
  Homes in_turn(step, homes, empty);
  if (in_turn.Fit(step, taken)) return in_turn;
  for (Home& home : homes) home.address[0] = home.address[1];
  Homes alike(step, std::move(homes), empty);
  if (alike.Fit(step, taken)) return alike;
  return std::nullopt;
}

Homes::Homes(const std::vector<StepEntry>& step, std::vector<Home> homes, const std::vector<Extent>& empty)
    : homes_(std::move(homes)) {
  std::vector<Extent> all = empty;
  for (const Home& home : homes_) {
    for (const DevicePtr address : home.address) all.push_back({address, step[home.entry].size});
  }
  Bytes end = 0;
  for (const Extent& extent : all) end = std::max(end, extent.end());
  for (const bool odd : {false, true}) {
    Room& room = rooms_[odd];
    room.size = end;
    room.taken = Between(all);
    for (const Home& home : homes_) {
      const StepEntry& entry = step[home.entry];
      if (home.left > 0) room.taken.push_back({home.address[!odd], entry.size, 0, home.left});
      room.taken.push_back({home.address[odd], entry.size, entry.born, kForEver});
    }
  }
}

bool Homes::Fit(const std::vector<StepEntry>& step, const std::vector<Extent>& taken) const {
  const bool occupied = std::any_of(homes_.begin(), homes_.end(), [&](const Home& home) {
    return Overlaps(taken, home.address[0], step[home.entry].size);
  });
  return !occupied && !Overlap(rooms_[0].taken) && !Overlap(rooms_[1].taken);
}

bool Homes::IsOdd(absl::FunctionRef<bool(DevicePtr)> is_there) const {
  constexpr int kVotes = 8;
  int votes = 0, odd = 0;
  for (const Home& home : homes_) {
    if (home.address[0] == home.address[1] || home.left == 0) continue;
    const bool even_there = is_there(home.address[0]);
    if (even_there == is_there(home.address[1])) continue;
    odd += even_there ? 1 : -1;
    if (++votes == kVotes) break;
  }
  return odd > 0;
}

}  // namespace hocket
