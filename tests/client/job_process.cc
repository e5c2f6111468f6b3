// A job of its own process, for tests with a real coordinator: job_process NAME STEPS.
//
// Each step takes a lock that only a living process can hold, without waiting, and so proves that it has the
// turn alone; then writes a byte to stdout. Exit status 3: it was not alone, and stderr says beside whom.
#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "csrc/base/unique_fd.h"
#include "csrc/client/client.h"

namespace {

bool Sets(int alone, short type) {
  struct flock lock {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  if (fcntl(alone, F_SETLK, &lock) == 0) return true;
  (void)fcntl(alone, F_GETLK, &lock);
  std::fprintf(stderr, "process %d works beside process %d\n", getpid(), lock.l_pid);
  return false;
}

}  // namespace

int main(int argc, char** argv) {
  const int steps = std::atoi(argv[2]);
  // Opened before the job's own lane: of a killed process the kernel closes the lowest descriptor first, and
  // the next job must not find this lock held after the turn's is free.
  const hocket::UniqueFd alone(open((std::string(std::getenv("HOCKET_RUNTIME_DIR")) + "/alone").c_str(),
                                    O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  auto job = hocket::Client::Join({.name = argv[1]}, "cpu", "the CPU", 0);
  if (!job.ok()) {
    std::fprintf(stderr, "%s\n", std::string(job.status().message()).c_str());
    return 2;
  }
  for (int i = 0; i < steps; ++i) {
    if (!(*job)->BeginStep().ok()) return 4;
    if (!Sets(alone.get(), F_WRLCK)) return 3;
    usleep(500);  // the step's work
    (void)Sets(alone.get(), F_UNLCK);
    (*job)->EndStep();
    if (write(STDOUT_FILENO, "s", 1) != 1) return 5;
  }
  return static_cast<int>((*job)->Info().steps) == steps ? 0 : 6;
}
