// What the driver tells the emulated runtime and the operators (csrc/emulator/emulator_api.h).
#include "csrc/emulator/emulator_api.h"

#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "csrc/emulator/driver/abi.h"
#include "csrc/emulator/driver/faults.h"
#include "csrc/emulator/driver/gpu.h"

using namespace hocket::emulator;  // NOLINT: one file of forwarding functions

namespace {

std::shared_ptr<StreamState> StreamOrDie(HocketEmulatorStream handle, const char* name) {
  auto stream = Gpu::Get().FindStream(static_cast<hocket::Stream>(handle));
  if (stream == nullptr) {
    hocket_emulator_fatal(
        absl::StrFormat("kernel %s was launched on %p, which is no stream.", name, handle).c_str());
  }
  return stream;
}

// Kernels under way on this thread, the innermost last.
thread_local std::vector<Ticket> tickets;

// Check mode names operations long after they are over, so their names are kept.
const char* Kept(const char* name) {
  if (Gpu::Get().order() == nullptr) return name;
  static std::mutex& mutex = *new std::mutex;
  static std::set<std::string>& names = *new std::set<std::string>;
  const std::lock_guard lock(mutex);
  return names.insert(name).first->c_str();
}

// The uses that check mode wants to know; none outside it.
std::vector<Use> UsesOf(const HocketEmulatorRange* ranges, size_t count) {
  if (Gpu::Get().order() == nullptr) return {};
  std::vector<Use> uses;
  for (size_t i = 0; i < count; ++i) {
    const bool device = Gpu::Get().memory().window().HasDeviceAddress(ranges[i].address);
    if (!device && !Gpu::Get().host().IsPinned(ranges[i].address, ranges[i].bytes)) continue;
    uses.push_back({ranges[i].address, ranges[i].bytes, ranges[i].write != 0});
  }
  return uses;
}

// In values mode a captured kernel has run once, at its capture; a launch of the graph cannot run it again.
Operation NotReplayable(const char* name) {
  return Operation{.name = Kept(name), .engine = Engine::kCompute, .nanoseconds = -1};
}

// A range that is not all mapped ends the process, before the kernel would.
void CheckMapped(const char* name, const HocketEmulatorRange& range) {
  DeviceMemory& memory = Gpu::Get().memory();
  if (range.bytes == 0 || !memory.window().HasDeviceAddress(range.address)) return;
  if (memory.Accessible(range.address, range.bytes)) return;
  hocket_emulator_fatal(
      absl::StrFormat("kernel %s touched unmapped device memory: it %s %d bytes at 0x%x (%s).", name,
                      range.write != 0 ? "writes" : "reads", range.bytes, range.address,
                      memory.Nearest(range.address))
          .c_str());
}

}  // namespace

HOCKET_DRIVER_API int hocket_emulator_is_timing(void) { return Settings::Get().timing ? 1 : 0; }

HOCKET_DRIVER_API int hocket_emulator_is_checking(void) { return Settings::Get().check ? 1 : 0; }

HOCKET_DRIVER_API ptrdiff_t hocket_emulator_alias_offset(void) {
  Gpu::Start();
  return Gpu::Get().memory().window().alias_offset();
}

HOCKET_DRIVER_API int hocket_emulator_is_device_address(uint64_t address) {
  const Gpu* gpu = Gpu::IfStarted();
  return gpu != nullptr && Gpu::Get().memory().window().HasDeviceAddress(address) ? 1 : 0;
}

HOCKET_DRIVER_API void hocket_emulator_begin_kernel(HocketEmulatorStream handle, const char* name,
                                                    const HocketEmulatorRange* ranges, size_t count) {
  const auto stream = StreamOrDie(handle, name);
  for (size_t i = 0; i < count; ++i) CheckMapped(name, ranges[i]);
  if (Gpu::Get().captures().IsCapturing(*stream)) Gpu::Get().captures().Add(*stream, NotReplayable(name));
  const Ticket ticket = stream->BeginInline(Kept(name), UsesOf(ranges, count));
  tickets.push_back(ticket);
  BeginKernel(name);
}

HOCKET_DRIVER_API void hocket_emulator_end_kernel(HocketEmulatorStream handle,
                                                  const HocketEmulatorRange* ranges, size_t count) {
  EndKernel();
  if (tickets.empty()) hocket_emulator_fatal("hocket_emulator_end_kernel() without a begin on this thread.");
  if (Order* order = Gpu::Get().order()) order->Uses(tickets.back(), UsesOf(ranges, count));
  tickets.pop_back();
  StreamOrDie(handle, "(ending)")->EndInline();
}

HOCKET_DRIVER_API void hocket_emulator_launch(HocketEmulatorStream handle, const char* name,
                                              double microseconds) {
  const auto nanoseconds = static_cast<std::int64_t>(microseconds * 1000);
  StreamOrDie(handle, name)
      ->Submit(Operation{.name = name, .engine = Engine::kCompute, .nanoseconds = nanoseconds});
}

HOCKET_DRIVER_API void hocket_emulator_fatal(const char* message) {
  std::fprintf(stderr, "hocket: %s\n", message);
  std::abort();
}
