#include "allocator/pending_frees.h"

#include <utility>

#include "allocator/in_context.h"
#include "csrc/base/check.h"

namespace hocket {

PendingFrees::~PendingFrees() {
  for (auto& [stream, queue] : queues_) {
    for (const Entry& entry : queue) (void)driver_.DestroyEvent(entry.event);
  }
  for (const EventHandle event : spare_) (void)driver_.DestroyEvent(event);
  for (const Elsewhere& entry : elsewhere_) {
    if (entry.event != nullptr) (void)driver_.DestroyEvent(entry.event);
  }
}

EventHandle PendingFrees::Record(Stream stream) {
  EventHandle event = nullptr;
  if (!spare_.empty()) {
    event = spare_.back();
    spare_.pop_back();
  } else if (absl::StatusOr<EventHandle> made = driver_.CreateEvent(); made.ok()) {
    event = *made;
  } else {
    return nullptr;
  }
  if (driver_.RecordEvent(event, stream).ok()) return event;
  spare_.push_back(event);
  return nullptr;
}

void PendingFrees::Add(DevicePtr block, const std::vector<Stream>& streams) {
  int& count = outstanding_[block];
  for (const Stream stream : streams) {
    ++count;  // an event that could not be recorded never passes: Finish() frees the block
    if (const EventHandle event = Record(stream); event != nullptr) queues_[stream].push_back({event, block});
  }
}

void PendingFrees::Hold(DevicePtr block) { ++outstanding_[block]; }

EventHandle PendingFrees::RecordElsewhere(const StreamElsewhere& used) {
  const InContext in_context(driver_, used.context);
  const absl::StatusOr<EventHandle> event = driver_.CreateEvent();
  if (!event.ok()) return nullptr;
  if (driver_.RecordEvent(*event, used.stream).ok()) return *event;
  (void)driver_.DestroyEvent(*event);
  return nullptr;
}

void PendingFrees::AddElsewhere(DevicePtr block, const std::vector<StreamElsewhere>& streams, bool now) {
  for (const StreamElsewhere& used : streams) {
    ++outstanding_[block];
    elsewhere_.push_back({block, used, now ? RecordElsewhere(used) : nullptr});
  }
}

// An event that was recorded into a capture never passes: another one is recorded the next time.
bool PendingFrees::HasPassed(Elsewhere& entry, bool wait) {
  if (entry.event == nullptr) entry.event = RecordElsewhere(entry.used);
  if (entry.event == nullptr) return false;
  absl::Status waited;
  if (wait) waited = driver_.WaitForEvent(entry.event);
  const absl::StatusOr<bool> done = waited.ok() ? driver_.EventDone(entry.event) : waited;
  if (done.ok() && !*done) return false;
  (void)driver_.DestroyEvent(std::exchange(entry.event, nullptr));
  return done.ok();
}

void PendingFrees::Passed(DevicePtr block, Done done) {
  const auto found = outstanding_.find(block);
  HOCKET_CHECK(found != outstanding_.end()) << "an event passed for a block that waits for none";
  if (--found->second > 0) return;
  outstanding_.erase(found);
  done(block);
}

void PendingFrees::Poll(Done done) {
  for (auto it = queues_.begin(); it != queues_.end();) {
    std::deque<Entry>& queue = it->second;
    while (!queue.empty() && driver_.EventDone(queue.front().event).value_or(false)) {
      const Entry entry = queue.front();
      queue.pop_front();
      spare_.push_back(entry.event);
      Passed(entry.block, done);
    }
    if (queue.empty()) {
      queues_.erase(it++);
    } else {
      ++it;
    }
  }
  std::vector<DevicePtr> passed;
  std::erase_if(elsewhere_, [&](Elsewhere& entry) {
    if (!HasPassed(entry, /*wait=*/false)) return false;
    passed.push_back(entry.block);
    return true;
  });
  for (const DevicePtr block : passed) Passed(block, done);
}

void PendingFrees::Finish(Done done) {
  for (auto& [stream, queue] : queues_) {
    for (const Entry& entry : queue) spare_.push_back(entry.event);
  }
  queues_.clear();
  const auto blocks = std::exchange(outstanding_, {});
  std::erase_if(elsewhere_, [this](Elsewhere& entry) { return HasPassed(entry, /*wait=*/true); });
  for (const Elsewhere& entry : elsewhere_) ++outstanding_[entry.block];
  for (const auto& [block, count] : blocks) {
    if (!outstanding_.contains(block)) done(block);
  }
}

}  // namespace hocket
