// Copies the live bytes of chunks to the host and back, at the same addresses.
//
// A chunk changes its state (region.h) when its copies have arrived, and not before. So a failure in the
// middle leaves every chunk either where it was or where it was to go, never in between, and the same call
// may be made again.
//
// Chunks that lie one behind the other are mapped and unmapped in runs, which takes the driver fewer calls
// than there are chunks. Copies go on meanwhile: the first waits for one chunk to be mapped, and a later run
// is at most a part of what is under way before it.
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
#include "allocator/event.h"
#include "allocator/region.h"
#include "allocator/verifier.h"

namespace hocket {

class Spiller {
 public:
  using Position = Region::Position;

  // The bytes of a position that matter: those that may change, and those that do not.
  struct Contents {
    std::vector<Extent> changing;
    std::vector<Extent> constant;
  };
  // Bytes of spilled chunks: what was copied, and what was not because the host had it.
  struct Moved {
    Bytes copied = 0;
    Bytes spared = 0;
  };
  // What a spill asks, and says.
  struct Leaving {
    // Asked when the position's part is prepared.
    absl::FunctionRef<Contents(Position)> contents;
    // A part's copies have arrived: begins a look at what is queued on the device now.
    absl::FunctionRef<void()> look;
    // That is done, or should be: what the look has found. An error: device work may have used the part's
    // chunks since they were copied.
    absl::FunctionRef<absl::Status()> was_idle;
    // The position has moved; in order.
    absl::FunctionRef<void(Position)> moved;
    // After each part, with the bytes of it.
    absl::FunctionRef<void(const Moved& part)> part_done;
    // The copies are mapped at the chunks' addresses, where they can be, before part_done().
    bool map_at_once = false;
  };
  // What a restore asks, and says.
  struct Returning {
    // kResourceExhausted: there is none now.
    absl::FunctionRef<absl::StatusOr<Chunk>()> new_chunk;
    // Of the position, the bytes that do not change.
    absl::FunctionRef<std::vector<Extent>(Position)> constant;
    // The position is back; in order.
    absl::FunctionRef<void(Position)> back;
    // All copies are queued. What it queues behind them is not waited for.
    absl::FunctionRef<void()> meanwhile;
  };
  // What became of positions that were to come back: the first `done` have.
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

  // private -> spilled, `in_part` positions at a time. While those of one part become free, the next one is
  // being copied: a part is given back when the one behind it has arrived, too. No two parts are queued one
  // behind the other: until the engine that copies to the host has nothing to do for a moment, no process can
  // map memory on the device (docs/decisions/0042). Stops at the first that fails (host memory, a copy), and
  // before a part that was not idle: those and what is behind them stay resident. REQUIRES: no device work
  // uses the chunks; in_part > 0, or no positions.
  absl::Status Spill(Region& region, absl::Span<const Position> positions, std::size_t in_part,
                     const Leaving& calls);

  // spilled -> private; the host's copy of the constant bytes is kept if it is of those that are constant
  // still. Where there is no chunk, it asks again when most of what is under way has arrived, and when all
  // has: others may have given back some meanwhile. Stops when there is none even then, and at the first that
  // fails: those and what is behind them stay spilled.
  Outcome Restore(Region& region, absl::Span<const Position> positions, const Returning& calls);

  // Begins the arrival of a run of spilled positions in `chunks` (region.h) and queues its copies; what was
  // queued before has been waited for on an error, and those that have an arrival then are to be abandoned.
  // Returns the bytes.
  absl::StatusOr<Bytes> Send(Region& region, Region::Position first, absl::Span<Chunk> chunks);
  // `event` is behind all that was sent. An error: it has arrived.
  absl::Status RecordSent(ScopedEvent& event);
  // All that was sent has arrived, or will not any more.
  absl::Status AwaitSent();
  // spilled -> private, of a run of positions that were sent; of each, what is constant. An error: they are
  // still to be abandoned. REQUIRES: it has arrived, and as for FinishArrival().
  absl::Status Receive(Region& region, Region::Position first,
                       absl::Span<const std::vector<Extent>> constant);

 private:
  // Positions that have host memory to be copied to, and an event behind their copies.
  struct Part {
    struct Prepared {
      HostCopies copies;
      Moved bytes;
      bool kept = false;  // the constant ones: the host has them
    };
    absl::Span<const Position> positions;
    std::vector<Prepared> prepared;  // the first so many
    EventHandle event = nullptr;
  };

  // Positions whose copies are on their way to the device.
  struct Run {
    Position first = 0;
    std::size_t count = 0;
    std::unique_ptr<ScopedEvent> arrived;  // none: it could not be recorded
  };
  // The first of them arrives first.
  class UnderWay;

  Spiller(const Driver& driver, HostMemory& host) : driver_(driver), host_(host) {}
  absl::Status Open(Verifier::ConstantAt constant_at);

  // Waits for `stream`; where that fails, for the whole device: nothing is under way afterwards, and the
  // error says that what was queued cannot be trusted.
  absl::Status Settle(Stream stream);
  // A chunk of host memory to map; nullptr where that cannot be.
  absl::StatusOr<std::shared_ptr<const HostChunk>> NewChunk();
  // Host memory for these bytes, in `chunk` if there is one.
  absl::StatusOr<HostCopy> NewCopy(const std::vector<Extent>& extents,
                                   std::shared_ptr<const HostChunk> chunk);
  // Host memory for all of these bytes.
  absl::StatusOr<Part::Prepared> Prepare(Region& region, Position position, const Contents& contents);
  absl::Status QueueToHost(DevicePtr base, const HostCopy& copy);
  absl::Status QueueToDevice(DevicePtr base, const HostCopy& copy);
  // Prepares as many of the part's positions as can be; the error is that of the first that cannot.
  absl::Status PreparePart(Region& region, absl::FunctionRef<Contents(Position)> contents, Part& part);
  absl::Status QueueSpill(DevicePtr base, const Part::Prepared& prepared);
  // Queues what is prepared; on an error, that of the first that cannot be, only those before it are.
  absl::Status QueuePart(const Region& region, Part& part);
  // Lets its chunks go. Returns the bytes moved so far, also on an error.
  Moved FinishPart(Region& region, Part& part, const Leaving& calls, absl::Status& status);
  // REQUIRES: a verifier, and the copies have arrived.
  absl::Status VerifySpilled(DevicePtr base, Part::Prepared& prepared);
  // As many of the positions as there are chunks for. Returns how many are on their way; an error: no more
  // are.
  std::size_t QueueRuns(Region& region, absl::Span<const Position> positions, const Returning& calls,
                        UnderWay& under_way, absl::Status& status);
  // The same of a run.
  std::size_t QueueRun(Region& region, absl::Span<const Position> run, const Returning& calls,
                       absl::Status& status);
  // Until at most `rest` chunks are under way. An error: none is.
  absl::Status AwaitRuns(Region& region, std::size_t rest, const Returning& calls, UnderWay& under_way,
                         Outcome& outcome);
  absl::Status AwaitRun(Region& region, const Run& run);
  // The copies of `position`, which go to `base`. Returns their bytes.
  absl::StatusOr<Bytes> QueueBack(const Region& region, Region::Position position, DevicePtr base);

  const Driver& driver_;
  HostMemory& host_;
  Stream out_ = nullptr;        // to the host
  Stream in_ = nullptr;         // to the device
  EventHandle events_[2] = {};  // behind two parts on their way to the host
  std::optional<Verifier> verifier_;
};

}  // namespace hocket

#endif  // HOCKET_ALLOCATOR_SPILL_H_
