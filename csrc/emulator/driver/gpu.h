// The emulated GPU of this process: everything behind the driver's functions, in one place.
//
//   SharedState   what all processes see               (shared_state.h)
//   DeviceMemory  addresses and chunks                 (device_memory.h)
//   HostMemory    pinned ranges of host memory         (host_memory.h)
//   contexts      one per device, each with its default stream
//   StreamEngine  timing mode: the process's streams on the modelled timeline (csrc/emulator/timing)
//   streams, events, graphs: behind the handles that programs hold
//
// It is made by cuInit() and lives until the process ends; then the queues stop, memory is given back and
// every call answers kDeinitialized. Once a kernel has failed, calls that work on a device answer its error.
// In a forked child every call answers kNotInitialized, the chunks' descriptors are closed and their mappings
// are gone.
#ifndef HOCKET_CSRC_EMULATOR_DRIVER_GPU_H_
#define HOCKET_CSRC_EMULATOR_DRIVER_GPU_H_

#include <array>
#include <atomic>
#include <memory>

#include "csrc/emulator/driver/device_memory.h"
#include "csrc/emulator/driver/host_memory.h"
#include "csrc/emulator/driver/settings.h"
#include "csrc/emulator/driver/shared_state.h"
#include "csrc/emulator/driver/streams.h"
#include "csrc/emulator/timing/stream_engine.h"

namespace hocket::emulator {

class Gpu {
 public:
  // cuInit().
  static cuda::Result Start();
  // kSuccess, or why no call can be served now.
  static cuda::Result Ready();
  // A kernel of this process has failed with `error` (an assertion on the device, an illegal address): what
  // is queued is not done, and from now on every call that works on a device answers that error, as on a GPU,
  // until the process has ended. The first one counts.
  static void Lose(cuda::Result error);
  // kSuccess: no kernel has failed.
  static cuda::Result Lost();
  // REQUIRES: Ready().
  static Gpu& Get();
  // nullptr before cuInit() and in a forked child. For the fault handler.
  static Gpu* IfStarted();

  const Settings& settings() const { return settings_; }
  SharedState& state() { return state_; }
  DeviceMemory& memory() { return memory_; }
  HostMemory& host() { return host_; }
  Streams& streams() { return streams_; }
  Captures& captures() { return streams_.captures(); }
  // Check mode; nullptr outside it.
  Order* order() { return order_.get(); }
  Events& events() { return events_; }
  // Timing mode; nullptr outside it.
  timing::StreamEngine* engine() { return engine_.get(); }

  bool IsDevice(int device) const { return device >= 0 && device < state_.devices(); }
  // Makes the device's primary context where it has none; its overhead counts from then on. Errors as
  // SharedState::AddContext() has them.
  cuda::Result MakeContext(int device);
  // REQUIRES: it was made.
  Context* PrimaryContext(int device) const { return contexts_[device].load(); }
  // True when some thread has made the device's context.
  bool HasContext(int device) const { return contexts_[device].load() != nullptr; }
  // The context a handle names, nullptr for one that we never gave.
  Context* Find(cuda::Context handle) const;

  // The stream behind `handle`, the default streams' special names included, in the thread's context.
  // nullptr: not (or no longer) a stream.
  std::shared_ptr<StreamState> FindStream(Stream handle);

 private:
  Gpu();
  void OpenTimelines();
  std::shared_ptr<WorkQueue> MakeQueue(int device);
  static void BeforeFork();
  static void InParent();
  static void InChild();
  static void AtExit();

  const Settings& settings_;
  SharedState state_;
  DeviceMemory memory_;
  HostMemory host_;
  const std::unique_ptr<Order> order_;
  std::unique_ptr<timing::StreamEngine> engine_;  // timing mode
  Streams streams_;
  Events events_;
  std::mutex contexts_mutex_;
  std::array<std::atomic<Context*>, kMaxDevices> contexts_ = {};
};

// The calling thread's context and what it pushed before; nullptr: none.
Context* CurrentContext();
void SetCurrentContext(Context* context);
// kOutOfMemory where 64 are.
cuda::Result PushContext(Context* context);
// kInvalidContext when nothing was pushed or set.
cuda::Result PopContext(Context** context);

}  // namespace hocket::emulator

// First line of every driver function that needs to know the device only: it is answered whatever has failed.
#define HOCKET_ENTER_QUERY()                                                                         \
  do {                                                                                               \
    if (const ::hocket::cuda::Result not_ready = ::hocket::emulator::Gpu::Ready()) return not_ready; \
  } while (false)

// First line of every other one.
#define HOCKET_ENTER()                                                                    \
  do {                                                                                    \
    HOCKET_ENTER_QUERY();                                                                 \
    if (const ::hocket::cuda::Result lost = ::hocket::emulator::Gpu::Lost()) return lost; \
  } while (false)

#endif  // HOCKET_CSRC_EMULATOR_DRIVER_GPU_H_
