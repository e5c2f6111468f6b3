#include "coordinator/simulator/simulator.h"

#include <algorithm>
#include <deque>
#include <limits>
#include <queue>
#include <set>
#include <tuple>
#include <utility>

#include "coordinator/policies/registry.h"
#include "coordinator/simulator/node.h"
#include "coordinator/simulator/queue.h"

namespace hocket::coordinator {
namespace {

// The clock, the start-ups, and where jobs are placed.
class Simulation {
 public:
  Simulation(const std::vector<SimulatedJob>& workload, const SimulationOptions& options)
      : options_(options),
        policy_(options.policy == kQueue ? std::make_unique<Queue>() : *MakePolicy(options.policy)),
        one_at_a_time_(options.policy == kQueue || options.policy == "srtf") {
    for (int d = 0; d < options.devices; ++d) {
      nodes_.push_back(
          std::make_unique<Node>(options, [this, d](absl::Time at, JobId id) { Plan(at, d, id); }));
      by_jobs_.insert({0, d});
    }
    players_.resize(workload.size());
    for (size_t i = 0; i < workload.size(); ++i) Enter(players_[i], workload[i], i + 1);
  }

  SimulationResult Run() {
    while (!events_.empty()) {
      const Due due = events_.top();
      events_.pop();
      now_ = due.at;
      Happen(due);
    }
    SimulationResult result;
    for (const Player& player : players_) {
      result.jobs.push_back(player.end);
      result.makespan = std::max(result.makespan, player.end.end);
    }
    for (const auto& node : nodes_) {
      result.busy += node->busy();
      result.turns += node->turns();
      result.moved += node->moved();
    }
    return result;
  }

 private:
  static constexpr int kArrives = -1, kStarted = -2;
  struct Due {
    absl::Time at;
    std::uint64_t number;  // events of one time in the order in which they were planned
    int where;             // a device, or kArrives, kStarted
    JobId player;          // 0: a tick
    std::uint64_t generation;
    bool operator<(const Due& other) const {  // the last one first: a heap's top is its greatest
      return std::tie(at, number) > std::tie(other.at, other.number);
    }
  };

  void Enter(Player& player, const SimulatedJob& job, JobId id) {
    player.id = id;
    player.job = &job;
    player.step = std::max(absl::Nanoseconds(1), absl::Milliseconds(job.step_ms));
    player.gap = absl::Milliseconds(job.gap_ms);
    player.end = {.name = job.name, .arrival = absl::Seconds(job.arrival_s)};
    player.end.alone = absl::Seconds(job.startup_s) + player.step * static_cast<std::int64_t>(job.steps) +
                       player.gap * static_cast<std::int64_t>(job.steps - 1);
    Plan(absl::UnixEpoch() + player.end.arrival, kArrives, id);
  }

  void Plan(absl::Time at, int where, JobId id) {
    if (at == absl::InfiniteFuture()) return;
    events_.push({at, next_number_++, where, id, id == 0 ? 0 : players_[id - 1].generation});
  }

  void Happen(const Due& due) {
    if (due.where == kArrives) return Arrive(players_[due.player - 1]);
    if (due.where == kStarted) {
      --starting_;
      pending_.push_back(due.player);
      StartUp();
      return PlacePending();
    }
    Node& node = *nodes_[static_cast<size_t>(due.where)];
    if (due.player == 0) return node.Tick(now_);
    Player& player = players_[due.player - 1];
    if (due.generation != player.generation) return;
    const size_t before = node.jobs();
    if (!node.Act(player, now_)) return;
    Count(due.where, before, node.jobs());
    PlacePending();
  }

  // --- start-up

  void Arrive(Player& player) {
    arrived_.push_back(player.id);
    StartUp();
  }

  JobView View(JobId id) const {
    const Player& player = players_[id - 1];
    JobView view{.id = id, .user = player.job->user, .weight = player.job->weight};
    view.left = absl::InfinitePast();
    view.total_steps = player.job->told();
    view.step.Add(player.step);  // as predicted from earlier runs
    return view;
  }

  // The first of `ids` by the policy, taken out. REQUIRES: there is one.
  JobId TakeFirst(std::deque<JobId>& ids) const {
    auto first = ids.begin();
    for (auto id = ids.begin(); id != ids.end(); ++id) {
      if (policy_->Before(View(*id), View(*first))) first = id;
    }
    const JobId taken = *first;
    ids.erase(first);
    return taken;
  }

  void StartUp() {
    while (!arrived_.empty() && (options_.starting == 0 || starting_ < options_.starting)) {
      const JobId id = one_at_a_time_ ? TakeFirst(arrived_) : arrived_.front();
      if (!one_at_a_time_) arrived_.pop_front();
      ++starting_;
      Plan(now_ + absl::Seconds(players_[id - 1].job->startup_s), kStarted, id);
    }
  }

  // --- places

  void PlacePending() {
    while (!pending_.empty()) {
      const JobId id = one_at_a_time_ ? TakeFirst(pending_) : pending_.front();
      const int device = DeviceFor(id);
      if (device < 0) return pending_.push_front(id);
      if (!one_at_a_time_) pending_.pop_front();
      Node& node = *nodes_[static_cast<size_t>(device)];
      const size_t before = node.jobs();
      node.Place(players_[id - 1], now_);
      Count(device, before, node.jobs());
    }
  }

  // Where it would run at once; -1: nowhere.
  int DeviceFor(JobId id) {
    const auto [jobs, device] = *by_jobs_.begin();
    const bool size_known = players_[id - 1].job->told() > 0;
    if (jobs == 0 || !one_at_a_time_ || (options_.policy != kQueue && !size_known)) return device;
    const JobView view = View(id);
    int best = -1;
    JobView last;
    for (int d = 0; d < options_.devices; ++d) {
      const JobView first = nodes_[static_cast<size_t>(d)]->First(*policy_, now_);
      if (!policy_->Before(view, first) || (best >= 0 && !policy_->Before(last, first))) continue;
      best = d;
      last = first;
    }
    return best;
  }

  void Count(int device, size_t before, size_t after) {
    by_jobs_.erase({before, device});
    by_jobs_.insert({after, device});
  }

  const SimulationOptions options_;
  const std::unique_ptr<Policy> policy_;  // of the node: start-ups and places
  const bool one_at_a_time_;
  std::vector<std::unique_ptr<Node>> nodes_;
  std::vector<Player> players_;
  std::priority_queue<Due> events_;
  std::uint64_t next_number_ = 0;
  absl::Time now_ = absl::UnixEpoch();
  std::deque<JobId> arrived_;  // wait for their start-up
  std::deque<JobId> pending_;  // wait for a device
  int starting_ = 0;
  std::set<std::pair<size_t, int>> by_jobs_;  // devices by how many jobs they have
};

}  // namespace

SimulationResult Simulate(const std::vector<SimulatedJob>& workload, const SimulationOptions& options) {
  return Simulation(workload, options).Run();
}

}  // namespace hocket::coordinator
