// The host's time, where the allocator goes by it (Pacer); tests put one of their own in its place.
#ifndef HOCKET_ALLOCATOR_HOST_CLOCK_H_
#define HOCKET_ALLOCATOR_HOST_CLOCK_H_

#include <chrono>
#include <thread>

namespace hocket {

struct HostClock {
  using Nanos = std::chrono::nanoseconds;

  // Since whenever; never goes back.
  Nanos (*now)() = [] { return Nanos(std::chrono::steady_clock::now().time_since_epoch()); };
  // Blocks the calling thread for so long, or a little longer. Inside a piece of work the device has no mark
  // to wait for; who sleeps asks it again afterwards, and goes by its answer.
  void (*sleep)(Nanos) = [](Nanos time) { std::this_thread::sleep_for(time); };
};

}  // namespace hocket

#endif  // HOCKET_ALLOCATOR_HOST_CLOCK_H_
