#include "csrc/client/mapping_times.h"

#include <algorithm>

namespace hocket {

void MappingTimes::Spilled(Time now) {
  if (map_at_ == Time::max()) map_at_ = now + after_;
}

void MappingTimes::Asked(Time now) {
  asked_ = now;
  near_.reset();
}

void MappingTimes::IsNear(Time at) {
  if (asked_) near_ = at;
}

void MappingTimes::TurnBegan(Time now, bool moved) {
  if (asked_ && moved) waits_.push_back(now - *asked_);
  if (waits_.size() > kRemembered) waits_.pop_front();
  asked_.reset();
  near_.reset();
  map_at_ = unmap_at_ = Time::max();
  mapping_took_ = Clock::duration(0);
}

std::optional<MappingTimes::Window> MappingTimes::Expected() const {
  if (near_) return Window{.from = *near_ - margin_ - mapping_took_, .until = *near_ + kNear};
  if (!asked_ || waits_.empty()) return std::nullopt;
  Clock::duration shortest = waits_.back(), longest = waits_.back();
  for (auto wait = waits_.rbegin(); wait != waits_.rend(); ++wait) {
    const Clock::duration least = std::min(shortest, *wait), most = std::max(longest, *wait);
    if (most - least > std::max(kAlike, least / kAlikePart)) break;
    shortest = least, longest = most;
  }
  const Clock::duration margin = std::max(margin_, shortest / kMarginPart);
  return Window{.from = *asked_ + shortest - margin - mapping_took_, .until = *asked_ + longest + margin};
}

MappingTimes::Due MappingTimes::Next() const {
  const Due map = {Action::kMap, map_at_};
  const std::optional<Window> window = Expected();
  if (!window) return map;
  const bool worth_it = map_at_ <= window->from - after_;
  const Time unmap_at = std::max(unmap_at_, window->from);
  if (worth_it && map_at_ <= unmap_at) return map;
  if (unmap_at < window->until) return {Action::kUnmap, unmap_at};
  return {Action::kMap, map_at_ == Time::max() ? map_at_ : std::max(map_at_, window->until)};
}

void MappingTimes::Begins(Action action) { (action == Action::kMap ? map_at_ : unmap_at_) = Time::max(); }

// What was taken away is mapped again, unless the turn comes first.
void MappingTimes::Did(Action action, Clock::duration took, bool more, Time again) {
  if (action == Action::kMap) {
    mapping_took_ += took;
    unmap_at_ = std::min(unmap_at_, again);
    if (more) map_at_ = std::min(map_at_, again);
  } else {
    if (more) unmap_at_ = std::min(unmap_at_, again);
    map_at_ = std::min(map_at_, again);
  }
}

}  // namespace hocket
