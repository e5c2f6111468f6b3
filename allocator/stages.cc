// Memory that need not be back when a step begins (SetStage): its copies are queued when the turn is taken
// and go on while the step runs; whoever needs it waits for them (AwaitStage). Until then its positions are
// spilled ones with an arrival (region.h).
#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "allocator/allocator_impl.h"
#include "csrc/base/status_macros.h"

namespace hocket {
namespace {

absl::Status HasNoPlace() {
  return absl::InternalError(
      "memory that has come back cannot be put in its place: the driver does not unmap what is there");
}

}  // namespace

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
  if (block->stage > 0) has_stages_ = true;
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
  bool full = false;
  for (absl::Span<Sent> rest = absl::MakeSpan(later); !rest.empty();) {
    const std::size_t run =
        RunOf(rest, [first = rest.front().stage](const Sent& next) { return next.stage == first; });
    HOCKET_RETURN_IF_ERROR(Send(rest.subspan(0, run), full));
    rest.remove_prefix(run);
  }
  return absl::OkStatus();
}

template <typename May>
std::size_t AllocatorImpl::RunOf(absl::Span<const Sent> sent, May may) {
  const std::size_t most = std::min(sent.size(), Spiller::kLongestRun);
  std::size_t run = 1;
  while (run < most && sent[run].space == sent[0].space && sent[run].position == sent[0].position + run &&
         may(sent[run]))
    ++run;
  return run;
}

// Those for which there are chunks are sent; the error is that of the first that has none.
absl::Status AllocatorImpl::Send(absl::Span<Sent> run, bool& full) {
  std::vector<Chunk> chunks;
  absl::Status status;
  while (chunks.size() < run.size() && status.ok()) {
    absl::StatusOr<Chunk> chunk = ChunkForRestore(full);
    status = chunk.status();
    if (chunk.ok()) chunks.push_back(*std::move(chunk));
  }
  if (chunks.empty()) return status;
  const absl::StatusOr<Bytes> bytes =
      spiller_->Send(run[0].space->region(), run[0].position, absl::MakeSpan(chunks));
  if (!bytes.ok()) {
    for (Sent& sent : run) {  // what could not be abandoned is tried again
      if (sent.space->region().arrival(sent.position) != 0) sent_.push_back(std::move(sent));
    }
    SentChanged();
    return bytes.status();
  }
  totals_.restored_total += *bytes;
  auto event = std::make_shared<ScopedEvent>(driver_);
  if (!spiller_->RecordSent(*event).ok()) event = nullptr;
  for (Sent& sent : run.subspan(0, chunks.size())) {
    sent.arrived = event;
    sent_.push_back(std::move(sent));
  }
  SentChanged();
  return status;
}

// The lock is not held while the copies are waited for: other threads allocate meanwhile. What has arrived is
// put in its place while what is behind it is copied.
absl::Status AllocatorImpl::AwaitStage(Stage stage, Stream stream) {
  if (stage < first_sent_.load(std::memory_order_relaxed)) return absl::OkStatus();
  const InContext in_context(driver_, context_);
  for (;;) {
    std::shared_ptr<ScopedEvent> next;
    std::set<Stream> readers = {stream};  // they may be reading what is mapped there
    {
      MutexLock lock(&mutex_);
      HOCKET_RETURN_IF_ERROR(NoCapture());
      if (sent_.empty() || sent_.front().stage > stage) return absl::OkStatus();
      next = sent_.front().arrived;
      for (const Sent& sent : FirstOf(next, stage)) sent.space->blocks().AddStreams(sent.position, readers);
    }
    absl::Status arrived = next ? next->Wait() : absl::OkStatus();
    for (const Stream reader : readers) {
      if (arrived.ok()) arrived = driver_.SynchronizeStream(reader);
    }
    MutexLock lock(&mutex_);
    // Another thread may have done it meanwhile.
    if (arrived.ok() && Receive(FirstOf(next, stage).size())) continue;
    // Again, in one go, and into whatever is free: the step that waits cannot ask for room. Any of the
    // device's work may be reading what is mapped there meanwhile.
    HOCKET_RETURN_IF_ERROR(NoCapture());
    HOCKET_RETURN_IF_ERROR(WaitForDevice());
    (void)ReceiveAll();
    headroom_.Spend();
    const absl::Status restored = RestoreAll(kLastStage, [] {});
    CountReserved();
    if (!restored.ok() || stage < first_sent_.load(std::memory_order_relaxed)) return restored;
    return HasNoPlace();
  }
}

absl::Span<const AllocatorImpl::Sent> AllocatorImpl::FirstOf(const std::shared_ptr<ScopedEvent>& event,
                                                             Stage last) const {
  const auto end = std::find_if(sent_.begin(), sent_.end(),
                                [&](const Sent& sent) { return sent.stage > last || sent.arrived != event; });
  return absl::MakeSpan(sent_).subspan(0, end - sent_.begin());
}

bool AllocatorImpl::Receive(std::size_t count) {
  const std::vector<Sent> received(sent_.begin(), sent_.begin() + static_cast<std::ptrdiff_t>(count));
  std::vector<Sent> stay;  // their arrivals last
  bool all = true;
  for (absl::Span<const Sent> rest = received; !rest.empty();) {
    const auto needed = [](const Sent& sent) { return !sent.space->IsUnneeded(sent.position); };
    const bool first_needed = needed(rest.front());
    const absl::Span<const Sent> run = rest.subspan(0, first_needed ? RunOf(rest, needed) : 1);
    rest.remove_prefix(run.size());
    if (first_needed && ReceiveRun(run)) continue;
    all &= !first_needed;
    for (const Sent& sent : run) {
      (void)sent.space->region().AbandonArrival(sent.position);
      if (sent.space->region().arrival(sent.position) != 0) stay.push_back(sent);
    }
  }
  sent_.erase(sent_.begin(), sent_.begin() + static_cast<std::ptrdiff_t>(count));
  sent_.insert(sent_.begin(), stay.begin(), stay.end());
  SentChanged();
  return all && stay.empty();
}

bool AllocatorImpl::ReceiveRun(absl::Span<const Sent> run) {
  Space& space = *run.front().space;
  std::vector<std::vector<Extent>> constant;
  for (const Sent& sent : run) constant.push_back(space.blocks().ConstantExtents(sent.position));
  if (!spiller_->Receive(space.region(), run.front().position, constant).ok()) return false;
  for (const Sent& sent : run)
    space.blocks().Back(sent.position, space.blocks().pool(sent.position), kAnyStream);
  return true;
}

absl::Status AllocatorImpl::ReceiveAll() {
  if (sent_.empty()) return absl::OkStatus();
  HOCKET_RETURN_IF_ERROR(WaitForDevice());
  (void)Receive(sent_.size());
  return sent_.empty() ? absl::OkStatus() : HasNoPlace();
}

void AllocatorImpl::AbandonSent(absl::FunctionRef<bool()> enough) {
  std::vector<Sent> stay;  // the last first
  for (; !sent_.empty(); sent_.pop_back()) {
    const auto& [space, position, stage, arrived] = sent_.back();
    if (space->IsUnneeded(position) || !enough()) (void)space->region().AbandonArrival(position);
    if (space->region().arrival(position) != 0) stay.push_back(std::move(sent_.back()));
  }
  sent_.assign(std::make_move_iterator(stay.rbegin()), std::make_move_iterator(stay.rend()));
  SentChanged();
}

void AllocatorImpl::SentChanged() {
  first_sent_.store(sent_.empty() ? kNothingSent : sent_.front().stage, std::memory_order_relaxed);
}

}  // namespace hocket
