// Hocket's allocator as PyTorch's current CUDA allocator. It only translates: PyTorch's names and exceptions
// on one side, one hocket::CachingAllocator per device on the other.
//
//   torch.empty(..., device="cuda") -> allocate -> Devices::Use(current device) -> CachingAllocator::Malloc
//   the tensor dies                 -> the DataPtr's deleter                    -> CachingAllocator::Free
//
// Derives from PyTorch's concrete pluggable allocator and overrides everything which that class refuses.
// What Hocket cannot do either is refused with the alternative named: sharing memory with another process by
// CUDA IPC, direct access between devices (see also peers.h).
//
// Thread-safe. Lives until the process ends. In a child forked off a process that used a device (whose memory
// is not the child's) frees do nothing.
#ifndef HOCKET_CSRC_TORCH_CUDA_ALLOCATOR_H_
#define HOCKET_CSRC_TORCH_CUDA_ALLOCATOR_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_set.h"
#include "absl/synchronization/mutex.h"
#include "csrc/torch/devices.h"
#include "csrc/torch/history.h"
#include "csrc/torch/torch_version.h"

namespace hocket {

class CudaAllocator final : public pytorch::BaseAllocator {
 public:
  // All are borrowed and live until the process ends. `native`: PyTorch's own allocator, which is no longer
  // in use; it knows what the settings are.
  CudaAllocator(pytorch::caching::CUDAAllocator& native, Devices& devices, const std::atomic<bool>& forked);

  std::string name() override { return "hocket"; }

  // --- blocks ---
  c10::DataPtr allocate(size_t size) override;
  c10::DataPtr allocateWithAddress(size_t size, void* address);
  c10::DeleterFnPtr raw_deleter() const override { return &Delete; }
  void* raw_alloc(size_t size) override;
  void* raw_alloc_with_stream(size_t size, cudaStream_t stream) override;
  void raw_delete(void* block) override;
  void recordStream(const c10::DataPtr& block, c10::cuda::CUDAStream stream) override;
  void* getBaseAllocation(void* address, size_t* size) override;

  // --- the cache and its limits ---
  // While it is off, memory is the driver's own: no other job's arena, never spilled, given back when freed.
  void enable(bool caches) override { caches_ = caches; }
  bool isEnabled() const override { return caches_; }
  void emptyCache(pytorch::MempoolId_t pool = {0, 0}) override;
  void cacheInfo(c10::DeviceIndex device, size_t* largest_free) override;
  double getMemoryFraction(c10::DeviceIndex device) override;
  void setMemoryFraction(double fraction, c10::DeviceIndex device) override;
  // What the job may use: its limit, and what is left of it.
  std::pair<size_t, size_t> getMemoryInfo(c10::DeviceIndex device) override;
  std::vector<pytorch::caching::StreamSegmentSize> getExpandableSegmentSizes(c10::DeviceIndex) override {
    return {};
  }

  // --- what is shown ---
  pytorch::DeviceStats getDeviceStats(c10::DeviceIndex device) override;
  void resetAccumulatedStats(c10::DeviceIndex device) override;
  void resetPeakStats(c10::DeviceIndex device) override;
  pytorch::caching::SnapshotInfo snapshot(pytorch::MempoolId_t pool, bool include_traces = true) override;
  bool isHistoryEnabled() override { return history_.enabled(); }
  void recordHistory(bool enabled, pytorch::caching::CreateContextFn gather_context, size_t max_entries,
                     pytorch::caching::RecordContext when, bool clear_history,
                     const std::vector<std::string>& skip_actions) override;
  History::Context getContextForPointer(const void* address) {
    return history_.ContextOf(reinterpret_cast<std::size_t>(address));
  }
  void recordAnnotation(const std::vector<std::pair<std::string, std::string>>& annotation) override;
  void annotateMemory(const void* block, const std::string& text);
  void pushCompileContext(std::string& context) override { History::PushCompileContext(context); }
  void popCompileContext() override { History::PopCompileContext(); }
  bool supportsUserMetadata() { return true; }
  void setUserMetadata(const std::string& metadata) { History::SetUserMetadata(metadata); }
  std::string getUserMetadata() { return History::UserMetadata(); }
  void attachOutOfMemoryObserver(pytorch::caching::OutOfMemoryObserver observer) override;
  // Of allocations that are rejected early (Devices::RejectsEarly()).
  void attachOomRejectionObserver(pytorch::OomRejectionObserver observer);
  void attachAllocatorTraceTracker(pytorch::caching::AllocatorTraceTracker tracker) override;

  // --- pools (CUDA graphs, torch.cuda.MemPool) ---
  // A pool lives while it is counted: begun or created once for each time that it is released.
  void beginAllocateToPool(c10::DeviceIndex device, pytorch::MempoolId_t pool,
                           std::function<bool(cudaStream_t)> filter) override;
  void endAllocateToPool(c10::DeviceIndex device, pytorch::MempoolId_t pool) override;
  void releasePool(c10::DeviceIndex device, pytorch::MempoolId_t pool) override;
  void createOrIncrefPool(c10::DeviceIndex device, pytorch::MempoolId_t pool,
                          std::shared_ptr<CUDAAllocator> allocator) override;
  int getPoolUseCount(c10::DeviceIndex device, pytorch::MempoolId_t pool) override;
  void setUseOnOOM(c10::DeviceIndex device, pytorch::MempoolId_t pool, bool use) override;
  void setNoSplit(c10::DeviceIndex device, pytorch::MempoolId_t pool);
  std::shared_ptr<pytorch::caching::AllocatorState> getCheckpointState(c10::DeviceIndex device,
                                                                       pytorch::MempoolId_t pool) override;
  pytorch::caching::CheckpointDelta setCheckpointPoolState(
      c10::DeviceIndex device, std::shared_ptr<pytorch::caching::AllocatorState> state) override;
  bool checkPoolLiveAllocations(c10::DeviceIndex device, pytorch::MempoolId_t pool,
                                const std::unordered_set<void*>& expected) override;

  // --- other processes, other devices ---
  pytorch::caching::ShareableHandle shareIpcHandle(void* block) override;
  std::shared_ptr<void> getIpcDevPtr(std::string handle) override;
  void enablePeerAccess(c10::DeviceIndex device, c10::DeviceIndex peer) override;
  cudaError_t memcpyAsync(void* to, int to_device, const void* from, int from_device, size_t size,
                          cudaStream_t stream, bool peer_access) override;

 private:
  using PoolKey = std::pair<c10::DeviceIndex, pytorch::MempoolId_t>;

  static void Delete(void* block);

  // The device, put to use if it is not yet; raises what stands in the way.
  Devices::Device& UseDevice(c10::DeviceIndex device);
  CachingAllocator& Use(c10::DeviceIndex device) { return *UseDevice(device).allocator; }
  // On the device's current stream where none is given. It is asked for once the device is in use: asking
  // makes the context, for which there may be no room yet.
  void* Malloc(size_t size, c10::DeviceIndex device, std::optional<cudaStream_t> given = std::nullopt);
  void Free(void* block);
  void* MallocUncached(size_t size, c10::DeviceIndex device);
  // False: `block` is none of those.
  bool FreeUncached(void* block);
  [[noreturn]] void Raise(const absl::Status& status, c10::DeviceIndex device, size_t size);
  // Calls the observers, and notes it in the history.
  void TellOutOfMemory(c10::DeviceIndex device, size_t size);
  // Raises it if `size` more would be beyond the job's limit.
  void RejectBeyondLimit(Devices::Device& device, size_t size);
  void ReportToProfiler(void* block, std::int64_t size, c10::DeviceIndex device);

  pytorch::caching::CUDAAllocator& native_;
  Devices& devices_;
  const std::atomic<bool>& forked_;
  History history_;
  std::atomic<bool> caches_{true};
  absl::Mutex mutex_;
  std::vector<pytorch::caching::OutOfMemoryObserver> observers_ ABSL_GUARDED_BY(mutex_);
  std::vector<pytorch::OomRejectionObserver> rejection_observers_ ABSL_GUARDED_BY(mutex_);
  std::map<c10::DeviceIndex, std::int64_t> rejections_ ABSL_GUARDED_BY(mutex_);  // since the last reset
  absl::flat_hash_set<void*> uncached_ ABSL_GUARDED_BY(mutex_);
  std::map<PoolKey, int> pool_uses_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace hocket

#endif  // HOCKET_CSRC_TORCH_CUDA_ALLOCATOR_H_
