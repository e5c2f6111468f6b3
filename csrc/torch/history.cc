#include "csrc/torch/history.h"

#include <c10/util/ApproximateClock.h>

#include <algorithm>
#include <utility>

namespace hocket {
namespace {

using pytorch::caching::RecordContext;

constexpr std::size_t kNoAddress = 0;

thread_local std::vector<std::string> compile_contexts;

// Microseconds since the epoch, the unit of entries in a snapshot.
c10::time_t Now() { return c10::getTime() / 1000; }

std::vector<History::Entry::Action> Parse(const std::vector<std::string>& names) {
  std::vector<History::Entry::Action> actions;
  for (const std::string& name : names)
    actions.push_back(c10::CachingDeviceAllocator::parseTraceEntryAction(name));
  return actions;
}

// Of a ring.
template <typename Ring>
void KeepNewest(std::size_t most, Ring& ring) {
  while (ring.size() > most) ring.pop_front();
}

}  // namespace

thread_local std::string History::user_metadata_;

void History::Start(const Options& options, bool clear) {
  std::vector<Entry::Action> skipped = Parse(options.skip_actions);
  absl::MutexLock lock(&mutex_);
  if (clear) entries_.clear();
  if (clear) annotations_.clear();
  options_ = options;
  skipped_ = std::move(skipped);
  enabled_ = true;
}

void History::Stop() {
  absl::MutexLock lock(&mutex_);
  enabled_ = false;
  blocks_.clear();
  entries_.clear();
  annotations_.clear();
}

History::Context History::Gather(RecordContext level) const {
  pytorch::caching::CreateContextFn gather = nullptr;
  {
    absl::MutexLock lock(&mutex_);
    if (options_.when >= level) gather = options_.gather_context;
  }
  return gather != nullptr ? gather() : nullptr;
}

void History::Add(Entry::Action action, c10::DeviceIndex device, std::size_t address, const Block& block,
                  const std::string& text) {
  if (std::find(skipped_.begin(), skipped_.end(), action) != skipped_.end()) return;
  std::deque<Entry>& ring = entries_[device];
  Context context = options_.when >= RecordContext::ALLOC ? block.context : nullptr;
  ring.emplace_back(action, device, address, block.size, block.stream, block.pool, 0, std::move(context));
  Entry& entry = ring.back();
  entry.time_.t_ = Now();
  entry.compile_context_ = compile_contexts.empty() ? "N/A" : compile_contexts.back();  // PyTorch's word
  pytorch::SetUserMetadata(entry, text);
  KeepNewest(options_.max_entries, ring);
}

void History::AddSegments(c10::DeviceIndex device, const Context& came, const Context& gone,
                          Changes changes) {
  for (const SegmentChange& change : changes()) {
    if (change.came) {
      Add(Entry::SEGMENT_MAP, device, change.address, {change.size, nullptr, came});
    } else {
      Add(Entry::SEGMENT_UNMAP, device, change.address, {change.size, nullptr, gone});
    }
  }
}

void History::Allocated(c10::DeviceIndex device, std::size_t address, std::size_t size, void* stream,
                        pytorch::MempoolId_t pool, Changes changes) {
  if (!enabled()) return;
  Block block{size, stream, Gather(RecordContext::STATE), pool};
  absl::MutexLock lock(&mutex_);
  AddSegments(device, block.context, nullptr, changes);
  Add(Entry::ALLOC, device, address, block);
  blocks_[address] = std::move(block);
}

void History::SegmentsChanged(c10::DeviceIndex device, bool here, Changes changes) {
  if (!enabled()) return;
  const Context gone = here ? Gather(RecordContext::ALL) : nullptr;
  absl::MutexLock lock(&mutex_);
  AddSegments(device, nullptr, gone, changes);
}

void History::Freed(c10::DeviceIndex device, std::size_t address) {
  if (!enabled()) return;
  Context context = Gather(RecordContext::ALL);
  absl::MutexLock lock(&mutex_);
  auto found = blocks_.find(address);
  if (found == blocks_.end()) return;  // allocated before the history began
  Block block = std::move(found->second);
  blocks_.erase(found);
  if (context) block.context = std::move(context);  // else, as PyTorch does, its allocation's
  Add(Entry::FREE_REQUESTED, device, address, block);
  Add(Entry::FREE_COMPLETED, device, address, block);
}

void History::OutOfMemory(c10::DeviceIndex device, std::size_t size, std::size_t free, void* stream) {
  if (!enabled()) return;
  const Block block{size, stream, Gather(RecordContext::ALLOC)};
  absl::MutexLock lock(&mutex_);
  Add(Entry::OOM, device, free, block);
}

void History::Annotated(c10::DeviceIndex device, std::size_t address, std::size_t size,
                        pytorch::MempoolId_t pool, const std::string& text) {
  if (!enabled()) return;
  Context context = Gather(RecordContext::ALLOC);
  absl::MutexLock lock(&mutex_);
  const auto recorded = blocks_.find(address);
  Block block = recorded != blocks_.end() ? recorded->second : Block{size, nullptr, nullptr, pool};
  block.context = std::move(context);
  Add(pytorch::kAnnotate, device, address, block, text);
}

void History::SnapshotTaken(c10::DeviceIndex device, std::size_t allocated) {
  if (!enabled()) return;
  absl::MutexLock lock(&mutex_);
  Add(Entry::SNAPSHOT, device, kNoAddress, {allocated});
}

void History::NoteRange(c10::DeviceIndex device,
                        const std::vector<std::pair<std::string, std::string>>& annotation) {
  if (!enabled()) return;
  absl::MutexLock lock(&mutex_);
  pytorch::AnnotationEntry& entry = annotations_.emplace_back(device, 0);
  entry.time_.t_ = Now();
  for (const auto& [name, value] : annotation) entry.recordUserMetadata(name, value);
  KeepNewest(options_.max_entries, annotations_);
}

void History::PushCompileContext(const std::string& context) { compile_contexts.push_back(context); }

void History::PopCompileContext() {
  if (!compile_contexts.empty()) compile_contexts.pop_back();
}

void History::SetUserMetadata(const std::string& metadata) { user_metadata_ = metadata; }

std::string History::UserMetadata() { return user_metadata_; }

std::vector<History::Entry> History::Entries(c10::DeviceIndex device) const {
  absl::MutexLock lock(&mutex_);
  const auto ring = entries_.find(device);
  if (ring == entries_.end()) return {};
  return {ring->second.begin(), ring->second.end()};
}

std::vector<pytorch::AnnotationEntry> History::Annotations() const {
  absl::MutexLock lock(&mutex_);
  return {annotations_.begin(), annotations_.end()};
}

History::Context History::ContextOf(std::size_t address) const {
  absl::MutexLock lock(&mutex_);
  const auto block = blocks_.find(address);
  return block == blocks_.end() ? nullptr : block->second.context;
}

}  // namespace hocket
