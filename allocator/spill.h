// Copies the live bytes of chunks to the host and back, at the same addresses.
//
// Both directions work on batches: all copies of a batch are queued on one stream, waited for once, and only
// then does each chunk change its state (region.h). So a failure in the middle leaves every chunk either
// where it was or where it was to go, never in between, and the same call may be made again.
//
// Chunks that lie one behind the other are mapped and unmapped in runs, which takes the driver fewer calls
// than there are chunks. Copies go on meanwhile: the first of a batch waits for one chunk to be mapped, and a
// later run is at most a part of what is queued before it.
//
// Bytes that do not change (promise.h) are copied to the host once: their copy is kept when they come back
// (region.h), and the next spill copies the others only. Where a spill fails, what was kept of a chunk may be
// gone, and is copied again.
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
#include "allocator/copy_wait.h"
#include "allocator/event.h"
#include "allocator/region.h"
#include "allocator/verifier.h"

namespace hocket {

class Spiller {
 public:
  // A chunk to move, and the bytes of it that matter: those that may change, and those that do not.
  struct Item {
    Region* region = nullptr;
    Region::Position position = 0;
    std::vector<Extent> changing;
    std::vector<Extent> constant;
  };
  // Bytes of spilled chunks: what was copied, and what was not because the host had it.
  struct Moved {
    Bytes copied = 0;
    Bytes spared = 0;
  };
  // What became of items that were to come back: the first `done` have.
  struct Outcome {
    std::size_t done = 0;
    Bytes copied = 0;
    absl::Status status;
  };

  // `driver` and `host` are borrowed and must outlive the spiller. `constant_at`: for a Verifier; without it
  // there is none.
  static absl::StatusOr<std::unique_ptr<Spiller>> Create(const Driver& driver, HostMemory& host,
                                                         Verifier::ConstantAt constant_at);
  ~Spiller();
  Spiller(const Spiller&) = delete;
  Spiller& operator=(const Spiller&) = delete;

  // The most chunks of a run. While it is mapped there is nothing behind some of its addresses.
  static constexpr std::size_t kLongestRun = 16;

  // private -> spilled, `in_part` items at a time: while those of one part become free, the next part is
  // being copied. Asks `still_idle` when a part's copies have arrived and nothing else of the spiller's is
  // under way: an error means that device work may have used the chunks since they were copied. Calls `moved`
  // for each item that has moved, in order, and `part_done` after each part with the bytes of it. Stops at
  // the first item that fails (host memory, a copy), and before a part that was not idle: those and what is
  // behind them stay resident. REQUIRES: no device work uses the chunks; in_part > 0, or no items.
  absl::Status Spill(absl::Span<Item> items, std::size_t in_part,
                     absl::FunctionRef<absl::Status()> still_idle, absl::FunctionRef<void(const Item&)> moved,
                     absl::FunctionRef<void(const Moved& part)> part_done);

  // spilled -> private, item by item, with chunks from `new_chunk`; the host's copy of the constant bytes is
  // kept if it is of `constant` (`changing` is not looked at). Stops at the first for which there is no
  // chunk; that one and those behind it stay spilled. Calls `meanwhile` when all copies are queued, and does
  // not wait for what that queues.
  Outcome Restore(absl::Span<Item> items, absl::FunctionRef<absl::StatusOr<Chunk>()> new_chunk,
                  absl::FunctionRef<void()> meanwhile);

  // Begins the arrival of a run of spilled positions in `chunks` (region.h) and queues its copies; what was
  // queued before has been waited for on an error. Returns the bytes.
  absl::StatusOr<Bytes> Send(Region& region, Region::Position first, absl::Span<Chunk> chunks);
  // `event` is behind all that was sent. An error: it has arrived.
  absl::Status RecordSent(ScopedEvent& event);
  // spilled -> private, of a run of positions that were sent; of each, what is constant. An error: they are
  // still to be abandoned. REQUIRES: it has arrived, and as for FinishArrival().
  absl::Status Receive(Region& region, Region::Position first,
                       absl::Span<const std::vector<Extent>> constant);

 private:
  // Items that have host memory to be copied to, and an event behind their copies.
  struct Part {
    struct Prepared {
      HostCopies copies;
      Moved bytes;
      bool kept = false;  // the constant ones: the host has them
    };
    absl::Span<Item> items;
    std::vector<Prepared> prepared;  // the first so many
    EventHandle event = nullptr;
    Clock::time_point queued;

    Bytes copied() const;
  };

  Spiller(const Driver& driver, HostMemory& host) : driver_(driver), host_(host), out_wait_(driver) {}
  absl::Status Open(Verifier::ConstantAt constant_at);

  // Waits for `stream`; where that fails, for the whole device: nothing is under way afterwards, and the
  // error says that what was queued cannot be trusted.
  absl::Status Settle(Stream stream);
  // A chunk of host memory to map; nullptr where that cannot be.
  absl::StatusOr<std::shared_ptr<const HostChunk>> NewChunk();
  // Host memory for these bytes, in `chunk` if there is one.
  absl::StatusOr<HostCopy> NewCopy(const std::vector<Extent>& extents,
                                   std::shared_ptr<const HostChunk> chunk);
  // Host memory for all of the item's bytes.
  absl::StatusOr<Part::Prepared> Prepare(const Item& item);
  absl::Status QueueToHost(DevicePtr base, const HostCopy& copy);
  absl::Status QueueToDevice(DevicePtr base, const HostCopy& copy);
  // Prepares as many of the part's items as can be; the error is that of the first that cannot.
  absl::Status PreparePart(Part& part);
  absl::Status QueueSpill(const Item& item, const Part::Prepared& prepared);
  // Queues what is prepared; on an error, that of the first that cannot be, only those before it are.
  absl::Status QueuePart(Part& part);
  // Waits for what is queued of it.
  absl::Status AwaitPart(const Part& part, absl::FunctionRef<absl::Status()> still_idle);
  // Lets its chunks go. Returns the bytes moved so far, also on an error.
  Moved FinishPart(Part& part, absl::FunctionRef<void(const Item&)> moved, absl::Status& status);
  // REQUIRES: a verifier, and the copies have arrived.
  absl::Status VerifySpilled(DevicePtr base, Part::Prepared& prepared);
  // Of a run: returns how many are on their way. An error: no more are.
  std::size_t QueueRestore(absl::Span<const Item> run, absl::FunctionRef<absl::StatusOr<Chunk>()> new_chunk,
                           absl::Status& status);
  // The copies of `position`, which go to `base`. Returns their bytes.
  absl::StatusOr<Bytes> QueueBack(const Region& region, Region::Position position, DevicePtr base);

  const Driver& driver_;
  HostMemory& host_;
  Stream out_ = nullptr;        // to the host
  Stream in_ = nullptr;         // to the device
  EventHandle events_[2] = {};  // behind two parts on their way to the host
  EventHandle back_ = nullptr;  // behind what is on its way to the device
  CopyWait out_wait_;
  std::optional<Verifier> verifier_;
};

}  // namespace hocket

#endif  // HOCKET_ALLOCATOR_SPILL_H_
