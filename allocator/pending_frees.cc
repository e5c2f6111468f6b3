#include "allocator/pending_frees.h"

#include "csrc/base/check.h"

namespace hocket {

PendingFrees::~PendingFrees() {
  for (auto& [stream, queue] : queues_) {
    for (const Entry& entry : queue) (void)driver_.DestroyEvent(entry.event);
  }
  for (const EventHandle event : spare_) (void)driver_.DestroyEvent(event);
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
}

void PendingFrees::Finish(Done done) {
  for (auto& [stream, queue] : queues_) {
    for (const Entry& entry : queue) spare_.push_back(entry.event);
  }
  queues_.clear();
  const auto blocks = std::move(outstanding_);
  outstanding_.clear();
  for (const auto& [block, count] : blocks) done(block);
}

}  // namespace hocket
