#include "allocator/pending_frees.h"

#include <algorithm>
#include <utility>

#include "allocator/event.h"
#include "allocator/in_context.h"
#include "csrc/base/check.h"
#include "csrc/base/status_macros.h"

namespace hocket {
namespace {

// Not the stream itself is waited for: where a graph is being captured on it, that would spoil the capture.
absl::Status RecordBehind(const Driver& driver, const StreamElsewhere& used, EventHandle event) {
  const absl::Status recorded = driver.RecordEvent(event, used.stream);
  if (!absl::IsInternal(recorded)) return recorded;
  // The stream is gone, but not what was queued on it.
  const absl::Status behind_all = driver.RecordContextEvent(used.context, event);
  if (!absl::IsUnimplemented(behind_all)) return behind_all;
  HOCKET_RETURN_IF_ERROR(driver.Synchronize());
  return driver.RecordEvent(event, nullptr);
}

absl::StatusOr<EventHandle> RecordElsewhere(const Driver& driver, const StreamElsewhere& used) {
  const InContext in_context(driver, used.context);
  HOCKET_ASSIGN_OR_RETURN(const EventHandle event, driver.CreateEvent());
  const absl::Status recorded = RecordBehind(driver, used, event);
  if (recorded.ok()) return event;
  (void)driver.DestroyEvent(event);
  return recorded;
}

absl::StatusOr<bool> Await(const Driver& driver, EventHandle event, Clock::duration patience) {
  if (patience == Clock::duration::zero()) return driver.EventDone(event);  // as each allocation asks
  if (patience != kAsLongAsItTakes) return DoneWithin(driver, event, patience);
  HOCKET_RETURN_IF_ERROR(driver.WaitForEvent(event));
  return driver.EventDone(event);
}

}  // namespace

Clock::duration LeftOf(Clock::duration patience, Clock::time_point begin) {
  if (patience == kAsLongAsItTakes) return patience;
  return std::max(patience - (Clock::now() - begin), Clock::duration::zero());
}

absl::StatusOr<bool> AwaitElsewhere(const Driver& driver, const StreamElsewhere& used,
                                    Clock::duration patience) {
  const InContext in_context(driver, used.context);
  HOCKET_ASSIGN_OR_RETURN(const EventHandle event, RecordElsewhere(driver, used));
  const absl::StatusOr<bool> done = Await(driver, event, patience);
  (void)driver.DestroyEvent(event);
  return done;
}

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

void PendingFrees::AddElsewhere(DevicePtr block, const std::vector<StreamElsewhere>& streams, bool now) {
  for (const StreamElsewhere& used : streams) {
    ++outstanding_[block];
    elsewhere_.push_back({block, used, now ? RecordElsewhere(driver_, used).value_or(nullptr) : nullptr});
  }
}

// An event that was recorded into a capture never passes: another one is recorded the next time.
bool PendingFrees::HasPassed(Elsewhere& entry, Clock::duration patience) {
  if (entry.event == nullptr) entry.event = RecordElsewhere(driver_, entry.used).value_or(nullptr);
  if (entry.event == nullptr) return false;
  const absl::StatusOr<bool> done = Await(driver_, entry.event, patience);
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
    if (!HasPassed(entry, Clock::duration::zero())) return false;
    passed.push_back(entry.block);
    return true;
  });
  for (const DevicePtr block : passed) Passed(block, done);
}

void PendingFrees::Finish(Done done, Clock::duration patience) {
  const Clock::time_point begin = Clock::now();
  for (auto& [stream, queue] : queues_) {
    for (const Entry& entry : queue) spare_.push_back(entry.event);
  }
  queues_.clear();
  const auto blocks = std::exchange(outstanding_, {});
  std::erase_if(elsewhere_, [&](Elsewhere& entry) { return HasPassed(entry, LeftOf(patience, begin)); });
  for (const Elsewhere& entry : elsewhere_) ++outstanding_[entry.block];
  for (const auto& [block, count] : blocks) {
    if (!outstanding_.contains(block)) done(block);
  }
}

}  // namespace hocket
