#include "csrc/torch/translate.h"

#include <algorithm>
#include <limits>

namespace hocket {
namespace {

c10::CachingAllocator::StatArray Translate(const StatArray& from) {
  c10::CachingAllocator::StatArray to;
  for (size_t i = 0; i < from.size(); ++i) {
    to[i].current = from[i].current;
    to[i].peak = from[i].peak;
    to[i].allocated = from[i].allocated;
    to[i].freed = from[i].freed;
  }
  return to;
}

pytorch::BlockInfo Translate(const BlockSnapshot& from) {
  pytorch::BlockInfo to;
  to.size = from.size;
  to.requested_size = from.requested_size;
  to.allocated = from.allocated;
  to.active = from.active;
  return to;
}

}  // namespace

pytorch::DeviceStats Translate(const DeviceStats& from) {
  pytorch::DeviceStats to;
  to.allocation = Translate(from.allocation);
  to.segment = Translate(from.segment);
  to.active = Translate(from.active);
  to.inactive_split = Translate(from.inactive_split);
  to.allocated_bytes = Translate(from.allocated_bytes);
  to.reserved_bytes = Translate(from.reserved_bytes);
  to.active_bytes = Translate(from.active_bytes);
  to.inactive_split_bytes = Translate(from.inactive_split_bytes);
  to.requested_bytes = Translate(from.requested_bytes);
  to.num_alloc_retries = from.num_alloc_retries;
  to.num_ooms = from.num_ooms;
  to.num_sync_all_streams = from.num_sync_all_streams;
  to.num_device_alloc = from.num_device_alloc;
  to.num_device_free = from.num_device_free;
  to.max_split_size = -1;  // PyTorch's word for no limit: blocks of any size are split
  pytorch::SetReservedByPool(to, from.reserved_bytes_by_pool,
                             [](const StatArray& array) { return Translate(array); });
  return to;
}

pytorch::SegmentInfo Translate(const SegmentSnapshot& from, c10::DeviceIndex device, const History& history) {
  pytorch::SegmentInfo to;
  to.device = device;
  to.address = from.address;
  to.total_size = from.total_size;
  to.requested_size = from.requested_size;
  to.allocated_size = from.allocated_size;
  to.active_size = from.active_size;
  to.is_large = from.is_large;
  to.owner_private_pool_id = from.pool;
  for (const BlockSnapshot& block : from.blocks) {
    to.blocks.push_back(Translate(block));
    if (block.allocated) to.blocks.back().context_when_allocated = history.ContextOf(block.address);
  }
  return to;
}

pytorch::caching::AllocatorConfigInfo SettingsInUse(pytorch::caching::CUDAAllocator& native) {
  pytorch::caching::AllocatorConfigInfo settings{};
  try {
    settings = native.snapshot({0, 0}, /*include_traces=*/false).config_metadata;
  } catch (const c10::Error&) {  // cudaMallocAsync has none
  }
  settings.last_allocator_settings = c10::CachingAllocator::getAllocatorSettings();
  settings.max_split_size = std::numeric_limits<size_t>::max();
  settings.garbage_collection_threshold = 0;
  settings.expandable_segments = false;
  settings.release_lock_on_malloc = false;
  settings.graph_capture_record_stream_reuse = false;
  std::fill(settings.roundup_power2_divisions.begin(), settings.roundup_power2_divisions.end(), 0);
  return settings;
}

}  // namespace hocket
