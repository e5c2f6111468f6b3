// The kernels that libraries of this process have registered, by the address of their host functions. A
// host function is what the program calls to launch a kernel: nvcc makes one for each, and its address is
// what launches and registrations name.
//
// nvcc's start-up code registers every kernel when its library is loaded: tens of thousands for torch. So
// registering only appends; names are sorted out when the first one is asked for.
#ifndef HOCKET_CSRC_EMULATOR_RUNTIME_KERNELS_H_
#define HOCKET_CSRC_EMULATOR_RUNTIME_KERNELS_H_

#include <string>

namespace hocket::emulator {

// The mangled name of the kernel behind a host function; "(unregistered kernel)" if nobody registered it.
const char* KernelName(const void* host_function);

// The same, as a person writes it, without its parameters.
std::string ReadableKernelName(const void* host_function);

// True for the kernel of torch.cuda._sleep(), which computes nothing and only takes time.
bool IsSpin(const char* name);

}  // namespace hocket::emulator

#endif  // HOCKET_CSRC_EMULATOR_RUNTIME_KERNELS_H_
