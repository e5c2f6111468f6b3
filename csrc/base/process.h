// What the kernel says of a process in /proc/<pid>/stat.
#ifndef HOCKET_CSRC_BASE_PROCESS_H_
#define HOCKET_CSRC_BASE_PROCESS_H_

#include <cstdint>
#include <optional>

namespace hocket {

struct ProcessState {
  char state = '?';         // field 3: R, S, D; T and t: stopped, by a signal or a debugger
  std::uint64_t start = 0;  // field 22, in clock ticks since the boot: tells a pid from its next bearer
};

// None where there is no such process, or it has ended and is only not collected yet.
std::optional<ProcessState> ReadProcess(int pid);

}  // namespace hocket

#endif  // HOCKET_CSRC_BASE_PROCESS_H_
