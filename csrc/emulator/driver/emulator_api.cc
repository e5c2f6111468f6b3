// What the driver tells the emulated runtime and the operators (csrc/emulator/emulator_api.h).
#include "csrc/emulator/emulator_api.h"

#include <cstdio>
#include <cstdlib>

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
  stream->Wait();
  for (size_t i = 0; i < count; ++i) CheckMapped(name, ranges[i]);
  BeginKernel(name);
}

HOCKET_DRIVER_API void hocket_emulator_end_kernel(HocketEmulatorStream, const HocketEmulatorRange*, size_t) {
  EndKernel();
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
