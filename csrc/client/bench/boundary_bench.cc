// What a step costs at its two ends while nobody waits: BeginStep() and EndStep() of a job that has the turn,
// without an allocator (its part is measured with it). Compare: two clock readings, which are part of it.
#include <sys/socket.h>

#include <memory>
#include <thread>

#include "benchmark/benchmark.h"
#include "csrc/base/check.h"
#include "csrc/client/client_impl.h"

namespace hocket {
namespace {

// A coordinator that grants everything at once and asks for nothing back.
void GrantEverything(wire::Channel channel) {
  for (;;) {
    const auto received = channel.Receive();
    if (!received.ok()) return;
    if (std::holds_alternative<wire::Join>(received->message)) {
      (void)channel.Send(wire::Joined{.job = 1, .name = "job", .lane_lock = "/dev/shm/hocket-boundary.lock"});
    } else if (std::holds_alternative<wire::Wait>(received->message)) {
      (void)channel.Send(wire::Grant{.turn = 1});
    }
  }
}

void Boundary(benchmark::State& state) {
  int ends[2];
  HOCKET_CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0);
  std::thread coordinator([&] { GrantEverything(wire::Channel(UniqueFd(ends[1]))); });
  {
    ClientTuning tuning;
    tuning.connect = [&] { return wire::Channel(UniqueFd(ends[0])); };
    auto job = ClientImpl::Join(wire::Join{.name = "job", .device = "cpu"}, tuning);
    HOCKET_CHECK(job.ok()) << job.status();
    for (auto _ : state) {
      benchmark::DoNotOptimize((*job)->BeginStep());
      (*job)->EndStep(true);
    }
  }
  coordinator.join();
}
BENCHMARK(Boundary);

void TwoClockReadings(benchmark::State& state) {
  for (auto _ : state) {
    benchmark::DoNotOptimize(Progress::NowNs());
    benchmark::DoNotOptimize(Progress::NowNs());
  }
}
BENCHMARK(TwoClockReadings);

}  // namespace
}  // namespace hocket

BENCHMARK_MAIN();
