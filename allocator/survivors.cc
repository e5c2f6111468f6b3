#include "allocator/survivors.h"

#include <algorithm>
#include <utility>

#include "csrc/base/check.h"

namespace hocket {

bool Survivors::BeginStep() {
  if (depth_++ > 0) return false;
  if (!now_.empty() || step_ == 0) {  // an empty step has taught nothing
    std::swap(now_, last_);
    ++step_;
    gone_.resize(last_.size());
    std::swap(departures_, left_between_);
    left_between_.clear();
  }
  now_.clear();
  alignment_.Restart();
  clock_ = 0;
  return true;
}

bool Survivors::EndStep() {
  HOCKET_CHECK(depth_ > 0) << "a step ends that was not begun";
  return --depth_ == 0;
}

bool Survivors::Predict(Bytes size, Stream stream) {
  if (!InStep()) return true;
  const Alignment::Match match = alignment_.Next(last_, size, stream);
  if (!match.found || !match.sure || !last_[match.index].survives()) return false;
  return step_ != kFirst + 1 || gone_[match.index];
}

Birth Survivors::Allocated(Bytes size, Stream stream) {
  if (!InStep() || now_.size() > kLongestStep) return {};
  now_.push_back({.size = size, .stream = stream, .born = clock_++, .freed = StepEntry::kAlive});
  return {step_, static_cast<std::uint32_t>(now_.size() - 1)};
}

void Survivors::Freed(Birth birth, DevicePtr address) {
  if (birth.step == 0) return;
  if (InStep() && birth.step == step_) {
    now_[birth.index].freed = clock_++;
    return;
  }
  if (birth.step == step_) left_between_.push_back({birth.index, address, 0});
  if (birth.step + 1 == step_) departures_.push_back({birth.index, address, clock_});
  if (birth.step == kFirst && step_ <= kFirst + 1) {
    gone_.resize(std::max(now_.size(), last_.size()));
    gone_[birth.index] = true;
  }
}

bool Survivors::Repeats() const {
  return std::equal(
      now_.begin(), now_.end(), last_.begin(), last_.end(),
      [](const StepEntry& a, const StepEntry& b) { return a.size == b.size && a.stream == b.stream; });
}

}  // namespace hocket
