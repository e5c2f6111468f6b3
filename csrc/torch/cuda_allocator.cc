#include "csrc/torch/cuda_allocator.h"

#include <c10/core/impl/GPUTrace.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "csrc/base/bytes.h"
#include "csrc/torch/captures.h"
#include "csrc/torch/interruption.h"
#include "csrc/torch/out_of_turn.h"
#include "csrc/torch/process.h"
#include "csrc/torch/refusals.h"
#include "csrc/torch/translate.h"

namespace hocket {
namespace {

// The installed allocator, for deleters, which are given an address and nothing else.
std::atomic<CudaAllocator*> installed{nullptr};

struct CheckpointState : pytorch::caching::AllocatorState {
  explicit CheckpointState(PoolCheckpoint made) : checkpoint(std::move(made)) {}
  const PoolCheckpoint checkpoint;
};

}  // namespace

CudaAllocator::CudaAllocator(pytorch::caching::CUDAAllocator& native, Devices& devices,
                             const std::atomic<bool>& forked)
    : pytorch::BaseAllocator(
          [this](size_t size, int device, cudaStream_t stream) {
            return Malloc(size, static_cast<c10::DeviceIndex>(device), stream);
          },
          [this](void* block, size_t, int, cudaStream_t) { Free(block); }),
      native_(native),
      devices_(devices),
      forked_(forked) {
  installed = this;
}

Devices::Device& CudaAllocator::UseDevice(c10::DeviceIndex device) {
  absl::StatusOr<Devices::Device*> used = devices_.Use(device);
  if (!used.ok()) Raise(used.status(), device, 0);
  return **used;
}

void* CudaAllocator::Malloc(size_t size, c10::DeviceIndex device, std::optional<cudaStream_t> given) {
  if (!caches_) [[unlikely]]
    return MallocUncached(size, device);
  Devices::Device& used = UseDevice(device);
  if (devices_.RejectsEarly()) [[unlikely]]
    RejectBeyondLimit(used, size);
  const cudaStream_t stream = given ? *given : c10::cuda::getCurrentCUDAStream(device).stream();
  const bool recorded = history_.enabled() && !forked_;
  if (recorded) [[unlikely]] {
    used.allocator->RecordSegments(true);  // it may be in use only since a moment ago
  }
  absl::StatusOr<DevicePtr> block = used.allocator->Malloc(size, stream);
  if (!block.ok()) Raise(block.status(), device, size);
  auto* address = reinterpret_cast<void*>(*block);
  NoteAllocation(*block);
  if (recorded) [[unlikely]] {
    history_.Allocated(device, *block, size, stream, used.allocator->PoolOf(*block),
                       [&] { return used.allocator->TakeSegmentChanges(); });
    if (!history_.enabled()) used.allocator->RecordSegments(false);  // it has just been stopped
  }
  if (const auto* python = c10::impl::GPUTrace::get_trace()) [[unlikely]] {
    (*python)->trace_gpu_memory_allocation(c10::kCUDA, *block);
  }
  if (c10::memoryProfilingEnabled()) ReportToProfiler(address, static_cast<std::int64_t>(size), device);
  return address;
}

void CudaAllocator::Free(void* block) {
  if (block == nullptr || forked_) return;
  const auto address = reinterpret_cast<DevicePtr>(block);
  Devices::Device* owner = devices_.OwnerOf(address);
  if (owner == nullptr && FreeUncached(block)) return;
  TORCH_CHECK_VALUE(owner != nullptr, "hocket: cannot free ", block,
                    ": no block of this process begins there.");
  if (c10::memoryProfilingEnabled())
    ReportToProfiler(block, -1, static_cast<c10::DeviceIndex>(owner->ordinal));
  if (const auto* python = c10::impl::GPUTrace::get_trace()) [[unlikely]] {
    (*python)->trace_gpu_memory_deallocation(c10::kCUDA, address);
  }
  NoteFree(address);
  history_.Freed(static_cast<c10::DeviceIndex>(owner->ordinal), address);  // before it can be given out again
  owner->allocator->Free(address);
}

void* CudaAllocator::MallocUncached(size_t size, c10::DeviceIndex device) {
  // A door as any other allocation: whoever has such memory is about to compute with it.
  const Devices::Device& used = UseDevice(device);
  if (used.client && !used.client->HoldsTurn()) {
    const absl::Status turn = used.client->AwaitTurn();
    if (!turn.ok()) Raise(turn, device, size);
  }
  const c10::cuda::CUDAGuard guard(device);
  void* block = nullptr;
  const cudaError_t error = cudaMalloc(&block, size);
  if (error == cudaErrorMemoryAllocation) {
    (void)cudaGetLastError();
    Raise(absl::ResourceExhaustedError(absl::StrCat(
              "CUDA out of memory: the driver does not have the ", FormatBytes(size),
              " that were asked for while the caching allocator was off (caching_allocator_enable).\n"
              "  Such memory is not shared with other jobs: switch the caching allocator on.")),
          device, size);
  }
  C10_CUDA_CHECK(error);
  absl::MutexLock lock(&mutex_);
  uncached_.insert(block);
  return block;
}

bool CudaAllocator::FreeUncached(void* block) {
  {
    absl::MutexLock lock(&mutex_);
    if (uncached_.erase(block) == 0) return false;
  }
  C10_CUDA_CHECK(cudaFree(block));
  return true;
}

void CudaAllocator::Delete(void* block) { installed.load()->Free(block); }

void CudaAllocator::Raise(const absl::Status& status, c10::DeviceIndex device, size_t size) {
  ThrowRaised(status);
  const std::string text(status.message());
  TORCH_CHECK(absl::IsResourceExhausted(status), text);
  TellOutOfMemory(device, size);
  TORCH_CHECK_WITH(OutOfMemoryError, false, text);
  std::abort();  // not reached
}

void CudaAllocator::TellOutOfMemory(c10::DeviceIndex device, size_t size) {
  std::vector<pytorch::caching::OutOfMemoryObserver> observers;
  {
    absl::MutexLock lock(&mutex_);
    observers = observers_;
  }
  if (observers.empty() && !history_.enabled()) return;
  const auto [free, total] = getMemoryInfo(device);
  history_.OutOfMemory(device, size, free, c10::cuda::getCurrentCUDAStream(device));
  for (const auto& observer : observers) observer(device, size, total, free);
}

void CudaAllocator::RejectBeyondLimit(Devices::Device& device, size_t size) {
  const Bytes allocated = device.allocator->InUse().allocated, limit = device.Limit();
  if (allocated + size <= limit) return;
  std::vector<pytorch::OomRejectionObserver> observers;
  {
    absl::MutexLock lock(&mutex_);
    ++rejections_[static_cast<c10::DeviceIndex>(device.ordinal)];
    observers = rejection_observers_;
  }
  for (const auto& observer : observers)
    pytorch::TellRejection(observer, device.ordinal, size, allocated, device.capacity);
  TORCH_CHECK_WITH(
      OutOfMemoryError, false,
      "CUDA out of memory. Allocation was preemptively rejected (throw_on_cudamalloc_oom) because "
      "it would exceed per_process_memory_fraction limit. Requested size: ",
      FormatBytes(size), ". This job has ", FormatBytes(allocated), " allocated on GPU ", device.ordinal,
      ", and its limit is ", FormatBytes(limit),
      ".\n  Raise that limit, or make the model or the batch smaller.");
}

// `size` < 0: the block is about to be freed.
void CudaAllocator::ReportToProfiler(void* block, std::int64_t size, c10::DeviceIndex device) {
  CachingAllocator& allocator = Use(device);
  const Usage usage = allocator.InUse();
  if (size < 0) {
    const auto found = allocator.BlockOf(reinterpret_cast<DevicePtr>(block));
    size = found.ok() ? -static_cast<std::int64_t>(found->second) : 0;
  }
  c10::reportMemoryUsageToProfiler(block, size, usage.allocated, usage.reserved,
                                   c10::Device(c10::kCUDA, device));
}

c10::DataPtr CudaAllocator::allocate(size_t size) {
  const c10::DeviceIndex device = c10::cuda::current_device();
  void* block = size == 0 ? nullptr : Malloc(size, device);
  return {block, block, &Delete, c10::Device(c10::kCUDA, device)};
}

c10::DataPtr CudaAllocator::allocateWithAddress(size_t, void*) {
  TORCH_CHECK_NOT_IMPLEMENTED(false,
                              "hocket chooses itself where memory lies, so that no two jobs are in each "
                              "other's way. Allocate without an address, ",
                              kWithNative);
  std::abort();  // not reached
}

void* CudaAllocator::raw_alloc(size_t size) {
  return size == 0 ? nullptr : Malloc(size, c10::cuda::current_device());
}

void* CudaAllocator::raw_alloc_with_stream(size_t size, cudaStream_t stream) {
  return size == 0 ? nullptr : Malloc(size, c10::cuda::current_device(), stream);
}

void CudaAllocator::raw_delete(void* block) { Free(block); }

void CudaAllocator::recordStream(const c10::DataPtr& block, c10::cuda::CUDAStream stream) {
  // A tensor over memory from elsewhere (from_blob) is not ours to keep.
  if (block.get() == nullptr || block.get_deleter() != &Delete) return;
  const auto address = reinterpret_cast<DevicePtr>(block.get());
  Devices::Device* const owner = devices_.OwnerOf(address);
  if (owner == nullptr) return;
  const absl::Status recorded = owner->allocator->RecordStreamOf(stream.device_index(), address, stream);
  TORCH_CHECK(recorded.ok(), "hocket: ", recorded.message());
}

void* CudaAllocator::getBaseAllocation(void* address, size_t* size) {
  Devices::Device* owner = devices_.OwnerOf(reinterpret_cast<DevicePtr>(address));
  const auto block = owner != nullptr ? owner->allocator->BlockOf(reinterpret_cast<DevicePtr>(address))
                                      : absl::StatusOr<std::pair<DevicePtr, Bytes>>(absl::NotFoundError(""));
  TORCH_CHECK_VALUE(block.ok(), "hocket: ", address, " lies in no block of this process.");
  if (size != nullptr) *size = block->second;
  return reinterpret_cast<void*>(block->first);
}

void CudaAllocator::emptyCache(pytorch::MempoolId_t) {
  for (Devices::Device* device : devices_.table().devices) {
    device->allocator->EmptyCache();
    if (forked_) continue;
    history_.SegmentsChanged(static_cast<c10::DeviceIndex>(device->ordinal), /*here=*/true,
                             [&] { return device->allocator->TakeSegmentChanges(); });
  }
}

void CudaAllocator::cacheInfo(c10::DeviceIndex device, size_t* largest_free) {
  *largest_free = Use(device).LargestFree();
}

double CudaAllocator::getMemoryFraction(c10::DeviceIndex device) {
  const Devices::Device& used = UseDevice(device);
  return static_cast<double>(used.Limit()) / static_cast<double>(used.capacity);
}

void CudaAllocator::setMemoryFraction(double fraction, c10::DeviceIndex device) {
  TORCH_CHECK_VALUE(fraction >= 0 && fraction <= 1, "hocket: the fraction of the device's memory is ",
                    fraction, ": it must be at least 0 and at most 1.");
  const Devices::Device& used = UseDevice(device);
  used.allocator->SetOwnLimit(static_cast<Bytes>(fraction * static_cast<double>(used.capacity)));
}

std::pair<size_t, size_t> CudaAllocator::getMemoryInfo(c10::DeviceIndex device) {
  const Devices::Device& used = UseDevice(device);
  return {used.Room(), used.Limit()};
}

pytorch::DeviceStats CudaAllocator::getDeviceStats(c10::DeviceIndex device) {
  pytorch::DeviceStats stats = Translate(Use(device).Stats());
  absl::MutexLock lock(&mutex_);
  const auto rejections = rejections_.find(device);
  if (rejections != rejections_.end()) pytorch::SetOomRejections(stats, rejections->second);
  return stats;
}

void CudaAllocator::resetAccumulatedStats(c10::DeviceIndex device) {
  Use(device).ResetAccumulatedStats();
  absl::MutexLock lock(&mutex_);
  rejections_.erase(device);
}

void CudaAllocator::resetPeakStats(c10::DeviceIndex device) { Use(device).ResetPeakStats(); }

pytorch::caching::SnapshotInfo CudaAllocator::snapshot(pytorch::MempoolId_t pool, bool include_traces) {
  pytorch::caching::SnapshotInfo result{};
  result.config_metadata = SettingsInUse(native_);
  result.external_annotations = history_.Annotations();
  result.device_traces.resize(static_cast<size_t>(c10::cuda::device_count()));
  for (Devices::Device* device : devices_.table().devices) {
    const auto ordinal = static_cast<c10::DeviceIndex>(device->ordinal);
    for (const SegmentSnapshot& segment : device->allocator->Snapshot()) {
      if (pool != pytorch::MempoolId_t{0, 0} && pool != pytorch::MempoolId_t(segment.pool)) continue;
      result.segments.push_back(Translate(segment, ordinal, history_));
    }
    if (!include_traces) continue;
    history_.SegmentsChanged(ordinal, /*here=*/false,
                             [&] { return device->allocator->TakeSegmentChanges(); });
    result.device_traces[static_cast<size_t>(ordinal)] = history_.Entries(ordinal);
    history_.SnapshotTaken(
        ordinal, device->allocator->InUse().allocated);  // as PyTorch's own: for the next one to show
  }
  return result;
}

void CudaAllocator::recordHistory(bool enabled, pytorch::caching::CreateContextFn gather_context,
                                  size_t max_entries, pytorch::caching::RecordContext when,
                                  bool clear_history, const std::vector<std::string>& skip_actions) {
  if (enabled) {
    for (Devices::Device* device : devices_.table().devices) device->allocator->RecordSegments(true);
    history_.Start({gather_context, std::max<size_t>(max_entries, 1), when, skip_actions}, clear_history);
  } else {
    history_.Stop();
    for (Devices::Device* device : devices_.table().devices) device->allocator->RecordSegments(false);
  }
}

void CudaAllocator::recordAnnotation(const std::vector<std::pair<std::string, std::string>>& annotation) {
  if (history_.enabled()) history_.NoteRange(c10::cuda::current_device(), annotation);
}

void CudaAllocator::annotateMemory(const void* block, const std::string& text) {
  if (forked_) return;
  const auto address = reinterpret_cast<DevicePtr>(block);
  const Devices::Device* const owner = devices_.OwnerOf(address);
  const absl::StatusOr<BlockSnapshot> live = owner != nullptr
                                                 ? owner->allocator->LiveBlock(address)
                                                 : absl::StatusOr<BlockSnapshot>(absl::NotFoundError(""));
  TORCH_CHECK(live.ok(), "hocket: cannot annotate the memory at ", block,
              ": no block that this process holds begins there.");
  history_.Annotated(static_cast<c10::DeviceIndex>(owner->ordinal), address, live->requested_size,
                     owner->allocator->PoolOf(address), text);
}

void CudaAllocator::attachOomRejectionObserver(pytorch::OomRejectionObserver observer) {
  absl::MutexLock lock(&mutex_);
  rejection_observers_.push_back(std::move(observer));
}

void CudaAllocator::attachOutOfMemoryObserver(pytorch::caching::OutOfMemoryObserver observer) {
  absl::MutexLock lock(&mutex_);
  observers_.push_back(std::move(observer));
}

void CudaAllocator::attachAllocatorTraceTracker(pytorch::caching::AllocatorTraceTracker) {
  RefuseToRegister();
}

void CudaAllocator::beginAllocateToPool(c10::DeviceIndex device, pytorch::MempoolId_t pool,
                                        std::function<bool(cudaStream_t)> filter) {
  const std::optional<cudaStream_t> captured = BeginsCapture(device, filter);
  createOrIncrefPool(device, pool, nullptr);
  Use(device).BeginAllocateToPool(pool, std::move(filter), captured.has_value(), captured.value_or(nullptr));
}

void CudaAllocator::endAllocateToPool(c10::DeviceIndex device, pytorch::MempoolId_t pool) {
  Use(device).EndAllocateToPool(pool);
}

void CudaAllocator::releasePool(c10::DeviceIndex device, pytorch::MempoolId_t pool) {
  {
    absl::MutexLock lock(&mutex_);
    auto uses = pool_uses_.find({device, pool});
    TORCH_CHECK_VALUE(uses != pool_uses_.end(), "hocket: pool (", pool.first, ", ", pool.second,
                      ") is released more often than it was used.");
    if (--uses->second > 0) return;
    pool_uses_.erase(uses);
  }
  Use(device).ReleasePool(pool);
}

void CudaAllocator::createOrIncrefPool(c10::DeviceIndex device, pytorch::MempoolId_t pool,
                                       std::shared_ptr<CUDAAllocator> allocator) {
  TORCH_CHECK_NOT_IMPLEMENTED(allocator == nullptr || allocator.get() == this,
                              "hocket serves a torch.cuda.MemPool from its own memory only, not from another "
                              "allocator. Make the pool without one, ",
                              kWithNative);
  absl::MutexLock lock(&mutex_);
  ++pool_uses_[{device, pool}];
}

int CudaAllocator::getPoolUseCount(c10::DeviceIndex device, pytorch::MempoolId_t pool) {
  absl::MutexLock lock(&mutex_);
  const auto uses = pool_uses_.find({device, pool});
  return uses == pool_uses_.end() ? 0 : uses->second;
}

void CudaAllocator::setUseOnOOM(c10::DeviceIndex, pytorch::MempoolId_t, bool use) {
  TORCH_CHECK_NOT_IMPLEMENTED(
      !use,
      "hocket keeps a pool's memory for the pool, also when the device is full. Make it "
      "with use_on_oom=False, ",
      kWithNative);
}

void CudaAllocator::setNoSplit(c10::DeviceIndex, pytorch::MempoolId_t) {
  TORCH_CHECK_NOT_IMPLEMENTED(
      false,
      "hocket gives a pool's memory out in blocks of the size asked for. Make the pool "
      "without no_split, ",
      kWithNative);
}

std::shared_ptr<pytorch::caching::AllocatorState> CudaAllocator::getCheckpointState(
    c10::DeviceIndex device, pytorch::MempoolId_t pool) {
  absl::StatusOr<PoolCheckpoint> checkpoint = Use(device).CheckpointPool(pool);
  TORCH_CHECK(checkpoint.ok(), "hocket: ", checkpoint.status().message());
  return std::make_shared<CheckpointState>(*std::move(checkpoint));
}

pytorch::caching::CheckpointDelta CudaAllocator::setCheckpointPoolState(
    c10::DeviceIndex device, std::shared_ptr<pytorch::caching::AllocatorState> state) {
  const auto ours = std::dynamic_pointer_cast<CheckpointState>(state);
  TORCH_CHECK_VALUE(ours != nullptr, "hocket: this checkpoint of a pool was made by another allocator.");
  const absl::StatusOr<PoolDelta> delta = Use(device).ReturnToCheckpoint(ours->checkpoint);
  ThrowRaised(delta.status());
  TORCH_CHECK(delta.ok(), "hocket: cannot return to the checkpoint: ", delta.status().message());
  pytorch::caching::CheckpointDelta result;
  for (const DevicePtr freed : delta->freed) {
    history_.Freed(device, freed);
    result.ptrs_freed.push_back(reinterpret_cast<void*>(freed));
  }
  for (const PoolCheckpoint::Block& block : ours->checkpoint.blocks) {
    history_.Allocated(device, block.address, block.requested, static_cast<cudaStream_t>(block.stream),
                       Use(device).PoolOf(block.address), [&] { return Use(device).TakeSegmentChanges(); });
    auto* address = reinterpret_cast<void*>(block.address);
    result.dataptrs_allocd.emplace_back(address, address, &Delete, c10::Device(c10::kCUDA, device));
  }
  return result;
}

bool CudaAllocator::checkPoolLiveAllocations(c10::DeviceIndex device, pytorch::MempoolId_t pool,
                                             const std::unordered_set<void*>& expected) {
  const absl::StatusOr<PoolCheckpoint> now = Use(device).CheckpointPool(pool);
  TORCH_CHECK(now.ok(), "hocket: ", now.status().message());
  return now->blocks.size() == expected.size() &&
         std::all_of(now->blocks.begin(), now->blocks.end(), [&](const PoolCheckpoint::Block& block) {
           return expected.contains(reinterpret_cast<void*>(block.address));
         });
}

pytorch::caching::ShareableHandle CudaAllocator::shareIpcHandle(void*) { RefuseToShare(); }

std::shared_ptr<void> CudaAllocator::getIpcDevPtr(std::string) {
  TORCH_CHECK_NOT_IMPLEMENTED(
      false,
      "hocket does not open CUDA memory of another process. Let that process send a copy on "
      "the host (tensor.cpu()), ",
      kWithoutHocket);
}

void CudaAllocator::enablePeerAccess(c10::DeviceIndex device, c10::DeviceIndex peer) {
  RefusePeerAccess(device, peer);
}

cudaError_t CudaAllocator::memcpyAsync(void* to, int to_device, const void* from, int from_device,
                                       size_t size, cudaStream_t stream, bool) {
  if (to_device == from_device) return cudaMemcpyAsync(to, from, size, cudaMemcpyDeviceToDevice, stream);
  return cudaMemcpyPeerAsync(to, to_device, from, from_device, size, stream);
}

}  // namespace hocket
