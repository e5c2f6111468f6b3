#include "allocator/spill.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <utility>

#include "csrc/base/check.h"
#include "csrc/base/status_macros.h"

namespace hocket {
namespace {

// As long as a part takes, and more: who sleeps comes too late for the next one.
constexpr auto kSoon = std::chrono::milliseconds(2);

Bytes Sum(const std::vector<Extent>& extents) {
  Bytes sum = 0;
  for (const Extent& extent : extents) sum += extent.size;
  return sum;
}

// How many of the first positions lie one behind the other.
std::size_t RunOf(absl::Span<const Region::Position> positions, std::size_t at_most) {
  std::size_t run = 1;
  while (run < std::min(at_most, positions.size()) && positions[run] == positions.front() + run) ++run;
  return run;
}

}  // namespace

class Spiller::UnderWay {
 public:
  std::size_t chunks() const { return chunks_; }
  void Add(Run run) {
    chunks_ += run.count;
    runs_.push_back(std::move(run));
  }
  // REQUIRES: chunks() > 0.
  Run TakeFirst() {
    Run run = std::move(runs_.front());
    runs_.pop_front();
    chunks_ -= run.count;
    return run;
  }

 private:
  std::deque<Run> runs_;
  std::size_t chunks_ = 0;
};

absl::StatusOr<std::unique_ptr<Spiller>> Spiller::Create(const Driver& driver, HostMemory& host,
                                                         Verifier::ConstantAt constant_at) {
  std::unique_ptr<Spiller> spiller(new Spiller(driver, host));
  HOCKET_RETURN_IF_ERROR(spiller->Open(std::move(constant_at)));
  return spiller;
}

absl::Status Spiller::Open(Verifier::ConstantAt constant_at) {
  HOCKET_ASSIGN_OR_RETURN(out_, driver_.CreateStream());
  HOCKET_ASSIGN_OR_RETURN(in_, driver_.CreateStream());
  for (EventHandle* event : {&events_[0], &events_[1]}) {
    HOCKET_ASSIGN_OR_RETURN(*event, driver_.CreateEvent());
  }
  if (constant_at) verifier_.emplace(driver_, in_, std::move(constant_at));
  return absl::OkStatus();
}

Spiller::~Spiller() {
  for (const EventHandle event : events_) {
    if (event != nullptr) (void)driver_.DestroyEvent(event);
  }
  for (const Stream stream : {out_, in_}) {
    if (stream != nullptr) (void)driver_.DestroyStream(stream);
  }
}

absl::Status Spiller::Settle(Stream stream) {
  const absl::Status waited = driver_.SynchronizeStream(stream);
  if (!waited.ok()) (void)driver_.Synchronize();
  return waited;
}

absl::StatusOr<std::shared_ptr<const HostChunk>> Spiller::NewChunk() {
  if (!host_.maps_chunks()) return nullptr;
  absl::StatusOr<HostChunk> chunk = host_.AllocateChunk();
  if (chunk.ok()) return std::make_shared<const HostChunk>(*std::move(chunk));
  if (host_.maps_chunks()) return chunk.status();
  return nullptr;
}

absl::StatusOr<HostCopy> Spiller::NewCopy(const std::vector<Extent>& extents,
                                          std::shared_ptr<const HostChunk> chunk) {
  HostCopy copy{.memory = {}, .chunk = nullptr, .extents = extents, .checksum = 0};
  if (extents.empty()) return copy;
  if (chunk == nullptr) {
    HOCKET_ASSIGN_OR_RETURN(copy.memory, host_.Allocate(Sum(extents)));
  }
  copy.chunk = std::move(chunk);
  return copy;
}

// A kept chunk has room for the rest, too. What else is kept of the position is taken last: host memory for
// the rest may have to come from it.
absl::StatusOr<Spiller::Part::Prepared> Spiller::Prepare(Region& region, Position position,
                                                         const Contents& contents) {
  Part::Prepared prepared{.copies = {}, .bytes = {.copied = Sum(contents.changing)}};
  HostCopy& constant = prepared.copies.constant;
  if (host_.maps_chunks()) constant = region.TakeKept(position, contents.constant);
  std::shared_ptr<const HostChunk> chunk = constant.chunk;
  if (chunk == nullptr) {
    HOCKET_ASSIGN_OR_RETURN(chunk, NewChunk());
  }
  HOCKET_ASSIGN_OR_RETURN(prepared.copies.changing, NewCopy(contents.changing, chunk));
  if (chunk == nullptr) constant = region.TakeKept(position, contents.constant);
  prepared.kept = static_cast<bool>(constant);
  (prepared.kept ? prepared.bytes.spared : prepared.bytes.copied) += Sum(contents.constant);
  if (!prepared.kept) {
    HOCKET_ASSIGN_OR_RETURN(constant, NewCopy(contents.constant, chunk));
  }
  return prepared;
}

absl::Status Spiller::QueueToHost(DevicePtr base, const HostCopy& copy) {
  return copy.ForEach([&](const Extent& extent, std::byte* to) {
    return driver_.CopyToHost(to, base + extent.offset, extent.size, out_);
  });
}

absl::Status Spiller::QueueToDevice(DevicePtr base, const HostCopy& copy) {
  return copy.ForEach([&](const Extent& extent, const std::byte* from) {
    return driver_.CopyToDevice(base + extent.offset, from, extent.size, in_);
  });
}

absl::Status Spiller::PreparePart(Region& region, absl::FunctionRef<Contents(Position)> contents,
                                  Part& part) {
  for (const Position position : part.positions) {
    HOCKET_ASSIGN_OR_RETURN(Part::Prepared one, Prepare(region, position, contents(position)));
    part.prepared.push_back(std::move(one));
  }
  return absl::OkStatus();
}

absl::Status Spiller::QueueSpill(DevicePtr base, const Part::Prepared& prepared) {
  absl::Status status = QueueToHost(base, prepared.copies.changing);
  if (status.ok() && !prepared.kept) status = QueueToHost(base, prepared.copies.constant);
  // What was queued before must not arrive in memory that somebody else gets.
  if (!status.ok()) (void)Settle(out_);
  return status;
}

absl::Status Spiller::QueuePart(const Region& region, Part& part) {
  absl::Status queued;
  for (std::size_t i = 0; i < part.prepared.size() && queued.ok(); ++i) {
    queued = QueueSpill(region.AddressOf(part.positions[i]), part.prepared[i]);
    if (!queued.ok()) part.prepared.resize(i);
  }
  if (part.prepared.empty()) return queued;
  // Without the event nothing tells that they have arrived: they stay where they are.
  const absl::Status recorded = driver_.RecordEvent(part.event, out_);
  if (recorded.ok()) return queued;
  (void)Settle(out_);
  part.prepared.clear();
  return recorded;
}

absl::Status Spiller::VerifySpilled(DevicePtr base, Part::Prepared& prepared) {
  HOCKET_RETURN_IF_ERROR(verifier_->Spilled(base, prepared.copies.changing));
  HostCopy& constant = prepared.copies.constant;
  return prepared.kept ? verifier_->Kept(base, constant) : verifier_->Spilled(base, constant);
}

Spiller::Moved Spiller::FinishPart(Region& region, Part& part, const Leaving& calls, absl::Status& status) {
  Moved sum;
  absl::Span<const Position> positions = part.positions.subspan(0, part.prepared.size());
  for (std::size_t done = 0; !positions.empty();) {
    const absl::Span<const Position> run = positions.subspan(0, RunOf(positions, kLongestRun));
    positions.remove_prefix(run.size());
    std::vector<HostCopies> copies;
    for (std::size_t i = 0; i < run.size() && status.ok(); ++i) {
      Part::Prepared& prepared = part.prepared[done + i];
      if (verifier_) status = VerifySpilled(region.AddressOf(run[i]), prepared);
      copies.push_back(std::move(prepared.copies));
    }
    if (status.ok()) status = region.FinishSpill(run.front(), absl::MakeSpan(copies));
    if (!status.ok()) break;
    if (calls.map_at_once) (void)region.MapCopies(run.front(), static_cast<Position>(run.size()));
    for (const Position position : run) {
      sum.copied += part.prepared[done].bytes.copied;
      sum.spared += part.prepared[done++].bytes.spared;
      calls.moved(position);
    }
  }
  return sum;
}

absl::Status Spiller::Spill(Region& region, absl::Span<const Position> positions, std::size_t in_part,
                            const Leaving& calls) {
  absl::Status stopped;
  int parts = 0;
  const auto prepare_next = [&] {
    Part part;
    if (!stopped.ok() || positions.empty()) return part;
    part.positions = positions.subspan(0, in_part);
    part.event = events_[parts++ % 2];
    positions.remove_prefix(part.positions.size());
    stopped = PreparePart(region, calls.contents, part);
    return part;
  };
  const auto queue = [&](Part& part) {
    const absl::Status queued = QueuePart(region, part);
    if (!queued.ok()) stopped = queued;
  };
  Part arrived;  // and not looked at
  Part present = prepare_next();
  queue(present);
  Part next = prepare_next();
  while (!arrived.prepared.empty() || !present.prepared.empty()) {
    absl::Status status;
    if (!present.prepared.empty()) status = WaitEagerly(driver_, present.event, kSoon);
    if (status.ok()) queue(next);
    if (status.ok() && !arrived.prepared.empty()) status = calls.was_idle();
    if (status.ok() && !present.prepared.empty()) calls.look();  // which is behind what was queued now
    if (!arrived.prepared.empty())
      calls.part_done(status.ok() ? FinishPart(region, arrived, calls, status) : Moved{});
    if (!status.ok()) {
      // What is still under way must not arrive in memory that somebody else gets.
      (void)Settle(out_);
      return status;
    }
    // Host memory is found while others are copied.
    arrived = std::exchange(present, std::exchange(next, prepare_next()));
  }
  return stopped;
}

absl::StatusOr<Bytes> Spiller::QueueBack(const Region& region, Region::Position position, DevicePtr base) {
  const HostCopies& copies = region.host_copies(position);
  Bytes bytes = 0;
  absl::Status queued;
  for (const HostCopy* copy : {&copies.changing, &copies.constant}) {
    if (verifier_) verifier_->Restoring(region.AddressOf(position), *copy);
    if (queued.ok()) queued = QueueToDevice(base, *copy);
    bytes += Sum(copy->extents);
  }
  if (queued.ok()) return bytes;
  (void)Settle(in_);
  return queued;
}

std::size_t Spiller::QueueRun(Region& region, absl::Span<const Position> run, const Returning& calls,
                              absl::Status& status) {
  std::vector<Chunk> chunks;
  while (chunks.size() < run.size() && status.ok()) {
    absl::StatusOr<Chunk> chunk = calls.new_chunk();
    status = chunk.status();
    if (chunk.ok()) chunks.push_back(*std::move(chunk));
  }
  if (chunks.empty()) return 0;
  if (const absl::Status started = region.StartRestore(run.front(), absl::MakeSpan(chunks)); !started.ok()) {
    status = started;
    return 0;
  }
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    const absl::StatusOr<Bytes> queued = QueueBack(region, run[i], region.AddressOf(run[i]));
    if (queued.ok()) continue;
    status = queued.status();
    for (std::size_t j = i; j < chunks.size(); ++j) {
      const absl::Status abandoned = region.AbandonRestore(run[j]).status();
      if (!abandoned.ok()) status = absl::InternalError(abandoned.message());  // and nothing is tried again
    }
    return i;
  }
  return chunks.size();
}

std::size_t Spiller::QueueRuns(Region& region, absl::Span<const Position> positions, const Returning& calls,
                               UnderWay& under_way, absl::Status& status) {
  std::size_t queued = 0;
  while (queued < positions.size() && status.ok()) {
    const absl::Span<const Position> rest = positions.subspan(queued);
    const std::size_t most = std::clamp<std::size_t>(under_way.chunks() / 4, 1, kLongestRun);
    const std::size_t count = QueueRun(region, rest.subspan(0, RunOf(rest, most)), calls, status);
    if (count == 0) break;
    auto arrived = std::make_unique<ScopedEvent>(driver_);
    if (!arrived->RecordOnStream(in_).ok()) arrived = nullptr;
    under_way.Add({.first = rest.front(), .count = count, .arrived = std::move(arrived)});
    queued += count;
  }
  return queued;
}

absl::Status Spiller::AwaitRun(Region& region, const Run& run) {
  absl::Status arrived = run.arrived ? run.arrived->Wait() : Settle(in_);
  if (!arrived.ok() && run.arrived) arrived = Settle(in_);  // perhaps it was only the event
  for (std::size_t i = 0; verifier_ && i < run.count; ++i) {
    const auto position = static_cast<Position>(run.first + i);
    const HostCopies& copies = region.host_copies(position);
    for (const HostCopy* copy : {&copies.changing, &copies.constant}) {
      if (arrived.ok()) arrived = verifier_->Restored(region.AddressOf(position), *copy);
    }
  }
  return arrived;
}

absl::Status Spiller::AwaitRuns(Region& region, std::size_t rest, const Returning& calls, UnderWay& under_way,
                                Outcome& outcome) {
  absl::Status arrived;
  while (under_way.chunks() > rest) {
    const Run run = under_way.TakeFirst();
    if (arrived.ok()) arrived = AwaitRun(region, run);
    // What is still under way must not arrive in memory that somebody else gets.
    if (!arrived.ok() && under_way.chunks() > 0) (void)Settle(in_);
    if (!arrived.ok()) rest = 0;
    for (std::size_t i = 0; i < run.count; ++i) {
      const auto position = static_cast<Position>(run.first + i);
      if (!arrived.ok()) {
        (void)region.AbandonRestore(position);
        continue;
      }
      const HostCopies& copies = region.host_copies(position);
      outcome.copied += Sum(copies.changing.extents) + Sum(copies.constant.extents);
      ++outcome.done;
      region.FinishRestore(position, calls.constant(position));
      calls.back(position);
    }
  }
  return arrived;
}

Spiller::Outcome Spiller::Restore(Region& region, absl::Span<const Position> positions,
                                  const Returning& calls) {
  Outcome outcome;
  UnderWay under_way;
  for (;;) {
    outcome.status = absl::OkStatus();
    const bool none_before = under_way.chunks() == 0;
    const std::size_t queued = QueueRuns(region, positions, calls, under_way, outcome.status);
    positions.remove_prefix(queued);
    if (positions.empty() && outcome.status.ok()) calls.meanwhile();
    const bool again = absl::IsResourceExhausted(outcome.status) && (queued > 0 || !none_before);
    const std::size_t rest = again && queued > 0 ? under_way.chunks() / 4 : 0;
    const absl::Status arrived = AwaitRuns(region, rest, calls, under_way, outcome);
    if (!arrived.ok()) outcome.status = arrived;
    if (!again || !arrived.ok()) return outcome;
  }
}

absl::StatusOr<Bytes> Spiller::Send(Region& region, Region::Position first, absl::Span<Chunk> chunks) {
  HOCKET_RETURN_IF_ERROR(region.StartArrival(first, chunks));
  const auto end = static_cast<Region::Position>(first + chunks.size());
  Bytes bytes = 0;
  for (Region::Position position = first; position < end; ++position) {
    const absl::StatusOr<Bytes> queued = QueueBack(region, position, region.arrival(position));
    if (queued.ok()) {
      bytes += *queued;
      continue;
    }
    for (position = first; position < end; ++position) (void)region.AbandonArrival(position);
    return queued.status();
  }
  return bytes;
}

absl::Status Spiller::RecordSent(ScopedEvent& event) {
  const absl::Status recorded = event.RecordOnStream(in_);
  if (!recorded.ok()) (void)Settle(in_);
  return recorded;
}

absl::Status Spiller::AwaitSent() {
  const absl::Status arrived = driver_.SynchronizeStream(in_);
  return arrived.ok() ? arrived : driver_.Synchronize();
}

absl::Status Spiller::Receive(Region& region, Region::Position first,
                              absl::Span<const std::vector<Extent>> constant) {
  for (std::size_t i = 0; verifier_ && i < constant.size(); ++i) {
    const auto position = static_cast<Region::Position>(first + i);
    const HostCopies& copies = region.host_copies(position);
    for (const HostCopy* copy : {&copies.changing, &copies.constant})
      HOCKET_RETURN_IF_ERROR(verifier_->Restored(region.arrival(position), *copy));
  }
  return region.FinishArrival(first, constant);
}

}  // namespace hocket
