// A hand-over that moves no bytes against the same two messages relayed raw, in one run, in turns:
// hand_over_bench [ROUNDS] > figures.json
//
//   hand-over   from the call of EndStep() in one process to the return of BeginStep() in another, through
//               hocketd (HOCKET_DAEMON, or as FindDaemon() finds it) in a runtime folder of its own
//   relay       from the send() of one process to the return of the recv() of another, through a third that
//               sends on what it receives: the same kind of socket, as many bytes as a TurnOver has, and
//               nothing else done
//
// In both, whoever has got the turn (or the message) works for kWork before it passes it on, as a step does.
// ROUNDS blocks of each (default 10) alternate; of each block p50 and p99 of kPerRound samples.
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
#include "csrc/wire/codec.h"

namespace hocket {
namespace {

constexpr int kPerRound = 1000;
constexpr std::uint64_t kWorkNs = 100'000;

void Work() {
  for (const std::uint64_t end = Progress::NowNs() + kWorkNs; Progress::NowNs() < end;) {
  }
}

// In memory that all processes of a block share: who passed something on last, when, and what it took.
struct Shared {
  std::atomic<std::uint64_t> passed_ns{0};
  std::atomic<int> passed_by{0};
  std::atomic<int> count{0};
  std::uint64_t samples[kPerRound] = {};

  bool Full() const { return count >= kPerRound; }
  // `self` has it now.
  void Got(int self) {
    const std::uint64_t now = Progress::NowNs();
    if (passed_by == 3 - self && !Full()) samples[count++] = now - passed_ns;
  }
  void Passes(int self) {
    passed_by = self;
    passed_ns = Progress::NowNs();
  }
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

struct Times {
  std::vector<std::uint64_t> p50, p99;

  void Add(Shared* shared) {
    std::sort(shared->samples, shared->samples + kPerRound);
    p50.push_back(shared->samples[kPerRound / 2]);
    p99.push_back(shared->samples[kPerRound * 99 / 100]);
    munmap(shared, sizeof(Shared));
  }
};

void TakeTurns(Shared* shared, int self) {
  auto job = Client::Join({.name = "job"}, "cpu", "the CPU", 0);
  HOCKET_CHECK(job.ok()) << job.status();
  while (!shared->Full()) {
    HOCKET_CHECK((*job)->BeginStep().ok());
    shared->Got(self);
    Work();
    shared->Passes(self);
    (*job)->EndStep();
  }
}

void HandOver(Times& times) {
  Shared* shared = MakeShared();
  const pid_t jobs[] = {InChild([&] { TakeTurns(shared, 1); }), InChild([&] { TakeTurns(shared, 2); })};
  for (pid_t job : jobs) {
    int status = 0;
    waitpid(job, &status, 0);
    HOCKET_CHECK(status == 0) << "a job ended with status " << status;
  }
  times.Add(shared);
}

void Pair(int ends[2]) { HOCKET_CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0); }

void Forward(int from, int to) {
  char frame[1024];
  const ssize_t size = recv(from, frame, sizeof(frame), 0);
  if (size <= 0 || send(to, frame, static_cast<size_t>(size), MSG_NOSIGNAL) != size) _exit(0);
}

void PassMessages(Shared* shared, int self, int socket, std::string frame) {
  if (self == 1) {
    shared->Passes(self);
    HOCKET_CHECK(send(socket, frame.data(), frame.size(), MSG_NOSIGNAL) > 0);
  }
  while (!shared->Full()) {
    if (recv(socket, frame.data(), frame.size(), 0) <= 0) return;
    shared->Got(self);
    Work();
    shared->Passes(self);
    if (send(socket, frame.data(), frame.size(), MSG_NOSIGNAL) <= 0) return;
  }
}

void Relay(Times& times) {
  Shared* shared = MakeShared();
  int one[2], two[2];
  Pair(one);
  Pair(two);
  const auto frame = wire::Encode(wire::TurnOver{.turn = 1});
  HOCKET_CHECK(frame.ok());
  const pid_t hub = InChild([&] {
    for (;;) {
      Forward(one[1], two[1]);
      Forward(two[1], one[1]);
    }
  });
  const pid_t ends[] = {InChild([&] { PassMessages(shared, 1, one[0], *frame); }),
                        InChild([&] { PassMessages(shared, 2, two[0], *frame); })};
  while (!shared->Full()) usleep(1000);
  for (pid_t child : {hub, ends[0], ends[1]}) {
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
  }
  for (int fd : {one[0], one[1], two[0], two[1]}) close(fd);
  times.Add(shared);
}

void Print(const char* name, const std::vector<std::uint64_t>& values, const char* after) {
  std::printf("  \"%s\": [", name);
  for (size_t i = 0; i < values.size(); ++i) {
    std::printf("%s%llu", i == 0 ? "" : ", ", static_cast<unsigned long long>(values[i]));
  }
  std::printf("]%s\n", after);
}

int Main(int rounds) {
  char folder[] = "/tmp/hocket-bench-XXXXXX";
  HOCKET_CHECK(mkdtemp(folder) != nullptr);
  setenv("HOCKET_RUNTIME_DIR", folder, 1);
  Times hand_over, relay;
  for (int i = 0; i < rounds; ++i) {
    HandOver(hand_over);
    Relay(relay);
  }
  if (auto daemon = wire::Channel::Connect(SocketPath()); daemon.ok()) kill(daemon->Peer()->first, SIGTERM);
  std::error_code busy;  // the daemon removes its own files meanwhile
  std::filesystem::remove_all(folder, busy);
  std::printf("{\n");
  Print("hand_over_p50_ns", hand_over.p50, ",");
  Print("relay_p50_ns", relay.p50, ",");
  Print("hand_over_p99_ns", hand_over.p99, ",");
  Print("relay_p99_ns", relay.p99, "");
  std::printf("}\n");
  return 0;
}

}  // namespace
}  // namespace hocket

int main(int argc, char** argv) { return hocket::Main(argc > 1 ? std::max(1, std::atoi(argv[1])) : 10); }
