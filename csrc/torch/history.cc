#include "csrc/torch/history.h"

#include <c10/util/ApproximateClock.h>

#include <algorithm>
#include <utility>

namespace hocket {
namespace {

using pytorch::caching::RecordContext;

constexpr std::size_t kNoAddress = 0;

thread_local std::vector<std::string> compile_contexts;
thread_local std::string user_metadata;

// Microseconds since the epoch, the unit of entries in a snapshot.
c10::time_t Now() { return c10::getTime() / 1000; }

// PyTorch's names of actions. Those that Hocket never records are not among them.
std::vector<History::Entry::Action> Parse(const std::vector<std::string>& names) {
  const std::pair<const char*, History::Entry::Action> known[] = {
      {"alloc", History::Entry::ALLOC},
      {"free_requested", History::Entry::FREE_REQUESTED},
      {"free_completed", History::Entry::FREE_COMPLETED},
      {"segment_map", History::Entry::SEGMENT_MAP},
      {"segment_unmap", History::Entry::SEGMENT_UNMAP},
      {"snapshot", History::Entry::SNAPSHOT},
      {"oom", History::Entry::OOM}};
  std::vector<History::Entry::Action> actions;
  for (const auto& [name, action] : known) {
    if (std::find(names.begin(), names.end(), name) != names.end()) actions.push_back(action);
  }
  return actions;
}

}  // namespace

void History::Start(const Options& options, bool clear) {
  absl::MutexLock lock(&mutex_);
  if (clear) entries_.clear();
  options_ = options;
  skipped_ = Parse(options.skip_actions);
  enabled_ = true;
}

void History::Stop() {
  absl::MutexLock lock(&mutex_);
  enabled_ = false;
  blocks_.clear();
  entries_.clear();
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
                  RecordContext level) {
  if (std::find(skipped_.begin(), skipped_.end(), action) != skipped_.end()) return;
  std::deque<Entry>& ring = entries_[device];
  Context context = options_.when >= level ? block.context : nullptr;
  ring.emplace_back(action, device, address, block.size, block.stream, block.pool, 0, std::move(context));
  Entry& entry = ring.back();
  entry.time_.t_ = Now();
  entry.compile_context_ = compile_contexts.empty() ? "N/A" : compile_contexts.back();  // PyTorch's word
  pytorch::SetUserMetadata(entry, user_metadata);
  while (ring.size() > options_.max_entries) ring.pop_front();
}

void History::AddSegments(c10::DeviceIndex device, const Context& came, const Context& gone,
                          Changes changes) {
  for (const SegmentChange& change : changes()) {
    if (change.came) {
      Add(Entry::SEGMENT_MAP, device, change.address, {change.size, nullptr, came}, RecordContext::ALLOC);
    } else {
      Add(Entry::SEGMENT_UNMAP, device, change.address, {change.size, nullptr, gone}, RecordContext::ALL);
    }
  }
}

void History::Allocated(c10::DeviceIndex device, std::size_t address, std::size_t size, void* stream,
                        pytorch::MempoolId_t pool, Changes changes) {
  if (!enabled()) return;
  Block block{size, stream, Gather(RecordContext::STATE), pool};
  absl::MutexLock lock(&mutex_);
  AddSegments(device, block.context, nullptr, changes);
  Add(Entry::ALLOC, device, address, block, RecordContext::ALLOC);
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
  block.context = std::move(context);
  Add(Entry::FREE_REQUESTED, device, address, block, RecordContext::ALL);
  Add(Entry::FREE_COMPLETED, device, address, block, RecordContext::ALL);
}

void History::OutOfMemory(c10::DeviceIndex device, std::size_t size, std::size_t free, void* stream) {
  if (!enabled()) return;
  const Block block{size, stream, Gather(RecordContext::ALLOC)};
  absl::MutexLock lock(&mutex_);
  Add(Entry::OOM, device, free, block, RecordContext::ALLOC);
}

void History::SnapshotTaken(c10::DeviceIndex device) {
  if (!enabled()) return;
  absl::MutexLock lock(&mutex_);
  Add(Entry::SNAPSHOT, device, kNoAddress, {}, RecordContext::ALL);
}

void History::PushCompileContext(const std::string& context) { compile_contexts.push_back(context); }

void History::PopCompileContext() {
  if (!compile_contexts.empty()) compile_contexts.pop_back();
}

void History::SetUserMetadata(const std::string& metadata) { user_metadata = metadata; }

std::string History::UserMetadata() { return user_metadata; }

std::vector<History::Entry> History::Entries(c10::DeviceIndex device) const {
  absl::MutexLock lock(&mutex_);
  const auto ring = entries_.find(device);
  if (ring == entries_.end()) return {};
  return {ring->second.begin(), ring->second.end()};
}

History::Context History::ContextOf(std::size_t address) const {
  absl::MutexLock lock(&mutex_);
  const auto block = blocks_.find(address);
  return block == blocks_.end() ? nullptr : block->second.context;
}

}  // namespace hocket
