// PyTorch's native allocator, kept, behind Hocket's gate. Everything is passed on to it; what is added:
//
//   an allocation          waits for the turn first, before the native allocator takes its lock, so that a
//                          thread which waits for the turn keeps nobody from freeing
//   out of memory          says who holds what, too
//   begin, end of a pool   nothing moves in between: a graph may be captured
//   ShedCache()            the native cache is emptied when the turn passes, and before another job is asked
//   for
//                          room, unless a graph is being captured
//
// Its segments come from segments.h, and so from a CachingAllocator, which spills and restores them whole.
// The native allocator does not notice: addresses stay. Tensors that exist already stay with it, too: their
// deleters are its own.
//
// What a memory that moves cannot do is refused (refusals.h). A virtual that a new PyTorch adds has to be
// passed on here, or the base class answers for it.
//
// Thread-safe. Lives until the process ends.
#ifndef HOCKET_CSRC_TORCH_NATIVE_ALLOCATOR_H_
#define HOCKET_CSRC_TORCH_NATIVE_ALLOCATOR_H_

#include <atomic>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <type_traits>
#include <unordered_set>
#include <utility>
#include <vector>

#include "csrc/base/mutex.h"
#include "csrc/torch/devices.h"
#include "csrc/torch/torch_version.h"

namespace hocket {

class NativeAllocator final : public pytorch::BaseAllocator {
  using Context = std::invoke_result_t<pytorch::caching::CreateContextFn>;

 public:
  // All are borrowed and live until the process ends.
  NativeAllocator(pytorch::caching::CUDAAllocator& native, Devices& devices, const std::atomic<bool>& forked);

  // Lets the native allocator give the device's unused segments back. Does nothing while a pool is open, nor
  // where another thread is at that.
  void ShedCache(int ordinal);
  // From now on ShedCache() does nothing: the process ends, and PyTorch's allocator with it.
  void StopShedding() { sheds_ = false; }

  std::string name() override { return native_.name(); }

  // --- blocks ---
  c10::DataPtr allocate(size_t size) override;
  c10::DeleterFnPtr raw_deleter() const override { return native_.raw_deleter(); }
  void* raw_alloc(size_t size) override;
  void* raw_alloc_with_stream(size_t size, cudaStream_t stream) override;
  void raw_delete(void* block) override { native_.raw_delete(block); }
  void recordStream(const c10::DataPtr& block, c10::cuda::CUDAStream stream) override {
    native_.recordStream(block, stream);
  }
  void* getBaseAllocation(void* address, size_t* size) override {
    return native_.getBaseAllocation(address, size);
  }

  // --- life, the cache and its limits ---
  void init(int device_count) override { native_.init(device_count); }
  bool initialized() override { return native_.initialized(); }
  void enable(bool value) override { native_.enable(value); }
  bool isEnabled() const override { return native_.isEnabled(); }
  void emptyCache(pytorch::MempoolId_t pool = {0, 0}) override { native_.emptyCache(pool); }
  void cacheInfo(c10::DeviceIndex device, size_t* largest_free) override {
    native_.cacheInfo(device, largest_free);
  }
  double getMemoryFraction(c10::DeviceIndex device) override { return native_.getMemoryFraction(device); }
  void setMemoryFraction(double fraction, c10::DeviceIndex device) override {
    native_.setMemoryFraction(fraction, device);
  }
  // What the job may use: its limit, and what is left of it.
  std::pair<size_t, size_t> getMemoryInfo(c10::DeviceIndex device) override;
  std::vector<pytorch::caching::StreamSegmentSize> getExpandableSegmentSizes(
      c10::DeviceIndex device) override {
    return native_.getExpandableSegmentSizes(device);
  }

  // --- what is shown ---
  pytorch::DeviceStats getDeviceStats(c10::DeviceIndex device) override {
    return native_.getDeviceStats(device);
  }
  void resetAccumulatedStats(c10::DeviceIndex device) override { native_.resetAccumulatedStats(device); }
  void resetPeakStats(c10::DeviceIndex device) override { native_.resetPeakStats(device); }
  pytorch::caching::SnapshotInfo snapshot(pytorch::MempoolId_t pool, bool include_traces = true) override {
    return native_.snapshot(pool, include_traces);
  }
  bool isHistoryEnabled() override { return native_.isHistoryEnabled(); }
  void recordHistory(bool enabled, pytorch::caching::CreateContextFn gather_context, size_t max_entries,
                     pytorch::caching::RecordContext when, bool clear_history,
                     const std::vector<std::string>& skip_actions) override {
    native_.recordHistory(enabled, gather_context, max_entries, when, clear_history, skip_actions);
  }
  void recordAnnotation(const std::vector<std::pair<std::string, std::string>>& annotation) override {
    native_.recordAnnotation(annotation);
  }
  void pushCompileContext(std::string& context) override { native_.pushCompileContext(context); }
  void popCompileContext() override { native_.popCompileContext(); }
  void setUserMetadata(const std::string& metadata) override { native_.setUserMetadata(metadata); }
  std::string getUserMetadata() override { return native_.getUserMetadata(); }
  void attachOutOfMemoryObserver(pytorch::caching::OutOfMemoryObserver observer) override {
    native_.attachOutOfMemoryObserver(std::move(observer));
  }
  void attachAllocatorTraceTracker(pytorch::caching::AllocatorTraceTracker tracker) override;

  // --- pools (CUDA graphs, torch.cuda.MemPool) ---
  void beginAllocateToPool(c10::DeviceIndex device, pytorch::MempoolId_t pool,
                           std::function<bool(cudaStream_t)> filter) override;
  void endAllocateToPool(c10::DeviceIndex device, pytorch::MempoolId_t pool) override;
  void releasePool(c10::DeviceIndex device, pytorch::MempoolId_t pool) override {
    native_.releasePool(device, pool);
  }
  void createOrIncrefPool(c10::DeviceIndex device, pytorch::MempoolId_t pool,
                          std::shared_ptr<CUDAAllocator> allocator) override {
    native_.createOrIncrefPool(device, pool, std::move(allocator));
  }
  int getPoolUseCount(c10::DeviceIndex device, pytorch::MempoolId_t pool) override {
    return native_.getPoolUseCount(device, pool);
  }
  void setUseOnOOM(c10::DeviceIndex device, pytorch::MempoolId_t pool, bool use) override {
    native_.setUseOnOOM(device, pool, use);
  }
  void setNoSplit(c10::DeviceIndex device, pytorch::MempoolId_t pool) override {
    native_.setNoSplit(device, pool);
  }
  bool checkPoolLiveAllocations(c10::DeviceIndex device, pytorch::MempoolId_t pool,
                                const std::unordered_set<void*>& expected) override {
    return native_.checkPoolLiveAllocations(device, pool, expected);
  }
  std::shared_ptr<pytorch::caching::AllocatorState> getCheckpointState(c10::DeviceIndex device,
                                                                       pytorch::MempoolId_t pool) override {
    return native_.getCheckpointState(device, pool);
  }
  pytorch::caching::CheckpointDelta setCheckpointPoolState(
      c10::DeviceIndex device, std::shared_ptr<pytorch::caching::AllocatorState> state) override {
    return native_.setCheckpointPoolState(device, std::move(state));
  }

  // --- other processes, other devices ---
  // Memory that was there before Hocket does not move, and may be shared.
  pytorch::caching::ShareableHandle shareIpcHandle(void* block) override;
  std::shared_ptr<void> getIpcDevPtr(std::string handle) override {
    return native_.getIpcDevPtr(std::move(handle));
  }
  void enablePeerAccess(c10::DeviceIndex device, c10::DeviceIndex peer) override;
  // Segments are mapped memory, which cudaMemcpyAsync does not copy between devices.
  cudaError_t memcpyAsync(void* to, int to_device, const void* from, int from_device, size_t size,
                          cudaStream_t stream, bool peer_access) override;

  // --- what only newer versions of PyTorch have ---
  // Without `override`: where the base class has them they override it all the same.
#if defined(__clang__)
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Winconsistent-missing-override"
#endif
  virtual void markCaptureBegin(c10::DeviceIndex device) { MarkCaptureBegin(native_, device); }
  virtual void markCaptureEnd(c10::DeviceIndex device) { MarkCaptureEnd(native_, device); }
  virtual bool supportsUserMetadata() { return SupportsUserMetadata(native_); }
  virtual void annotateMemory(const void* block, const std::string& text) { Annotate(native_, block, text); }
  virtual c10::DataPtr allocateWithAddress(size_t size, void* address);
  virtual void attachOomRejectionObserver(pytorch::OomRejectionObserver observer) {
    AttachRejection(native_, std::move(observer));
  }
  virtual Context getContextForPointer(const void* block) { return ContextFor(native_, block); }
#if defined(__clang__)
#pragma clang diagnostic pop
#endif

 private:
  template <typename Native>
  static void MarkCaptureBegin(Native& native, c10::DeviceIndex device) {
    if constexpr (requires { native.markCaptureBegin(device); }) native.markCaptureBegin(device);
  }
  template <typename Native>
  static void MarkCaptureEnd(Native& native, c10::DeviceIndex device) {
    if constexpr (requires { native.markCaptureEnd(device); }) native.markCaptureEnd(device);
  }
  template <typename Native>
  static bool SupportsUserMetadata(Native& native) {
    if constexpr (requires { native.supportsUserMetadata(); }) return native.supportsUserMetadata();
    return false;
  }
  template <typename Native>
  static void Annotate(Native& native, const void* block, const std::string& text) {
    if constexpr (requires { native.annotateMemory(block, text); }) native.annotateMemory(block, text);
  }
  template <typename Native>
  static void AttachRejection(Native& native, pytorch::OomRejectionObserver observer) {
    if constexpr (requires { native.attachOomRejectionObserver(std::move(observer)); })
      native.attachOomRejectionObserver(std::move(observer));
  }
  template <typename Native>
  static c10::DataPtr AllocateAt(Native& native, size_t size, void* address) {
    if constexpr (requires { native.allocateWithAddress(size, address); })
      return native.allocateWithAddress(size, address);
    return {};
  }
  template <typename Native>
  static Context ContextFor(Native& native, const void* block) {
    if constexpr (requires { native.getContextForPointer(block); }) return native.getContextForPointer(block);
    return nullptr;
  }

  Devices::Device& UseDevice(c10::DeviceIndex device);
  // Waits for the turn on the current device, allocates, and adds to an error what is known here.
  template <typename Allocate>
  auto InTurn(Allocate allocate) -> decltype(allocate());
  void AwaitTurn();

  pytorch::caching::CUDAAllocator& native_;
  Devices& devices_;
  const std::atomic<bool>& forked_;
  Mutex pools_mutex_;  // held before the native allocator's lock
  std::multiset<std::pair<c10::DeviceIndex, pytorch::MempoolId_t>> captured_pools_
      ABSL_GUARDED_BY(pools_mutex_);
  std::atomic<bool> sheds_{true};
};

}  // namespace hocket

#endif  // HOCKET_CSRC_TORCH_NATIVE_ALLOCATOR_H_
