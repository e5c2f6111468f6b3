// A policy such as a user may have written, at its worst: it answers at random. As of any own policy
// (coordinator/own/own_policy.h), the answer to the same question is the same until time passes or it is told
// something. Whatever it says is an order of those that wait, and in the long run everybody comes first.
#ifndef HOCKET_TESTS_COORDINATOR_CAPRICIOUS_POLICY_H_
#define HOCKET_TESTS_COORDINATOR_CAPRICIOUS_POLICY_H_

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "coordinator/policies/policy.h"

namespace hocket::coordinator {

class CapriciousPolicy final : public Policy {
 public:
  // The same seed and the same questions give the same answers, everywhere.
  explicit CapriciousPolicy(std::uint64_t seed) : seed_(seed) {}

  std::vector<JobView> Order(std::vector<JobView> waiting) const override {
    if (waiting.empty()) return waiting;
    std::mt19937_64 dice = DiceFor(waiting.front().now, waiting);
    for (std::size_t left = waiting.size(); left > 1; --left)
      std::swap(waiting[left - 1], waiting[dice() % left]);
    return waiting;
  }
  bool Before(const JobView& a, const JobView& b) const override {
    return a.id != b.id && Order({a, b}).front().id == a.id;
  }
  std::string Reason(const JobView& next) const override { return "so it pleases the dice"; }
  // As long as an own policy may say, now and then.
  absl::Duration Keep(const JobView& holder, absl::Duration held, const GpuView& gpu) const override {
    std::mt19937_64 dice = DiceFor(holder.now, gpu.waiting);
    switch (dice() % 8) {
      case 0:
        return absl::Milliseconds(dice() % 3'600'000);
      case 1:
        return absl::Milliseconds(dice() % 2000);
      case 2:
      case 3:
        return absl::Microseconds(dice() % 20'000);
      default:
        return absl::ZeroDuration();
    }
  }
  void Asked(const JobView& job) override { ++told_; }
  void Granted(const JobView& job) override { ++told_; }
  void Charge(const JobView& job, absl::Duration device_time, bool contended) override { ++told_; }
  void Forget(EntityId job) override { ++told_; }

 private:
  std::mt19937_64 DiceFor(absl::Time now, const std::vector<JobView>& jobs) const {
    std::uint64_t question = seed_ + told_ * 1'000'003 + static_cast<std::uint64_t>(absl::ToUnixNanos(now));
    for (const JobView& job : jobs) question = question * 1'000'003 + job.id;
    return std::mt19937_64(question);
  }

  const std::uint64_t seed_;
  std::uint64_t told_ = 0;
};

}  // namespace hocket::coordinator

#endif  // HOCKET_TESTS_COORDINATOR_CAPRICIOUS_POLICY_H_
