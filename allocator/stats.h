// What the allocator counts, under PyTorch's own names (torch.cuda.memory_stats), and what it shows of its
// memory (torch.cuda.memory_snapshot).
//
// "reserved" is what lies behind addresses for this job: its private chunks, spilled ones included, and the
// lane's arena chunks mapped here. "active" adds to "allocated" the blocks that PyTorch has freed but
// a recorded stream may still use. Chunks hold blocks of every size, so all that is counted of chunks is
// counted under the large pool. inactive_split and the pools' bytes are looked at when somebody asks, or
// memory comes or goes: their peaks are of those moments.
#ifndef HOCKET_ALLOCATOR_STATS_H_
#define HOCKET_ALLOCATOR_STATS_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "allocator/cuda_abi.h"
#include "csrc/base/bytes.h"

namespace hocket {

struct Stat {
  std::int64_t current = 0;
  std::int64_t peak = 0;
  std::int64_t allocated = 0;  // sum of all increases
  std::int64_t freed = 0;      // sum of all decreases

  void Increase(std::uint64_t amount) {
    current += static_cast<std::int64_t>(amount);
    allocated += static_cast<std::int64_t>(amount);
    peak = std::max(peak, current);
  }
  void Decrease(std::uint64_t amount) {
    current -= static_cast<std::int64_t>(amount);
    freed += static_cast<std::int64_t>(amount);
  }
  void ResetPeak() { peak = current; }
  void ResetAccumulated() { allocated = freed = 0; }
};

// Over all blocks, and by the size class of the request.
enum StatType { kAggregate = 0, kSmallPool = 1, kLargePool = 2, kStatTypes = 3 };
using StatArray = std::array<Stat, kStatTypes>;

struct DeviceStats {
  StatArray allocation;      // count: blocks that PyTorch holds
  StatArray segment;         // count: chunks behind addresses
  StatArray active;          // count: allocated, or freed and still used by a recorded stream
  StatArray inactive_split;  // count: free pieces of chunks that hold live blocks too
  StatArray allocated_bytes;
  StatArray reserved_bytes;
  StatArray active_bytes;
  StatArray inactive_split_bytes;
  StatArray requested_bytes;  // active, before rounding up
  // Chunks of pools (graphs, torch.cuda.MemPool) that have had any, by id.
  std::map<std::pair<std::uint64_t, std::uint64_t>, StatArray> reserved_bytes_by_pool;
  std::int64_t num_alloc_retries = 0;     // the device was full and the cache was given back
  std::int64_t num_ooms = 0;              // and it did not help
  std::int64_t num_sync_all_streams = 0;  // waits for everything, to reuse what streams were recorded on
  std::int64_t num_device_alloc = 0;      // chunks mapped
  std::int64_t num_device_free = 0;       // chunks unmapped

  // Every StatArray in it, for resets.
  template <typename Function>
  void ForEachArray(Function f) {
    for (StatArray* array : {&allocation, &segment, &active, &inactive_split, &allocated_bytes,
                             &reserved_bytes, &active_bytes, &inactive_split_bytes, &requested_bytes}) {
      f(*array);
    }
    for (auto& [pool, array] : reserved_bytes_by_pool) f(array);
  }
};

// Now, in bytes.
struct Usage {
  Bytes allocated = 0;  // in blocks that PyTorch holds
  Bytes reserved = 0;   // behind addresses
};

struct BlockSnapshot {
  DevicePtr address = 0;
  Bytes size = 0;
  Bytes requested_size = 0;  // 0 for a free block
  bool allocated = false;    // PyTorch holds it
  bool active = false;       // allocated, or waiting for a recorded stream
};

// Consecutive mapped (or spilled) addresses of one region and pool, in the manner of one of PyTorch's
// segments.
struct SegmentSnapshot {
  DevicePtr address = 0;
  Bytes total_size = 0;
  Bytes requested_size = 0;
  Bytes allocated_size = 0;
  Bytes active_size = 0;
  bool is_large = false;
  bool is_transient = false;                              // of the lane's arena
  bool is_spilled = false;                                // some of it lies on the host
  std::pair<std::uint64_t, std::uint64_t> pool = {0, 0};  // graph pool; (0, 0): none
  std::vector<BlockSnapshot> blocks;
};

// Memory came behind these addresses, or went from there for good. A move to the host or back is neither.
struct SegmentChange {
  bool came = false;
  DevicePtr address = 0;
  Bytes size = 0;
};

}  // namespace hocket

#endif  // HOCKET_ALLOCATOR_STATS_H_
