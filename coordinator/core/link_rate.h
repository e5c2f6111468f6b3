// How fast the host link moves bytes, from what orders have taken: the median of the last ones. Small orders
// are mostly messages and mappings, so those less than half as large as the largest so far (up to a limit) do
// not count.
#ifndef HOCKET_COORDINATOR_CORE_LINK_RATE_H_
#define HOCKET_COORDINATOR_CORE_LINK_RATE_H_

#include <algorithm>
#include <deque>
#include <vector>

#include "absl/time/time.h"
#include "csrc/base/bytes.h"

namespace hocket::coordinator {

// A plain value; it reads no clock.
class LinkRate {
 public:
  // A whole order for so many bytes has taken `took`.
  void Add(Bytes bytes, absl::Duration took) {
    if (bytes == 0 || took <= absl::ZeroDuration() || bytes < largest_ / 2) return;
    largest_ = std::max(largest_, std::min(bytes, kLarge));
    last_.push_back(static_cast<double>(bytes) / absl::ToDoubleSeconds(took));
    if (last_.size() > kKept) last_.pop_front();
    std::vector<double> sorted(last_.begin(), last_.end());
    const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2);
    std::nth_element(sorted.begin(), middle, sorted.end());
    bytes_per_s_ = *middle;
  }

  // 0: not known yet.
  double bytes_per_s() const { return bytes_per_s_; }

  absl::Duration TimeFor(Bytes bytes) const {
    return bytes_per_s_ == 0 ? absl::ZeroDuration()
                             : absl::Seconds(static_cast<double>(bytes) / bytes_per_s_);
  }

  // At the best of the last ones; infinite: not known yet.
  absl::Duration LeastTimeFor(Bytes bytes) const {
    const auto best = std::max_element(last_.begin(), last_.end());
    return best == last_.end() ? absl::InfiniteDuration() : absl::Seconds(static_cast<double>(bytes) / *best);
  }

 private:
  static constexpr Bytes kLarge = Bytes{256} << 20;
  static constexpr std::size_t kKept = 9;

  Bytes largest_ = 0;
  std::deque<double> last_;
  double bytes_per_s_ = 0;
};

}  // namespace hocket::coordinator

#endif  // HOCKET_COORDINATOR_CORE_LINK_RATE_H_
