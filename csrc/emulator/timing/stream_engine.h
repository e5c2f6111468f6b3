// The streams of one process on the emulated devices, in time: simulation.h with a lock, a clock and sleep.
//
// Nothing runs while time passes. Submit() notes the work; Done() and Wait() compute what has ended by now. A
// waiter sleeps until the earliest time at which what it waits for can have ended and looks again, because
// other processes may have slowed it down; it never spins. While others have work on the device it looks at
// least every 10 ms whether one of them has died.
//
// One thread, started when first needed, does what must happen by itself: it calls host functions, runs
// actions that others must see (Work::prompt), and makes work known to a shared device when what it waited
// for has ended. It sleeps until the next such moment.
//
// Thread-safe. Timelines are shared memory (timeline.h); the engine leaves them when it is stopped or
// destroyed, and a process that is killed is missed by the others.
#ifndef HOCKET_CSRC_EMULATOR_TIMING_STREAM_ENGINE_H_
#define HOCKET_CSRC_EMULATOR_TIMING_STREAM_ENGINE_H_

#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>

#include "absl/status/status.h"
#include "csrc/emulator/timing/clock.h"
#include "csrc/emulator/timing/simulation.h"

namespace hocket::emulator::timing {

// How long somebody who waits on a shared device goes without looking for the dead.
inline constexpr Nanos kDeathInterval = 10'000'000;

class StreamEngine {
 public:
  enum class Thread { kWhenNeeded, kNone };

  // `clock` is borrowed and must outlive the engine. kNone: the caller calls Step().
  StreamEngine(Clock& clock, const Identity& who, Thread thread = Thread::kWhenNeeded);
  // Drops what is queued, waits for a host function that runs, leaves the timelines.
  ~StreamEngine();
  StreamEngine(const StreamEngine&) = delete;
  StreamEngine& operator=(const StreamEngine&) = delete;

  // Joins the timeline of a device, once. `state` is borrowed and must outlive the engine. kResourceExhausted
  // as Join() says.
  absl::Status Open(int device, TimelineState& state);
  // A stream of an opened device. It may be let go of at any time: work queued on it is still done.
  std::shared_ptr<Stream> CreateStream(int device);

  // Queues `work` and returns its number: 1, 2, ... Once stopped, it counts as ended at once.
  std::uint64_t Submit(const std::shared_ptr<Stream>& stream, Work work);
  bool Done(const Stream& stream, std::uint64_t number);
  // Returns when item `number` has ended, or the engine is stopped.
  void Wait(const Stream& stream, std::uint64_t number);
  // When the device's engine will have done all that it can do by now, of every process; a time that is past:
  // it is idle. REQUIRES: the device was opened.
  Nanos BusyUntil(int device, Engine engine);
  // True when nothing is queued on any stream.
  bool Idle();

  // The process ends: drops what is queued, every wait returns, the timelines are left. Waits up to two
  // seconds for a host function that runs.
  void Stop();

  // What the thread does each time it wakes: all that is due by itself, host functions included. Returns
  // when it is to be done next.
  Nanos Step();

  // Around fork(). In the child the engine is stopped and the timelines are the parent's.
  void BeforeFork() { mutex_.lock(); }
  void InParent() { mutex_.unlock(); }
  void InChild();

  // Aborts, naming the first invariant that does not hold.
  void CheckInvariants();

 private:
  using Lock = std::unique_lock<std::mutex>;
  // What a forked child must not touch: the thread does not exist there and the waiters do not either.
  struct Machinery {
    std::condition_variable ended;  // a host function has ended, or all is stopped
    std::condition_variable due;    // the thread has something to do earlier
    std::thread thread;
  };

  // REQUIRES: mutex_ is held, for all below.
  bool AdvancedPast(const Stream& stream, std::uint64_t number);
  Nanos WakeFor(const Stream& stream, std::uint64_t number);
  Nanos StepLocked(Lock& lock);
  void CallHosts(Lock& lock);
  Nanos NextStep(const Devices& devices, Nanos now) const;
  bool Shared() const;
  void LookForDead(Nanos now);
  void Alert(Nanos next);
  void Run();

  Clock& clock_;
  const Identity who_;
  const Thread thread_policy_;
  std::mutex mutex_;
  // Guarded by mutex_:
  Devices::Timelines timelines_;
  Devices::Set used_ = 0;  // devices that work was ever queued for
  Simulation simulation_;
  std::unique_ptr<Machinery> machinery_;
  Nanos asleep_until_ = 0;  // the thread; 0: it is awake
  bool host_running_ = false;
  bool stopped_ = false;
};

}  // namespace hocket::emulator::timing

#endif  // HOCKET_CSRC_EMULATOR_TIMING_STREAM_ENGINE_H_
