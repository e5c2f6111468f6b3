#include "csrc/emulator/driver/timed_queue.h"

#include <algorithm>
#include <utility>

#include "csrc/emulator/timing/cost.h"

namespace hocket::emulator {
namespace {

timing::Engine EngineOf(Engine engine) {
  if (engine == Engine::kToDevice) return timing::Engine::kToDevice;
  return engine == Engine::kToHost ? timing::Engine::kToHost : timing::Engine::kCompute;
}

timing::Nanos NanosOf(const Operation& operation) {
  const timing::CostModel& costs = timing::CostModel::Default();
  if (operation.engine == Engine::kCompute) return operation.nanoseconds;
  if (operation.engine == Engine::kOnDevice)
    return timing::FromMicroseconds(costs.CopyMicroseconds(operation.bytes));
  return timing::FromMicroseconds(costs.CopyMicroseconds(EngineOf(operation.engine), operation.bytes));
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
  if (work.kind == timing::Work::Kind::kTimed) work.duration = std::max<timing::Nanos>(1, NanosOf(operation));
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
