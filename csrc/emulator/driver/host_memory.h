// Host memory that the device may copy to and from without staging: allocated by the driver, or
// registered with it. Thread-safe.
#ifndef HOCKET_CSRC_EMULATOR_DRIVER_HOST_MEMORY_H_
#define HOCKET_CSRC_EMULATOR_DRIVER_HOST_MEMORY_H_

#include <map>
#include <mutex>
#include <optional>

#include "csrc/base/bytes.h"
#include "csrc/emulator/driver/abi.h"

namespace hocket::emulator {

struct PinnedRange {
  std::uint64_t address = 0;
  Bytes size = 0;
  unsigned flags = 0;
  bool allocated = false;  // by us, not registered
};

class HostMemory {
 public:
  cuda::Result Allocate(Bytes size, unsigned flags, void** address);
  // kInvalidValue for a shared mapping of a file on a disk, as the kernel does.
  cuda::Result Register(void* address, Bytes size, unsigned flags);
  // Forgets the range that starts at `address`; an allocated one is unmapped. kInvalidValue (allocated) or
  // kHostNotRegistered (registered) when there is none.
  cuda::Result Free(void* address);
  cuda::Result Unregister(void* address);

  // The pinned range that `address` lies in.
  std::optional<PinnedRange> At(std::uint64_t address) const;
  bool IsPinned(std::uint64_t address, Bytes size) const;

 private:
  mutable std::mutex mutex_;
  std::map<std::uint64_t, PinnedRange> ranges_;  // guarded by mutex_
};

}  // namespace hocket::emulator

#endif  // HOCKET_CSRC_EMULATOR_DRIVER_HOST_MEMORY_H_
