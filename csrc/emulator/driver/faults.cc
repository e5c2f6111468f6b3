#include "csrc/emulator/driver/faults.h"

#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "csrc/emulator/driver/gpu.h"
#include "csrc/emulator/driver/work_queue.h"

namespace hocket::emulator {
namespace {

struct sigaction previous_segv, previous_bus;

// Names of the kernels under way; a thread has one place while it runs one.
constexpr int kPlaces = 64;
std::array<std::atomic<const char*>, kPlaces> kernels = {};
thread_local int my_place = -1;
thread_local const char* my_kernel = nullptr;

// The process ends here, so what the handler calls need not be safe in others' signal handlers: a lock that
// this very thread holds would be the only danger, and no lock of ours is held while device memory is
// touched.
std::string Describe(Gpu& gpu, std::uint64_t address) {
  const Window& window = gpu.memory().window();
  if (window.HasDeviceAddress(address)) {
    return absl::StrFormat(
        "host access to device address 0x%x (%s). Device memory cannot be read or written by the host; copy "
        "it.",
        address, gpu.memory().Nearest(address));
  }
  const DevicePtr device_address = address - window.alias_offset();
  return absl::StrFormat("%s touched unmapped device memory at 0x%x (%s).", WhoTouched(), device_address,
                         gpu.memory().Nearest(device_address));
}

void Chain(const struct sigaction& previous, int signal, siginfo_t* info, void* context) {
  if ((previous.sa_flags & SA_SIGINFO) != 0 && previous.sa_sigaction != nullptr) {
    previous.sa_sigaction(signal, info, context);
  } else if (previous.sa_handler != SIG_DFL && previous.sa_handler != SIG_IGN) {
    previous.sa_handler(signal);
  } else {
    sigaction(signal, &previous, nullptr);  // the instruction runs again and ends the process
  }
}

void OnFault(int signal, siginfo_t* info, void* context) {
  Gpu* gpu = Gpu::IfStarted();
  const auto address = reinterpret_cast<std::uint64_t>(info->si_addr);
  if (gpu == nullptr || address - gpu->memory().window().base() >= 2 * gpu->memory().window().size()) {
    Chain(signal == SIGSEGV ? previous_segv : previous_bus, signal, info, context);
    return;
  }
  const std::string message = absl::StrCat("hocket: ", Describe(*gpu, address), "\n");
  if (write(STDERR_FILENO, message.data(), message.size()) < 0) _exit(128 + signal);
  std::signal(signal, SIG_DFL);  // the instruction runs again and ends the process
}

}  // namespace

void InstallFaultHandler() {
  struct sigaction action = {};
  action.sa_sigaction = &OnFault;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
  sigemptyset(&action.sa_mask);
  sigaction(SIGSEGV, &action, &previous_segv);
  sigaction(SIGBUS, &action, &previous_bus);
}

void BeginKernel(const char* name) {
  my_kernel = name;
  for (int i = 0; my_place < 0 && i < kPlaces; ++i) {
    const char* free = nullptr;
    if (kernels[i].compare_exchange_strong(free, name)) my_place = i;
  }
}

void EndKernel() {
  my_kernel = nullptr;
  if (my_place >= 0) kernels[my_place] = nullptr;
  my_place = -1;
}

std::string WhoTouched() {
  if (my_kernel != nullptr) return absl::StrCat("kernel ", my_kernel);
  if (const char* operation = CurrentOperation()) return operation;
  std::string names;
  for (const std::atomic<const char*>& kernel : kernels) {
    if (const char* name = kernel) absl::StrAppend(&names, names.empty() ? "" : " or ", name);
  }
  return absl::StrCat("kernel ", names.empty() ? "(unknown)" : names);
}

}  // namespace hocket::emulator
