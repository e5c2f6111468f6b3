#include "allocator/spill.h"

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
absl::StatusOr<Spiller::Part::Queued> Spiller::Prepare(const Item& item) {
  Part::Queued queued{.copies = {}, .bytes = {.copied = Sum(item.changing)}};
  HostCopy& constant = queued.copies.constant;
  if (host_.maps_chunks()) constant = item.region->TakeKept(item.position, item.constant);
  std::shared_ptr<const HostChunk> chunk = constant.chunk;
  if (chunk == nullptr) {
    HOCKET_ASSIGN_OR_RETURN(chunk, NewChunk());
  }
  HOCKET_ASSIGN_OR_RETURN(queued.copies.changing, NewCopy(item.changing, chunk));
  if (chunk == nullptr) constant = item.region->TakeKept(item.position, item.constant);
  queued.kept = static_cast<bool>(constant);
  (queued.kept ? queued.bytes.spared : queued.bytes.copied) += Sum(item.constant);
  if (!queued.kept) {
    HOCKET_ASSIGN_OR_RETURN(constant, NewCopy(item.constant, chunk));
  }
  return queued;
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

absl::StatusOr<Spiller::Part::Queued> Spiller::QueueSpill(const Item& item) {
  HOCKET_ASSIGN_OR_RETURN(Part::Queued queued, Prepare(item));
  const DevicePtr base = item.region->AddressOf(item.position);
  absl::Status status = QueueToHost(base, queued.copies.changing);
  if (status.ok() && !queued.kept) status = QueueToHost(base, queued.copies.constant);
  if (status.ok()) return queued;
  // What was queued before must not arrive in memory that somebody else gets.
  (void)Settle(out_);
  return status;
}

absl::Status Spiller::QueuePart(Part& part) {
  absl::Status queued;
  for (const Item& item : part.items) {
    absl::StatusOr<Part::Queued> one = QueueSpill(item);
    queued = one.status();
    if (!one.ok()) break;
    part.queued.push_back(*std::move(one));
  }
  // Without the event nothing tells that they have arrived: they stay where they are.
  const absl::Status recorded = driver_.RecordEvent(part.event, out_);
  if (recorded.ok()) return queued;
  (void)Settle(out_);
  part.queued.clear();
  return recorded;
}

absl::Status Spiller::AwaitPart(const Part& part, absl::FunctionRef<absl::Status()> still_idle) {
  if (part.queued.empty()) return absl::OkStatus();
  HOCKET_RETURN_IF_ERROR(driver_.WaitForEvent(part.event));
  return still_idle();
}

absl::Status Spiller::VerifySpilled(DevicePtr base, Part::Queued& queued) {
  HOCKET_RETURN_IF_ERROR(verifier_->Spilled(base, queued.copies.changing));
  HostCopy& constant = queued.copies.constant;
  return queued.kept ? verifier_->Kept(base, constant) : verifier_->Spilled(base, constant);
}

Spiller::Moved Spiller::FinishPart(Part& part, absl::FunctionRef<void(const Item&)> moved,
                                   absl::Status& status) {
  Moved sum;
  for (std::size_t i = 0; i < part.queued.size() && status.ok(); ++i) {
    const Item& item = part.items[i];
    Part::Queued& queued = part.queued[i];
    if (verifier_) status = VerifySpilled(item.region->AddressOf(item.position), queued);
    if (status.ok()) status = item.region->FinishSpill(item.position, queued.copies);
    if (!status.ok()) break;
    sum.copied += queued.bytes.copied;
    sum.spared += queued.bytes.spared;
    moved(item);
  }
  return sum;
}

absl::Status Spiller::Spill(absl::Span<Item> items, std::size_t in_part,
                            absl::FunctionRef<absl::Status()> still_idle,
                            absl::FunctionRef<void(const Item&)> moved,
                            absl::FunctionRef<void(const Moved& part)> part_done) {
  absl::Status queued;
  int parts = 0;
  const auto queue_next = [&] {
    Part part{.items = items.subspan(0, in_part), .queued = {}, .event = events_[parts++ % 2]};
    items.remove_prefix(part.items.size());
    queued = QueuePart(part);
    return part;
  };
  if (items.empty()) return queued;
  for (Part present = queue_next(), next; !present.items.empty(); present = std::exchange(next, Part())) {
    absl::Status finished = AwaitPart(present, still_idle);
    if (finished.ok() && queued.ok() && !items.empty()) next = queue_next();
    part_done(finished.ok() ? FinishPart(present, moved, finished) : Moved{});
    if (finished.ok()) continue;
    // What is still under way must not arrive in memory that somebody else gets.
    (void)Settle(out_);
    return finished;
  }
  return queued;
}

absl::Status Spiller::QueueRestore(const Item& item, absl::FunctionRef<absl::StatusOr<Chunk>()> new_chunk) {
  HOCKET_ASSIGN_OR_RETURN(Chunk chunk, new_chunk());
  HOCKET_RETURN_IF_ERROR(item.region->StartRestore(item.position, chunk));
  const HostCopies& copies = item.region->host_copies(item.position);
  const DevicePtr base = item.region->AddressOf(item.position);
  absl::Status queued;
  for (const HostCopy* copy : {&copies.changing, &copies.constant}) {
    if (verifier_) verifier_->Restoring(base, *copy);
    if (queued.ok()) queued = QueueToDevice(base, *copy);
  }
  if (queued.ok()) return queued;
  (void)Settle(in_);
  (void)item.region->AbandonRestore(item.position);
  return queued;
}

Spiller::Outcome Spiller::Restore(absl::Span<Item> items,
                                  absl::FunctionRef<absl::StatusOr<Chunk>()> new_chunk,
                                  absl::FunctionRef<void()> meanwhile) {
  Outcome outcome;
  std::size_t queued = 0;
  for (; queued < items.size(); ++queued) {
    outcome.status = QueueRestore(items[queued], new_chunk);
    if (!outcome.status.ok()) break;
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

absl::StatusOr<Bytes> Spiller::Send(Region& region, Region::Position position, Chunk chunk) {
  HOCKET_RETURN_IF_ERROR(region.StartArrival(position, std::move(chunk)));
  const HostCopies& copies = region.host_copies(position);
  Bytes bytes = 0;
  absl::Status queued;
  for (const HostCopy* copy : {&copies.changing, &copies.constant}) {
    if (verifier_) verifier_->Restoring(region.AddressOf(position), *copy);
    if (queued.ok()) queued = QueueToDevice(region.arrival(position), *copy);
    bytes += Sum(copy->extents);
  }
  if (queued.ok()) return bytes;
  (void)Settle(in_);
  (void)region.AbandonArrival(position);
  return queued;
}

absl::Status Spiller::RecordSent(ScopedEvent& event) {
  const absl::Status recorded = event.RecordOnStream(in_);
  if (!recorded.ok()) (void)Settle(in_);
  return recorded;
}

absl::Status Spiller::Receive(const Item& item) {
  const HostCopies& copies = item.region->host_copies(item.position);
  const DevicePtr arrival = item.region->arrival(item.position);
  for (const HostCopy* copy : {&copies.changing, &copies.constant}) {
    if (verifier_) HOCKET_RETURN_IF_ERROR(verifier_->Restored(arrival, *copy));
  }
  return item.region->FinishArrival(item.position, item.constant);
}

}  // namespace hocket
