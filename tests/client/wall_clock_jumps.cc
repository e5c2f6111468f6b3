// Preloaded (LD_PRELOAD), it makes the wall clock jump to and fro by three days with every look at it, as
// setting the machine's would, which a test may not. Other clocks are as they are.
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include <atomic>
#include <ctime>

namespace {

constexpr time_t kThreeDays = 3 * 24 * 3600;

time_t Jump() {
  static std::atomic<unsigned> looks{0};
  return looks.fetch_add(1, std::memory_order_relaxed) % 2 == 0 ? 0 : -kThreeDays;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int clock_gettime(clockid_t clock, timespec* now) noexcept {
  const long result = syscall(SYS_clock_gettime, clock, now);
  if (result == 0 && clock == CLOCK_REALTIME) now->tv_sec += Jump();
  return static_cast<int>(result);
}

extern "C" __attribute__((visibility("default"))) int gettimeofday(timeval* now, void*) noexcept {
  timespec precise{};
  const int result = clock_gettime(CLOCK_REALTIME, &precise);
  *now = {.tv_sec = precise.tv_sec, .tv_usec = precise.tv_nsec / 1000};
  return result;
}
