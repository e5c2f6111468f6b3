// What a step costs at its two ends while nobody waits, in one run and in turns with what it is compared to:
// boundary_bench [ROUNDS] > figures.json
//
//   boundary   BeginStep() and EndStep() of a job that has the turn, without an allocator (its part is
//   measured
//              with it)
//   atomics    two atomic additions to one word: the least that such a boundary can do
//
// ROUNDS blocks of each (default 10) alternate; CPU time of a block of kPerRound, divided.
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <thread>
#include <vector>

#include "csrc/base/check.h"
#include "csrc/client/client_impl.h"

namespace hocket {
namespace {

constexpr int kPerRound = 1'000'000;

double CpuNs() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
}

template <typename Function>
double NsEach(Function f) {
  const double start = CpuNs();
  for (int i = 0; i < kPerRound; ++i) f();
  return (CpuNs() - start) / kPerRound;
}

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

void Print(const char* name, const std::vector<double>& values, const char* after) {
  std::printf("  \"%s\": [", name);
  for (size_t i = 0; i < values.size(); ++i) std::printf("%s%.2f", i == 0 ? "" : ", ", values[i]);
  std::printf("]%s\n", after);
}

int Main(int rounds) {
  int ends[2];
  HOCKET_CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0);
  std::thread coordinator([&] { GrantEverything(wire::Channel(UniqueFd(ends[1]))); });
  std::vector<double> boundary, atomics;
  {
    ClientTuning tuning;
    tuning.connect = [&] { return wire::Channel(UniqueFd(ends[0])); };
    auto job = ClientImpl::Join(wire::Join{.name = "job", .device = "cpu"}, tuning);
    HOCKET_CHECK(job.ok()) << job.status();
    std::atomic<std::uint64_t> word{0};
    for (int i = 0; i < rounds; ++i) {
      boundary.push_back(NsEach([&] {
        HOCKET_CHECK((*job)->BeginStep().ok());
        (*job)->EndStep(true);
      }));
      atomics.push_back(NsEach([&] {
        word.fetch_add(1);
        word.fetch_sub(1);
      }));
    }
  }
  coordinator.join();
  std::printf("{\n");
  Print("boundary_ns", boundary, ",");
  Print("atomics_ns", atomics, "");
  std::printf("}\n");
  return 0;
}

}  // namespace
}  // namespace hocket

int main(int argc, char** argv) { return hocket::Main(argc > 1 ? std::max(1, std::atoi(argv[1])) : 10); }
