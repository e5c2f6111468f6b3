// What the allocator says of itself: statistics, snapshot, out-of-memory text, invariants.
#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "allocator/allocator_impl.h"
#include "csrc/base/check.h"

namespace hocket {
namespace {

constexpr Bytes kSmallRequest = 1_MiB;  // PyTorch's own border between its small and its large pool

// In PyTorch's words, which programs look for.
std::string AsPyTorchSays(Bytes size) {
  if (size >= Bytes{1} << 60) return "more than 1EB memory";
  if (size <= 1_KiB) return absl::StrFormat("%d bytes", size);
  const auto value = static_cast<double>(size);
  if (size <= 1_MiB) return absl::StrFormat("%.2f KiB", value / static_cast<double>(1_KiB));
  if (size <= 1_GiB) return absl::StrFormat("%.2f MiB", value / static_cast<double>(1_MiB));
  return absl::StrFormat("%.2f GiB", value / static_cast<double>(1_GiB));
}

StatType TypeOf(const Block& block) { return block.size <= kSmallRequest ? kSmallPool : kLargePool; }

void Increase(StatArray& array, StatType type, Bytes amount) {
  array[kAggregate].Increase(amount);
  array[type].Increase(amount);
}

void Decrease(StatArray& array, StatType type, Bytes amount) {
  array[kAggregate].Decrease(amount);
  array[type].Decrease(amount);
}

// Moves the current value of a large-pool statistic to `value`.
void MoveTo(StatArray& array, Bytes value) {
  const auto now = static_cast<Bytes>(array[kAggregate].current);
  if (value > now) Increase(array, kLargePool, value - now);
  if (value < now) Decrease(array, kLargePool, now - value);
}

// Free memory in chunks that hold live blocks too: it cannot be given back.
struct Splits {
  Bytes blocks = 0;
  Bytes bytes = 0;

  void Add(const Space& space) {
    for (const auto& [address, block] : space.blocks().blocks()) {
      if (block.state != Block::State::kFree || !SharesAChunk(space, block)) continue;
      ++blocks;
      bytes += block.size;
    }
  }

  static bool SharesAChunk(const Space& space, const Block& block) {
    const auto first = space.region().PositionOf(block.address);
    const auto last = space.region().PositionOf(block.end() - 1);
    return space.blocks().live_blocks(first) > 0 || space.blocks().live_blocks(last) > 0;
  }
};

void AddBlock(const Block& block, SegmentSnapshot& segment) {
  const bool allocated = block.state == Block::State::kAllocated;
  const bool active = block.state != Block::State::kFree;
  segment.blocks.push_back({.address = block.address,
                            .size = block.size,
                            .requested_size = active ? block.requested : 0,
                            .allocated = allocated,
                            .active = active});
  segment.requested_size += allocated ? block.requested : 0;
  segment.allocated_size += allocated ? block.size : 0;
  segment.active_size += active ? block.size : 0;
  segment.is_large |= block.size > kSmallRequest;
}

// As above; what is leased to a plan is shown as the blocks that it has given out, and free memory.
void AddBlocks(const Block& block, const std::map<DevicePtr, Block>& planned, SegmentSnapshot& segment) {
  if (block.state != Block::State::kLeased) return AddBlock(block, segment);
  Block free;
  free.address = block.address;
  const auto end = planned.lower_bound(block.end());
  for (auto it = planned.lower_bound(block.address); it != end; ++it) {
    free.size = it->first - free.address;
    if (free.size > 0) AddBlock(free, segment);
    AddBlock(it->second, segment);
    free.address = it->second.end();
  }
  free.size = block.end() - free.address;
  if (free.size > 0) AddBlock(free, segment);
}

}  // namespace

void AllocatorImpl::CountAllocated(const Block& block) {
  const StatType type = TypeOf(block);
  Increase(stats_.allocation, type, 1);
  Increase(stats_.allocated_bytes, type, block.size);
  Increase(stats_.active, type, 1);
  Increase(stats_.active_bytes, type, block.size);
  Increase(stats_.requested_bytes, type, block.requested);
}

void AllocatorImpl::CountFreed(const Block& block) {
  const StatType type = TypeOf(block);
  Decrease(stats_.allocation, type, 1);
  Decrease(stats_.allocated_bytes, type, block.size);
}

void AllocatorImpl::CountInactive(const Block& block) {
  const StatType type = TypeOf(block);
  Decrease(stats_.active, type, 1);
  Decrease(stats_.active_bytes, type, block.size);
  Decrease(stats_.requested_bytes, type, block.requested);
}

Bytes& AllocatorImpl::BornBeside(const Block& block) {
  return transient_->region().Contains(block.address) ? born_transient_ : born_persistent_;
}

void AllocatorImpl::CountSurvivors() {
  const Bytes foreseen = std::exchange(born_persistent_, 0);
  totals_.foreseen_total += foreseen;
  totals_.survived_total += foreseen + std::exchange(born_transient_, 0);
}

Bytes AllocatorImpl::Reserved() const { return persistent_->reserved() + transient_->reserved(); }

void AllocatorImpl::CountReserved() {
  const Bytes reserved = Reserved();
  const auto before = static_cast<Bytes>(stats_.reserved_bytes[kAggregate].current);
  if (reserved > before) stats_.num_device_alloc += (reserved - before) / chunk_size_;
  if (reserved < before) stats_.num_device_free += (before - reserved) / chunk_size_;
  MoveTo(stats_.reserved_bytes, reserved);
  MoveTo(stats_.segment, reserved / chunk_size_);
  most_reserved_ = std::max(most_reserved_, reserved);
  if (reserved < before) CountPools();
}

void AllocatorImpl::CountPools() const {
  if (pools_.empty()) return;
  std::map<PoolId, Bytes> held;
  for (const auto& [id, array] : stats_.reserved_bytes_by_pool) held[id] = 0;
  const Region& region = persistent_->region();
  for (Position position = 0; position < region.positions(); ++position) {
    const PoolIndex pool = persistent_->blocks().pool(position);
    if (pool == 0 || region.state(position) == Region::State::kEmpty) continue;
    held[pools_[pool - 1].id] += chunk_size_;
  }
  for (const auto& [id, bytes] : held) MoveTo(stats_.reserved_bytes_by_pool[id], bytes);
}

void AllocatorImpl::CountSplits() const {
  Splits splits;
  splits.Add(*persistent_);
  splits.Add(*transient_);
  MoveTo(stats_.inactive_split, splits.blocks);
  MoveTo(stats_.inactive_split_bytes, splits.bytes);
}

Usage AllocatorImpl::InUse() const {
  MutexLock lock(&mutex_);
  return {static_cast<Bytes>(stats_.allocated_bytes[kAggregate].current), Reserved()};
}

DeviceStats AllocatorImpl::Stats() const {
  MutexLock lock(&mutex_);
  CountPools();
  CountSplits();
  return stats_;
}

void AllocatorImpl::ResetPeakStats() {
  MutexLock lock(&mutex_);
  CountPools();
  CountSplits();
  stats_.ForEachArray([](StatArray& array) {
    for (Stat& stat : array) stat.ResetPeak();
  });
}

void AllocatorImpl::ResetAccumulatedStats() {
  MutexLock lock(&mutex_);
  stats_.ForEachArray([](StatArray& array) {
    for (Stat& stat : array) stat.ResetAccumulated();
  });
  stats_.num_alloc_retries = stats_.num_ooms = stats_.num_sync_all_streams = 0;
  stats_.num_device_alloc = stats_.num_device_free = 0;
}

std::vector<SegmentSnapshot> AllocatorImpl::Snapshot() const {
  MutexLock lock(&mutex_);
  std::vector<SegmentSnapshot> segments;
  std::map<DevicePtr, Block> planned;
  if (plan_ != nullptr) plan_->ForEachBlock([&](const Block& block) { planned[block.address] = block; });
  for (const Space* space : {persistent_.get(), transient_.get()}) {
    const Region& region = space->region();
    SegmentSnapshot segment;
    DevicePtr covered = 0;  // by blocks, up to here
    // What is free while it lies on the host is no block of the map's; who adds up sizes needs it.
    const auto cover = [&](DevicePtr until) {
      if (covered < until) segment.blocks.push_back({.address = covered, .size = until - covered});
      covered = std::max(covered, until);
    };
    const auto close = [&] {
      cover(segment.address + segment.total_size);
      if (segment.total_size > 0) segments.push_back(std::move(segment));
      segment = {};
      covered = 0;
    };
    auto block = space->blocks().blocks().begin();
    const auto end = space->blocks().blocks().end();
    for (Position position = 0; position < region.positions(); ++position) {
      const bool empty = region.state(position) == Region::State::kEmpty;
      const PoolIndex pool = space->blocks().pool(position);
      const PoolId id = empty || pool == 0 ? PoolId{0, 0} : pools_[pool - 1].id;
      if (empty || id != segment.pool) close();
      if (empty) continue;
      if (segment.total_size == 0) segment.address = covered = region.AddressOf(position);
      segment.pool = id;
      segment.total_size += chunk_size_;
      segment.is_transient |= region.state(position) == Region::State::kArena;
      segment.is_spilled |= region.state(position) == Region::State::kSpilled;
      for (; block != end && block->first < region.AddressOf(position) + chunk_size_; ++block) {
        cover(block->first);
        AddBlocks(block->second, planned, segment);
        covered = block->second.end();
      }
    }
    close();
  }
  return segments;
}

Bytes AllocatorImpl::LargestFree() const {
  MutexLock lock(&mutex_);
  const InContext in_context(driver_, context_);
  const Bytes device = driver_.MemoryInfo().value_or(DeviceMemory()).free;
  const Bytes growth = RoundDown(device, chunk_size_) + arena_.free_chunks() * chunk_size_;
  const Bytes allowed = limit_ - std::min(limit_, Reserved());
  return std::max(
      {persistent_->blocks().LargestFree(), transient_->blocks().LargestFree(), std::min(growth, allowed)});
}

void AllocatorImpl::RecordSegments(bool on) {
  MutexLock lock(&mutex_);
  for (Space* space : {persistent_.get(), transient_.get()}) space->region().RecordChanges(on);
}

std::vector<SegmentChange> AllocatorImpl::TakeSegmentChanges() {
  MutexLock lock(&mutex_);
  std::vector<SegmentChange> changes = persistent_->region().TakeChanges();
  const std::vector<SegmentChange> transient = transient_->region().TakeChanges();
  changes.insert(changes.end(), transient.begin(), transient.end());
  return changes;
}

std::optional<Bytes> AllocatorImpl::DeviceFree() const {
  const InContext in_context(driver_, context_);
  const absl::StatusOr<DeviceMemory> device = driver_.MemoryInfo();
  return device.ok() ? std::optional<Bytes>(device->free) : std::nullopt;
}

// Without the mutex, which a restore holds for long: of the headroom its size is read, which stays as it is.
Bytes AllocatorImpl::LackingHeadroom() const ABSL_NO_THREAD_SAFETY_ANALYSIS {
  const std::optional<Bytes> free = DeviceFree();
  return free ? headroom_.LackingWhere(*free) : 0;
}

Holdings AllocatorImpl::Held() const {
  MutexLock lock(&mutex_);
  return HeldLocked();
}

Holdings AllocatorImpl::HeldLocked() const {
  Holdings held = totals_;
  held.persistent = persistent_->resident() + transient_->resident();
  held.following = persistent_->region().arriving() + transient_->region().arriving();
  held.arena = arena_.size() * chunk_size_;
  held.spilled = persistent_->spilled() + transient_->spilled();
  held.adopted = transient_->resident() + transient_->spilled();
  held.host_left = host_->budget() - host_->used();
  held.host_taking_ns = static_cast<std::uint64_t>(std::chrono::nanoseconds(host_->taking()).count());
  held.maps_spilled = host_->maps_chunks();
  held.chunk = chunk_size_;
  held.most_held = std::min(RoundUp(most_alive_, chunk_size_), most_reserved_);
  held.most_transient = most_reserved_ - held.most_held;
  return held;
}

absl::Status AllocatorImpl::OutOfMemory(const Request& request, const absl::Status& cause,
                                        const absl::Status& others) {
  const Holdings held = Held();
  MutexLock lock(&mutex_);
  ++stats_.num_ooms;
  const InContext in_context(driver_, context_);
  const DeviceMemory device = driver_.MemoryInfo().value_or(DeviceMemory());
  const auto allocated = static_cast<Bytes>(stats_.allocated_bytes[kAggregate].current);
  const Bytes reserved = Reserved();
  std::string text = absl::StrCat(
      "CUDA out of memory. Tried to allocate ", AsPyTorchSays(request.asked), ". GPU ", device_,
      " has a total capacity of ", AsPyTorchSays(capacity_), " of which ", AsPyTorchSays(device.free),
      " is free. This job holds ", FormatBytes(held.persistent), " persistent and ",
      FormatBytes(held.spilled), " spilled, its lane ", FormatBytes(held.arena),
      " transient. Of the memory behind addresses, ", FormatBytes(allocated),
      " is allocated by PyTorch, and ", FormatBytes(reserved - std::min(reserved, allocated)),
      " is reserved by PyTorch but unallocated.\n  ", std::string(cause.message()), ".");
  if (request.over_limit && limit_ < capacity_) {
    absl::StrAppend(&text, "\n  Raise ",
                    own_limit_ < told_limit_  ? "that fraction"
                    : limit_together_.empty() ? "this job's memory limit"
                                              : "that cap, end one of these jobs",
                    ", or make its model or batch smaller.");
  } else if (!others.ok()) {
    absl::StrAppend(&text, "\n  ", std::string(others.message()));
  } else {
    absl::StrAppend(
        &text, "\n  Make the model or the batch smaller, or free memory of other processes on the device.");
  }
  return absl::ResourceExhaustedError(text);
}

void AllocatorImpl::CheckInvariants() const {
  MutexLock lock(&mutex_);
  persistent_->CheckInvariants();
  transient_->CheckInvariants();
  host_->CheckInvariants();
  arena_.CheckInvariants(transient_->region());
  HOCKET_CHECK(persistent_->region().BytesIn(Region::State::kArena) == 0)
      << "arena chunks in the persistent region";
  Bytes live = persistent_->blocks().live_bytes() + transient_->blocks().live_bytes();
  if (plan_ != nullptr) {
    plan_->CheckInvariants();
    live += plan_->live_bytes();
  }
  const auto active = static_cast<Bytes>(stats_.active_bytes[kAggregate].current);
  HOCKET_CHECK(live == active) << live << " bytes live, " << active << " counted";
  const auto reserved = static_cast<Bytes>(stats_.reserved_bytes[kAggregate].current);
  HOCKET_CHECK(Reserved() == reserved) << Reserved() << " bytes reserved, " << reserved << " counted";
}

}  // namespace hocket
