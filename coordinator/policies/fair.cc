#include "coordinator/policies/fair.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace hocket::coordinator {
namespace {

constexpr double kFade = 0.98;       // of the longest turn, for each turn
constexpr double kMostCredit = 120;  // seconds of device time: two of the longest quantum

// As %.3g, which is long code to run for each turn: weights are mostly small whole numbers.
std::string ThreeDigits(double value) {
  const bool small = value >= 0 && value < 1000;
  if (small && std::trunc(value) == value) return absl::StrCat(static_cast<int>(value));
  return absl::StrFormat("%.3g", value);
}

}  // namespace

double Fair::Share(const JobView& job) {
  switch (job.priority) {
    case Priority::kHigh:
      return job.weight * 4;
    case Priority::kLow:
      return job.weight / 4;
    case Priority::kNormal:
      break;
  }
  return job.weight;
}

// Less than the floor by the credit at most.
double Fair::Group::Enter(double own, double second) const {
  return std::max(own, floor - std::clamp(2 * longest, second, kMostCredit * second));
}

void Fair::Group::Added(double time) { longest = std::max(time, longest * kFade); }

double Fair::UserServed(const JobView& job) const {
  auto user = users_.find(job.user);
  return user == users_.end() ? all_.floor : user->second.served;
}

double Fair::JobServed(const JobView& job) const {
  auto user = users_.find(job.user);
  if (user == users_.end()) return 0;
  auto served = user->second.jobs.find(job.id);
  return served == user->second.jobs.end() ? user->second.jobs_of.floor : served->second;
}

// Users who have had as much are in an order, too, or their jobs could not be sorted.
bool Fair::Before(const JobView& a, const JobView& b) const {
  if (a.user != b.user) {
    const double of_a = UserServed(a), of_b = UserServed(b);
    return of_a != of_b ? of_a < of_b : a.user < b.user;
  }
  return JobServed(a) < JobServed(b);
}

std::string Fair::Reason(const JobView& next) const {
  return absl::StrCat("least device time for its weight (", ThreeDigits(Share(next)), ")");
}

std::string Fair::Standing(const JobView& job) const {
  return absl::StrFormat("device time over weight %.3g: %.3g s, the one picked last %.3g s", Share(job),
                         JobServed(job), users_.contains(job.user) ? users_.at(job.user).jobs_of.floor : 0);
}

absl::Duration Fair::Keep(const JobView& holder, absl::Duration held, const GpuView& gpu) const {
  const JobView next = FirstOf(gpu);
  const double seconds = absl::ToDoubleSeconds(held);
  const double behind = next.user == holder.user
                            ? (JobServed(next) - JobServed(holder)) * Share(holder) - seconds
                            : (UserServed(next) - UserServed(holder)) * holder.user_weight - seconds;
  return std::max(absl::ZeroDuration(), absl::Seconds(behind));
}

absl::Duration Fair::KeepFree(const JobView& absent, const JobView& next) const {
  if (!absent.gap.known() || !Before(absent, next)) return absl::ZeroDuration();
  const bool short_gap =
      absent.gap.mean() <= absent.step.mean() && absent.gap.Upper() <= next.step.mean() / 2;
  // A little longer: of a gap that never varies the upper bound is the gap, and the Wait comes after it.
  return short_gap ? absent.gap.Upper() + absent.gap.mean() / 16 : absl::ZeroDuration();
}

void Fair::Asked(const JobView& job) {
  auto [user, new_user] = users_.try_emplace(job.user);
  user->second.served = new_user ? all_.floor : all_.Enter(user->second.served, 1 / job.user_weight);
  Group& group = user->second.jobs_of;
  auto [served, new_job] = user->second.jobs.try_emplace(job.id, group.floor);
  if (!new_job) served->second = group.Enter(served->second, 1 / Share(job));
}

void Fair::Granted(const JobView& job) {
  Asked(job);
  User& user = users_[job.user];
  all_.floor = std::max(all_.floor, user.served);
  user.jobs_of.floor = std::max(user.jobs_of.floor, user.jobs[job.id]);
}

void Fair::Charge(const JobView& job, absl::Duration device_time, bool contended) {
  User& user = users_[job.user];
  const double seconds = absl::ToDoubleSeconds(device_time);
  user.served += seconds / job.user_weight;
  user.jobs[job.id] += seconds / Share(job);
  if (!contended) {  // what nobody else wanted is nobody's debt: who comes now starts from there
    all_.floor = std::max(all_.floor, user.served);
    user.jobs_of.floor = std::max(user.jobs_of.floor, user.jobs[job.id]);
    return;
  }
  all_.Added(seconds / job.user_weight);
  user.jobs_of.Added(seconds / Share(job));
}

void Fair::Forget(EntityId job) {
  for (auto& [uid, user] : users_) user.jobs.erase(job);
}

}  // namespace hocket::coordinator
