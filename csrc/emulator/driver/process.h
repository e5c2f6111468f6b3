// What the emulated driver asks the kernel about processes, descriptors and time.
#ifndef HOCKET_CSRC_EMULATOR_DRIVER_PROCESS_H_
#define HOCKET_CSRC_EMULATOR_DRIVER_PROCESS_H_

#include <sys/types.h>

#include <cstdint>
#include <optional>

#include "csrc/base/bytes.h"
#include "csrc/base/unique_fd.h"

namespace hocket::emulator {

std::int64_t MonotonicNs();

// When `pid` was started, in clock ticks since boot; nothing where it is dead (a zombie is).
std::optional<std::int64_t> StartTime(pid_t pid);

// True while `pid` is the process that was started then.
bool ProcessLives(pid_t pid, std::int64_t start_time);

// The same file at a descriptor above the standard three, closed on exec.
UniqueFd AboveStandard(UniqueFd fd);

// How much of [address, address + size) has pages of memory behind it; 0 where that cannot be told.
Bytes Resident(std::uint64_t address, Bytes size);

// True where part of [address, address + size) is a writable shared mapping of a file that is kept on a disk,
// which the kernel pins for no device: it could not tell when to write it back.
bool IsFileOnDisk(std::uint64_t address, Bytes size);

// Lets the process open as many descriptors as the kernel permits it.
void RaiseDescriptorLimit();

}  // namespace hocket::emulator

#endif  // HOCKET_CSRC_EMULATOR_DRIVER_PROCESS_H_
