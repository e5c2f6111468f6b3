// A hand-over that moves no bytes against a raw two-hop message, in one run, in turns:
// hand_over_bench [ROUNDS] > figures.json
//
//   hand-over   from the EndStep() of one process to the return of the other's BeginStep(), through hocketd
//               (HOCKET_DAEMON, or as FindDaemon() finds it) in a runtime folder of its own
//   two hops    from one process over a third to another, the same sockets and frames, nothing else done:
//               half of a round trip
//
// Both are medians of a block of kPerRound samples; ROUNDS blocks of each (default 10) alternate.
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "csrc/base/check.h"
#include "csrc/base/paths.h"
#include "csrc/client/client.h"
#include "csrc/client/progress.h"
#include "csrc/wire/channel.h"

namespace hocket {
namespace {

constexpr int kPerRound = 200;

// In memory that all processes of a block share.
struct Shared {
  std::atomic<std::uint64_t> ended_ns{0};
  std::atomic<int> ended_by{0};
  std::atomic<int> count{0};
  std::uint64_t samples[kPerRound] = {};
};

Shared* MakeShared() {
  void* memory = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  HOCKET_CHECK(memory != MAP_FAILED);
  return new (memory) Shared;
}

template <typename Function>
pid_t InChild(Function f) {
  const pid_t child = fork();
  HOCKET_CHECK(child >= 0);
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    f();
    _exit(0);
  }
  return child;
}

std::uint64_t Median(std::uint64_t* samples, int count) {
  std::sort(samples, samples + count);
  return samples[count / 2];
}

void TakeTurns(Shared* shared, int self) {
  auto job = Client::Join({.name = "job"}, "cpu", "the CPU", 0);
  HOCKET_CHECK(job.ok()) << job.status();
  while (shared->count < kPerRound) {
    HOCKET_CHECK((*job)->BeginStep().ok());
    const std::uint64_t now = Progress::NowNs();
    if (shared->ended_by == 3 - self && shared->count < kPerRound) {
      shared->samples[shared->count++] = now - shared->ended_ns;
    }
    shared->ended_by = self;
    shared->ended_ns = Progress::NowNs();
    (*job)->EndStep();
  }
}

std::uint64_t HandOverNs() {
  Shared* shared = MakeShared();
  const pid_t jobs[] = {InChild([&] { TakeTurns(shared, 1); }), InChild([&] { TakeTurns(shared, 2); })};
  for (pid_t job : jobs) waitpid(job, nullptr, 0);
  const std::uint64_t median = Median(shared->samples, kPerRound);
  munmap(shared, sizeof(Shared));
  return median;
}

std::pair<wire::Channel, wire::Channel> Pair() {
  int ends[2];
  HOCKET_CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0);
  return {wire::Channel(UniqueFd(ends[0])), wire::Channel(UniqueFd(ends[1]))};
}

void Forward(wire::Channel& from, wire::Channel& to) {
  const auto received = from.Receive();
  if (!received.ok() || !to.Send(received->message).ok()) _exit(0);
}

std::uint64_t TwoHopsNs() {
  auto [here, hub_here] = Pair();
  auto [there, hub_there] = Pair();
  const pid_t hub = InChild([&, &a = hub_here, &b = hub_there] {
    for (;;) {
      Forward(a, b);
      Forward(b, a);
    }
  });
  const pid_t echo = InChild([&c = there] {
    for (;;) Forward(c, c);
  });
  std::vector<std::uint64_t> samples;
  for (int i = 0; i < kPerRound; ++i) {
    const std::uint64_t start = Progress::NowNs();
    HOCKET_CHECK(here.Send(wire::TurnOver{.turn = 1}).ok());
    HOCKET_CHECK(here.Receive().ok());
    samples.push_back((Progress::NowNs() - start) / 2);
  }
  for (pid_t child : {hub, echo}) {
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
  }
  return Median(samples.data(), kPerRound);
}

void Print(const char* name, const std::vector<std::uint64_t>& medians, const char* after) {
  std::printf("  \"%s\": [", name);
  for (size_t i = 0; i < medians.size(); ++i) {
    std::printf("%s%llu", i == 0 ? "" : ", ", static_cast<unsigned long long>(medians[i]));
  }
  std::printf("]%s\n", after);
}

int Main(int rounds) {
  char folder[] = "/tmp/hocket-bench-XXXXXX";
  HOCKET_CHECK(mkdtemp(folder) != nullptr);
  setenv("HOCKET_RUNTIME_DIR", folder, 1);
  std::vector<std::uint64_t> hand_over, two_hops;
  for (int i = 0; i < rounds; ++i) {
    hand_over.push_back(HandOverNs());
    two_hops.push_back(TwoHopsNs());
  }
  if (auto daemon = wire::Channel::Connect(SocketPath()); daemon.ok()) kill(daemon->Peer()->first, SIGTERM);
  std::error_code busy;  // the daemon removes its own files meanwhile
  std::filesystem::remove_all(folder, busy);
  std::printf("{\n");
  Print("hand_over_p50_ns", hand_over, ",");
  Print("two_hops_p50_ns", two_hops, "");
  std::printf("}\n");
  return 0;
}

}  // namespace
}  // namespace hocket

int main(int argc, char** argv) { return hocket::Main(argc > 1 ? std::max(1, std::atoi(argv[1])) : 10); }
