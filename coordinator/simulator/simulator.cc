#include "coordinator/simulator/simulator.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <queue>
#include <set>
#include <tuple>
#include <utility>

#include "coordinator/policies/registry.h"
#include "coordinator/policies/srtf.h"
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
        by_policy_(options.policy == "srtf"),
        policy_(by_policy_ ? *MakePolicy(options.policy) : nullptr),
        at_once_(AtOnce(options)),
        jobs_(static_cast<size_t>(options.devices)),
        claimed_(static_cast<size_t>(options.devices)),
        seen_(static_cast<size_t>(options.devices)) {
    for (int d = 0; d < options.devices; ++d) {
      nodes_.push_back(
          std::make_unique<Node>(options, [this, d](absl::Time at, JobId id) { Plan(at, d, id); }));
      by_jobs_.insert({0, d});
    }
    players_.resize(workload.size());
    for (size_t i = 0; i < workload.size(); ++i) Enter(players_[i], workload[i], i + 1);
  }

  SimulationResult Run() {
    const absl::Time end = absl::UnixEpoch() + options_.until;
    while (!events_.empty()) {
      const Due due = events_.top();
      Look(std::min(due.at, end));
      if (due.at > end) break;
      events_.pop();
      now_ = due.at;
      Happen(due);
    }
    SimulationResult result;
    for (Player& player : players_) {
      const bool ended = player.steps == player.job->steps;
      const auto device = static_cast<size_t>(std::max(0, player.device));
      player.end.steps = ended ? player.steps : nodes_[device]->Steps(player, end);
      if (!ended) player.end.end = absl::InfiniteDuration();
      result.jobs.push_back(player.end);
      result.makespan = std::max(result.makespan, std::min(player.end.end, options_.until));
    }
    for (const auto& node : nodes_) {
      result.busy += node->busy();
      result.turns += node->turns();
      result.moved += node->moved();
      result.peak = std::max(result.peak, node->peak());
      if (result.trouble.empty()) result.trouble = node->trouble();
    }
    return result;
  }

 private:
  // What each job has had of the device, as often as is asked for.
  void Look(absl::Time until) {
    for (; next_look_ <= until; next_look_ += options_.every) {
      for (Player& player : players_) {
        const auto device = static_cast<size_t>(std::max(0, player.device));
        player.end.served.push_back(nodes_[device]->Served(player, next_look_));
      }
    }
  }

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
    player.step = StepTimes(job);
    player.gap = absl::Milliseconds(job.gap_ms);
    player.end = {
        .name = job.name, .arrival = absl::Seconds(job.arrival_s), .first_step = absl::InfiniteDuration()};
    player.end.alone = absl::Seconds(job.startup_s) + player.step.Of(0, job.steps) +
                       player.gap * static_cast<std::int64_t>(job.steps - 1);
    Plan(absl::UnixEpoch() + player.end.arrival, kArrives, id);
  }

  void Plan(absl::Time at, int where, JobId id) {
    if (at == absl::InfiniteFuture()) return;
    events_.push({at, next_number_++, where, id, id == 0 ? 0 : players_[id - 1].generation});
  }

  void Happen(const Due& due) {
    if (due.where == kArrives) {
      (options_.plain ? pending_ : arrived_).insert(due.player);
      return Go();
    }
    if (due.where == kStarted) {
      --starting_;
      options_.plain ? Begin(due.player) : void(pending_.insert(due.player));
      return Go();
    }
    Node& node = *nodes_[static_cast<size_t>(due.where)];
    changed_.insert(due.where);
    if (due.player == 0) return node.Tick(now_);
    Player& player = players_[due.player - 1];
    if (due.generation != player.generation || !node.Act(player, now_)) return;
    Count(due.where, -1, player);
    refused_ = 0;
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
    view.step = Estimate(player.step.mean());  // as predicted from earlier runs
    return view;
  }

  // The one that would lose its turns to another job of `device`.
  struct Displaced {
    JobView view;
    int device;
    absl::Time seen;
  };
  struct LastFirst {
    const Simulation* simulation;
    bool operator()(const Displaced& a, const Displaced& b) const {
      return simulation->policy_->Before(b.view, a.view);
    }
  };

  // By the policy, or by arrival.
  bool Before(JobId a, JobId b) const {
    if (!by_policy_) return a < b;
    const JobView view_a = View(a), view_b = View(b);
    if (policy_->Before(view_a, view_b)) return true;
    return !policy_->Before(view_b, view_a) && a < b;
  }
  struct InOrder {
    const Simulation* simulation;
    bool operator()(JobId a, JobId b) const { return simulation->Before(a, b); }
  };

  void StartUp() {
    while (!arrived_.empty() && (options_.starting == 0 || starting_ < options_.starting)) {
      const JobId id = arrived_.extract(arrived_.begin()).value();
      ++starting_;
      Plan(now_ + absl::Seconds(players_[id - 1].job->startup_s), kStarted, id);
    }
  }

  // Who has found no place finds none before another has ended: those who run have ever less left.
  void FindPlaces() {
    while (!pending_.empty() && *pending_.begin() != refused_) {
      const JobId id = *pending_.begin();
      Player& player = players_[id - 1];
      player.device = DeviceFor(id);
      if (player.device < 0) {
        refused_ = id;
        return;
      }
      pending_.erase(pending_.begin());
      Count(player.device, +1, player);
      options_.plain ? void(arrived_.insert(id)) : Begin(id);
    }
  }

  void Begin(JobId id) {
    Player& player = players_[id - 1];
    changed_.insert(player.device);
    nodes_[static_cast<size_t>(player.device)]->Place(player, now_);
  }

  bool Fits(const SimulatedJob& job, int device) const {
    return !options_.plain || claimed_[static_cast<size_t>(device)] + job.persistent <= options_.capacity;
  }

  // Where it would have its turns at once; -1: nowhere.
  int DeviceFor(JobId id) {
    const SimulatedJob& job = *players_[id - 1].job;
    const bool sized = options_.policy != "srtf" || job.told() > 0;
    if (!sized) return DeviceOfFewest(job);
    for (const auto& [jobs, device] : by_jobs_) {
      if (jobs >= at_once_) break;
      if (Fits(job, device)) return device;
    }
    return by_policy_ ? DeviceThatPrefers(id) : -1;
  }

  // Of those that it shares the device with for long: those who have had much already wait until it has, too.
  // Then of all. -1: it fits nowhere.
  int DeviceOfFewest(const SimulatedJob& job) {
    int best = -1;
    size_t least = 0;
    for (const auto& [jobs, device] : by_jobs_) {
      if (!Fits(job, device)) continue;
      const size_t soon = nodes_[static_cast<size_t>(device)]->DoneWithin(Srtf::kLastLevel, now_);
      if (best < 0 || soon < least) best = device, least = soon;
      if (least == 0) break;
    }
    return best;
  }

  // Where so many come after `id` that it would have its turns at once: the last of those that now have them
  // is the last of all devices'. What was seen of a device is a bound, for with time that one only comes
  // earlier: so few are looked at again.
  int DeviceThatPrefers(JobId id) {
    for (int device : std::exchange(changed_, {})) LookAt(device);
    const JobView view = View(id);
    for (auto at = displaced_.begin(); at != displaced_.end() && policy_->Before(view, at->view);) {
      if (!Fits(*players_[id - 1].job, at->device)) {
        ++at;
      } else if (at->seen == now_) {
        return at->device;
      } else {
        LookAt(at->device);
        at = displaced_.begin();
      }
    }
    return -1;
  }

  void LookAt(int device) {
    const auto d = static_cast<size_t>(device);
    if (auto seen = std::exchange(seen_[d], std::nullopt)) displaced_.erase(*seen);
    if (nodes_[d]->jobs() < at_once_) return;  // too few have started up
    const JobView view = nodes_[d]->InOrder(*policy_, at_once_ - 1, now_);
    if (view.total_steps == 0) changed_.insert(device);  // it may come later with time
    seen_[d] = displaced_.insert({view, device, now_}).first;
  }

  void Count(int device, int more, const Player& player) {
    const auto d = static_cast<size_t>(device);
    by_jobs_.erase({jobs_[d], device});
    jobs_[d] += static_cast<size_t>(more);
    claimed_[d] += more > 0 ? player.job->persistent : -player.job->persistent;
    by_jobs_.insert({jobs_[d], device});
  }

  const SimulationOptions options_;
  const bool by_policy_;                  // start-ups and places; otherwise by arrival
  const std::unique_ptr<Policy> policy_;  // that one; null: by arrival
  const size_t at_once_;                  // jobs of a device
  std::vector<std::unique_ptr<Node>> nodes_;
  std::vector<Player> players_;
  std::priority_queue<Due> events_;
  std::uint64_t next_number_ = 0;
  absl::Time now_ = absl::UnixEpoch();
  std::vector<size_t> jobs_;                         // with a place on each device
  std::vector<Bytes> claimed_;                       // by them
  std::set<JobId, InOrder> arrived_{InOrder{this}};  // wait for their start-up
  std::set<JobId, InOrder> pending_{InOrder{this}};  // wait for a device
  JobId refused_ = 0;                                // of these the one for whom there was no place
  int starting_ = 0;
  absl::Time next_look_ = absl::UnixEpoch() + options_.every;
  std::set<Displaced, LastFirst> displaced_{LastFirst{this}};
  std::vector<std::optional<std::set<Displaced, LastFirst>::iterator>> seen_;  // of each device
  std::set<int> changed_;                     // devices of which nothing is known
  std::set<std::pair<size_t, int>> by_jobs_;  // devices by how many jobs have their place there
};

}  // namespace

SimulationResult Simulate(const std::vector<SimulatedJob>& workload, const SimulationOptions& options) {
  return Simulation(workload, options).Run();
}

}  // namespace hocket::coordinator
