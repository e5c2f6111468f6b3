#include "allocator/plan.h"

#include <algorithm>
#include <utility>

#include "allocator/packing.h"
#include "csrc/base/check.h"

namespace hocket {
namespace {

Stream StreamWithMostBytes(const std::vector<StepEntry>& step) {
  absl::flat_hash_map<Stream, Bytes> bytes;
  for (const StepEntry& entry : step) bytes[entry.stream] += entry.size;
  const auto most = std::max_element(bytes.begin(), bytes.end(),
                                     [](const auto& a, const auto& b) { return a.second < b.second; });
  return most == bytes.end() ? nullptr : most->first;
}

bool SameExtents(const std::vector<Extent>& a, const std::vector<Extent>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Extent& x, const Extent& y) {
    return x.offset == y.offset && x.size == y.size;
  });
}

}  // namespace

Plan::Plan(std::vector<StepEntry> step) : step_(std::move(step)), stream_(StreamWithMostBytes(step_)) {
  for (Index i = 0; i < step_.size(); ++i) {
    if (HasPlace(i)) ends_.push_back(i);
  }
  std::sort(ends_.begin(), ends_.end(), [this](Index a, Index b) { return step_[a].freed < step_[b].freed; });
}

bool Plan::BeginsLike(const std::vector<StepEntry>& begun) const {
  return begun.size() <= step_.size() &&
         std::equal(begun.begin(), begun.end(), step_.begin(), [](const StepEntry& a, const StepEntry& b) {
           return a.size == b.size && a.stream == b.stream;
         });
}

// --- places ---------------------------------------------------------------------------------------------

bool Plan::IsIn(const std::vector<Extent>& taken, const Place& place) const {
  return place.slot != kNone && Overlaps(taken, place.offset, step_[&place - places_.data()].size);
}

bool Plan::FitsAround(const std::vector<Extent>& taken) const {
  return packings_ > 0 &&
         std::none_of(places_.begin(), places_.end(), [&](const Place& place) { return IsIn(taken, place); });
}

void Plan::PlaceAround(const std::vector<Extent>& taken, bool may_move) {
  HOCKET_CHECK(!leased()) << "places move under a lease";
  if (homes_ && misses_ >= kMisses) ForgetHomes();
  const bool settled = !may_move || !blocked_ || packings_ == kPackings;
  if (packings_ > 0 && settled && SameExtents(taken, taken_)) return;
  if (packings_ == 0 || (may_move && packings_ < kPackings && !FitsAround(taken))) Pack(taken);
  blocked_ = false;
  for (Place& place : places_) blocked_ |= place.blocked = IsIn(taken, place);
  taken_ = taken;
  CountUsable();
}

void Plan::CountUsable() {
  std::vector<Extent> all;
  for (Index i = 0; i < places_.size(); ++i) {
    if (places_[i].slot != kNone && !places_[i].blocked) all.push_back({places_[i].offset, step_[i].size});
  }
  usable_ = all.size();
  covered_ = Merged(std::move(all));
}

void Plan::Pack(const std::vector<Extent>& taken) {
  ++packings_;
  std::vector<Index> placed;
  std::vector<Lifetime> lifetimes;
  for (Index i = 0; i < step_.size(); ++i) {
    if (!HasPlace(i) || HasHome(i)) continue;
    placed.push_back(i);
    lifetimes.push_back({step_[i].size, step_[i].born, step_[i].freed});
  }
  const Packing packing = hocket::Pack(lifetimes, taken);
  footprint_ = packing.footprint;
  places_.assign(step_.size(), Place());
  blocks_base_ = 0;
  slots_.clear();
  for (Index i = 0; i < placed.size(); ++i) {
    Place& place = places_[placed[i]];
    place.offset = packing.offsets[i];
    place.slot = slots_.try_emplace(place.offset, static_cast<Index>(slots_.size())).first->second;
  }
}

// --- homes ----------------------------------------------------------------------------------------------

bool Plan::SetHomes(std::optional<Homes> homes) {
  HOCKET_CHECK(!leased() && WantsHomes()) << "homes move under a lease";
  ++homings_;
  if (!homes) return false;
  std::vector<Index> transient;
  std::vector<Lifetime> lifetimes;
  for (Index i = 0; i < step_.size(); ++i) {
    if (!HasPlace(i)) continue;
    transient.push_back(i);
    lifetimes.push_back({step_[i].size, step_[i].born, step_[i].freed});
  }
  const std::vector<Lodger> lodgers = ChooseLodgers(lifetimes, homes->rooms());
  if (lodgers.empty()) {
    homings_ = kHomings;
    return false;
  }
  homes_ = std::move(homes);
  at_.assign(step_.size(), {});
  for (const Homes::Home& home : homes_->homes()) at_[home.entry] = home.address;
  for (const Lodger& lodger : lodgers) at_[transient[lodger.block]] = {lodger.places[0], lodger.places[1]};
  misses_ = packings_ = followed_ = 0;
  return true;
}

void Plan::ForgetHomes() {
  homes_.reset();
  at_.clear();
  misses_ = packings_ = 0;
}

void Plan::Followed() {
  odd_ = !odd_;
  misses_ = 0;
  if (homes_ && ++followed_ == kLong) homings_ = 0;
}

void Plan::Missed() {
  ++deviations_;
  misses_ += std::exchange(missed_, true) ? 0 : 1;
}

// --- a lease --------------------------------------------------------------------------------------------

void Plan::BeginLease(DevicePtr base) {
  HOCKET_CHECK(!leased() && packings_ > 0) << "a lease without places";
  if (blocks_base_ != base) MoveBlocks(base);
  base_ = base;
  used_ = 0;
  ++lease_;
  Restart(0);
}

void Plan::MoveBlocks(DevicePtr base) {
  blocks_base_ = base;
  occupant_.assign(slots_.size(), kNone);
  blocks_.resize(step_.size());
  for (Index i = 0; i < step_.size(); ++i) {
    blocks_[i].address = base + places_[i].offset;
    blocks_[i].size = step_[i].size;
    blocks_[i].stream = stream_;
  }
}

std::vector<Block> Plan::EndLease() {
  std::vector<Block> live;
  if (live_bytes_ > 0) {
    for (Block& block : blocks_) {
      if (block.state == Block::State::kFree) continue;
      live.push_back(block);
      Free(&block);
    }
    std::sort(live.begin(), live.end(), [](const Block& a, const Block& b) { return a.address < b.address; });
  }
  for (const Index stray : strays_) places_[stray].stray = false;
  strays_.clear();
  base_ = 0;
  if (!missed_) misses_ = 0;
  return live;
}

void Plan::ForEachUsed(absl::FunctionRef<void(DevicePtr address, Bytes size)> f) const {
  if (used_ == usable_) {
    for (const Extent& extent : covered_) f(base_ + extent.offset, extent.size);
    return;
  }
  for (Index i = 0; i < places_.size(); ++i) {
    if (places_[i].last_used == lease_) f(blocks_[i].address, blocks_[i].size);
  }
}

void Plan::BeginStep(std::size_t begun) {
  PassEnds(StepEntry::kAlive);
  Restart(begun);
}

void Plan::Restart(std::size_t begun) {
  next_end_ = 0;
  deviations_ = 0;
  missed_ = false;
  alignment_.Restart();
  alignment_.Skip(begun);
}

void Plan::PassEnds(std::uint32_t now) {
  for (; next_end_ < ends_.size() && step_[ends_[next_end_]].freed <= now; ++next_end_) {
    AddStray(ends_[next_end_]);
  }
}

// What was placed by mistake has come before its time, and ends that were passed for it are to come again. A
// mistake without a place has passed none.
void Plan::GoBack(Index to, Index mistake) {
  AddStray(mistake);
  const auto ahead =
      std::upper_bound(ends_.begin(), ends_.end(), step_[to].born,
                       [this](std::uint32_t now, Index end) { return now < step_[end].freed; });
  next_end_ = std::min(next_end_, static_cast<std::size_t>(ahead - ends_.begin()));
}

void Plan::AddStray(Index index) {
  if (blocks_[index].state == Block::State::kFree || std::exchange(places_[index].stray, true)) return;
  strays_.push_back(index);
}

bool Plan::MeetsStray(Index index) {
  const Block& place = blocks_[index];
  bool meets = false;
  std::erase_if(strays_, [&](Index stray) {
    const Block& block = blocks_[stray];
    if (block.state == Block::State::kFree) {
      places_[stray].stray = false;
      return true;
    }
    meets |= block.address < place.end() && place.address < block.end();
    return false;
  });
  return meets;
}

Plan::Answer Plan::Next(Bytes size, Stream stream) {
  const Alignment::Match match = alignment_.Next(step_, size, stream);
  if (!match.found) {
    ++deviations_;
    return {.deviates = true};
  }
  const Index index = match.index;
  if (match.undid_jump) GoBack(index, match.mistake);
  const bool at_home = HasHome(index) && match.sure;
  if (at_home) home_ = at_[index][odd_];
  if (step_[index].survives()) return {.known = true, .survives = match.sure, .at_home = at_home};
  if (stream != stream_) return {.known = true};
  PassEnds(step_[index].born);
  if (at_home) return {.known = true, .at_home = true};
  Place& place = places_[index];
  if (place.blocked || place.slot == kNone || (!strays_.empty() && MeetsStray(index))) {
    ++deviations_;
    return {.known = true, .deviates = true};
  }
  Block& block = blocks_[index];
  HOCKET_CHECK(block.state == Block::State::kFree && occupant_[place.slot] == kNone)
      << "place " << index << " is given out twice";
  block.state = Block::State::kAllocated;
  occupant_[place.slot] = index;
  used_ += std::exchange(place.last_used, lease_) != lease_;
  live_bytes_ += block.size;
  return {.known = true, .block = &block};
}

// --- blocks ---------------------------------------------------------------------------------------------

Block* Plan::Find(DevicePtr address) {
  if (address - base_ >= footprint_) return nullptr;
  const auto slot = slots_.find(address - base_);
  if (slot == slots_.end() || occupant_[slot->second] == kNone) return nullptr;
  return &blocks_[occupant_[slot->second]];
}

Block* Plan::Around(DevicePtr address) {
  for (Block& block : blocks_) {
    if (block.state != Block::State::kFree && block.address <= address && address < block.end())
      return &block;
  }
  return nullptr;
}

void Plan::Free(Block* block) {
  HOCKET_CHECK(Owns(block) && block->state != Block::State::kFree) << "block freed twice";
  block->state = Block::State::kFree;
  block->used_on.clear();
  live_bytes_ -= block->size;
  occupant_[places_[block - blocks_.data()].slot] = kNone;
}

void Plan::ForEachBlock(absl::FunctionRef<void(const Block&)> f) const {
  for (const Block& block : blocks_) {
    if (block.state != Block::State::kFree) f(block);
  }
}

void Plan::CheckInvariants() const {
  std::vector<const Block*> live;
  Bytes bytes = 0;
  for (Index i = 0; i < blocks_.size(); ++i) {
    const Block& block = blocks_[i];
    if (block.state == Block::State::kFree) continue;
    HOCKET_CHECK(leased()) << "a planned block outlives its lease";
    HOCKET_CHECK(!places_[i].blocked) << "place " << i << " is taken by somebody else";
    HOCKET_CHECK(occupant_[places_[i].slot] == i) << "place " << i << " is not found by its address";
    bytes += block.size;
    live.push_back(&block);
  }
  HOCKET_CHECK(bytes == live_bytes_) << bytes << " bytes live, " << live_bytes_ << " counted";
  std::sort(live.begin(), live.end(), [](const Block* a, const Block* b) { return a->address < b->address; });
  for (std::size_t i = 1; i < live.size(); ++i) {
    HOCKET_CHECK(live[i - 1]->end() <= live[i]->address) << "planned blocks overlap at " << live[i]->address;
  }
}

}  // namespace hocket
