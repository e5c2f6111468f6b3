// What the driver tells the emulated runtime and the operators (csrc/emulator/emulator_api.h).
#include "csrc/emulator/emulator_api.h"

#include <algorithm>
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
#include "csrc/emulator/driver/one_operator.h"
#include "csrc/emulator/timing/cost.h"

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
struct Running {
  Ticket ticket;
  bool captured = false;
};
thread_local std::vector<Running> running;

// Recordings under way on this thread: their kernels are part of one node.
thread_local int recordings = 0;

const char* KeptForEver(const char* name) {
  static std::mutex& mutex = *new std::mutex;
  static std::set<std::string>& names = *new std::set<std::string>;
  const std::lock_guard lock(mutex);
  return names.insert(name).first->c_str();
}

// Check mode names operations long after they are over, so their names are kept.
const char* Kept(const char* name) { return Gpu::Get().order() == nullptr ? name : KeptForEver(name); }

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
  return Operation{.name = KeptForEver(name), .engine = Engine::kCompute, .nanoseconds = -1};
}

void KeepBytes(const StreamState& stream, const HocketEmulatorRange& range) {
  DeviceMemory& memory = Gpu::Get().memory();
  if (range.write == 0 || range.bytes == 0 || !memory.window().HasDeviceAddress(range.address)) return;
  const char* bytes = reinterpret_cast<const char*>(range.address) + memory.window().alias_offset();
  Gpu::Get().captures().KeepBytes(stream, range.address, bytes, range.bytes);
}

int AccessOf(const HocketEmulatorRange& range) {
  return range.write != 0 ? hocket::cuda::kAccessReadWrite : hocket::cuda::kAccessRead;
}

// A range that is not all mapped, or not for writing, ends the process, before the kernel would.
void CheckMapped(const char* name, const HocketEmulatorRange& range) {
  DeviceMemory& memory = Gpu::Get().memory();
  if (range.bytes == 0 || !memory.window().HasDeviceAddress(range.address)) return;
  if (memory.Accessible(range.address, range.bytes, AccessOf(range))) return;
  if (memory.Accessible(range.address, range.bytes)) {
    hocket_emulator_fatal(
        absl::StrFormat("kernel %s writes %d bytes at 0x%x, which is mapped for reading only.", name,
                        range.bytes, range.address)
            .c_str());
  }
  hocket_emulator_fatal(
      absl::StrFormat("kernel %s touched unmapped device memory: it %s %d bytes at 0x%x (%s).", name,
                      range.write != 0 ? "writes" : "reads", range.bytes, range.address,
                      memory.Nearest(range.address))
          .c_str());
}

// Not mapped, or mapped to the host's memory, may be what a job's turn changes.
bool IsResident(const HocketEmulatorRange& range) {
  const DeviceMemory& memory = Gpu::Get().memory();
  if (range.bytes == 0 || !memory.window().HasDeviceAddress(range.address)) return true;
  return memory.IsResident(range.address, range.bytes, AccessOf(range));
}

bool AreResident(const HocketEmulatorRange* ranges, size_t count) {
  return std::all_of(ranges, ranges + count, IsResident);
}

// From BeginInline() on the stream is at work, so nobody who waits for it moves what the kernel uses.
bool BeginKernelOn(StreamState& stream, const char* name, const HocketEmulatorRange* ranges, size_t count,
                   bool resident) {
  Captures& captures = Gpu::Get().captures();
  const bool captured = captures.IsCapturing(stream);
  // A device would compute nothing now: no use counts, and what is overwritten comes back.
  const Ticket ticket = stream.BeginInline(Kept(name), captured ? std::vector<Use>() : UsesOf(ranges, count));
  if (resident && !AreResident(ranges, count)) {
    stream.EndInline();
    return false;
  }
  if (captured && recordings == 0) captures.Add(stream, NotReplayable(name));
  for (size_t i = 0; captured && i < count; ++i) KeepBytes(stream, ranges[i]);
  running.push_back({ticket, captured});
  BeginKernel(name);
  return true;
}

}  // namespace

HOCKET_DRIVER_API int hocket_emulator_is_timing(void) { return Settings::Get().timing ? 1 : 0; }

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
  (void)BeginKernelOn(*stream, name, ranges, count, /*resident=*/false);
}

HOCKET_DRIVER_API int hocket_emulator_begin_resident_kernel(HocketEmulatorStream handle, const char* name,
                                                            const HocketEmulatorRange* ranges, size_t count) {
  const auto stream = StreamOrDie(handle, name);
  if (!AreResident(ranges, count)) return 0;
  return BeginKernelOn(*stream, name, ranges, count, /*resident=*/true) ? 1 : 0;
}

HOCKET_DRIVER_API void hocket_emulator_end_kernel(HocketEmulatorStream handle,
                                                  const HocketEmulatorRange* ranges, size_t count) {
  EndKernel();
  if (running.empty()) hocket_emulator_fatal("hocket_emulator_end_kernel() without a begin on this thread.");
  Order* order = Gpu::Get().order();
  if (order != nullptr && !running.back().captured) order->Uses(running.back().ticket, UsesOf(ranges, count));
  running.pop_back();
  StreamOrDie(handle, "(ending)")->EndInline();
}

HOCKET_DRIVER_API int hocket_emulator_any_capture(void) {
  return Gpu::IfStarted() != nullptr && Gpu::Get().captures().Any() ? 1 : 0;
}

HOCKET_DRIVER_API int hocket_emulator_is_capturing(HocketEmulatorStream handle) {
  const auto stream = Gpu::Get().FindStream(static_cast<hocket::Stream>(handle));
  return stream != nullptr && Gpu::Get().captures().IsCapturing(*stream) ? 1 : 0;
}

HOCKET_DRIVER_API void hocket_emulator_begin_recording(void) { ++recordings; }

HOCKET_DRIVER_API void hocket_emulator_end_recording(HocketEmulatorStream handle, const char* name,
                                                     const HocketEmulatorRange* ranges, size_t count,
                                                     int (*compute)(void*), void* data, void (*drop)(void*)) {
  if (recordings == 0)
    hocket_emulator_fatal("hocket_emulator_end_recording() without a begin on this thread.");
  --recordings;
  if (compute == nullptr) return;
  const auto stream = StreamOrDie(handle, name);
  std::shared_ptr<void> kept(data, drop);
  const std::vector<HocketEmulatorRange> touched(ranges, ranges + count);
  Gpu::Get().captures().Add(*stream, Operation{.name = KeptForEver(name),
                                               .engine = Engine::kCompute,
                                               .uses = UsesOf(ranges, count),
                                               .compute = [kept, compute, touched, name = KeptForEver(name)] {
                                                 for (const HocketEmulatorRange& range : touched)
                                                   CheckMapped(name, range);
                                                 return compute(kept.get()) == 0;
                                               }});
}

HOCKET_DRIVER_API void hocket_emulator_launch(HocketEmulatorStream handle, const char* name,
                                              double microseconds) {
  if (operators_under_way > 0) return;
  const auto nanoseconds = static_cast<std::int64_t>(microseconds * 1000);
  StreamOrDie(handle, name)
      ->Submit(Operation{.name = name, .engine = Engine::kCompute, .nanoseconds = nanoseconds});
}

HOCKET_DRIVER_API void hocket_emulator_begin_operator(void) { ++operators_under_way; }

HOCKET_DRIVER_API void hocket_emulator_end_operator(HocketEmulatorStream handle, const char* name, int of,
                                                    int element, double operations, double bytes) {
  if (operators_under_way == 0)
    hocket_emulator_fatal("hocket_emulator_end_operator() without a begin on this thread.");
  if (--operators_under_way > 0 || (operations <= 0 && bytes <= 0)) return;
  const timing::KernelWork work = {static_cast<timing::OperatorClass>(of), bytes, operations, element};
  hocket_emulator_launch(handle, name, timing::CostModel::Default().KernelMicroseconds(name, work));
}

HOCKET_DRIVER_API void hocket_emulator_lose(int error) {
  if (Gpu::IfStarted() != nullptr) Gpu::Lose(error);
}

HOCKET_DRIVER_API int hocket_emulator_lost(void) { return Gpu::Lost(); }

HOCKET_DRIVER_API void hocket_emulator_fatal(const char* message) {
  std::fprintf(stderr, "hocket: %s\n", message);
  std::abort();
}
