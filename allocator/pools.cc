#include <algorithm>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "allocator/allocator_impl.h"
#include "csrc/base/check.h"
#include "csrc/base/status_macros.h"

namespace hocket {

PoolIndex AllocatorImpl::Find(PoolId id) const {
  for (std::size_t i = 0; i < pools_.size(); ++i) {
    if (pools_[i].id == id) return static_cast<PoolIndex>(i + 1);
  }
  return 0;
}

PoolIndex AllocatorImpl::FindOrAdd(PoolId id) {
  if (const PoolIndex known = Find(id)) return known;
  const PoolIndex index = UnusedPool();
  if (index > pools_.size()) pools_.emplace_back();
  pools_[index - 1] = {.id = id, .released = false};
  return index;
}

PoolIndex AllocatorImpl::UnusedPool() const {
  std::vector<bool> used(pools_.size() + 1);
  used[0] = true;
  const BlockMap& blocks = persistent_->blocks();
  for (Position position = 0; position < persistent_->region().positions(); ++position) {
    const bool empty = persistent_->region().state(position) == Region::State::kEmpty;
    if (!empty || blocks.live_blocks(position) > 0) used[blocks.pool(position)] = true;
  }
  for (const OpenPool& open : open_pools_) used[open.index] = true;
  for (std::size_t i = 0; i < pools_.size(); ++i) {
    if (!pools_[i].released) used[i + 1] = true;
  }
  return static_cast<PoolIndex>(std::find(used.begin(), used.end(), false) - used.begin());
}

bool AllocatorImpl::PoolIsReleased(PoolIndex pool) const { return pool == 0 || pools_[pool - 1].released; }

absl::StatusOr<PoolIndex> AllocatorImpl::Require(PoolId id) const {
  const PoolIndex index = Find(id);
  if (!PoolIsReleased(index)) return index;
  return absl::NotFoundError(absl::StrCat("there is no private pool (", id.first, ", ", id.second,
                                          ") on device ", device_, ", or no graph uses it any more"));
}

CachingAllocator::PoolId AllocatorImpl::PoolOf(DevicePtr address) const {
  MutexLock lock(&mutex_);
  const Block* block = FindBlock(address);
  return block == nullptr || block->pool == 0 ? PoolId() : pools_[block->pool - 1].id;
}

void AllocatorImpl::BeginAllocateToPool(PoolId id, std::function<bool(Stream)> filter, bool captures,
                                        Stream captured) {
  MutexLock lock(&mutex_);
  if (captures) (void)ReceiveAll();  // nothing moves during the capture, nor is it waited for
  const PoolIndex index = FindOrAdd(id);
  pools_[index - 1].released = false;
  open_pools_.push_back({index, std::move(filter), captures, captured, std::this_thread::get_id()});
  if (captures) ++captures_;
}

void AllocatorImpl::EndAllocateToPool(PoolId id) {
  MutexLock lock(&mutex_);
  const auto open = std::find_if(open_pools_.rbegin(), open_pools_.rend(),
                                 [index = Find(id)](const OpenPool& pool) { return pool.index == index; });
  if (open == open_pools_.rend()) return;
  if (open->captures) --captures_;
  open_pools_.erase(std::next(open).base());
}

// Before it has begun, its thread calls nothing here.
bool AllocatorImpl::GoesOn(OpenPool& capture) const {
  const absl::StatusOr<bool> captures = driver_.IsCapturing(capture.captured);
  if (!captures.ok()) return true;
  capture.begun |= *captures;
  return *captures || (!capture.begun && capture.captor != std::this_thread::get_id());
}

void AllocatorImpl::ForgetFailedCaptures() {
  if (captures_ == 0) return;
  const InContext in_context(driver_, context_);
  std::erase_if(open_pools_, [this](OpenPool& open) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    const bool over = open.captures && open.captured != nullptr && !GoesOn(open);
    captures_ -= over ? 1 : 0;
    return over;
  });
}

void AllocatorImpl::ReleasePool(PoolId id) {
  MutexLock lock(&mutex_);
  const PoolIndex index = Find(id);
  if (index == 0) return;
  pools_[index - 1].released = true;
  // A graph that is gone needs no memory: what it left on the host is dropped.
  for (const Position position : persistent_->Positions(Region::State::kSpilled)) {
    if (persistent_->blocks().pool(position) != index) continue;
    if (persistent_->blocks().Release(position)) persistent_->Drop(position);
  }
  CountReserved();
}

absl::StatusOr<PoolCheckpoint> AllocatorImpl::CheckpointPool(PoolId id) const {
  MutexLock lock(&mutex_);
  HOCKET_ASSIGN_OR_RETURN(const PoolIndex pool, Require(id));
  PoolCheckpoint checkpoint{.pool = id, .blocks = {}};
  for (const auto& [address, block] : persistent_->blocks().blocks()) {
    if (block.pool != pool || block.state != Block::State::kAllocated) continue;
    checkpoint.blocks.push_back({address, block.size, block.requested, block.stream});
  }
  return checkpoint;
}

absl::StatusOr<PoolDelta> AllocatorImpl::ReturnToCheckpoint(const PoolCheckpoint& checkpoint) {
  for (;;) {
    if (!HoldsTurn()) HOCKET_RETURN_IF_ERROR(gate_->AwaitTurn());
    MutexLock lock(&mutex_);
    if (HoldsTurn()) return Return(checkpoint);
  }
}

absl::StatusOr<PoolDelta> AllocatorImpl::Return(const PoolCheckpoint& checkpoint) {
  HOCKET_ASSIGN_OR_RETURN(const PoolIndex pool, Require(checkpoint.pool));
  for (const PoolCheckpoint::Block& block : checkpoint.blocks) {
    if (IsMemoryOf(pool, block)) continue;
    return absl::NotFoundError(absl::StrCat("the memory of the checkpoint at 0x", absl::Hex(block.address),
                                            " is no longer that of its pool"));
  }
  const bool used_elsewhere = !used_elsewhere_.empty() || pending_.AnyElsewhere();
  if (used_elsewhere || MustWait(pool, checkpoint)) {
    HOCKET_RETURN_IF_ERROR(NoCapture());
    HOCKET_RETURN_IF_ERROR(AwaitElsewhere(kAsLongAsItTakes));
    HOCKET_RETURN_IF_ERROR(WaitForDevice());
    const InContext in_context(driver_, context_);
    AllStreamsPassed();
    if (pending_.AnyElsewhere()) return UsedElsewhere();
  }
  BlockMap& blocks = persistent_->blocks();
  PoolDelta delta;
  for (const auto& [address, block] : blocks.blocks()) {
    if (block.pool == pool && block.state == Block::State::kAllocated) delta.freed.push_back(address);
  }
  for (const DevicePtr address : delta.freed) {
    CountFreed(*blocks.Find(address));
    used_elsewhere_.erase(address);
    FreeNow(address);
  }
  for (const PoolCheckpoint::Block& wanted : checkpoint.blocks) {
    Block* block = blocks.AllocateAt(wanted.address, wanted.size, wanted.stream, pool);
    block->requested = wanted.requested;
    CountAllocated(*block);
    delta.allocated.push_back(wanted.address);
  }
  return delta;
}

bool AllocatorImpl::IsMemoryOf(PoolIndex pool, const PoolCheckpoint::Block& block) const {
  const Region& region = persistent_->region();
  if (!region.Contains(block.address) || !region.Contains(block.address + block.size - 1)) return false;
  const Position last = region.PositionOf(block.address + block.size - 1);
  for (Position position = region.PositionOf(block.address); position <= last; ++position) {
    const BlockMap& blocks = persistent_->blocks();
    if (!blocks.backed(position) || blocks.pool(position) != pool) return false;
  }
  return true;
}

bool AllocatorImpl::MustWait(PoolIndex pool, const PoolCheckpoint& checkpoint) const {
  std::vector<Stream> streams;
  const auto add = [&](Stream stream) {
    const bool known = std::find(streams.begin(), streams.end(), stream) != streams.end();
    if (stream != kAnyStream && !known) streams.push_back(stream);
  };
  for (const auto& [address, block] : persistent_->blocks().blocks()) {
    if (block.pool != pool) continue;
    add(block.stream);
    for (const Stream stream : block.used_on) add(stream);
  }
  for (const PoolCheckpoint::Block& block : checkpoint.blocks) add(block.stream);
  return streams.size() > 1;
}

}  // namespace hocket
