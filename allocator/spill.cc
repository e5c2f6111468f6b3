#include "allocator/spill.h"

#include <algorithm>
#include <utility>

#include "csrc/base/check.h"
#include "csrc/base/status_macros.h"

namespace hocket {
namespace {

Bytes Sum(const std::vector<Extent>& extents) {
  Bytes sum = 0;
  for (const Extent& extent : extents) sum += extent.size;
  return sum;
}

// How many of the first items lie one behind the other.
std::size_t RunOf(absl::Span<const Spiller::Item> items, std::size_t at_most) {
  const Spiller::Item& first = items.front();
  std::size_t run = 1;
  while (run < std::min(at_most, items.size()) && items[run].region == first.region &&
         items[run].position == first.position + run)
    ++run;
  return run;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Spiller>> Spiller::Create(const Driver& driver, HostMemory& host,
                                                         Verifier::ConstantAt constant_at) {
  std::unique_ptr<Spiller> spiller(new Spiller(driver, host));
  HOCKET_RETURN_IF_ERROR(spiller->Open(std::move(constant_at)));
  return spiller;
}

absl::Status Spiller::Open(Verifier::ConstantAt constant_at) {
  HOCKET_ASSIGN_OR_RETURN(out_, driver_.CreateStream());
  HOCKET_ASSIGN_OR_RETURN(in_, driver_.CreateStream());
  for (EventHandle* event : {&events_[0], &events_[1], &back_}) {
    HOCKET_ASSIGN_OR_RETURN(*event, driver_.CreateEvent());
  }
  if (constant_at) verifier_.emplace(driver_, in_, std::move(constant_at));
  return absl::OkStatus();
}

Spiller::~Spiller() {
  for (const EventHandle event : {events_[0], events_[1], back_}) {
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

// A kept chunk has room for the rest, too. What else is kept of the item is taken last: host memory for the
// rest may have to come from it.
absl::StatusOr<Spiller::Part::Prepared> Spiller::Prepare(const Item& item) {
  Part::Prepared prepared{.copies = {}, .bytes = {.copied = Sum(item.changing)}};
  HostCopy& constant = prepared.copies.constant;
  if (host_.maps_chunks()) constant = item.region->TakeKept(item.position, item.constant);
  std::shared_ptr<const HostChunk> chunk = constant.chunk;
  if (chunk == nullptr) {
    HOCKET_ASSIGN_OR_RETURN(chunk, NewChunk());
  }
  HOCKET_ASSIGN_OR_RETURN(prepared.copies.changing, NewCopy(item.changing, chunk));
  if (chunk == nullptr) constant = item.region->TakeKept(item.position, item.constant);
  prepared.kept = static_cast<bool>(constant);
  (prepared.kept ? prepared.bytes.spared : prepared.bytes.copied) += Sum(item.constant);
  if (!prepared.kept) {
    HOCKET_ASSIGN_OR_RETURN(constant, NewCopy(item.constant, chunk));
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

absl::Status Spiller::PreparePart(Part& part) {
  for (const Item& item : part.items) {
    HOCKET_ASSIGN_OR_RETURN(Part::Prepared one, Prepare(item));
    part.prepared.push_back(std::move(one));
  }
  return absl::OkStatus();
}

absl::Status Spiller::QueueSpill(const Item& item, const Part::Prepared& prepared) {
  const DevicePtr base = item.region->AddressOf(item.position);
  absl::Status status = QueueToHost(base, prepared.copies.changing);
  if (status.ok() && !prepared.kept) status = QueueToHost(base, prepared.copies.constant);
  // What was queued before must not arrive in memory that somebody else gets.
  if (!status.ok()) (void)Settle(out_);
  return status;
}

Bytes Spiller::Part::copied() const {
  Bytes sum = 0;
  for (const Prepared& one : prepared) sum += one.bytes.copied;
  return sum;
}

absl::Status Spiller::QueuePart(Part& part) {
  absl::Status queued;
  part.queued = Clock::now();
  for (std::size_t i = 0; i < part.prepared.size() && queued.ok(); ++i) {
    queued = QueueSpill(part.items[i], part.prepared[i]);
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

absl::Status Spiller::AwaitPart(const Part& part, absl::FunctionRef<absl::Status()> still_idle) {
  if (part.prepared.empty()) return absl::OkStatus();
  HOCKET_RETURN_IF_ERROR(out_wait_.Await(part.event, part.copied(), part.queued));
  return still_idle();
}

absl::Status Spiller::VerifySpilled(DevicePtr base, Part::Prepared& prepared) {
  HOCKET_RETURN_IF_ERROR(verifier_->Spilled(base, prepared.copies.changing));
  HostCopy& constant = prepared.copies.constant;
  return prepared.kept ? verifier_->Kept(base, constant) : verifier_->Spilled(base, constant);
}

Spiller::Moved Spiller::FinishPart(Part& part, absl::FunctionRef<void(const Item&)> moved,
                                   absl::Status& status) {
  Moved sum;
  absl::Span<const Item> items = part.items.subspan(0, part.prepared.size());
  for (std::size_t done = 0; !items.empty();) {
    const absl::Span<const Item> run = items.subspan(0, RunOf(items, kLongestRun));
    items.remove_prefix(run.size());
    std::vector<HostCopies> copies;
    for (std::size_t i = 0; i < run.size() && status.ok(); ++i) {
      Part::Prepared& prepared = part.prepared[done + i];
      if (verifier_) status = VerifySpilled(run[i].region->AddressOf(run[i].position), prepared);
      copies.push_back(std::move(prepared.copies));
    }
    if (status.ok()) status = run.front().region->FinishSpill(run.front().position, absl::MakeSpan(copies));
    if (!status.ok()) break;
    for (const Item& item : run) {
      sum.copied += part.prepared[done].bytes.copied;
      sum.spared += part.prepared[done++].bytes.spared;
      moved(item);
    }
  }
  return sum;
}

absl::Status Spiller::Spill(absl::Span<Item> items, std::size_t in_part,
                            absl::FunctionRef<absl::Status()> still_idle,
                            absl::FunctionRef<void(const Item&)> moved,
                            absl::FunctionRef<void(const Moved& part)> part_done) {
  absl::Status stopped;
  int parts = 0;
  const auto prepare_next = [&] {
    Part part{
        .items = items.subspan(0, in_part), .prepared = {}, .event = events_[parts++ % 2], .queued = {}};
    items.remove_prefix(part.items.size());
    stopped = PreparePart(part);
    return part;
  };
  const auto queue = [&](Part& part) {
    const absl::Status queued = QueuePart(part);
    if (!queued.ok()) stopped = queued;
  };
  if (items.empty()) return stopped;
  Part present = prepare_next();
  queue(present);
  while (!present.items.empty()) {
    // Host memory for the next part is found while this one is copied.
    Part next;
    if (stopped.ok() && !items.empty()) next = prepare_next();
    absl::Status finished = AwaitPart(present, still_idle);
    if (finished.ok()) queue(next);
    part_done(finished.ok() ? FinishPart(present, moved, finished) : Moved{});
    if (!finished.ok()) {
      // What is still under way must not arrive in memory that somebody else gets.
      (void)Settle(out_);
      return finished;
    }
    present = std::exchange(next, Part());
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

std::size_t Spiller::QueueRestore(absl::Span<const Item> run,
                                  absl::FunctionRef<absl::StatusOr<Chunk>()> new_chunk,
                                  absl::Status& status) {
  std::vector<Chunk> chunks;
  while (chunks.size() < run.size() && status.ok()) {
    absl::StatusOr<Chunk> chunk = new_chunk();
    status = chunk.status();
    if (chunk.ok()) chunks.push_back(*std::move(chunk));
  }
  if (chunks.empty()) return 0;
  Region& region = *run.front().region;
  const Region::Position first = run.front().position;
  if (const absl::Status started = region.StartRestore(first, absl::MakeSpan(chunks)); !started.ok()) {
    status = started;
    return 0;
  }
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    const auto position = static_cast<Region::Position>(first + i);
    const absl::StatusOr<Bytes> queued = QueueBack(region, position, region.AddressOf(position));
    if (queued.ok()) continue;
    status = queued.status();
    for (std::size_t j = i; j < chunks.size(); ++j)
      (void)region.AbandonRestore(static_cast<Region::Position>(first + j));
    return i;
  }
  return chunks.size();
}

Spiller::Outcome Spiller::Restore(absl::Span<Item> items,
                                  absl::FunctionRef<absl::StatusOr<Chunk>()> new_chunk,
                                  absl::FunctionRef<void()> meanwhile) {
  Outcome outcome;
  std::size_t queued = 0;
  while (queued < items.size() && outcome.status.ok()) {
    const absl::Span<const Item> rest = items.subspan(queued);
    const std::size_t run = RunOf(rest, std::clamp<std::size_t>(queued / 4, 1, kLongestRun));
    queued += QueueRestore(rest.subspan(0, run), new_chunk, outcome.status);
  }
  const bool recorded = driver_.RecordEvent(back_, in_).ok();
  absl::Status arrived = recorded ? absl::OkStatus() : Settle(in_);
  if (arrived.ok() && outcome.status.ok()) meanwhile();
  if (recorded && !driver_.WaitForEvent(back_).ok()) arrived = Settle(in_);  // perhaps it was only the event
  for (std::size_t i = 0; i < queued; ++i) {
    const Item& item = items[i];
    const HostCopies& copies = item.region->host_copies(item.position);
    for (const HostCopy* copy : {&copies.changing, &copies.constant}) {
      if (!verifier_ || !arrived.ok()) break;
      arrived = verifier_->Restored(item.region->AddressOf(item.position), *copy);
    }
    if (!arrived.ok()) {
      (void)item.region->AbandonRestore(item.position);
      continue;
    }
    outcome.copied += Sum(copies.changing.extents) + Sum(copies.constant.extents);
    item.region->FinishRestore(item.position, item.constant);
    ++outcome.done;
  }
  if (!arrived.ok()) outcome.status = arrived;
  return outcome;
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
