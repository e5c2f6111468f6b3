#include "allocator/block_map.h"

#include <algorithm>

#include "csrc/base/check.h"

namespace hocket {

BlockMap::BlockMap(DevicePtr base, Bytes chunk_size, Position positions)
    : base_(base), chunk_size_(chunk_size), places_(positions) {
  HOCKET_CHECK(positions <= FreeList::kMostAddresses / chunk_size) << positions << " of " << chunk_size;
}

BlockMap::Blocks::const_iterator BlockMap::FirstEndingAfter(DevicePtr address) const {
  auto it = blocks_.upper_bound(address);
  if (it != blocks_.begin() && std::prev(it)->second.end() > address) --it;
  return it;
}

std::vector<std::pair<DevicePtr, Bytes>> BlockMap::Gaps(DevicePtr begin, DevicePtr end) const {
  std::vector<std::pair<DevicePtr, Bytes>> gaps;
  DevicePtr covered = begin;
  for (auto it = FirstEndingAfter(begin); it != blocks_.end() && it->first < end; ++it) {
    if (it->first > covered) gaps.emplace_back(covered, it->first - covered);
    covered = std::max(covered, it->second.end());
  }
  if (covered < end) gaps.emplace_back(covered, end - covered);
  return gaps;
}

void BlockMap::Back(Position position, PoolIndex pool, Stream stream) {
  Place& place = places_[position];
  HOCKET_CHECK(!place.backed) << "position " << position << " is backed already";
  HOCKET_CHECK(place.live == 0 || place.pool == pool) << "position " << position << " changes its pool";
  place.backed = true;
  place.kept = false;
  place.pool = pool;
  end_of_use_ = std::max(end_of_use_, position + 1);
  for (const auto& [address, size] : Gaps(AddressOf(position), AddressOf(position + 1))) {
    InsertFree(address, size, pool, stream);
  }
}

bool BlockMap::Release(Position position) {
  places_[position].kept = false;
  MayBeEmpty(position);
  return places_[position].live == 0;
}

void BlockMap::Unback(Position position, bool keep) {
  HOCKET_CHECK(places_[position].backed) << "position " << position << " is not backed";
  const DevicePtr begin = AddressOf(position);
  const DevicePtr end = AddressOf(position + 1);
  places_[position].backed = false;
  places_[position].kept = keep;
  MayBeEmpty(position);
  const auto start = FirstEndingAfter(begin);
  auto it = blocks_.erase(start, start);  // erases nothing: a const_iterator becomes an iterator
  while (it != blocks_.end() && it->first < end) {
    const auto next = std::next(it);
    const Block block = it->second;
    if (block.state == Block::State::kFree) {
      RemoveFree(it);
      if (block.address < begin) InsertFree(block.address, begin - block.address, block.pool, block.stream);
      if (block.end() > end) InsertFree(end, block.end() - end, block.pool, block.stream);
      if (block.end() > end) break;
    }
    it = next;
  }
}

bool BlockMap::IsFreeFor(Position position, Stream stream) const {
  if (!places_[position].backed || places_[position].live > 0) return false;
  const DevicePtr end = AddressOf(position + 1);
  for (auto it = FirstEndingAfter(AddressOf(position)); it != blocks_.end() && it->first < end; ++it) {
    if (!Joins(it->second, 0, stream)) return false;
  }
  return true;
}

std::vector<Extent> BlockMap::LiveExtents(Position position) const {
  return Extents(position, [](const Block& block) { return block.state != Block::State::kFree; });
}

std::vector<Extent> BlockMap::ConstantExtents(Position position) const {
  return Extents(position, [](const Block& block) { return block.promise != nullptr; });
}

void BlockMap::ForEachConstant(Position position, absl::FunctionRef<void(Block&)> f) {
  const auto first = FirstEndingAfter(AddressOf(position));
  for (auto it = blocks_.erase(first, first); it != blocks_.end(); ++it) {
    if (it->first >= AddressOf(position + 1)) break;
    if (it->second.promise != nullptr) f(it->second);
  }
}

void BlockMap::ForEachLive(Position position, absl::FunctionRef<void(const Block&)> f) const {
  for (auto it = FirstEndingAfter(AddressOf(position)); it != blocks_.end(); ++it) {
    if (it->first >= AddressOf(position + 1)) break;
    if (it->second.state != Block::State::kFree) f(it->second);
  }
}

Stage BlockMap::StageOf(Position position) const {
  if (pool(position) != 0) return 0;
  std::optional<Stage> earliest;
  ForEachLive(position,
              [&](const Block& block) { earliest = std::min(earliest.value_or(block.stage), block.stage); });
  return earliest.value_or(0);
}

void BlockMap::AddStreams(Position position, std::set<Stream>& streams) const {
  ForEachLive(position, [&](const Block& block) {
    streams.insert(block.stream);
    streams.insert(block.used_on.begin(), block.used_on.end());
  });
}

std::vector<Extent> BlockMap::Extents(Position position, absl::FunctionRef<bool(const Block&)> counts) const {
  const DevicePtr begin = AddressOf(position);
  const DevicePtr end = AddressOf(position + 1);
  std::vector<Extent> extents;
  for (auto it = FirstEndingAfter(begin); it != blocks_.end() && it->first < end; ++it) {
    if (!counts(it->second)) continue;
    const Bytes from = std::max(it->first, begin) - begin;
    const Bytes to = std::min(it->second.end(), end) - begin;
    if (!extents.empty() && extents.back().end() == from) {
      extents.back().size += to - from;
    } else {
      extents.push_back({from, to - from});
    }
  }
  return extents;
}

void BlockMap::ForgetUse() {
  for (Position position = 0; position < end_of_use_; ++position) {
    places_[position].used = places_[position].live > 0;
  }
}

BlockMap::Position BlockMap::CountUsed() const {
  return static_cast<Position>(std::count_if(places_.begin(), places_.begin() + end_of_use_,
                                             [](const Place& place) { return place.used && place.backed; }));
}

std::vector<BlockMap::Position> BlockMap::WithLiveBlocks() const {
  std::vector<Position> positions;
  for (Position position = 0; position < end_of_use_; ++position) {
    if (places_[position].live > 0) positions.push_back(position);
  }
  return positions;
}

const FreeList* BlockMap::FreeOf(PoolIndex pool, Stream stream) const {
  const auto found = free_.find(FreeKey(pool, stream));
  return found == free_.end() ? nullptr : &found->second;
}

std::optional<FreeList::Entry> BlockMap::Choose(Bytes size, Stream stream, PoolIndex pool, Fit fit) const {
  std::optional<FreeList::Entry> best;
  for (const FreeList* list : {FreeOf(pool, stream), FreeOf(pool, kAnyStream)}) {
    if (list == nullptr) continue;
    const auto found = fit == Fit::kBest ? list->BestFit(size) : list->LowestFit(size);
    if (!found) continue;
    const bool by_size = best && fit == Fit::kBest && found->size != best->size;
    if (!best || (by_size ? found->size < best->size : found->address < best->address)) best = found;
  }
  return best;
}

Block* BlockMap::Allocate(Bytes size, Stream stream, PoolIndex pool, Fit fit) {
  HOCKET_CHECK(size > 0 && size % kBlockUnit == 0) << size;
  const auto best = Choose(size, stream, pool, fit);
  if (!best) return nullptr;

  return Cut(blocks_.find(best->address), size, stream);
}

// In place: this is what a malloc costs.
Block* BlockMap::Cut(Blocks::iterator it, Bytes size, Stream stream) {
  Block& block = it->second;
  Unlist(block);
  const Bytes whole = std::exchange(block.size, size);
  const Stream order = std::exchange(block.stream, stream);
  block.requested = size;
  block.state = Block::State::kAllocated;
  if (whole > size) {
    const auto rest = blocks_.emplace_hint(std::next(it), block.end(), Block());
    rest->second.address = block.end();
    rest->second.size = whole - size;
    rest->second.pool = block.pool;
    MakeFree(rest, order);
  }
  AddLive(block);
  return &block;
}

Block* BlockMap::AllocateAt(DevicePtr address, Bytes size, Stream stream, PoolIndex pool) {
  const DevicePtr end = address + size;
  Bytes found = 0;
  for (DevicePtr at = address; at < end;) {
    const auto start = FirstEndingAfter(at);
    HOCKET_CHECK(start != blocks_.end() && start->first <= at && start->second.pool == pool &&
                 start->second.state == Block::State::kFree)
        << "no free memory of pool " << pool << " at " << at;
    const Block free = start->second;
    RemoveFree(blocks_.erase(start, start));
    if (free.address < address) InsertFree(free.address, address - free.address, pool, free.stream);
    if (free.end() > end) InsertFree(end, free.end() - end, pool, free.stream);
    found += std::min(free.end(), end) - at;
    at = free.end();
  }
  HOCKET_CHECK(found == size) << found << " of " << size << " bytes at " << address;
  return AddBlock(address, size, stream, pool);
}

// Nearly always one free block has it all.
Block* BlockMap::AllocateIfFree(DevicePtr address, Bytes size, Stream stream) {
  auto it = blocks_.upper_bound(address);
  if (it == blocks_.begin()) return nullptr;
  --it;
  if (it->second.end() >= address + size) {
    if (!Joins(it->second, 0, stream)) return nullptr;
    return it->first == address ? Cut(it, size, stream) : CutMiddle(it, address, size, stream);
  }
  for (DevicePtr at = address; at < address + size; at = it->second.end(), ++it) {
    if (it == blocks_.end() || it->first > at || it->second.end() <= at || !Joins(it->second, 0, stream))
      return nullptr;
  }
  return AllocateAt(address, size, stream, 0);
}

// In place, as for Cut(): the three parts are in one list.
Block* BlockMap::CutMiddle(Blocks::iterator it, DevicePtr address, Bytes size, Stream stream) {
  Block& front = it->second;
  FreeList& listed = free_.find(FreeKey(front.pool, front.stream))->second;
  listed.Erase(front.size, front.address);
  const Bytes behind = front.end() - (address + size);
  front.size = address - front.address;
  listed.Insert(front.size, front.address);
  free_bytes_ -= size;
  it = blocks_.emplace_hint(std::next(it), address, Block());
  Block& block = it->second;
  block.address = address;
  block.size = block.requested = size;
  block.stream = stream;
  block.pool = front.pool;
  block.state = Block::State::kAllocated;
  if (behind > 0) {
    Block& rest = blocks_.emplace_hint(std::next(it), block.end(), Block())->second;
    rest.address = block.end();
    rest.size = behind;
    rest.stream = front.stream;
    rest.pool = front.pool;
    listed.Insert(rest.size, rest.address);
  }
  AddLive(block);
  return &block;
}

Block* BlockMap::AddBlock(DevicePtr address, Bytes size, Stream stream, PoolIndex pool) {
  Block& block = blocks_[address];
  block = Block{.address = address,
                .size = size,
                .requested = size,
                .stream = stream,
                .pool = pool,
                .state = Block::State::kAllocated,
                .birth = {},
                .used_on = {},
                .stage = 0,
                .promise = nullptr};
  AddLive(block);
  return &block;
}

void BlockMap::AddLive(const Block& block) {
  const auto [first, last] = Span(block.address, block.size);
  for (Position position = first; position <= last; ++position) {
    ++places_[position].live;
    places_[position].used = true;
  }
  live_bytes_ += block.size;
}

void BlockMap::Free(Block* block, absl::FunctionRef<void(Position)> emptied) {
  HOCKET_CHECK(block->state != Block::State::kFree) << "block freed twice";
  const DevicePtr address = block->address;
  const DevicePtr end = block->end();
  const PoolIndex pool = block->pool;
  const Stream stream = block->stream;
  block->stage = 0;
  live_bytes_ -= block->size;

  const auto [first, last] = Span(address, end - address);
  bool all_backed = true;
  for (Position position = first; position <= last; ++position) {
    --places_[position].live;
    all_backed &= places_[position].backed;
  }
  const auto it = blocks_.find(address);
  if (all_backed) return MakeFree(it, stream);

  blocks_.erase(it);
  DevicePtr run = address;  // start of the backed bytes not yet given back
  for (Position position = first; position <= last; ++position) {
    const Place& place = places_[position];
    const DevicePtr stop = std::min(end, AddressOf(position + 1));
    if (place.backed) {
      if (stop == end || !places_[position + 1].backed) InsertFree(run, stop - run, pool, stream);
    } else {
      run = stop;
      MayBeEmpty(position);
      if (place.live == 0 && !place.kept) emptied(position);
    }
  }
}

bool BlockMap::Joins(const Block& block, PoolIndex pool, Stream stream) const {
  return block.state == Block::State::kFree && block.pool == pool &&
         (block.stream == stream || block.stream == kAnyStream);
}

void BlockMap::InsertFree(DevicePtr address, Bytes size, PoolIndex pool, Stream stream) {
  const auto it = blocks_.emplace(address, Block()).first;
  it->second.address = address;
  it->second.size = size;
  it->second.pool = pool;
  MakeFree(it, stream);
}

void BlockMap::MakeFree(Blocks::iterator it, Stream stream) {
  const PoolIndex pool = it->second.pool;
  const auto joins = [&](const Block& front, const Block& behind, const Block& other) {
    return front.end() == behind.address && Joins(other, pool, stream);
  };
  // Loops: behind memory in no stream's order there may be more of this stream's.
  for (auto next = std::next(it); next != blocks_.end() && joins(it->second, next->second, next->second);) {
    Unlist(next->second);
    it->second.size += next->second.size;
    next = blocks_.erase(next);
  }
  while (it != blocks_.begin()) {
    const auto before = std::prev(it);
    if (!joins(before->second, it->second, before->second)) break;
    Unlist(before->second);
    before->second.size += it->second.size;
    blocks_.erase(it);
    it = before;
  }
  Block& block = it->second;
  block.requested = 0;
  block.stream = stream;
  block.state = Block::State::kFree;
  block.birth = {};
  block.used_on.clear();
  List(block);
}

void BlockMap::List(const Block& free) {
  free_.try_emplace(FreeKey(free.pool, free.stream), base_).first->second.Insert(free.size, free.address);
  free_bytes_ += free.size;
}

void BlockMap::Unlist(const Block& free) {
  const auto set = free_.find(FreeKey(free.pool, free.stream));
  set->second.Erase(free.size, free.address);
  if (set->second.empty()) free_.erase(set);
  free_bytes_ -= free.size;
}

void BlockMap::RemoveFree(Blocks::iterator it) {
  Unlist(it->second);
  blocks_.erase(it);
}

void BlockMap::ForgetStreamOrder() {
  std::vector<DevicePtr> ordered;
  for (const auto& [key, set] : free_) {
    if (key.first != 0 || key.second == kAnyStream) continue;
    set.ForEach([&](const FreeList::Entry& free) { ordered.push_back(free.address); });
  }
  for (const DevicePtr address : ordered) {
    const auto it = blocks_.find(address);
    const Block block = it->second;
    RemoveFree(it);
    InsertFree(block.address, block.size, block.pool, kAnyStream);
  }
}

Block* BlockMap::Find(DevicePtr address) {
  auto it = blocks_.upper_bound(address);
  if (it == blocks_.begin()) return nullptr;
  Block& block = (--it)->second;
  const bool live = block.state == Block::State::kAllocated || block.state == Block::State::kPending;
  return live && address < block.end() ? &block : nullptr;
}

// --- the lease of a plan --------------------------------------------------------------------------------

std::vector<Extent> BlockMap::Taken(Stream stream) const {
  std::vector<Extent> all;
  for (const auto& [address, block] : blocks_) {
    if (!Joins(block, 0, stream)) all.push_back({address - base_, block.size});
  }
  for (Position position = 0; position < end_of_use_; ++position) {
    const Place& place = places_[position];
    if (!place.backed && (place.live > 0 || place.kept)) all.push_back({position * chunk_size_, chunk_size_});
  }
  return Merged(std::move(all));
}

void BlockMap::CountLeased(const Block& block, int change) {
  const auto [first, last] = Span(block.address, block.size);
  for (Position position = first; position <= last; ++position) places_[position].live += change;
}

void BlockMap::Lease(Bytes end, Stream stream) {
  HOCKET_CHECK(leased_.empty()) << "a second lease";
  lease_stream_ = stream;
  const DevicePtr stop = base_ + end;
  std::vector<DevicePtr> free;
  for (auto it = blocks_.begin(); it != blocks_.end() && it->first < stop; ++it) {
    if (Joins(it->second, 0, stream)) free.push_back(it->first);
  }
  DevicePtr leased_end = 0;
  for (const DevicePtr address : free) {
    const auto it = blocks_.find(address);
    const Block whole = it->second;
    RemoveFree(it);
    const Bytes size = std::min(whole.end(), stop) - address;
    if (size < whole.size) InsertFree(address + size, whole.size - size, whole.pool, whole.stream);
    if (leased_end != address) leased_.push_back(address);
    Block& block = blocks_[leased_.back()];
    if (leased_end == address) CountLeased(block, -1);
    block.address = leased_.back();
    block.size += size;
    block.state = Block::State::kLeased;
    CountLeased(block, +1);
    leased_end = block.end();
  }
}

void BlockMap::EndLease(const std::vector<Block>& live) {
  auto next = live.begin();
  for (const DevicePtr address : std::exchange(leased_, {})) {
    const auto it = blocks_.find(address);
    const Block lease = it->second;
    CountLeased(lease, -1);
    blocks_.erase(it);
    DevicePtr free = lease.address;
    for (; next != live.end() && next->address < lease.end(); ++next) {
      HOCKET_CHECK(next->address >= free && next->end() <= lease.end())
          << "a planned block lies outside its lease, at " << next->address;
      if (next->address > free) InsertFree(free, next->address - free, 0, lease_stream_);
      AddLive(blocks_[next->address] = *next);
      free = next->end();
    }
    if (free < lease.end()) InsertFree(free, lease.end() - free, 0, lease_stream_);
  }
  HOCKET_CHECK(next == live.end()) << "a planned block lies in no lease, at " << next->address;
}

void BlockMap::MarkUsed(DevicePtr address, Bytes size) {
  const auto [first, last] = Span(address, size);
  for (Position position = first; position <= last; ++position) places_[position].used = true;
}

const Block* BlockMap::UsableBefore(DevicePtr address, PoolIndex pool, Stream stream) const {
  auto it = blocks_.lower_bound(address);
  if (it == blocks_.begin()) return nullptr;
  const Block& block = (--it)->second;
  return block.end() == address && Joins(block, pool, stream) ? &block : nullptr;
}

const Block* BlockMap::UsableAt(DevicePtr address, PoolIndex pool, Stream stream) const {
  const auto it = blocks_.find(address);
  return it != blocks_.end() && Joins(it->second, pool, stream) ? &it->second : nullptr;
}

std::optional<BlockMap::Growth> BlockMap::PlanGrowth(Bytes size, Stream stream, PoolIndex pool) const {
  if (size > places_.size() * chunk_size_) return std::nullopt;
  std::optional<Growth> best;
  const Position all = static_cast<Position>(places_.size());
  const auto chunks_for = [&](Bytes bytes) {
    return static_cast<Position>((bytes + chunk_size_ - 1) / chunk_size_);
  };
  while (first_empty_ < end_of_use_ && !IsEmpty(first_empty_)) ++first_empty_;
  for (Position first = first_empty_; first < all;) {
    if (!IsEmpty(first)) {
      ++first;
      continue;
    }
    // Positions from end_of_use_ on are all empty: no need to look at each.
    Position end = first;
    while (end < end_of_use_ && IsEmpty(end)) ++end;
    if (end >= end_of_use_) end = all;

    const Block* before = UsableBefore(AddressOf(first), pool, stream);
    const Block* behind = end < all ? UsableAt(AddressOf(end), pool, stream) : nullptr;
    const Bytes left = std::min(size - 1, before == nullptr ? 0 : before->size);
    const Bytes right = std::min(size - 1, behind == nullptr ? 0 : behind->size);
    const auto consider = [&](Position from, Position count, const Block* neighbour) {
      if (best && best->count <= count) return;
      best = Growth{from, count, neighbour == nullptr ? kAnyStream : neighbour->stream};
    };
    const Position run = end - first;
    if (const Position count = chunks_for(size - left); count <= run) consider(first, count, before);
    if (const Position count = chunks_for(size - right); count <= run) consider(end - count, count, behind);
    if (before != nullptr && behind != nullptr && left + run * chunk_size_ + right >= size) {
      consider(first, run, before->stream == kAnyStream ? behind : before);
    }
    first = end;
  }
  return best;
}

std::pair<DevicePtr, DevicePtr> BlockMap::Reach(const Growth& growth, Stream stream, PoolIndex pool) const {
  const DevicePtr begin = AddressOf(growth.first), end = AddressOf(growth.first + growth.count);
  const Block* before = UsableBefore(begin, pool, stream);
  const Block* behind = UsableAt(end, pool, stream);
  return {before == nullptr ? begin : before->address, behind == nullptr ? end : behind->end()};
}

const Block& BlockMap::FreeBlockAt(DevicePtr address) const {
  const auto block = FirstEndingAfter(address);
  HOCKET_CHECK(block != blocks_.end() && block->first <= address &&
               block->second.state == Block::State::kFree)
      << "no free block at " << address;
  return block->second;
}

Bytes BlockMap::LargestFree() const {
  Bytes largest = 0;
  for (const auto& [key, set] : free_) {
    if (key.first == 0) largest = std::max(largest, set.Largest());
  }
  return largest;
}

void BlockMap::CheckInvariants() const {
  Bytes live = 0;
  Bytes free = 0;
  std::size_t free_blocks = 0;
  const Block* before = nullptr;
  std::vector<std::pair<FreeKey, const FreeList*>> sets;  // few: looked through faster than a table
  for (const auto& [key, set] : free_) sets.emplace_back(key, &set);
  for (const auto& [address, block] : blocks_) {
    HOCKET_CHECK(address == block.address && block.size > 0 && block.size % kBlockUnit == 0)
        << "block at " << address << " says " << block.address << ", " << block.size;
    HOCKET_CHECK(before == nullptr || before->end() <= address) << "blocks overlap at " << address;
    HOCKET_CHECK(block.promise == nullptr || block.state == Block::State::kAllocated ||
                 block.state == Block::State::kPending)
        << "constant memory that is free, at " << address;
    if (block.state == Block::State::kFree) {
      const FreeKey its(block.pool, block.stream);
      const auto set =
          std::find_if(sets.begin(), sets.end(), [&](const auto& of) { return of.first == its; });
      HOCKET_CHECK(set != sets.end() && set->second->Contains(block.size, address))
          << "free block missing at " << address;
      HOCKET_CHECK(before == nullptr || before->end() < address ||
                   !Joins(*before, block.pool, block.stream) || before->stream != block.stream)
          << "free neighbours not joined at " << address;
      free += block.size;
      ++free_blocks;
    } else if (block.state != Block::State::kLeased) {
      live += block.size;
    }
    before = &block;
  }
  std::size_t listed = 0;
  for (const auto& [key, set] : free_) listed += set.size();
  HOCKET_CHECK(listed == free_blocks) << listed << " listed, " << free_blocks << " free blocks";
  HOCKET_CHECK(live == live_bytes_ && free == free_bytes_)
      << live << ", " << live_bytes_ << "; " << free << ", " << free_bytes_;
  CheckPlaces();
}

// Blocks and positions both in order of address, each looked at once.
void BlockMap::CheckPlaces() const {
  auto block = blocks_.begin();
  DevicePtr begin = base_;
  Position position = 0;
  for (const Place& place : places_) {
    const DevicePtr end = begin + chunk_size_;
    std::uint32_t count = 0;
    Bytes free = 0, live = 0;
    while (block != blocks_.end() && block->first < end) {
      const Block& here = block->second;
      const DevicePtr block_end = here.end();
      const Bytes part = std::min(block_end, end) - std::max(here.address, begin);
      const bool is_free = here.state == Block::State::kFree;
      (is_free ? free : live) += part;
      count += !is_free;
      HOCKET_CHECK(here.pool == place.pool) << "position " << position << " holds two pools";
      if (block_end > end) break;  // the rest of it lies in the next position
      ++block;
    }
    HOCKET_CHECK(count == place.live)
        << "position " << position << ": " << count << " live, " << place.live << " counted";
    HOCKET_CHECK(place.backed ? free + live == chunk_size_ : free == 0)
        << "position " << position << ": " << free << " free, " << live << " live";
    HOCKET_CHECK(!place.backed || position < end_of_use_) << "position " << position;
    HOCKET_CHECK(position >= first_empty_ || !IsEmpty(position))
        << "position " << position << " is empty and not looked at";
    begin = end;
    ++position;
  }
  HOCKET_CHECK(block == blocks_.end()) << "a block behind the last position, at " << block->first;
}

}  // namespace hocket
