#include "coordinator/simulator/cluster.h"

#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include "coordinator/policies/registry.h"

namespace hocket::coordinator {
namespace {

// A job as it is played. Its index in the workload, plus one, is its id.
struct PlayedGang {
  JobView view;
  int devices = 0;
  absl::Duration left;     // of its steps
  absl::Duration restart;  // to be paid before that
  bool runs = false;
  SimulatedEnd end;
};

class Cluster {
 public:
  Cluster(const std::vector<SimulatedJob>& workload, const SimulationOptions& options)
      : options_(options), policy_(*MakePolicy(options.policy)) {
    for (const SimulatedJob& job : workload) gangs_.push_back(Enter(job, gangs_.size() + 1));
  }

  SimulationResult Run() {
    SimulationResult result;
    for (auto next = gangs_.begin(); next != gangs_.end() || !active_.empty();) {
      const absl::Duration arrival = next == gangs_.end() ? absl::InfiniteDuration() : next->end.arrival;
      Advance(std::min(arrival, FirstEnd()), result);
      for (; next != gangs_.end() && next->end.arrival <= now_; ++next) active_[next->view.id] = &*next;
      PlaceAll(result);
    }
    for (const PlayedGang& gang : gangs_) result.jobs.push_back(gang.end);
    result.makespan = now_;
    return result;
  }

 private:
  static PlayedGang Enter(const SimulatedJob& job, EntityId id) {
    PlayedGang gang{.view = {.id = id, .user = job.user, .weight = job.weight}, .devices = job.devices};
    const absl::Duration step = absl::Milliseconds(job.step_ms) + absl::Milliseconds(job.gap_ms);
    gang.view.step = Estimate(std::max(step, absl::Nanoseconds(1)));
    gang.view.total_steps = job.told();
    gang.left = gang.view.step.mean() * static_cast<std::int64_t>(job.steps);
    gang.end = {.name = job.name, .arrival = absl::Seconds(job.arrival_s), .alone = gang.left};
    gang.end.first_step = absl::InfiniteDuration();
    gang.view.asked = absl::UnixEpoch() + gang.end.arrival;
    return gang;
  }

  absl::Duration FirstEnd() const {
    absl::Duration first = absl::InfiniteDuration();
    for (const auto& [id, gang] : active_) {
      if (gang->runs) first = std::min(first, now_ + gang->restart + gang->left);
    }
    return first;
  }

  // Those that run do so until `then`; those that are done go.
  void Advance(absl::Duration then, SimulationResult& result) {
    const absl::Duration passed = then - now_;
    now_ = then;
    for (auto at = active_.begin(); at != active_.end();) {
      PlayedGang& gang = *at->second;
      if (gang.runs) {
        const absl::Duration restart = std::min(gang.restart, passed);
        gang.restart -= restart;
        gang.left -= passed - restart;
        result.busy += (passed - restart) * gang.devices;
        gang.view.steps = gang.view.total_steps - std::min(gang.view.total_steps, StepsLeft(gang));
      }
      const bool done = gang.left <= absl::ZeroDuration();
      if (done) gang.end.end = now_;
      gang.end.steps = gang.view.steps;
      at = done ? active_.erase(at) : std::next(at);
    }
  }

  static std::uint64_t StepsLeft(const PlayedGang& gang) {
    absl::Duration rest;
    return static_cast<std::uint64_t>(absl::IDivDuration(gang.left, gang.view.step.mean(), &rest)) +
           (rest > absl::ZeroDuration() ? 1 : 0);
  }

  void PlaceAll(SimulationResult& result) {
    std::vector<JobView> views;
    for (const auto& [id, gang] : active_) views.push_back(gang->view);
    free_.assign(static_cast<size_t>(options_.nodes), options_.devices);
    for (const JobView& view : policy_->Order(std::move(views))) {
      PlayedGang& gang = *active_.at(view.id);
      const bool ran = std::exchange(gang.runs, Take(gang.devices));
      if (!gang.runs || ran) continue;
      gang.restart = options_.hand_over;
      gang.end.first_step = std::min(gang.end.first_step, now_);
      ++result.turns;
    }
  }

  // Devices, on one node or on whole ones; false: there are not enough now.
  bool Take(int devices) {
    const int on_each = std::min(devices, options_.devices);
    std::vector<int*> nodes;
    for (int& free : free_) {
      if (free >= on_each) nodes.push_back(&free);
    }
    const auto needed = static_cast<size_t>((devices + on_each - 1) / on_each);
    if (nodes.size() < needed) return false;
    for (size_t i = 0; i < needed; ++i) *nodes[i] -= on_each;
    return true;
  }

  const SimulationOptions options_;
  const std::unique_ptr<Policy> policy_;
  std::vector<PlayedGang> gangs_;           // in the order of arrival
  std::map<EntityId, PlayedGang*> active_;  // have come, and are not done
  std::vector<int> free_;                   // devices of each node
  absl::Duration now_;
};

}  // namespace

SimulationResult SimulateCluster(const std::vector<SimulatedJob>& workload,
                                 const SimulationOptions& options) {
  return Cluster(workload, options).Run();
}

}  // namespace hocket::coordinator
