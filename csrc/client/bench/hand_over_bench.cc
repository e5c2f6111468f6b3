// A hand-over that moves no bytes against the same two messages relayed raw, in one run, in turns:
// hand_over_bench [ROUNDS] [CONNECTED] > figures.json
//
//   hand-over   from the call of EndStep() in one process to the return of BeginStep() in another, through
//               hocketd (HOCKET_DAEMON, or as FindDaemon() finds it) in a runtime folder of its own
//   relay       from the send() of one process to the return of the recv() of another, through a third that
//               sends on what it receives: the same kind of socket, as many bytes as a TurnOver has, and
//               nothing else done
//
//   crowd       a hand-over while CONNECTED jobs (default 1000), each a process, have joined, of which two
//               take turns
//   cpu         of the coordinator, for a hand-over, where there are a thousand in a second
//
// In all, whoever has got the turn (or the message) works for a while before it passes it on, as a step does.
// ROUNDS blocks of each (default 10) alternate; of each block p50 and p99 of kPerRound samples.
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
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
constexpr std::uint64_t kThousandth = 1'000'000;  // of a second

void WorkUntil(std::uint64_t end) {
  while (Progress::NowNs() < end) {
  }
}
void Work() { WorkUntil(Progress::NowNs() + kWorkNs); }

// In memory that all processes of a block share: who passed something on last, when, and what it took.
struct Shared {
  std::uint64_t period_ns = 0;  // from one hand-over to the next; 0: as it comes
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
    if (shared->period_ns > 0) {
      WorkUntil(shared->passed_ns + shared->period_ns);
    } else {
      Work();
    }
    shared->Passes(self);
    (*job)->EndStep();
  }
}

void PassTurns(Shared* shared) {
  const pid_t jobs[] = {InChild([&] { TakeTurns(shared, 1); }), InChild([&] { TakeTurns(shared, 2); })};
  for (pid_t job : jobs) {
    int status = 0;
    waitpid(job, &status, 0);
    HOCKET_CHECK(status == 0) << "a job ended with status " << status;
  }
}

void HandOver(Times& times) {
  Shared* shared = MakeShared();
  PassTurns(shared);
  times.Add(shared);
}

pid_t Coordinator() {
  auto channel = wire::Channel::Connect(SocketPath());
  HOCKET_CHECK(channel.ok()) << channel.status();
  return channel->Peer()->first;
}

std::uint64_t CpuNs(pid_t process) {
  clockid_t clock;
  timespec used{};
  HOCKET_CHECK(clock_getcpuclockid(process, &clock) == 0);
  HOCKET_CHECK(clock_gettime(clock, &used) == 0);
  return static_cast<std::uint64_t>(used.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(used.tv_nsec);
}

// What the coordinator computes for a hand-over, at a thousand of them in a second: with all that jobs say
// meanwhile, and their joining.
std::uint64_t CpuOfHandOver() {
  Shared* shared = MakeShared();
  shared->period_ns = kThousandth;
  const pid_t coordinator = Coordinator();
  const std::uint64_t before = CpuNs(coordinator);
  PassTurns(shared);
  munmap(shared, sizeof(Shared));
  return (CpuNs(coordinator) - before) / kPerRound;
}

// Jobs that have joined, and do nothing, while it lives.
class Crowd {
 public:
  explicit Crowd(int jobs) {
    int joined[2];
    HOCKET_CHECK(pipe(joined) == 0);
    for (int i = 0; i < jobs; ++i) {
      jobs_.push_back(InChild([&] {
        auto job = Client::Join({.name = "idle"}, "cpu", "the CPU", 0);
        HOCKET_CHECK(job.ok()) << job.status();
        HOCKET_CHECK(write(joined[1], "", 1) == 1);
        for (;;) pause();
      }));
      char byte;
      HOCKET_CHECK(read(joined[0], &byte, 1) == 1);
    }
    close(joined[0]);
    close(joined[1]);
  }
  ~Crowd() {
    for (pid_t job : jobs_) kill(job, SIGKILL);
    for (pid_t job : jobs_) waitpid(job, nullptr, 0);
  }

 private:
  std::vector<pid_t> jobs_;
};

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

int Main(int rounds, int connected) {
  char folder[] = "/tmp/hocket-bench-XXXXXX";
  HOCKET_CHECK(mkdtemp(folder) != nullptr);
  setenv("HOCKET_RUNTIME_DIR", folder, 1);
  Times hand_over, relay, crowd, crowd_relay;
  std::vector<std::uint64_t> cpu;
  for (int i = 0; i < rounds; ++i) {
    HandOver(hand_over);
    Relay(relay);
    cpu.push_back(CpuOfHandOver());
  }
  {
    const Crowd idle(connected - 2);
    for (int i = 0; i < rounds; ++i) {
      HandOver(crowd);
      Relay(crowd_relay);
    }
  }
  kill(Coordinator(), SIGTERM);
  std::error_code busy;  // the daemon removes its own files meanwhile
  std::filesystem::remove_all(folder, busy);
  std::printf("{\n");
  Print("hand_over_p50_ns", hand_over.p50, ",");
  Print("relay_p50_ns", relay.p50, ",");
  Print("hand_over_p99_ns", hand_over.p99, ",");
  Print("relay_p99_ns", relay.p99, ",");
  Print("crowd_p50_ns", crowd.p50, ",");
  Print("crowd_relay_p50_ns", crowd_relay.p50, ",");
  Print("crowd_p99_ns", crowd.p99, ",");
  Print("crowd_relay_p99_ns", crowd_relay.p99, ",");
  Print("cpu_ns", cpu, "");
  std::printf("}\n");
  return 0;
}

}  // namespace
}  // namespace hocket

int main(int argc, char** argv) {
  return hocket::Main(argc > 1 ? std::max(1, std::atoi(argv[1])) : 10,
                      argc > 2 ? std::max(2, std::atoi(argv[2])) : 1000);
}
