// Waits for queued copies, and is there when they arrive.
//
// Whoever sleeps until the driver wakes him comes tens of microseconds after the event, and between the parts
// of a move nothing is copied meanwhile. So he sleeps by himself until shortly before the copies should have
// arrived, going by how long those before took, and asks again and again from then on, for a while at most.
//
// Not thread-safe.
#ifndef HOCKET_ALLOCATOR_COPY_WAIT_H_
#define HOCKET_ALLOCATOR_COPY_WAIT_H_

#include <algorithm>
#include <chrono>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "allocator/driver.h"
#include "csrc/base/mutex.h"  // Clock
#include "csrc/base/status_macros.h"

namespace hocket {

class CopyWait {
 public:
  // Of copies one way. `driver` is borrowed and must outlive it.
  explicit CopyWait(const Driver& driver) : driver_(driver) {}

  // Until `event` is done, which was recorded behind the copies of so many bytes; the first of them was
  // queued at `queued`, when none was under way. An error: the driver's.
  absl::Status Await(EventHandle event, Bytes bytes, Clock::time_point queued) {
    const auto expected = std::chrono::duration_cast<Clock::duration>(per_byte_ * static_cast<double>(bytes));
    bool slept_on = false, done = false;  // they had arrived already when he asked first
    if (bytes >= kWorthAsking && expected < kLongestSleep) {
      std::this_thread::sleep_until(queued + expected - expected / kEarly - kOversleeps);
      HOCKET_ASSIGN_OR_RETURN(slept_on, driver_.EventDone(event));
      done = slept_on;
      if (!done) {
        HOCKET_ASSIGN_OR_RETURN(done, AskUntil(event, AskingEnds(queued + expected, expected)));
      }
    }
    const absl::Status waited = done ? absl::OkStatus() : driver_.WaitForEvent(event);
    // Nobody knows for how long they had been there: once a part has taken long, the next must not.
    if (slept_on) {
      per_byte_ /= 2;
    } else if (waited.ok() && bytes > 0) {
      per_byte_ = (Clock::now() - queued) / static_cast<double>(bytes);
    }
    return waited;
  }

 private:
  static Clock::time_point AskingEnds(Clock::time_point due, Clock::duration expected) {
    return std::max(Clock::now(), due) + std::min(kLongestAsking, kAsking + expected / kEarly);
  }
  absl::StatusOr<bool> AskUntil(EventHandle event, Clock::time_point end) {
    for (;;) {
      const absl::StatusOr<bool> done = driver_.EventDone(event);
      if (!done.ok() || *done || Clock::now() >= end) return done;
    }
  }

  static constexpr Bytes kWorthAsking = Bytes{4} << 20;
  static constexpr int kEarly = 8;  // copies may take an eighth less than those before
  static constexpr Clock::duration kOversleeps = std::chrono::microseconds(60);
  static constexpr Clock::duration kAsking = std::chrono::microseconds(100);
  static constexpr Clock::duration kLongestAsking = std::chrono::milliseconds(1);
  static constexpr Clock::duration kLongestSleep = std::chrono::seconds(1);

  const Driver& driver_;
  std::chrono::duration<double, std::nano> per_byte_{0};  // of the last; 0: not known yet
};

}  // namespace hocket

#endif  // HOCKET_ALLOCATOR_COPY_WAIT_H_
