// An event of the driver's that lives as long as its owner.
#ifndef HOCKET_ALLOCATOR_EVENT_H_
#define HOCKET_ALLOCATOR_EVENT_H_

#include <chrono>
#include <thread>

#include "absl/status/statusor.h"
#include "allocator/driver.h"
#include "csrc/base/mutex.h"  // Clock
#include "csrc/base/status_macros.h"

namespace hocket {

// Asks for so long again and again before it waits: a thread that the driver wakes up comes 45 microseconds
// after the device (an H200: 70 us for work of 25 us). REQUIRES: it was recorded.
inline absl::Status WaitEagerly(const Driver& driver, EventHandle event, Clock::duration asked) {
  for (const auto begin = Clock::now(); Clock::now() - begin < asked; std::this_thread::yield()) {
    const absl::StatusOr<bool> done = driver.EventDone(event);
    if (!done.ok() || *done) return done.status();
  }
  return driver.WaitForEvent(event);
}

// Whether what was recorded is done, or will be within `patience`. Idle devices take some microseconds to say
// so, and longer while another process computes there. REQUIRES: it was recorded.
inline absl::StatusOr<bool> DoneWithin(const Driver& driver, EventHandle event, Clock::duration patience) {
  constexpr auto kAsked = std::chrono::microseconds(200);  // again and again; then now and then
  const auto begin = Clock::now();
  for (;;) {
    const auto waited = Clock::now() - begin;
    const absl::StatusOr<bool> done = driver.EventDone(event);
    if (waited >= patience || !done.ok() || *done) return done;
    // The driver can wait for an event, but not with a limit.
    if (waited >= kAsked) std::this_thread::sleep_for(kAsked);
  }
}

// Recorded once, and then waited for. Needs the device's context on the calling thread. Where the driver has
// no event to give, recording says so.
class ScopedEvent {
 public:
  explicit ScopedEvent(const Driver& driver) : driver_(driver), event_(driver.CreateEvent()) {}
  ~ScopedEvent() {
    if (event_.ok()) (void)driver_.DestroyEvent(*event_);
  }
  ScopedEvent(const ScopedEvent&) = delete;
  ScopedEvent& operator=(const ScopedEvent&) = delete;

  // Behind everything queued in the context.
  absl::Status RecordOn(ContextHandle context) {
    HOCKET_RETURN_IF_ERROR(event_.status());
    return driver_.RecordContextEvent(context, *event_);
  }
  // REQUIRES: it was recorded.
  absl::Status Wait() { return driver_.WaitForEvent(*event_); }
  // The same for what somebody else waits for, too. Where processors are scarce it sleeps at once: the others
  // may be who the device waits for.
  absl::Status WaitEagerly() {
    constexpr auto kAsked = std::chrono::milliseconds(1);  // no more is queued, as a rule (SetPace)
    static const bool processors_to_spare = std::thread::hardware_concurrency() >= 4;
    return processors_to_spare ? hocket::WaitEagerly(driver_, *event_, kAsked) : Wait();
  }
  absl::StatusOr<bool> DoneWithin(Clock::duration patience) {
    return hocket::DoneWithin(driver_, *event_, patience);
  }
  // Behind everything queued on `stream`.
  absl::Status RecordOnStream(Stream stream) {
    HOCKET_RETURN_IF_ERROR(event_.status());
    return driver_.RecordEvent(*event_, stream);
  }
  // Behind everything queued on streams that the default stream waits for.
  absl::Status RecordOnDefaultStream() { return RecordOnStream(nullptr); }

 private:
  const Driver& driver_;
  absl::StatusOr<EventHandle> event_;
};

}  // namespace hocket

#endif  // HOCKET_ALLOCATOR_EVENT_H_
