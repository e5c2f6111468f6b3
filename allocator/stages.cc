// Memory that need not be back when a step begins (SetStage): its copies are queued when the turn is taken
// and go on while the step runs; whoever needs it waits for them (AwaitStage). Until then its positions are
// spilled ones with an arrival (region.h).
#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "allocator/allocator_impl.h"
#include "csrc/base/status_macros.h"

namespace hocket {

absl::StatusOr<Bytes> AllocatorImpl::SetStage(DevicePtr address, Stage stage) {
  if (serves_segments_) {
    return absl::UnimplementedError(
        "memory cannot follow its turn under PyTorch's own allocator, which gives memory of one segment to "
        "many "
        "tensors: all of it comes back before the turn begins.\n"
        "  Use Hocket's allocator: unset HOCKET_ALLOCATOR, and import hocket before the first use of the "
        "GPU.");
  }
  MutexLock lock(&mutex_);
  Block* const block = FindInSpace(address);
  if (block == nullptr)
    return absl::NotFoundError(absl::StrCat("no block of ours is at 0x", absl::Hex(address)));
  block->stage = std::min(stage, kLastStage);
  return block->size;
}

// A graph uses memory without a word, when it is replayed.
bool AllocatorImpl::MayFollow() const {
  return std::all_of(pools_.begin(), pools_.end(), [](const Pool& pool) { return pool.released; });
}

// In order of stage: what is behind one of them has not arrived before it.
absl::Status AllocatorImpl::SendAll() {
  std::vector<Sent> later;
  for (Space* space : {persistent_.get(), transient_.get()}) {
    for (const Position position : space->PositionsToRestore()) {
      later.push_back({space, position, space->blocks().StageOf(position), nullptr});
    }
  }
  std::stable_sort(later.begin(), later.end(),
                   [](const Sent& a, const Sent& b) { return a.stage < b.stage; });
  for (Sent& next : later) {
    HOCKET_RETURN_IF_ERROR(Send(next));
    sent_.push_back(std::move(next));
    first_sent_.store(sent_.front().stage, std::memory_order_relaxed);
  }
  return absl::OkStatus();
}

absl::Status AllocatorImpl::Send(Sent& next) {
  HOCKET_ASSIGN_OR_RETURN(Chunk chunk, ChunkForRestore());
  HOCKET_ASSIGN_OR_RETURN(const Bytes bytes,
                          spiller_->Send(next.space->region(), next.position, std::move(chunk)));
  totals_.restored_total += bytes;
  auto event = std::make_shared<ScopedEvent>(driver_);
  if (spiller_->RecordSent(*event).ok()) next.arrived = std::move(event);
  return absl::OkStatus();
}

// The lock is not held while the copies are waited for: other threads allocate meanwhile.
absl::Status AllocatorImpl::AwaitStage(Stage stage, Stream stream) {
  if (stage < first_sent_.load(std::memory_order_relaxed)) return absl::OkStatus();
  const InContext in_context(driver_, context_);
  std::shared_ptr<ScopedEvent> last;
  std::set<Stream> readers = {stream};  // they may be reading what is mapped there
  {
    MutexLock lock(&mutex_);
    HOCKET_RETURN_IF_ERROR(NoCapture());
    for (const Sent& sent : sent_) {
      if (sent.stage > stage) break;
      if (sent.arrived) last = sent.arrived;
      sent.space->blocks().AddStreams(sent.position, readers);
    }
  }
  absl::Status arrived = last ? last->Wait() : absl::OkStatus();
  for (const Stream reader : readers) {
    if (arrived.ok()) arrived = driver_.SynchronizeStream(reader);
  }
  MutexLock lock(&mutex_);
  if (arrived.ok() && Receive(stage)) return absl::OkStatus();
  // Again, in one go.
  ReceiveAll();
  const absl::Status restored = RestoreAll(kLastStage, [] {});
  CountReserved();
  if (!restored.ok() || stage < first_sent_.load(std::memory_order_relaxed)) return restored;
  return absl::InternalError(
      "memory that has come back cannot be put in its place: the driver does not unmap what is there");
}

bool AllocatorImpl::Receive(Stage last) {
  bool all = true;
  std::erase_if(sent_, [&](const Sent& sent) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    if (sent.stage > last) return false;
    const bool there = Receive(sent);
    all &= there;
    return there || sent.space->region().arrival(sent.position) == 0;
  });
  first_sent_.store(sent_.empty() ? kNothingSent : sent_.front().stage, std::memory_order_relaxed);
  return all;
}

bool AllocatorImpl::Receive(const Sent& sent) {
  Region& region = sent.space->region();
  const bool needed = !sent.space->IsUnneeded(sent.position);
  const Spiller::Item item{.region = &region,
                           .position = sent.position,
                           .changing = {},
                           .constant = sent.space->blocks().ConstantExtents(sent.position)};
  if (!needed || !spiller_->Receive(item).ok()) {
    (void)region.AbandonArrival(sent.position);
    return !needed;
  }
  sent.space->blocks().Back(sent.position, sent.space->blocks().pool(sent.position), kAnyStream);
  return true;
}

void AllocatorImpl::ReceiveAll() {
  if (!WaitForDevice().ok()) return;
  (void)Receive(kLastStage);
}

}  // namespace hocket
