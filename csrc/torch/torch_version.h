// What differs between the versions of PyTorch that Hocket compiles against (2.11 and newer), and the names
// of PyTorch's that we use. No other file looks at a version.
//
// The base class is PyTorch's concrete pluggable allocator and not its abstract one: virtuals that a new
// version adds are implemented there already, so our class stays complete.
//   2.12 .. 2.15 added attachOomRejectionObserver, markCaptureBegin/End, annotateMemory, allocateWithAddress,
//   setNoSplit, getContextForPointer, and DeviceStats::reserved_bytes_by_private_pools. Those methods that we
//   implement are written without `override`: an older base has none of them.
#ifndef HOCKET_CSRC_TORCH_TORCH_VERSION_H_
#define HOCKET_CSRC_TORCH_TORCH_VERSION_H_

#include <c10/cuda/CUDACachingAllocator.h>
#include <torch/csrc/cuda/CUDAPluggableAllocator.h>
#include <torch/headeronly/version.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <type_traits>

static_assert(TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 11),
              "Hocket needs PyTorch 2.11 or newer: install it into the environment of HOCKET_PYTHON");

namespace hocket::pytorch {

namespace caching = c10::cuda::CUDACachingAllocator;

using BaseAllocator = torch::cuda::CUDAPluggableAllocator::CUDAPluggableAllocator;
using torch::cuda::CUDAPluggableAllocator::changeCurrentAllocator;

// What BaseAllocator::attachOomRejectionObserver() takes; a stand-in where there is no such method.
template <typename Allocator, typename = void>
struct RejectionObserverOf {
  using Type = std::function<void()>;
};
template <typename Allocator>
struct RejectionObserverOf<Allocator, std::void_t<decltype(&Allocator::attachOomRejectionObserver)>> {
  template <typename Argument>
  static Argument ArgumentOf(void (Allocator::*)(Argument));
  using Type = decltype(ArgumentOf(&Allocator::attachOomRejectionObserver));
};
// Tells such an observer, which a version without the method never attaches.
template <typename Observer>
void TellRejection(const Observer& observer, std::int64_t device, std::size_t size, std::size_t allocated,
                   std::size_t total) {
  if constexpr (requires { observer(device, size, allocated, total); })
    observer(device, size, allocated, total);
}

// The action of an entry that annotateMemory() makes; a version that has none never calls it.
template <typename Entry>
constexpr typename Entry::Action AnnotateActionOf() {
  if constexpr (requires { Entry::ANNOTATE; }) return Entry::ANNOTATE;
  return Entry::SNAPSHOT;
}

// Of entries that a version has no such member of: nothing.
template <typename Entry>
void SetUserMetadata(Entry& entry, const std::string& metadata) {
  if constexpr (requires { entry.user_metadata_; }) entry.user_metadata_ = metadata;
}

// Likewise of statistics; `translate` makes an array of PyTorch's of one of ours.
template <typename Stats, typename ByPool, typename Translate>
void SetReservedByPool(Stats& stats, const ByPool& by_pool, Translate translate) {
  if constexpr (requires { stats.reserved_bytes_by_private_pools; }) {
    for (const auto& [pool, array] : by_pool) {
      stats.reserved_bytes_by_private_pools[pool] = translate(array);
    }
  }
}

template <typename Stats>
void SetOomRejections(Stats& stats, std::int64_t count) {
  if constexpr (requires { stats.num_oom_rejections; }) stats.num_oom_rejections = count;
}

using OomRejectionObserver = RejectionObserverOf<BaseAllocator>::Type;

using c10::MempoolId_t;
using c10::CachingDeviceAllocator::AnnotationEntry;
using c10::CachingDeviceAllocator::BlockInfo;
using c10::CachingDeviceAllocator::DeviceStats;
using c10::CachingDeviceAllocator::SegmentInfo;
using c10::CachingDeviceAllocator::TraceEntry;

inline constexpr TraceEntry::Action kAnnotate = AnnotateActionOf<TraceEntry>();

}  // namespace hocket::pytorch

#endif  // HOCKET_CSRC_TORCH_TORCH_VERSION_H_
