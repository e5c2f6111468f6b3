// What policies are shown of jobs, gangs and devices.
#include <algorithm>
#include <utility>

#include "coordinator/core/core.h"
#include "coordinator/core/limits.h"

namespace hocket::coordinator {

// Steps of this turn that nobody has reported yet, by the measured time of a step.
std::uint64_t Core::StepsSince(const Job& job) const {
  const absl::Duration ran = now_ - job.granted - job.ready.mean() - job.stood;
  if (job.turn == 0 || job.step.mean() <= absl::ZeroDuration() || ran <= absl::ZeroDuration()) return 0;
  const std::uint64_t run = static_cast<std::uint64_t>(absl::FDivDuration(ran, job.step.mean()));
  const std::uint64_t reported = job.steps - job.steps_before;
  return run > reported ? run - reported : 0;
}

double Core::WeightOf(unsigned user) const {
  if (state_.quotas.empty()) return 1;
  const auto quota = state_.quotas.find(Owner::User(user));
  return quota == state_.quotas.end() || quota->second.weight == 0 ? 1 : quota->second.weight;
}

JobView Core::ViewOf(EntityId entity) const {
  JobView view{.id = entity, .asked = absl::InfiniteFuture(), .left = absl::InfinitePast(), .now = now_};
  view.weight = 0;
  view.priority = Priority::kLow;
  for (JobId id : RanksOf(entity)) {
    const Job& rank = job(id);
    view.user = rank.user;
    view.user_weight = WeightOf(rank.user);
    view.weight = std::max(view.weight, rank.info.weight);
    view.priority = std::max(view.priority, rank.priority);
    if (rank.waiting) view.asked = std::min(view.asked, rank.asked);
    view.left = std::max(view.left, rank.left);
    view.served =
        std::max(view.served, rank.held + (rank.turn != 0 ? now_ - rank.granted : absl::ZeroDuration()));
    view.steps = std::max(view.steps, rank.steps + StepsSince(rank));
    view.total_steps = std::max(view.total_steps, rank.info.total_steps);
    if (rank.step.mean() >= view.step.mean()) view.step = rank.step;
    if (now_ - rank.alone_at < kAloneGoodFor) view.alone = rank.alone;
    if (rank.gap.mean() >= view.gap.mean()) view.gap = rank.gap;
    if (rank.ready.mean() >= view.ready.mean()) view.ready = rank.ready;
    view.last_ready = std::max(view.last_ready, rank.last_ready);
    view.last_passage = std::max(view.last_passage, rank.last_passage);
  }
  return view;
}

// The rank that counts in the entity's view. REQUIRES: the entity is known.
const Job& Core::SlowestOf(EntityId entity, Estimator Job::*time) const {
  const Ranks ranks = RanksOf(entity);
  const Job* slowest = &job(ranks.front());
  for (JobId id : ranks) {
    if ((job(id).*time).mean() >= (slowest->*time).mean()) slowest = &job(id);
  }
  return *slowest;
}

GpuView Core::ViewOf(const Device& device, const Entities& entities) const {
  GpuView view{.capacity = device.capacity};
  view.waiting.reserve(entities.size());
  for (EntityId entity : entities) view.waiting.push_back(ViewOf(entity));
  return view;
}

}  // namespace hocket::coordinator
