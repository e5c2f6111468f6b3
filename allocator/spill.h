// Copies the live bytes of chunks to the host and back, at the same addresses.
//
// Both directions work on a batch: all copies are queued on one stream, waited for once, and only then
// does each chunk change its state (region.h). So a failure in the middle leaves every chunk either where it
// was or where it was to go, never in between, and the same call may be made again.
//
// Not thread-safe: the allocator's lock guards it. Needs the device's context on the calling thread.
#ifndef HOCKET_ALLOCATOR_SPILL_H_
#define HOCKET_ALLOCATOR_SPILL_H_

#include <memory>
#include <optional>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "allocator/region.h"
#include "allocator/verifier.h"

namespace hocket {

class Spiller {
 public:
  // A chunk to move, and the bytes of it that matter.
  struct Item {
    Region* region = nullptr;
    Region::Position position = 0;
    std::vector<Extent> live;
  };
  // What became of a batch: the first `done` items have moved.
  struct Outcome {
    std::size_t done = 0;
    Bytes copied = 0;
    absl::Status status;
  };

  // `driver` and `host` are borrowed and must outlive the spiller. `verify`: see verifier.h.
  static absl::StatusOr<std::unique_ptr<Spiller>> Create(const Driver& driver, HostMemory& host, bool verify);
  ~Spiller();
  Spiller(const Spiller&) = delete;
  Spiller& operator=(const Spiller&) = delete;

  // private -> spilled, item by item. Stops at the first that fails (host memory, a copy): that one and
  // those behind it stay resident. REQUIRES: no device work uses the chunks.
  Outcome Spill(absl::Span<Item> items);

  // spilled -> private, item by item (`live` is not looked at), with chunks from `new_chunk`. Stops at the
  // first for which there is no chunk; that one and those behind it stay spilled.
  Outcome Restore(absl::Span<Item> items, absl::FunctionRef<absl::StatusOr<Chunk>()> new_chunk);

 private:
  Spiller(const Driver& driver, HostMemory& host, Stream out, Stream in, bool verify)
      : driver_(driver), host_(host), out_(out), in_(in) {
    if (verify) verifier_.emplace(driver, out);
  }

  // Waits for `stream`; where that fails, for the whole device: nothing is under way afterwards, and the
  // error says that what was queued cannot be trusted.
  absl::Status Settle(Stream stream);
  absl::StatusOr<HostCopy> QueueSpill(const Item& item);
  absl::Status QueueRestore(const Item& item, absl::FunctionRef<absl::StatusOr<Chunk>()> new_chunk);

  const Driver& driver_;
  HostMemory& host_;
  const Stream out_;  // to the host
  const Stream in_;   // to the device
  std::optional<Verifier> verifier_;
};

}  // namespace hocket

#endif  // HOCKET_ALLOCATOR_SPILL_H_
