#include "allocator/pacer.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "allocator/in_context.h"
#include "csrc/base/status_macros.h"

namespace hocket {
namespace {

// After so long the clock and the device are asked again.
constexpr std::chrono::nanoseconds kLook = std::chrono::microseconds(500);

}  // namespace

Pacer::~Pacer() {
  MutexLock lock(&mutex_);
  if (events_.empty()) return;
  const InContext in_context(driver_, context_);
  for (const auto& event : events_) (void)driver_.DestroyEvent(event->handle);
}

void Pacer::Pace(Bytes size, Stream stream, Gate* gate) {
  MutexLock lock(&mutex_);
  CatchUp();
  if (rests_ || !On()) return;
  if (work_.Allocates(size, stream, clock_.now()) && Failed(Place(stream))) return;
  const QueuedWork::MarkNumber mark = work_.MustPass();
  if (mark == 0 || Await(mark, gate)) AwaitPart(gate);
  work_.GoesOn(clock_.now());
}

void Pacer::CatchUp() {
  const std::uint64_t changes = changes_.load(kRelaxed);
  if (std::exchange(changes_seen_, changes) != changes) {
    Forget();  // it may have been off for a while: what was queued meanwhile is not known
    rests_ = false;
  }
  work_.SetLimit(std::chrono::nanoseconds(pace_.load(kRelaxed)));
  const std::uint64_t steps = steps_.load(kRelaxed);
  if (std::exchange(steps_seen_, steps) != steps) {
    work_.BeginStep();
    rests_ = false;
  }
}

absl::Status Pacer::Place(Stream stream) {
  const InContext in_context(driver_, context_);
  HOCKET_RETURN_IF_ERROR(Look(std::numeric_limits<QueuedWork::MarkNumber>::max()));
  HOCKET_ASSIGN_OR_RETURN(Event* const event, Take());
  if (absl::Status recorded = driver_.RecordEvent(event->handle, stream); !recorded.ok()) {
    Spare(event);
    return recorded;
  }
  // Behind a mark that it has still before it the device does not wait for the host. A stream is passed in
  // order, so the newest mark is still before it if the oldest is.
  const bool may_have_waited =
      marks_.empty() || marks_.front().stream != stream || marks_.back().stream != stream;
  marks_.push_back({event, stream});
  work_.Marked(may_have_waited, clock_.now());
  return absl::OkStatus();
}

absl::Status Pacer::Look(QueuedWork::MarkNumber last) {
  while (!marks_.empty() && work_.passed() < last) {
    HOCKET_ASSIGN_OR_RETURN(const bool done, driver_.EventDone(marks_.front().event->handle));
    if (!done) break;
    HOCKET_RETURN_IF_ERROR(PassOldest());
  }
  return absl::OkStatus();
}

absl::Status Pacer::PassOldest() {
  Event* const event = marks_.front().event;
  std::chrono::nanoseconds elapsed{0};
  if (device_time_ != nullptr) {
    HOCKET_ASSIGN_OR_RETURN(elapsed, driver_.Elapsed(device_time_->handle, event->handle));
  }
  marks_.pop_front();
  work_.Passed(std::max(elapsed, std::chrono::nanoseconds{0}), clock_.now());
  if (elapsed.count() < 0) {
    Spare(event);
  } else if (Event* const before = std::exchange(device_time_, event); before != nullptr) {
    Spare(before);
  }
  return absl::OkStatus();
}

bool Pacer::Await(QueuedWork::MarkNumber mark, Gate* gate) {
  const InContext in_context(driver_, context_);
  if (Failed(Look(mark))) return false;
  if (work_.passed() >= mark) return true;
  // The marks before it are passed then, but for those of other streams.
  if (Failed(Wait(*marks_[mark - work_.passed() - 1].event, gate))) return false;
  while (!Failed(Look(mark))) {
    if (work_.passed() >= mark) return true;
    if (Failed(Wait(*marks_.front().event, gate))) return false;
  }
  return false;
}

void Pacer::AwaitPart(Gate* gate) {
  const QueuedWork::MarkNumber passed = work_.passed();
  while (const auto until = work_.MustAwait()) {
    const std::chrono::nanoseconds left = *until - clock_.now();
    if (left.count() <= 0) return;
    {
      const InContext in_context(driver_, context_);
      if (Failed(Look(passed + 1))) return;
    }
    if (work_.passed() > passed) return;  // it is done
    const MutexUnlock unlock(&mutex_);
    const auto wait = [&] { clock_.sleep(std::min(left, kLook)); };
    if (gate == nullptr) {
      wait();
    } else {
      gate->WhileBlocked(wait);
    }
  }
}

absl::Status Pacer::Wait(Event& event, Gate* gate) {
  ++event.waiting;
  absl::Status waited;
  {
    const MutexUnlock unlock(&mutex_);
    const auto wait = [&] { waited = driver_.WaitForEvent(event.handle); };
    if (gate == nullptr) {
      wait();
    } else {
      gate->WhileBlocked(wait);
    }
  }
  if (--event.waiting == 0 && std::exchange(event.spare, false)) Spare(&event);
  return waited;
}

bool Pacer::Failed(const absl::Status& status) {
  if (status.ok()) return false;
  Forget();
  rests_ = true;
  return true;
}

void Pacer::Forget() {
  work_.Forget();
  for (const Mark& mark : std::exchange(marks_, {})) Spare(mark.event);
  if (device_time_ != nullptr) Spare(std::exchange(device_time_, nullptr));
}

absl::StatusOr<Pacer::Event*> Pacer::Take() {
  if (!spare_.empty()) {
    Event* const event = spare_.back();
    spare_.pop_back();
    return event;
  }
  HOCKET_ASSIGN_OR_RETURN(const EventHandle handle, driver_.CreateTimedEvent());
  events_.push_back(std::make_unique<Event>(Event{.handle = handle}));
  return events_.back().get();
}

void Pacer::Spare(Event* event) {
  if (event->waiting > 0) {
    event->spare = true;
  } else {
    spare_.push_back(event);
  }
}

}  // namespace hocket
