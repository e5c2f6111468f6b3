// How soon the next job has the turn when its holder is killed (SIGKILL), beside how soon the kernel reports
// the death of an equal process, and counted from when it reports that of the holder: kill_to_turn ROUNDS
// MIB.
//
// Both are processes that have joined, are in a step and have touched so much memory (which the kernel takes
// apart first). Of one the parent only waits for the end (waitpid); behind the other a third job waits at its
// door, and says on a pipe when it was let in. The two in turns; the clock is CLOCK_MONOTONIC, which all
// processes share. Prints JSON: nanoseconds of each round; those after the report are negative where the next
// job ran before this process heard of the death itself. The environment names the coordinator.
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "csrc/base/check.h"
#include "csrc/base/paths.h"
#include "csrc/base/steady.h"
#include "csrc/base/unique_fd.h"
#include "csrc/client/client.h"
#include "csrc/wire/control.h"

namespace hocket {
namespace {

int64_t Now() { return absl::ToUnixNanos(SteadyNow()); }

struct Child {
  pid_t pid;
  int words;  // the end of its pipe that we read
};

// A job in a process of its own; it says on its pipe when it is in its step, and stays there.
Child Job(const std::string& name, size_t bytes, int lane) {
  int ends[2];
  HOCKET_CHECK(pipe(ends) == 0) << "no pipe";
  const pid_t pid = fork();
  if (pid != 0) {
    close(ends[1]);
    return {pid, ends[0]};
  }
  void* memory =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  HOCKET_CHECK(memory != MAP_FAILED) << "no memory";
  auto job = Client::Join({.name = name}, lane == 0 ? "cpu" : "cpu" + std::to_string(lane), "the CPU", 1_GiB);
  HOCKET_CHECK(job.ok()) << job.status();
  HOCKET_CHECK((*job)->BeginStep().ok()) << "no turn";
  const int64_t now = Now();
  HOCKET_CHECK(write(ends[1], &now, sizeof(now)) == sizeof(now)) << "the parent is gone";
  for (;;) pause();
}

int64_t Hear(const Child& child) {
  int64_t at = 0;
  HOCKET_CHECK(read(child.words, &at, sizeof(at)) == sizeof(at)) << "a job ended early";
  return at;
}

int64_t Kill(const Child& child) {
  const int64_t at = Now();
  kill(child.pid, SIGKILL);
  return at;
}

void Reap(const Child& child) {
  while (waitpid(child.pid, nullptr, 0) < 0) {
  }
  close(child.words);
}

void AwaitWaiting(const std::string& name) {
  for (;;) {
    const auto answer = wire::Control(SocketPath(), "explain", "{\"job\":\"" + name + "\"}");
    if (answer.ok() && answer->find("\"state\":\"waits\"") != std::string::npos) return;
  }
}

// From the kill until the next job has the turn, and from the kernel's report of the death.
struct Took {
  int64_t since_kill;
  int64_t since_report;
};

Took KillToTurn(size_t bytes) {
  const Child holder = Job("holder", bytes, 0);
  Hear(holder);
  const Child next = Job("next", 1 << 20, 0);
  AwaitWaiting("next");
  const UniqueFd death(static_cast<int>(syscall(SYS_pidfd_open, holder.pid, 0)));
  HOCKET_CHECK(death) << "no descriptor of the holder";
  const int64_t killed = Kill(holder);
  pollfd report{.fd = death.get(), .events = POLLIN, .revents = 0};
  while (poll(&report, 1, -1) < 0) {
  }
  const int64_t reported = Now();
  const int64_t turn = Hear(next);
  Reap(holder);
  Kill(next);
  Reap(next);
  return {.since_kill = turn - killed, .since_report = turn - reported};
}

int64_t KillToWaitpid(size_t bytes) {
  const Child holder = Job("equal", bytes, 1);
  Hear(holder);
  const int64_t killed = Kill(holder);
  while (waitpid(holder.pid, nullptr, 0) < 0) {
  }
  const int64_t took = Now() - killed;
  close(holder.words);
  return took;
}

void Print(const char* name, const std::vector<int64_t>& values, const char* end) {
  std::printf("\"%s\": [", name);
  for (size_t i = 0; i < values.size(); ++i)
    std::printf("%s%lld", i == 0 ? "" : ", ", static_cast<long long>(values[i]));
  std::printf("]%s", end);
}

}  // namespace
}  // namespace hocket

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const size_t bytes = static_cast<size_t>(std::atoi(argv[2])) << 20;
  std::vector<int64_t> turn, turn_after_report, waitpid;
  const auto kill_holder = [&] {
    const hocket::Took took = hocket::KillToTurn(bytes);
    turn.push_back(took.since_kill);
    turn_after_report.push_back(took.since_report);
  };
  for (int round = 0; round < std::atoi(argv[1]); ++round) {
    const bool first = round % 2 == 0;
    if (first) kill_holder();
    waitpid.push_back(hocket::KillToWaitpid(bytes));
    if (!first) kill_holder();
  }
  std::printf("{");
  hocket::Print("turn", turn, ", ");
  hocket::Print("turn_after_report", turn_after_report, ", ");
  hocket::Print("waitpid", waitpid, "}\n");
}
