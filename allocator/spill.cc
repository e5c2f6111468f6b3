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
                                                         bool verify) {
  std::unique_ptr<Spiller> spiller(new Spiller(driver, host));
  HOCKET_RETURN_IF_ERROR(spiller->Open(verify));
  return spiller;
}

absl::Status Spiller::Open(bool verify) {
  HOCKET_ASSIGN_OR_RETURN(out_, driver_.CreateStream());
  HOCKET_ASSIGN_OR_RETURN(in_, driver_.CreateStream());
  for (EventHandle& event : events_) {
    HOCKET_ASSIGN_OR_RETURN(event, driver_.CreateEvent());
  }
  if (verify) verifier_.emplace(driver_, in_);
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

absl::StatusOr<HostCopy> Spiller::QueueSpill(const Item& item) {
  HostCopy copy{.memory = {}, .extents = item.live, .checksum = 0};
  HOCKET_ASSIGN_OR_RETURN(copy.memory, host_.Allocate(Sum(item.live)));
  const DevicePtr base = item.region->AddressOf(item.position);
  std::byte* to = copy.memory.data();
  for (const Extent& extent : copy.extents) {
    const absl::Status queued = driver_.CopyToHost(to, base + extent.offset, extent.size, out_);
    if (!queued.ok()) {
      // What was queued before must not arrive in memory that somebody else gets.
      (void)Settle(out_);
      return queued;
    }
    to += extent.size;
  }
  return copy;
}

absl::Status Spiller::QueuePart(Part& part) {
  absl::Status queued;
  for (const Item& item : part.items) {
    absl::StatusOr<HostCopy> copy = QueueSpill(item);
    queued = copy.status();
    if (!copy.ok()) break;
    part.copies.push_back(*std::move(copy));
  }
  // Without the event nothing tells that they have arrived: they stay where they are.
  const absl::Status recorded = driver_.RecordEvent(part.event, out_);
  if (recorded.ok()) return queued;
  (void)Settle(out_);
  part.copies.clear();
  return recorded;
}

Bytes Spiller::FinishPart(Part& part, absl::FunctionRef<void(const Item&)> moved, absl::Status& status) {
  Bytes copied = 0;
  if (!part.copies.empty()) status = driver_.WaitForEvent(part.event);
  for (std::size_t i = 0; i < part.copies.size() && status.ok(); ++i) {
    const Item& item = part.items[i];
    HostCopy& copy = part.copies[i];
    const Bytes bytes = Sum(copy.extents);
    if (verifier_) status = verifier_->Spilled(item.region->AddressOf(item.position), copy);
    if (status.ok()) status = item.region->FinishSpill(item.position, copy);
    if (!status.ok()) break;
    copied += bytes;
    moved(item);
  }
  return copied;
}

absl::Status Spiller::Spill(absl::Span<Item> items, std::size_t in_part,
                            absl::FunctionRef<void(const Item&)> moved,
                            absl::FunctionRef<void(Bytes copied)> part_done) {
  absl::Status queued;
  int parts = 0;
  const auto queue_next = [&] {
    Part part{.items = items.subspan(0, in_part), .copies = {}, .event = events_[parts++ % 2]};
    items.remove_prefix(part.items.size());
    queued = QueuePart(part);
    return part;
  };
  if (items.empty()) return queued;
  for (Part present = queue_next(), next; !present.items.empty(); present = std::exchange(next, Part())) {
    if (queued.ok() && !items.empty()) next = queue_next();
    absl::Status finished;
    part_done(FinishPart(present, moved, finished));
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
  const HostCopy& copy = item.region->host_copy(item.position);
  const DevicePtr base = item.region->AddressOf(item.position);
  if (verifier_) verifier_->Restoring(base, copy);
  const std::byte* from = copy.memory.data();
  for (const Extent& extent : copy.extents) {
    const absl::Status queued = driver_.CopyToDevice(base + extent.offset, from, extent.size, in_);
    if (!queued.ok()) {
      (void)Settle(in_);
      (void)item.region->AbandonRestore(item.position);
      return queued;
    }
    from += extent.size;
  }
  return absl::OkStatus();
}

Spiller::Outcome Spiller::Restore(absl::Span<Item> items,
                                  absl::FunctionRef<absl::StatusOr<Chunk>()> new_chunk) {
  Outcome outcome;
  std::size_t queued = 0;
  for (; queued < items.size(); ++queued) {
    outcome.status = QueueRestore(items[queued], new_chunk);
    if (!outcome.status.ok()) break;
  }
  absl::Status arrived = Settle(in_);
  for (std::size_t i = 0; i < queued; ++i) {
    const Item& item = items[i];
    const Region& region = *item.region;
    if (verifier_ && arrived.ok()) {
      arrived = verifier_->Restored(region.AddressOf(item.position), region.host_copy(item.position));
    }
    if (!arrived.ok()) {
      (void)item.region->AbandonRestore(item.position);
      continue;
    }
    outcome.copied += Sum(region.host_copy(item.position).extents);
    item.region->FinishRestore(item.position);
    ++outcome.done;
  }
  if (!arrived.ok()) outcome.status = arrived;
  return outcome;
}

}  // namespace hocket
