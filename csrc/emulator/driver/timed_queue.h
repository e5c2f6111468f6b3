// Timing mode: a queue on the device's modelled timeline (csrc/emulator/timing).
//
// Kernels take the time they say; copies take their bytes over the rate of the link (timing/cost.h). Small
// copies (up to kMovedBytes) move their bytes when they end, so that a program can read a counter or a flag;
// larger ones move none.
#ifndef HOCKET_CSRC_EMULATOR_DRIVER_TIMED_QUEUE_H_
#define HOCKET_CSRC_EMULATOR_DRIVER_TIMED_QUEUE_H_

#include <memory>

#include "csrc/emulator/driver/work_queue.h"
#include "csrc/emulator/timing/stream_engine.h"

namespace hocket::emulator {

inline constexpr Bytes kMovedBytes = Bytes{64} << 10;

class TimedQueue final : public WorkQueue {
 public:
  // `engine` is borrowed; `device` is opened in it.
  TimedQueue(timing::StreamEngine& engine, int device)
      : engine_(engine), stream_(engine.CreateStream(device)) {}

  std::uint64_t Submit(Operation operation) override;
  std::uint64_t last() const override { return stream_->last(); }
  bool Done(std::uint64_t number) override { return engine_.Done(*stream_, number); }
  void Wait(std::uint64_t number) override { engine_.Wait(*stream_, number); }
  // Something that is computed although nothing is: it waits for what is before it, and takes no time.
  void BeginInline() override { Wait(last()); }
  void EndInline() override {}
  // The engine is stopped as a whole; it drops nothing that has a queue left.
  void Stop() override {}
  void Close() override {}

 private:
  timing::StreamEngine& engine_;
  const std::shared_ptr<timing::Stream> stream_;
};

}  // namespace hocket::emulator

#endif  // HOCKET_CSRC_EMULATOR_DRIVER_TIMED_QUEUE_H_
