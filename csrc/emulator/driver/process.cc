#include "csrc/emulator/driver/process.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <string>

namespace hocket::emulator {

std::int64_t MonotonicNs() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

std::optional<std::int64_t> StartTime(pid_t pid) {
  char text[1024];
  std::snprintf(text, sizeof(text), "/proc/%d/stat", static_cast<int>(pid));
  const UniqueFd file(open(text, O_RDONLY | O_CLOEXEC));
  if (!file) return std::nullopt;
  const ssize_t length = read(file.get(), text, sizeof(text) - 1);
  if (length <= 0) return std::nullopt;
  text[length] = '\0';
  const char* rest = std::strrchr(text, ')');  // the name before it may hold anything
  char state = 0;
  long threads = 0;
  long long start = 0;
  if (rest == nullptr ||
      std::sscanf(rest + 1,
                  " %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %ld %*d "
                  "%lld",
                  &state, &threads, &start) != 3) {
    return std::nullopt;
  }
  // The first thread of a living process may have ended before the others.
  if (state == 'X' || (state == 'Z' && threads <= 1)) return std::nullopt;
  return start;
}

bool ProcessLives(pid_t pid, std::int64_t start_time) { return StartTime(pid) == start_time; }

UniqueFd AboveStandard(UniqueFd fd) {
  if (!fd || fd.get() > STDERR_FILENO) return fd;
  return UniqueFd(fcntl(fd.get(), F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
}

Bytes Resident(std::uint64_t address, Bytes size) {
  const auto page = static_cast<Bytes>(sysconf(_SC_PAGESIZE));
  constexpr Bytes kStep = 4096;  // pages asked about at once
  std::uint64_t at = address / page * page;
  const std::uint64_t end = address + size;
  Bytes pages = 0;
  while (at < end) {
    unsigned char resident[kStep];
    const Bytes length = std::min<Bytes>(kStep * page, end - at);
    if (mincore(reinterpret_cast<void*>(at), length, resident) != 0) return 0;
    pages +=
        std::count_if(resident, resident + (length + page - 1) / page, [](unsigned char r) { return r & 1; });
    at += kStep * page;
  }
  return std::min(pages * page, size);
}

void RaiseDescriptorLimit() {
  rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace hocket::emulator
