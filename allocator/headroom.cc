#include "allocator/headroom.h"

#include <algorithm>

namespace hocket {
namespace {

// An allocation that eats into it a chunk at a time does not say so each time.
constexpr Bytes kSteps = 8;

}  // namespace

void Headroom::Renew() {
  unasked_ = 0;
  told_ = 0;
}

Bytes Headroom::LackingAfter(Bytes taken, FreeNow free_now) {
  if (size_ == 0) return 0;
  if (taken < unasked_) {
    unasked_ -= taken;
    return 0;
  }
  const std::optional<Bytes> free = free_now();
  if (!free) return 0;
  const Bytes lacking = Below(*free);
  unasked_ = (*free - std::min(size_, *free)) / 2;
  told_ = std::min(told_, lacking);  // others have given some since
  if (lacking == 0 || lacking < told_ + size_ / kSteps) return 0;
  return told_ = lacking;
}

Bytes Headroom::LackingWhere(Bytes free) const {
  const Bytes lacking = Below(free);
  return lacking < size_ / kSteps ? 0 : lacking;
}

bool Headroom::CanSpare(Bytes wanted, FreeNow free_now) {
  if (size_ == 0 || spent_turns_ > 0) return true;
  if (wanted < unasked_) {
    unasked_ -= wanted;
    return true;
  }
  const std::optional<Bytes> free = free_now();
  if (!free) return true;
  if (*free < size_ || *free - size_ < wanted) return false;
  unasked_ = (*free - size_ - wanted) / 2;
  return true;
}

}  // namespace hocket
