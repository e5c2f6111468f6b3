// Copies and fills, queued on a stream.
#ifndef HOCKET_CSRC_EMULATOR_DRIVER_COPIES_H_
#define HOCKET_CSRC_EMULATOR_DRIVER_COPIES_H_

#include "csrc/emulator/driver/gpu.h"

namespace hocket::emulator {

// Queues a copy between any two of device, pinned and pageable memory. Pageable memory that is read is
// taken before the call returns; where it is written, the call returns when the bytes are there; pinned
// memory is read and written later. kInvalidValue where a device range is not mapped with access.
cuda::Result Copy(std::uint64_t to, std::uint64_t from, Bytes size, Stream stream);
// As above, and returns when the bytes have arrived.
cuda::Result CopyAndWait(std::uint64_t to, std::uint64_t from, Bytes size);

// Queues `count` times the `width` bytes of `value` at `to`.
cuda::Result Fill(DevicePtr to, std::uint32_t value, int width, std::size_t count, Stream stream);

}  // namespace hocket::emulator

#endif  // HOCKET_CSRC_EMULATOR_DRIVER_COPIES_H_
