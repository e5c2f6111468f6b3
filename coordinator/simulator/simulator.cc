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

size_t AtOnce(const SimulationOptions& options) {
  if (options.at_once > 0) return static_cast<size_t>(options.at_once);
  const bool one = options.policy == kQueue || options.policy == "srtf";
  return one ? 1 : std::numeric_limits<size_t>::max();
}

// The clock, the start-ups, and where jobs are placed.
class Simulation {
 public:
  Simulation(const std::vector<SimulatedJob>& workload, const SimulationOptions& options)
      : options_(options),
        policy_(options.policy == kQueue ? std::make_unique<Queue>() : *MakePolicy(options.policy)),
        by_policy_(options.policy == "srtf"),
        at_once_(AtOnce(options)),
        jobs_(static_cast<size_t>(options.devices)),
        claimed_(static_cast<size_t>(options.devices)) {
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
      if (due.at > absl::UnixEpoch() + options_.until) break;
      events_.pop();
      now_ = due.at;
      Happen(due);
    }
    SimulationResult result;
    for (Player& player : players_) {
      const bool ended = player.steps == player.job->steps;
      const auto device = static_cast<size_t>(std::max(0, player.device));
      player.end.steps =
          ended ? player.steps : nodes_[device]->Steps(player, absl::UnixEpoch() + options_.until);
      if (!ended) player.end.end = absl::InfiniteDuration();
      result.jobs.push_back(player.end);
      result.makespan = std::max(result.makespan, std::min(player.end.end, options_.until));
    }
    for (const auto& node : nodes_) {
      result.busy += node->busy();
      result.turns += node->turns();
      result.moved += node->moved();
      result.peak = std::max(result.peak, node->peak());
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
    player.end = {
        .name = job.name, .arrival = absl::Seconds(job.arrival_s), .first_step = absl::InfiniteDuration()};
    player.end.alone = absl::Seconds(job.startup_s) + player.step * static_cast<std::int64_t>(job.steps) +
                       player.gap * static_cast<std::int64_t>(job.steps - 1);
    Plan(absl::UnixEpoch() + player.end.arrival, kArrives, id);
  }

  void Plan(absl::Time at, int where, JobId id) {
    if (at == absl::InfiniteFuture()) return;
    events_.push({at, next_number_++, where, id, id == 0 ? 0 : players_[id - 1].generation});
  }

  void Happen(const Due& due) {
    if (due.where == kArrives) {
      (options_.plain ? pending_ : arrived_).push_back(due.player);
      return Go();
    }
    if (due.where == kStarted) {
      --starting_;
      options_.plain ? Begin(due.player) : pending_.push_back(due.player);
      return Go();
    }
    Node& node = *nodes_[static_cast<size_t>(due.where)];
    if (due.player == 0) return node.Tick(now_);
    Player& player = players_[due.player - 1];
    if (due.generation != player.generation || !node.Act(player, now_)) return;
    Count(due.where, -1, player);
    Go();
  }

  // --- start-ups, then places; of plain jobs the other way round

  void Go() {
    if (options_.plain) FindPlaces();
    StartUp();
    if (!options_.plain) FindPlaces();
  }

  JobView View(JobId id) const {
    const Player& player = players_[id - 1];
    JobView view{.id = id, .user = player.job->user, .weight = player.job->weight};
    view.left = absl::InfinitePast();
    view.total_steps = player.job->told();
    view.step.Add(player.step);  // as predicted from earlier runs
    return view;
  }

  // The first of `ids`, by the policy or by arrival, taken out. REQUIRES: there is one.
  JobId TakeFirst(std::deque<JobId>& ids) const {
    auto first = ids.begin();
    for (auto id = ids.begin(); by_policy_ && id != ids.end(); ++id) {
      if (policy_->Before(View(*id), View(*first))) first = id;
    }
    const JobId taken = *first;
    ids.erase(first);
    return taken;
  }

  void StartUp() {
    while (!arrived_.empty() && (options_.starting == 0 || starting_ < options_.starting)) {
      const JobId id = TakeFirst(arrived_);
      ++starting_;
      Plan(now_ + absl::Seconds(players_[id - 1].job->startup_s), kStarted, id);
    }
  }

  void FindPlaces() {
    while (!pending_.empty()) {
      const JobId id = TakeFirst(pending_);
      Player& player = players_[id - 1];
      player.device = DeviceFor(id);
      if (player.device < 0) return pending_.push_front(id);
      Count(player.device, +1, player);
      options_.plain ? arrived_.push_back(id) : Begin(id);
    }
  }

  void Begin(JobId id) {
    Player& player = players_[id - 1];
    nodes_[static_cast<size_t>(player.device)]->Place(player, now_);
  }

  bool Fits(const SimulatedJob& job, int device) const {
    return !options_.plain || claimed_[static_cast<size_t>(device)] + job.persistent <= options_.capacity;
  }

  // Where it would have its turns at once; -1: nowhere.
  int DeviceFor(JobId id) {
    const SimulatedJob& job = *players_[id - 1].job;
    const bool sized = options_.policy != "srtf" || job.told() > 0;
    for (const auto& [jobs, device] : by_jobs_) {
      if (sized && jobs >= at_once_) break;
      if (Fits(job, device)) return device;
    }
    return by_policy_ && sized ? DeviceThatPrefers(id) : -1;
  }

  // Where so many come after `id` that it would have its turns at once: the last of those that now have them
  // is the last of all devices'.
  int DeviceThatPrefers(JobId id) {
    const JobView view = View(id);
    int best = -1;
    JobView last;
    for (int d = 0; d < options_.devices; ++d) {
      Node& node = *nodes_[static_cast<size_t>(d)];
      if (node.jobs() < at_once_ || !Fits(*players_[id - 1].job, d)) continue;  // too few have started up
      const JobView displaced = node.InOrder(*policy_, at_once_ - 1, now_);
      if (!policy_->Before(view, displaced) || (best >= 0 && !policy_->Before(last, displaced))) continue;
      best = d;
      last = displaced;
    }
    return best;
  }

  void Count(int device, int more, const Player& player) {
    const auto d = static_cast<size_t>(device);
    by_jobs_.erase({jobs_[d], device});
    jobs_[d] += static_cast<size_t>(more);
    claimed_[d] += more > 0 ? player.job->persistent : -player.job->persistent;
    by_jobs_.insert({jobs_[d], device});
  }

  const SimulationOptions options_;
  const std::unique_ptr<Policy> policy_;  // of the node: start-ups and places
  const bool by_policy_;                  // start-ups and places; otherwise by arrival
  const size_t at_once_;                  // jobs of a device
  std::vector<std::unique_ptr<Node>> nodes_;
  std::vector<Player> players_;
  std::priority_queue<Due> events_;
  std::uint64_t next_number_ = 0;
  absl::Time now_ = absl::UnixEpoch();
  std::vector<size_t> jobs_;    // with a place on each device
  std::vector<Bytes> claimed_;  // by them
  std::deque<JobId> arrived_;   // wait for their start-up
  std::deque<JobId> pending_;   // wait for a device
  int starting_ = 0;
  std::set<std::pair<size_t, int>> by_jobs_;  // devices by how many jobs have their place there
};

}  // namespace

SimulationResult Simulate(const std::vector<SimulatedJob>& workload, const SimulationOptions& options) {
  return Simulation(workload, options).Run();
}

}  // namespace hocket::coordinator
