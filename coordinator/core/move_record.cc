#include "coordinator/core/move_record.h"

#include <algorithm>

#include "coordinator/core/state.h"

namespace hocket::coordinator {
namespace {

Bytes Difference(Bytes a, Bytes b) { return std::max(a, b) - std::min(a, b); }

}  // namespace

void MoveRecord::Add(Foretold foretold, const Moved& moved) {
  if (moved.bytes == 0) foretold.time.reset();
  ++moves_;
  coordinator::Add(moved.bytes, moved_.bytes);
  coordinator::Add(moved.copied, moved_.copied);
  moved_.time += moved.time;
  coordinator::Add(foretold.bytes, foretold_bytes_);
  coordinator::Add(Difference(moved.bytes, foretold.bytes), bytes_off_);
  last_foretold_ = foretold;
  last_moved_ = moved;
  if (!foretold.time) return;
  ++timed_;
  timed_time_ += moved.time;
  foretold_time_ += *foretold.time;
  time_off_ += absl::AbsDuration(moved.time - *foretold.time);
}

std::optional<double> MoveRecord::BytesError() const {
  if (moved_.bytes == 0) return std::nullopt;
  return static_cast<double>(bytes_off_) / static_cast<double>(moved_.bytes);
}

std::optional<double> MoveRecord::TimeError() const {
  if (timed_time_ <= absl::ZeroDuration()) return std::nullopt;
  return absl::FDivDuration(time_off_, timed_time_);
}

}  // namespace hocket::coordinator
