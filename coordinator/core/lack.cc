#include "coordinator/core/lack.h"

#include <algorithm>
#include <limits>

#include "coordinator/core/limits.h"

namespace hocket::coordinator {
namespace {

Bytes Plus(Bytes a, Bytes b) { return a + std::min(b, std::numeric_limits<Bytes>::max() - a); }

}  // namespace

Bytes RoomSum::Now() const {
  Bytes sum = Plus(free, returning);
  for (const Holder& other : others) sum = Plus(sum, std::min(other.gives, other.resident));
  return sum;
}

Bytes RoomSum::Later() const {
  Bytes sum = Plus(free, returning);
  for (const Holder& other : others)
    sum = Plus(sum, other.comes_back ? other.resident : std::min(other.gives, other.resident));
  return sum;
}

Outlook RoomSum::outlook() const {
  if (wanted <= Now()) return Outlook::kNow;
  return wanted <= Later() ? Outlook::kLater : Outlook::kNever;
}

void TriedInVain(Shortage& shortage, Bytes bytes, std::uint64_t departures, absl::Time now) {
  shortage.bytes = bytes;
  shortage.departures = departures;
  shortage.pause = std::clamp(2 * shortage.pause, kLeastLackPause, kMostLackPause);
  shortage.retry_at = now + shortage.pause;
}

}  // namespace hocket::coordinator
