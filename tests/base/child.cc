#include "tests/base/child.h"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "csrc/base/unique_fd.h"

namespace hocket::testing {

ChildEnd RunForked(absl::FunctionRef<void()> run) {
  int ends[2];
  HOCKET_CHECK(pipe(ends) == 0) << "no pipe";
  std::fflush(nullptr);
  ChildEnd child;
  child.pid = fork();
  HOCKET_CHECK(child.pid >= 0) << "no process";
  if (child.pid == 0) {
    dup2(ends[1], STDERR_FILENO);
    close(ends[0]);
    close(ends[1]);
    const rlimit none{0, 0};
    setrlimit(RLIMIT_CORE, &none);
    run();
    std::exit(0);
  }
  close(ends[1]);
  const UniqueFd reading(ends[0]);
  char bytes[4096];
  for (ssize_t count; (count = read(reading.get(), bytes, sizeof bytes)) > 0;)
    child.said.append(bytes, static_cast<std::size_t>(count));
  int status = 0;
  waitpid(child.pid, &status, 0);
  child.ok = WIFEXITED(status) && WEXITSTATUS(status) == 0;
  return child;
}

std::uint64_t Wanted(const char* variable, std::uint64_t otherwise) {
  const char* text = std::getenv(variable);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

}  // namespace hocket::testing
