// Measures timing mode's engine on this machine's clock: the shares of two busy processes, how punctual a
// step of 20 ms is, and what a launched kernel costs the CPU. Prints one line per figure; asserts nothing.
//
//   cmake -DHOCKET_BENCHMARKS=ON ... && ninja emulator_timing_bench && ./emulator_timing_bench
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <functional>
#include <memory>
#include <new>
#include <vector>

#include "csrc/base/check.h"
#include "csrc/emulator/timing/stream_engine.h"

namespace hocket::emulator::timing {
namespace {

constexpr Nanos kMs = 1'000'000;
constexpr int kKernels = 1000;  // of a step

struct Shared {
  TimelineState timeline;
  std::atomic<bool> go;
  std::atomic<Nanos> received[2];
};

bool Lives(pid_t pid, std::int64_t) { return kill(pid, 0) == 0; }

Shared& MakeShared() {
  void* memory = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  HOCKET_CHECK(memory != MAP_FAILED) << sizeof(Shared);
  Shared& shared = *new (memory) Shared;
  Initialize(shared.timeline);
  return shared;
}

std::unique_ptr<StreamEngine> Open(Shared& shared) {
  const Identity who{.pid = getpid(), .start_time = 1, .lives = &Lives};
  auto engine = std::make_unique<StreamEngine>(Clock::Monotonic(), who);
  HOCKET_CHECK(engine->Open(0, shared.timeline).ok());
  return engine;
}

Nanos CpuTime() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  const auto nanos = [](const timeval& time) {
    return Nanos{time.tv_sec} * 1'000'000'000 + time.tv_usec * 1000;
  };
  return nanos(usage.ru_utime) + nanos(usage.ru_stime);
}

Work Kernel(Nanos duration) {
  Work work;
  work.kind = Work::Kind::kTimed;
  work.duration = duration;
  return work;
}

// One step: kernels worth `step`, then a wait for them.
void Step(StreamEngine& engine, const std::shared_ptr<Stream>& stream, Nanos step) {
  for (int i = 0; i < kKernels; ++i) engine.Submit(stream, Kernel(step / kKernels));
  engine.Wait(*stream, stream->last());
}

pid_t Start(const std::function<void()>& body) {
  const pid_t pid = fork();
  if (pid != 0) return pid;
  body();
  _exit(0);
}

// Steps until `end` of a process that waits for each; what it received goes to shared.received[index].
void Train(Shared& shared, int index, Nanos step, Nanos time) {
  const auto engine = Open(shared);
  const auto stream = engine->CreateStream(0);
  while (!shared.go) usleep(100);
  const Nanos end = Clock::Monotonic().Now() + time;
  while (Clock::Monotonic().Now() < end) {
    Step(*engine, stream, step);
    shared.received[index] += step;
  }
}

void MeasureShares(Nanos a, Nanos b) {
  Shared& shared = MakeShared();
  const Nanos time = 4000 * kMs;
  const pid_t pids[] = {Start([&] { Train(shared, 0, a, time); }), Start([&] { Train(shared, 1, b, time); })};
  usleep(50'000);
  shared.go = true;
  for (pid_t pid : pids) waitpid(pid, nullptr, 0);
  const double sum = static_cast<double>(shared.received[0] + shared.received[1]);
  std::printf(
      "shares of two processes, steps of %3lld and %3lld ms: %.3f and %.3f; device busy %.3f of the time\n",
      static_cast<long long>(a / kMs), static_cast<long long>(b / kMs), shared.received[0] / sum,
      shared.received[1] / sum, sum / static_cast<double>(time));
}

void MeasureStep(Nanos step) {
  const auto engine = Open(MakeShared());
  const auto stream = engine->CreateStream(0);
  std::vector<Nanos> took;
  const Nanos cpu = CpuTime();
  for (int i = 0; i < 200; ++i) {
    const Nanos start = Clock::Monotonic().Now();
    Step(*engine, stream, step);
    took.push_back(Clock::Monotonic().Now() - start);
  }
  const double each = static_cast<double>(CpuTime() - cpu) / 200 / kKernels;
  std::sort(took.begin(), took.end());
  std::printf("step of %lld ms, %d kernels: p50 %.3f ms, p95 %.3f ms, max %.3f ms; CPU %.0f ns a kernel\n",
              static_cast<long long>(step / kMs), kKernels, took[100] / 1e6, took[190] / 1e6, took[199] / 1e6,
              each);
}

void MeasureLaunchBesideAnother() {
  Shared& shared = MakeShared();
  shared.go = true;
  const pid_t other = Start([&] { Train(shared, 1, 20 * kMs, 60'000 * kMs); });
  while (shared.received[1] == 0) usleep(100);
  {
    const auto engine = Open(shared);
    const auto stream = engine->CreateStream(0);
    const Nanos cpu = CpuTime();
    for (int i = 0; i < 50; ++i) Step(*engine, stream, 20 * kMs);
    std::printf("the same beside another process: CPU %.0f ns a kernel\n",
                static_cast<double>(CpuTime() - cpu) / 50 / kKernels);
  }
  kill(other, SIGKILL);
  waitpid(other, nullptr, 0);
}

}  // namespace
}  // namespace hocket::emulator::timing

int main() {
  using namespace hocket::emulator::timing;  // NOLINT: a program of this library
  MeasureStep(20 * kMs);
  MeasureLaunchBesideAnother();
  MeasureShares(20 * kMs, 20 * kMs);
  MeasureShares(20 * kMs, 3 * kMs);
}
