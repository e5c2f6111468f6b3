// A debug mode (HOCKET_VERIFY=1): bytes that went to the host and came back are looked at, not believed.
//
//   spilled     the device's bytes are read a second time. What differs was written meanwhile, by work that
//               nobody waited for. The host copy gets a checksum.
//   restoring   the host copy must have that checksum still; one that is mapped may have been written to by
//               device work in between, and is not looked at
//   restored    the device's bytes are read back, and must be the host copy's
//   kept        bytes of which the host has a copy that was kept, because somebody promised that they do not
//               change (promise.h): both must be what they were when they were copied; those that were mapped
//               meanwhile must be the same
//
// What differs ends the process, naming the address: it would go on with wrong numbers. A spill and a restore
// take twice as long, and more.
//
// Not thread-safe: the allocator's lock guards it. Needs the device's context on the calling thread.
#ifndef HOCKET_ALLOCATOR_VERIFIER_H_
#define HOCKET_ALLOCATOR_VERIFIER_H_

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "allocator/region.h"

namespace hocket {

class Verifier {
 public:
  // Who has promised that the byte at an address does not change, what lies there, from where on, and how
  // much: in words.
  using ConstantAt = std::function<std::string(DevicePtr address)>;

  // `driver` is borrowed and must outlive the verifier. `stream` is what it reads the device on.
  Verifier(const Driver& driver, Stream stream, ConstantAt constant_at)
      : driver_(driver), stream_(stream), constant_at_(std::move(constant_at)) {}

  // `copy` has arrived from the chunk at `base`, which is still there. An error: the device cannot be read.
  absl::Status Spilled(DevicePtr base, HostCopy& copy);
  // The chunk at `base`, which is still there, is to be spilled with `copy` of an earlier spill. An error:
  // the device cannot be read.
  absl::Status Kept(DevicePtr base, const HostCopy& copy);
  // `copy` is about to go back to the chunk at `base`.
  void Restoring(DevicePtr base, const HostCopy& copy) const;
  // `copy` has arrived in the chunk at `base`. An error: the device cannot be read.
  absl::Status Restored(DevicePtr base, const HostCopy& copy);

 private:
  struct Difference {
    DevicePtr address = 0;  // of the first byte that differs
    Bytes range = 0;        // size of the range that it is in
    int host = 0, device = 0;
  };
  // Between `copy` and the device.
  absl::StatusOr<std::optional<Difference>> Compare(DevicePtr base, const HostCopy& copy);

  const Driver& driver_;
  const Stream stream_;
  const ConstantAt constant_at_;
  std::vector<std::byte> read_;
};

}  // namespace hocket

#endif  // HOCKET_ALLOCATOR_VERIFIER_H_
