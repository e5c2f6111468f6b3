#include "csrc/emulator/timing/clock.h"

#include <sys/prctl.h>

#include <cerrno>
#include <chrono>
#include <ctime>

namespace hocket::emulator::timing {
namespace {

// The calling thread wakes on time while this lives.
class Punctual {
 public:
  Punctual() : slack_(prctl(PR_GET_TIMERSLACK)) { prctl(PR_SET_TIMERSLACK, 1000); }
  ~Punctual() { prctl(PR_SET_TIMERSLACK, slack_); }

 private:
  const int slack_;
};

class MonotonicClock final : public Clock {
 public:
  Nanos Now() override {
    return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
  }

  void Wait(std::unique_lock<std::mutex>& lock, std::condition_variable& changed, Nanos deadline) override {
    if (deadline == kNever) return changed.wait(lock);
    const Punctual punctual;
    changed.wait_until(lock, std::chrono::steady_clock::time_point(std::chrono::nanoseconds(deadline)));
  }
};

constexpr Nanos kSpin = 50'000;

}  // namespace

void SleepUntil(Nanos deadline) {
  Clock& clock = Clock::Monotonic();
  if (const Nanos wake = deadline - kSpin; wake > clock.Now()) {
    const Punctual punctual;
    const timespec at = {static_cast<time_t>(wake / 1'000'000'000), static_cast<long>(wake % 1'000'000'000)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, nullptr) == EINTR) {
    }
  }
  while (clock.Now() < deadline) {
  }
}

Clock& Clock::Monotonic() {
  static Clock& clock = *new MonotonicClock;
  return clock;
}

}  // namespace hocket::emulator::timing
