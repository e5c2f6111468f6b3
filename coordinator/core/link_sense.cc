#include "coordinator/core/link_sense.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

namespace hocket::coordinator {
namespace {

// So many samples of either kind make an estimate,
constexpr std::size_t kEnough = 3;
// and so many are kept.
constexpr std::size_t kKept = 8;
// A part of which others' bytes took less than this share of the bound shows what a step takes alone.
constexpr double kQuiet = 0.1;
constexpr double kSmall = 0.05;  // a bound above it asks for no less
// One in so many parts is kept quiet: where others' bytes are limited, and so hardly any are lost by it, and
// where they are not.
constexpr int kQuietAgain = 16;
constexpr int kQuietAgainUnlimited = 32;
// Once in so many parts that are limited, others get so many times their share, up to this: otherwise k could
// hardly be told from the noise. It costs 9/128 of the bound, and the quiet parts save 1/16 of it.
constexpr int kBusyAgain = 128;
constexpr double kBusyTimes = 10;
constexpr double kBusyShare = 0.2;
// A part tells k well if others took at least this share of it, or half of what those parts are to have.
constexpr double kTelling = 0.1;
// Of a step: a sample in which others took so much shows it plainly.
constexpr double kPlain = 0.25;
// What a job cannot suffer: something else has happened.
constexpr double kMost = 2;
constexpr double kImplausible = 3;
constexpr double kOdd = 0.25;

}  // namespace

double LinkSense::Usual(double bound) const {
  if (!slowdown_ || *slowdown_ <= bound) return 1;
  return bound / (1 + bound) / *slowdown_;  // of the time that the steps take then
}

double LinkSense::Share(double bound) const {
  if (bound >= 1) return 1;
  const double usual = Usual(bound);
  if (quiet_.size() < kEnough) return quiet_.size() < busy_.size() ? 0 : 1;
  if (since_quiet_ >= (usual < 1 ? kQuietAgain : kQuietAgainUnlimited)) return 0;
  if (usual == 1 || since_busy_ < kBusyAgain) return usual;
  return std::max(usual, std::min(kBusyShare, kBusyTimes * usual));
}

void LinkSense::Add(absl::Duration step, absl::Duration beside, double bound) {
  if (std::exchange(first_, false)) return;
  const double share = absl::FDivDuration(beside, step);
  if (share <= kQuiet * std::min(bound, kSmall)) return AddQuiet(step);
  if (share <= bound / 2) return;
  ++since_quiet_;
  ++since_busy_;
  AddBusy({step, beside}, share, bound);
}

void LinkSense::AddQuiet(absl::Duration step) {
  since_quiet_ = 0;
  const bool odd = quiet_.size() >= kEnough && std::abs(absl::FDivDuration(step, Base()) - 1) > kOdd;
  odd_ = odd ? odd_ + 1 : 0;
  if (odd_ == 1) {
    since_quiet_ = kQuietAgainUnlimited;  // is it so?
    return;
  }
  if (odd_ > 1) {  // another program, as it were
    quiet_.clear();
    busy_.clear();
    slowdown_.reset();
    odd_ = 0;
  }
  quiet_.push_back(step);
  if (quiet_.size() > kKept) quiet_.pop_front();
  Estimate();
}

void LinkSense::AddBusy(const Sample& sample, double share, double bound) {
  if (quiet_.size() >= kEnough && share >= kTelling) {  // where less moved, the noise alone may say so
    const double k = absl::FDivDuration(sample.step - Base(), sample.beside);
    if (k > kImplausible || k < -kOdd) since_quiet_ = kQuietAgainUnlimited;
  }
  // Where others are limited, their small share says less than what is known already.
  const double usual = Usual(bound);
  if (usual < 1 && share < std::min(kTelling, kBusyTimes * usual / 2)) return;
  since_busy_ = 0;
  busy_.push_back(sample);
  if (busy_.size() > kKept) busy_.pop_front();
  Estimate();
}

absl::Duration LinkSense::Base() const {
  std::vector<absl::Duration> steps(quiet_.begin(), quiet_.end());
  const auto middle = steps.begin() + static_cast<std::ptrdiff_t>(steps.size() / 2);
  std::nth_element(steps.begin(), middle, steps.end());
  return *middle;
}

// The k for which |step - base - k * beside|, summed up, is least: the median of what each sample says,
// weighted by `beside`. Where that is large one sample says as much as another.
void LinkSense::Estimate() {
  if (quiet_.size() < kEnough || busy_.size() < kEnough) return;
  const absl::Duration base = Base();
  std::vector<std::pair<double, absl::Duration>> said;  // k, and its weight
  absl::Duration sum;
  for (const Sample& sample : busy_) {
    const absl::Duration weight = std::min(sample.beside, kPlain * base);
    said.emplace_back(absl::FDivDuration(sample.step - base, sample.beside), weight);
    sum += weight;
  }
  std::sort(said.begin(), said.end());
  absl::Duration below;
  for (const auto& [k, weight] : said) {
    below += weight;
    slowdown_ = std::clamp(k, 0.0, kMost);
    if (below >= sum / 2) return;
  }
}

}  // namespace hocket::coordinator
