#include "csrc/emulator/driver/process.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <fstream>
#include <string>

namespace hocket::emulator {
namespace {

// A file that is gone, or was never there (memfd, /dev/zero), counts as none.
bool KeptOnDisk(const std::string& path) {
  struct statfs info;
  if (path.front() != '/' || statfs(path.c_str(), &info) != 0) return false;
  const auto type = static_cast<unsigned long>(info.f_type);
  return type != TMPFS_MAGIC && type != RAMFS_MAGIC && type != HUGETLBFS_MAGIC;
}

}  // namespace

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

bool IsFileOnDisk(std::uint64_t address, Bytes size) {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    std::uint64_t begin = 0, end = 0;
    char permissions[5] = {};
    int path = 0;
    if (std::sscanf(line.c_str(), "%" SCNx64 "-%" SCNx64 " %4s %*s %*s %*s %n", &begin, &end, permissions,
                    &path) != 3 ||
        end <= address) {
      continue;
    }
    if (begin >= address + size) return false;
    const bool shared = permissions[1] == 'w' && permissions[3] == 's';
    if (shared && line.size() > static_cast<std::size_t>(path) && KeptOnDisk(line.substr(path))) return true;
  }
  return false;
}

void RaiseDescriptorLimit() {
  rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace hocket::emulator
