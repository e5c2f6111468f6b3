// A debug mode (HOCKET_VERIFY=1): bytes that went to the host and came back are looked at, not believed.
//
//   spilled     the device's bytes are read a second time. What differs was written meanwhile, by work that
//               nobody waited for. The host copy gets a checksum.
//   restoring   the host copy must have that checksum still
//   restored    the device's bytes are read back, and must be the host copy's
//
// What differs ends the process, naming the address: it would go on with wrong numbers. A spill and a restore
// take twice as long, and more.
//
// Not thread-safe: the allocator's lock guards it. Needs the device's context on the calling thread.
#ifndef HOCKET_ALLOCATOR_VERIFIER_H_
#define HOCKET_ALLOCATOR_VERIFIER_H_

#include <cstddef>
#include <vector>

#include "absl/status/status.h"
#include "allocator/region.h"

namespace hocket {

class Verifier {
 public:
  // `driver` is borrowed and must outlive the verifier. `stream` is what it reads the device on.
  Verifier(const Driver& driver, Stream stream) : driver_(driver), stream_(stream) {}

  // `copy` has arrived from the chunk at `base`, which is still there. An error: the device cannot be read.
  absl::Status Spilled(DevicePtr base, HostCopy& copy);
  // `copy` is about to go back to the chunk at `base`.
  void Restoring(DevicePtr base, const HostCopy& copy) const;
  // `copy` has arrived in the chunk at `base`. An error: the device cannot be read.
  absl::Status Restored(DevicePtr base, const HostCopy& copy);

 private:
  // Ends the process if the device's bytes are not those of `copy`; `story` says what that means.
  absl::Status Compare(DevicePtr base, const HostCopy& copy, const char* story);

  const Driver& driver_;
  const Stream stream_;
  std::vector<std::byte> read_;
};

}  // namespace hocket

#endif  // HOCKET_ALLOCATOR_VERIFIER_H_
