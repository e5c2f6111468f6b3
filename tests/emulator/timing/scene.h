// Processes on one emulated device, in a time that only the test moves.
#ifndef HOCKET_TESTS_EMULATOR_TIMING_SCENE_H_
#define HOCKET_TESTS_EMULATOR_TIMING_SCENE_H_

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "csrc/base/check.h"
#include "csrc/emulator/timing/stream_engine.h"

namespace hocket::emulator::timing {

inline constexpr Nanos kMs = 1'000'000;

// Stands still except where somebody waits: then it is at once when they want to be woken.
class TestClock final : public Clock {
 public:
  Nanos Now() override { return now_; }
  void Wait(std::unique_lock<std::mutex>&, std::condition_variable&, Nanos deadline) override {
    HOCKET_CHECK(deadline != kNever) << "waits for what never comes";
    HOCKET_CHECK(deadline > now_) << "wakes at " << deadline << ", now " << now_;
    now_ = deadline;
    ++sleeps_;
  }
  void MoveTo(Nanos now) { now_ = std::max(now_, now); }
  int sleeps() const { return sleeps_; }

 private:
  Nanos now_ = 1000;
  int sleeps_ = 0;
};

// The pids that are dead.
inline std::set<pid_t>& Dead() {
  static std::set<pid_t> dead;
  return dead;
}
inline bool IsAlive(pid_t pid, std::int64_t) { return Dead().count(pid) == 0; }

struct FreeState {
  void operator()(TimelineState* state) const { std::free(state); }
};
using OwnedState = std::unique_ptr<TimelineState, FreeState>;

inline OwnedState MakeState(Nanos slice = kDefaultSlice) {
  OwnedState state(static_cast<TimelineState*>(std::calloc(1, sizeof(TimelineState))));
  Initialize(*state, slice);
  return state;
}

inline Work Timed(Engine engine, Nanos duration) {
  Work work;
  work.kind = Work::Kind::kTimed;
  work.engine = engine;
  work.duration = duration;
  return work;
}
inline Work Kernel(Nanos duration) { return Timed(Engine::kCompute, duration); }
inline Work CopyIn(Nanos duration) { return Timed(Engine::kToDevice, duration); }
inline Work CopyOut(Nanos duration) { return Timed(Engine::kToHost, duration); }
// Notes when it was reached.
inline Work Mark(Nanos* reached) {
  Work work;
  work.action = [reached](Nanos at) { *reached = at; };
  return work;
}
inline Work HostFunction(std::function<void(Nanos)> function) {
  Work work;
  work.kind = Work::Kind::kHost;
  work.action = std::move(function);
  return work;
}
inline Work After(Work work, std::vector<Point> points) {
  work.after = std::move(points);
  return work;
}

class Scene {
 public:
  explicit Scene(int processes, Nanos slice = kDefaultSlice) : state_(MakeState(slice)) {
    Dead().clear();
    for (int i = 0; i < processes; ++i) {
      const Identity who{.pid = 100 + i, .start_time = 1, .lives = &IsAlive};
      engines_.push_back(std::make_unique<StreamEngine>(clock_, who, StreamEngine::Thread::kNone));
      HOCKET_CHECK(engines_.back()->Open(0, *state_).ok());
    }
  }

  StreamEngine& process(int i) { return *engines_[i]; }
  TestClock& clock() { return clock_; }
  TimelineState& state() { return *state_; }
  std::shared_ptr<Stream> NewStream(int process) { return engines_[process]->CreateStream(0); }

  Point Submit(int process, const std::shared_ptr<Stream>& stream, Work work) {
    return {stream, engines_[process]->Submit(stream, std::move(work))};
  }
  bool Done(int process, const Point& point) { return engines_[process]->Done(*point.stream, point.number); }
  void Wait(int process, const Point& point) { engines_[process]->Wait(*point.stream, point.number); }

  // Time passes; what happens by itself happens on time.
  void RunUntil(Nanos end) {
    while (true) {
      Nanos next = end;
      for (const auto& engine : engines_) next = std::min(next, engine->Step());
      if (clock_.Now() >= end) return;
      clock_.MoveTo(std::max(next, clock_.Now()));
    }
  }
  void RunFor(Nanos time) { RunUntil(clock_.Now() + time); }

  // The process is gone, its place on the timeline is not: nobody had the time to tidy up.
  void Kill(int process) {
    Dead().insert(100 + process);
    engines_[process]->BeforeFork();
    engines_[process]->InChild();
  }

 private:
  TestClock clock_;
  OwnedState state_;
  std::vector<std::unique_ptr<StreamEngine>> engines_;
};

}  // namespace hocket::emulator::timing

#endif  // HOCKET_TESTS_EMULATOR_TIMING_SCENE_H_
