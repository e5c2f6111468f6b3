// Threads and locks as every part of the emulator makes them.
#ifndef HOCKET_CSRC_EMULATOR_TIMING_SYSTEM_H_
#define HOCKET_CSRC_EMULATOR_TIMING_SYSTEM_H_

#include <pthread.h>

#include <functional>
#include <thread>

namespace hocket::emulator::timing {

// Starts a thread on which no signal is delivered: they are the program's. Faults of its own are.
std::thread StartQuietly(std::function<void()> body);

// A lock in memory that processes share; who takes it after its owner has died is told so (EOWNERDEAD).
void InitializeShared(pthread_mutex_t& mutex);

}  // namespace hocket::emulator::timing

#endif  // HOCKET_CSRC_EMULATOR_TIMING_SYSTEM_H_
