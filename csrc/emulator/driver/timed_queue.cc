#include "csrc/emulator/driver/timed_queue.h"

#include <algorithm>
#include <utility>

namespace hocket::emulator {
namespace {

timing::Nanos NanosOf(const Operation& operation) {
  const auto over = [&](double bytes_per_microsecond) {
    return static_cast<timing::Nanos>(static_cast<double>(operation.bytes) / bytes_per_microsecond * 1000);
  };
  switch (operation.engine) {
    case Engine::kToDevice:
      return over(kToDeviceRate);
    case Engine::kToHost:
      return over(kToHostRate);
    case Engine::kOnDevice:
      return over(kOnDeviceRate);
    default:
      return operation.nanoseconds;
  }
}

timing::Engine EngineOf(Engine engine) {
  if (engine == Engine::kToDevice) return timing::Engine::kToDevice;
  return engine == Engine::kToHost ? timing::Engine::kToHost : timing::Engine::kCompute;
}

timing::Work::Kind KindOf(const Operation& operation) {
  if (operation.calls_program) return timing::Work::Kind::kHost;
  return operation.engine == Engine::kNone ? timing::Work::Kind::kMark : timing::Work::Kind::kTimed;
}

bool Moves(const Operation& operation) {
  return operation.engine == Engine::kNone || operation.bytes <= kMovedBytes;
}

}  // namespace

std::uint64_t TimedQueue::Submit(Operation operation) {
  timing::Work work;
  work.kind = KindOf(operation);
  work.engine = EngineOf(operation.engine);
  work.duration = std::max<timing::Nanos>(1, NanosOf(operation));
  work.prompt = operation.seen_by_others;
  if (Moves(operation)) work.action = std::move(operation.action);
  for (const Point& point : operation.after) {
    if (const auto* other = dynamic_cast<TimedQueue*>(point.progress.get())) {
      work.after.push_back({other->stream_, point.number});
    } else {
      point.Wait();  // an event of another process: its time is not on this process's timeline
    }
  }
  return engine_.Submit(stream_, std::move(work));
}

}  // namespace hocket::emulator
