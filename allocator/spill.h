// Copies the live bytes of chunks to the host and back, at the same addresses.
//
// Both directions work on batches: all copies of a batch are queued on one stream, waited for once, and only
// then does each chunk change its state (region.h). So a failure in the middle leaves every chunk either
// where it was or where it was to go, never in between, and the same call may be made again.
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
  // What became of items that were to come back: the first `done` have.
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

  // private -> spilled, `in_part` items at a time: while those of one part become free, the next part is
  // being copied. Calls `moved` for each item that has moved, in order, and `part_done` after each part with
  // the bytes that were copied for it. Stops at the first item that fails (host memory, a copy): that one and
  // those behind it stay resident. REQUIRES: no device work uses the chunks; in_part > 0, or no items.
  absl::Status Spill(absl::Span<Item> items, std::size_t in_part, absl::FunctionRef<void(const Item&)> moved,
                     absl::FunctionRef<void(Bytes copied)> part_done);

  // spilled -> private, item by item (`live` is not looked at), with chunks from `new_chunk`. Stops at the
  // first for which there is no chunk; that one and those behind it stay spilled.
  Outcome Restore(absl::Span<Item> items, absl::FunctionRef<absl::StatusOr<Chunk>()> new_chunk);

 private:
  // Items whose copies are queued, and an event behind these.
  struct Part {
    absl::Span<Item> items;
    std::vector<HostCopy> copies;  // of the first so many
    EventHandle event = nullptr;
  };

  Spiller(const Driver& driver, HostMemory& host) : driver_(driver), host_(host) {}
  absl::Status Open(bool verify);

  // Waits for `stream`; where that fails, for the whole device: nothing is under way afterwards, and the
  // error says that what was queued cannot be trusted.
  absl::Status Settle(Stream stream);
  absl::StatusOr<HostCopy> QueueSpill(const Item& item);
  // Queues as many of the part's items as can be; the error is that of the first that cannot.
  absl::Status QueuePart(Part& part);
  // Waits for what is queued of it, and lets its chunks go. Returns the bytes copied so far, also on an
  // error.
  Bytes FinishPart(Part& part, absl::FunctionRef<void(const Item&)> moved, absl::Status& status);
  absl::Status QueueRestore(const Item& item, absl::FunctionRef<absl::StatusOr<Chunk>()> new_chunk);

  const Driver& driver_;
  HostMemory& host_;
  Stream out_ = nullptr;        // to the host
  Stream in_ = nullptr;         // to the device
  EventHandle events_[2] = {};  // behind two parts on their way to the host
  std::optional<Verifier> verifier_;
};

}  // namespace hocket

#endif  // HOCKET_ALLOCATOR_SPILL_H_
