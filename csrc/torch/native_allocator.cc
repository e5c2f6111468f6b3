#include "csrc/torch/native_allocator.h"

#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>

#include <algorithm>
#include <exception>

#include "csrc/torch/captures.h"
#include "csrc/torch/interruption.h"
#include "csrc/torch/out_of_turn.h"
#include "csrc/torch/refusals.h"
#include "csrc/torch/segments.h"

namespace hocket {
namespace {

void* NeverCalled(size_t, int, cudaStream_t) { return nullptr; }
void NeverCalledEither(void*, size_t, int, cudaStream_t) {}

DevicePtr AddressOf(const void* block) { return reinterpret_cast<DevicePtr>(block); }
DevicePtr AddressOf(const c10::DataPtr& block) { return AddressOf(block.get()); }

}  // namespace

NativeAllocator::NativeAllocator(pytorch::caching::CUDAAllocator& native, Devices& devices,
                                 const std::atomic<bool>& forked)
    : pytorch::BaseAllocator(&NeverCalled, &NeverCalledEither),
      native_(native),
      devices_(devices),
      forked_(forked) {}

// What fails here costs no more than memory: the segments are spilled instead. A recorded history looks at
// the Python stack, for which this thread could have to wait for one that waits for it.
// Called inside the native allocator's malloc too, which has let its lock go. Who holds `pools_mutex_` may
// wait for that lock or for the device: nobody waits for it here.
void NativeAllocator::ShedCache(int ordinal) {
  if (!sheds_ || !pools_mutex_.TryLock()) return;
  if (captured_pools_.empty() && native_.initialized() && !native_.isHistoryEnabled()) {
    try {
      const c10::cuda::CUDAGuard guard(static_cast<c10::DeviceIndex>(ordinal));
      native_.emptyCache();
    } catch (const std::exception&) {
    }
  }
  pools_mutex_.Unlock();
}

Devices::Device& NativeAllocator::UseDevice(c10::DeviceIndex device) {
  absl::StatusOr<Devices::Device*> used = devices_.Use(device);
  ThrowRaised(used.status());
  TORCH_CHECK(used.ok(), std::string(used.status().message()));
  return **used;
}

void NativeAllocator::AwaitTurn() {
  if (forked_) return;
  const c10::DeviceIndex ordinal = c10::cuda::current_device();
  const Devices::Device* const device = devices_.Find(ordinal);
  Client* const client = (device != nullptr ? *device : UseDevice(ordinal)).client.get();
  if (client == nullptr || client->HoldsTurn()) return;
  const absl::Status status = client->AwaitTurn();
  ThrowRaised(status);
  TORCH_CHECK(status.ok(), std::string(status.message()));
}

template <typename Allocate>
auto NativeAllocator::InTurn(Allocate allocate) -> decltype(allocate()) {
  AwaitTurn();
  (void)TakeRefusal();
  try {
    auto block = allocate();
    NoteAllocation(AddressOf(block));
    return block;
  } catch (const c10::OutOfMemoryError& error) {
    const std::string refusal = TakeRefusal();
    if (refusal.empty()) throw;
    TORCH_CHECK_WITH(OutOfMemoryError, false, error.what_without_backtrace(), "\n  hocket: ", refusal);
  } catch (const c10::Error&) {
    const std::exception_ptr raised = TakeRaisedInMalloc();
    const std::string refusal = TakeRefusal();
    if (raised) std::rethrow_exception(raised);
    if (refusal.empty()) throw;
    TORCH_CHECK(false, refusal);
  }
}

c10::DataPtr NativeAllocator::allocate(size_t size) {
  if (size == 0) return native_.allocate(size);
  return InTurn([&] { return native_.allocate(size); });
}

void* NativeAllocator::raw_alloc(size_t size) {
  if (size == 0) return native_.raw_alloc(size);
  return InTurn([&] { return native_.raw_alloc(size); });
}

void* NativeAllocator::raw_alloc_with_stream(size_t size, cudaStream_t stream) {
  if (size == 0) return native_.raw_alloc_with_stream(size, stream);
  return InTurn([&] { return native_.raw_alloc_with_stream(size, stream); });
}

c10::DataPtr NativeAllocator::allocateWithAddress(size_t size, void* address) {
  return InTurn([&] { return AllocateAt(native_, size, address); });
}

std::pair<size_t, size_t> NativeAllocator::getMemoryInfo(c10::DeviceIndex device) {
  const Devices::Device& used = UseDevice(device);
  // The fraction is the native allocator's to heed, and the device's memory what it is of.
  const auto share =
      static_cast<Bytes>(native_.getMemoryFraction(device) * static_cast<double>(used.capacity));
  const Bytes limit = std::min(used.Limit(), share);
  const Bytes beyond = used.Limit() - limit;
  return {used.Room() - std::min(used.Room(), beyond), limit};
}

void NativeAllocator::attachAllocatorTraceTracker(pytorch::caching::AllocatorTraceTracker) {
  RefuseToRegister();
}

// A capture is ours first: from then on nobody waits for the device, which would spoil it.
void NativeAllocator::beginAllocateToPool(c10::DeviceIndex device, pytorch::MempoolId_t pool,
                                          std::function<bool(cudaStream_t)> filter) {
  const std::optional<cudaStream_t> captured = BeginsCapture(device, filter);
  if (!captured) return native_.beginAllocateToPool(device, pool, std::move(filter));
  CachingAllocator& segments = *UseDevice(device).allocator;
  MutexLock lock(&pools_mutex_);
  segments.BeginAllocateToPool(
      pool, [](Stream) { return false; }, /*captures=*/true, *captured);
  try {
    native_.beginAllocateToPool(device, pool, std::move(filter));
  } catch (...) {
    segments.EndAllocateToPool(pool);
    throw;
  }
  captured_pools_.emplace(device, pool);
}

void NativeAllocator::endAllocateToPool(c10::DeviceIndex device, pytorch::MempoolId_t pool) {
  native_.endAllocateToPool(device, pool);
  MutexLock lock(&pools_mutex_);
  const auto open = captured_pools_.find({device, pool});
  if (open == captured_pools_.end()) return;  // no capture's, or begun before Hocket was imported
  captured_pools_.erase(open);
  devices_.Find(device)->allocator->EndAllocateToPool(pool);
}

pytorch::caching::ShareableHandle NativeAllocator::shareIpcHandle(void* block) {
  if (devices_.OwnerOf(reinterpret_cast<DevicePtr>(block)) != nullptr) RefuseToShare();
  return native_.shareIpcHandle(block);
}

void NativeAllocator::enablePeerAccess(c10::DeviceIndex device, c10::DeviceIndex peer) {
  RefusePeerAccess(device, peer);
}

cudaError_t NativeAllocator::memcpyAsync(void* to, int to_device, const void* from, int from_device,
                                         size_t size, cudaStream_t stream, bool) {
  if (to_device == from_device) return cudaMemcpyAsync(to, from, size, cudaMemcpyDeviceToDevice, stream);
  return cudaMemcpyPeerAsync(to, to_device, from, from_device, size, stream);
}

}  // namespace hocket
