// Timing mode: the driver's memory calls take their modelled time (timing/cost.h) in the thread that makes
// them.
//
//   CallTime time;                        // first of the call's locals, so that it ends last
//   ... the call is served ...
//   if (result == kSuccess) time.Creates(device, size);
//
// A call that was served faster than its model says waits for the rest, in its destructor: nobody's lock is
// held then, and other threads and processes go on. What a call did is said mapping by mapping; a device of
// kOnHost stands for the host's memory. Outside timing mode, and where nothing is said, nothing waits.
//
// An access of the device waits, for each mapping, until the engine that copies from the device to the host
// has nothing left to do for anybody, at most CallCosts::access_behind_copy_us. Other calls beside such
// copies take longer by a factor.
#ifndef HOCKET_CSRC_EMULATOR_DRIVER_CALL_TIME_H_
#define HOCKET_CSRC_EMULATOR_DRIVER_CALL_TIME_H_

#include "csrc/base/bytes.h"
#include "csrc/emulator/driver/device_memory.h"
#include "csrc/emulator/timing/cost.h"
#include "csrc/emulator/timing/stream_engine.h"

namespace hocket::emulator {

class CallTime {
 public:
  // The call begins. REQUIRES: Gpu::Ready().
  CallTime();
  // Returns when it has lasted long enough.
  ~CallTime();
  CallTime(const CallTime&) = delete;
  CallTime& operator=(const CallTime&) = delete;

  // True in timing mode: what the call concerns is worth finding out.
  bool Counts() const { return engine_ != nullptr; }

  void Creates(int device, Bytes size);
  void Maps(int device, Bytes size);
  // `to` may reach the mapping from now on, or may no more: a device or, kOnHost, the host itself.
  void LetsReach(int to, const Extent& mapping);
  // Also what was the memory's last bond.
  void Unmaps(const Extent& mapping);
  // A handle of memory; only the last bond costs.
  void Releases(const Extent& memory);
  // Host memory is pinned, of which `touched` bytes had pages before.
  void Pins(Bytes size, Bytes touched);
  void AllocatesOnHost(Bytes size);

 private:
  void Add(const timing::CallCost& cost, Bytes size, double factor = 1);
  // Whether copies that way are under way, of whom ever. REQUIRES: Counts().
  bool Copies(int device, timing::Engine direction);
  // Of a call beside copies to the host, if any run.
  double Factor(int device);

  timing::StreamEngine* const engine_;  // nullptr: outside timing mode
  const timing::CallCosts& costs_;
  timing::Nanos due_ = 0;  // when the call may return
};

}  // namespace hocket::emulator

#endif  // HOCKET_CSRC_EMULATOR_DRIVER_CALL_TIME_H_
