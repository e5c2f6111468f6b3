#include "allocator/survivors.h"

#include <algorithm>
#include <utility>

#include "csrc/base/check.h"

namespace hocket {

void Survivors::BeginStep() {
  if (depth_++ > 0) return;
  std::swap(now_, last_);
  now_.clear();
  cursor_ = 0;
  ++step_;
}

void Survivors::EndStep() {
  HOCKET_CHECK(depth_ > 0) << "a step ends that was not begun";
  --depth_;
}

const Survivors::Entry* Survivors::Align(Bytes size) {
  const std::size_t end = std::min(last_.size(), cursor_ + kWindow);
  for (std::size_t i = cursor_; i < end; ++i) {
    if (last_[i].size != size) continue;
    cursor_ = i + 1;
    return &last_[i];
  }
  return nullptr;
}

Birth Survivors::Allocated(Bytes size, bool* survives) {
  if (!InStep()) {
    *survives = true;
    return {};
  }
  const Entry* before = Align(size);
  *survives = before != nullptr && before->survives;
  now_.push_back({size, true});
  return {step_, static_cast<std::uint32_t>(now_.size() - 1)};
}

void Survivors::Freed(Birth birth) {
  if (InStep() && birth.step == step_) now_[birth.index].survives = false;
}

}  // namespace hocket
