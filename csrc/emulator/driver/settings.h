// How the emulated GPU is to be, read once from the environment (`hocket emulate` sets it).
#ifndef HOCKET_CSRC_EMULATOR_DRIVER_SETTINGS_H_
#define HOCKET_CSRC_EMULATOR_DRIVER_SETTINGS_H_

#include <chrono>
#include <string>

#include "csrc/base/bytes.h"
#include "csrc/emulator/emulator_api.h"

namespace hocket::emulator {

inline constexpr int kMaxDevices = HOCKET_EMULATOR_MAX_DEVICES;

struct Settings {
  std::string name = "default";   // HOCKET_EMULATOR_NAME
  Bytes memory = Bytes{8} << 30;  // HOCKET_EMULATOR_MEMORY, of each device
  int devices = 1;                // HOCKET_EMULATOR_DEVICES, 1 to kMaxDevices
  bool peers = false;             // HOCKET_EMULATOR_PEERS=1: devices say that they are peers
  bool host_mapping = true;       // HOCKET_EMULATOR_HOST_MAPPING=0: no host memory at device addresses
  bool timing = false;            // HOCKET_EMULATOR_MODE=timing
  bool check = false;             // HOCKET_EMULATOR_CHECK=1
  bool exclusive = false;         // HOCKET_EMULATOR_EXCLUSIVE=1: compute mode "exclusive process"
  bool all_users = false;         // HOCKET_EMULATOR_ALL_USERS=1: one device for all, as a GPU is
  std::chrono::microseconds copy_delay{0};  // HOCKET_EMULATOR_COPY_DELAY_US, added to each copy
  // HOCKET_EMULATOR_LOST_MEMORY_CALLS=1: once a kernel has failed, calls that need no context (cuMemCreate,
  // cuMemUnmap, ...) answer its error, too
  bool lost_memory_calls = false;
  Bytes stream_memory = 0;  // HOCKET_EMULATOR_STREAM_MEMORY, taken by each stream made

  // What scripts/calibrate takes over from a GPU's record. The default is what tests and examples want of a
  // device: nothing but the program takes memory or time. Not so a GPU: on one H200 (driver 580.159.04,
  // docs/results/h200-2026-11-26/record.json) a context takes 523.6 MiB and 125 ms, and a killed process's
  // 4 GiB are back after 68 ms. Contexts elsewhere, as users report them: 256 MiB (RTX 3090, unsloth-zoo
  // issue 1053), 426 MiB (RTX 6000 Ada, InvokeAI issue 9413).
  std::chrono::milliseconds teardown{0};  // HOCKET_EMULATOR_TEARDOWN_MS
  Bytes context_memory = 0;               // HOCKET_EMULATOR_CONTEXT_MEMORY, taken by each context
  std::chrono::milliseconds context{0};   // HOCKET_EMULATOR_CONTEXT_MS, taken by its making
  // HOCKET_EMULATOR_SLICE_US, timing mode's time slice. That H200's is 2,318 us; NVIDIA documents none (its
  // developer forum, thread 156566, asks in vain what the driver's "default" is).
  std::chrono::microseconds slice{2000};

  Bytes granularity = Bytes{2} << 20;  // HOCKET_EMULATOR_GRANULARITY, the unit of mapping; today's GPUs'

  // The settings of this process. Those that HOCKET_EMULATOR_COSTS's file knows it says where no variable
  // does (timing/cost.h). A value that cannot be read ends the process with a message that names the variable
  // and the text.
  static const Settings& Get();
};

}  // namespace hocket::emulator

#endif  // HOCKET_CSRC_EMULATOR_DRIVER_SETTINGS_H_
