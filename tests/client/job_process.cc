// A job of its own process, for tests with a real coordinator: job_process NAME STEPS.
//
// Each step takes a lock that only a living process can hold, without waiting, and so proves that it has the
// turn alone; then writes a byte to stdout. Exit status 3: it was not alone.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "csrc/client/client.h"
#include "csrc/client/lane_lock.h"

int main(int argc, char** argv) {
  const int steps = std::atoi(argv[2]);
  auto job = hocket::Client::Join({.name = argv[1]}, "cpu", "the CPU", 0);
  if (!job.ok()) {
    std::fprintf(stderr, "%s\n", std::string(job.status().message()).c_str());
    return 2;
  }
  hocket::LaneLock alone;
  alone.SetPath(std::string(std::getenv("HOCKET_RUNTIME_DIR")) + "/alone");
  for (int i = 0; i < steps; ++i) {
    if (!(*job)->BeginStep().ok()) return 4;
    if (!alone.TryAcquire().ok()) return 3;
    usleep(500);  // the step's work
    alone.Release();
    (*job)->EndStep();
    if (write(STDOUT_FILENO, "s", 1) != 1) return 5;
  }
  return static_cast<int>((*job)->Info().steps) == steps ? 0 : 6;
}
