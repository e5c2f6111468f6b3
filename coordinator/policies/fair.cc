#include "coordinator/policies/fair.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"

namespace hocket::coordinator {

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

double Fair::UserServed(const JobView& job) const {
  auto user = users_.find(job.user);
  return user == users_.end() ? floor_ : user->second.served;
}

double Fair::JobServed(const JobView& job) const {
  auto user = users_.find(job.user);
  if (user == users_.end()) return 0;
  auto served = user->second.jobs.find(job.id);
  return served == user->second.jobs.end() ? user->second.floor : served->second;
}

bool Fair::Before(const JobView& a, const JobView& b) const {
  if (a.user != b.user) return UserServed(a) < UserServed(b);
  return JobServed(a) < JobServed(b);
}

std::string Fair::Reason(const JobView& next) const {
  return absl::StrFormat("least device time for its weight (%.3g)", Share(next));
}

absl::Duration Fair::Keep(const JobView& holder, absl::Duration held, const GpuView& gpu) const {
  const JobView next = InOrder(*this, gpu).front();
  const double seconds = absl::ToDoubleSeconds(held);
  const double behind = next.user == holder.user
                            ? (JobServed(next) - JobServed(holder)) * Share(holder) - seconds
                            : UserServed(next) - UserServed(holder) - seconds;
  return std::max(absl::ZeroDuration(), absl::Seconds(behind));
}

void Fair::Asked(const JobView& job) {
  User& user = users_.try_emplace(job.user, User{.served = floor_}).first->second;
  user.served = std::max(user.served, floor_);
  double& served = user.jobs[job.id];
  served = std::max(served, user.floor);
}

void Fair::Granted(const JobView& job) {
  Asked(job);
  User& user = users_[job.user];
  floor_ = user.served;
  user.floor = user.jobs[job.id];
}

void Fair::Charge(const JobView& job, absl::Duration device_time) {
  User& user = users_[job.user];
  user.served += absl::ToDoubleSeconds(device_time);
  user.jobs[job.id] += absl::ToDoubleSeconds(device_time) / Share(job);
}

void Fair::Forget(EntityId job) {
  for (auto& [uid, user] : users_) user.jobs.erase(job);
}

}  // namespace hocket::coordinator
