// What happens when somebody touches device memory that is not there, or touches it from the host.
//
// A handler for SIGSEGV and SIGBUS, put in by cuInit() in front of the program's own, says who touched which
// device address and ends the process by the same signal. Faults elsewhere go to the handler that
// was there before.
#ifndef HOCKET_CSRC_EMULATOR_DRIVER_FAULTS_H_
#define HOCKET_CSRC_EMULATOR_DRIVER_FAULTS_H_

#include <string>

namespace hocket::emulator {

void InstallFaultHandler();

// Kernels under way in this process, by the thread that began them (their work may be done by helper
// threads that carry no name).
void BeginKernel(const char* name);
void EndKernel();

// "kernel add" | "memory copy" | "a kernel (add or mul)": what a fault on this thread is blamed on.
std::string WhoTouched();

}  // namespace hocket::emulator

#endif  // HOCKET_CSRC_EMULATOR_DRIVER_FAULTS_H_
