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
  HOCKET_ASSIGN_OR_RETURN(const Stream out, driver.CreateStream());
  absl::StatusOr<Stream> in = driver.CreateStream();
  if (!in.ok()) {
    (void)driver.DestroyStream(out);
    return in.status();
  }
  return std::unique_ptr<Spiller>(new Spiller(driver, host, out, *in, verify));
}

Spiller::~Spiller() {
  (void)driver_.DestroyStream(out_);
  (void)driver_.DestroyStream(in_);
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

Spiller::Outcome Spiller::Spill(absl::Span<Item> items) {
  Outcome outcome;
  std::vector<HostCopy> copies;
  for (const Item& item : items) {
    absl::StatusOr<HostCopy> copy = QueueSpill(item);
    outcome.status = copy.status();
    if (!copy.ok()) break;
    copies.push_back(*std::move(copy));
  }
  const absl::Status arrived = Settle(out_);
  if (!arrived.ok()) {
    outcome.status = arrived;
    return outcome;
  }
  for (HostCopy& copy : copies) {
    const Item& item = items[outcome.done];
    const Bytes bytes = Sum(copy.extents);
    absl::Status finished;
    if (verifier_) finished = verifier_->Spilled(item.region->AddressOf(item.position), copy);
    if (finished.ok()) finished = item.region->FinishSpill(item.position, copy);
    if (!finished.ok()) {
      outcome.status = finished;
      return outcome;
    }
    outcome.copied += bytes;
    ++outcome.done;
  }
  return outcome;
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
