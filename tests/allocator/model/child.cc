#include "tests/allocator/model/child.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <new>

#include "csrc/base/check.h"
#include "csrc/base/unique_fd.h"

namespace hocket::testing {
namespace {

// What the child leaves behind, whatever becomes of it.
struct Traces {
  std::uint64_t told = 0;
  std::uint64_t applied = 0;
  Tally tally;
};

void RunWorld(absl::FunctionRef<const Operation*()> next, const Extent& extent, Traces& traces) {
  World world(traces.tally);
  while (traces.applied < extent.operations) {
    const Operation* operation = next();
    if (operation == nullptr) break;
    ++traces.told;
    if (!world.Apply(*operation)) continue;
    ++traces.applied;
    if (traces.applied <= extent.checked || operation->IsRare() || traces.applied % kCheckedEvery == 0) {
      world.Check(*operation);
    }
  }
}

std::string ReadAll(int descriptor) {
  std::string all;
  char bytes[4096];
  for (ssize_t count; (count = read(descriptor, bytes, sizeof bytes)) > 0;) {
    all.append(bytes, static_cast<std::size_t>(count));
  }
  return all;
}

}  // namespace

Outcome RunInChild(absl::FunctionRef<const Operation*()> next, const Extent& extent) {
  void* shared = mmap(nullptr, sizeof(Traces), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  HOCKET_CHECK(shared != MAP_FAILED) << "no memory";
  auto& traces = *new (shared) Traces;
  int ends[2];
  HOCKET_CHECK(pipe(ends) == 0) << "no pipe";
  std::fflush(nullptr);
  const pid_t pid = fork();
  HOCKET_CHECK(pid >= 0) << "no process";
  if (pid == 0) {
    dup2(ends[1], STDERR_FILENO);
    close(ends[0]);
    close(ends[1]);
    const rlimit none{0, 0};
    setrlimit(RLIMIT_CORE, &none);
    RunWorld(next, extent, traces);
    std::exit(0);
  }
  close(ends[1]);
  const UniqueFd said(ends[0]);
  Outcome outcome;
  outcome.said = ReadAll(said.get());
  int status = 0;
  waitpid(pid, &status, 0);
  // Of a child that died the device stays, as a name.
  unlink(("/dev/shm/hocket-emulator-" + std::to_string(geteuid()) + "-allocator-test-" + std::to_string(pid))
             .c_str());
  outcome.ok = WIFEXITED(status) && WEXITSTATUS(status) == 0;
  outcome.told = traces.told;
  outcome.applied = traces.applied;
  outcome.tally = traces.tally;
  munmap(shared, sizeof(Traces));
  return outcome;
}

Outcome RunInChild(const Story& story) {
  auto next = story.begin();
  return RunInChild([&] { return next == story.end() ? nullptr : &*next++; }, {});
}

void Run(const Story& story) {
  Traces traces;
  auto next = story.begin();
  RunWorld([&] { return next == story.end() ? nullptr : &*next++; }, {}, traces);
}

}  // namespace hocket::testing
