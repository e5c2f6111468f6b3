// A device under simulation: a core, and the jobs that were placed there, played. simulator.cc has the clock.
#ifndef HOCKET_COORDINATOR_SIMULATOR_NODE_H_
#define HOCKET_COORDINATOR_SIMULATOR_NODE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "coordinator/core/core.h"
#include "coordinator/simulator/simulator.h"
#include "coordinator/simulator/step_times.h"

namespace hocket::coordinator {

// A job as it is played. Its index in the workload, plus one, is its id.
struct Player {
  JobId id = 0;
  const SimulatedJob* job = nullptr;
  int device = -1;  // its place; none yet
  StepTimes step;
  absl::Duration gap;
  SimulatedEnd end;

  std::uint64_t steps = 0;  // completed before this turn
  absl::Duration served;    // device time of these
  Bytes resident = 0;
  Bytes spilled = 0;  // at first: what it will make of its memory in its first turn

  TurnNumber turn = 0;
  bool running = false;  // has what it needs, and steps
  bool idle_asked = false;
  absl::Duration shorter_pauses;  // then: it keeps the turn in these
  bool stop_asked = false;
  bool steps_aside = false;  // others first
  bool asked_room = false;   // in this turn
  absl::Time granted;
  absl::Time began;  // of the first step of this turn
  // Beside others it is slower. Of this turn's steps and gaps so much was done until `since`, by the time
  // that they take alone; from there on it runs at `rate`.
  absl::Duration done;
  absl::Time since;
  double rate = 1;
  Bytes restored = 0;
  absl::Time asks;        // when it wants the turn again
  wire::Spill spill;      // to be answered
  wire::Restore restore;  // to be answered, before that

  absl::Time next;               // when its next deed is planned
  std::uint64_t generation = 0;  // of that: what was planned before is void
};

class Node {
 public:
  // What will happen at `at`: to `player`, or (nullptr) a Tick.
  using Plan = std::function<void(absl::Time at, JobId player)>;

  Node(const SimulationOptions& options, Plan plan);

  // Times never go backwards. A player must outlive its place here.
  void Place(Player& player, absl::Time now);
  // The player's next deed is due. True when it has ended, and is gone from here.
  bool Act(Player& player, absl::Time now);
  void Tick(absl::Time now);

  size_t jobs() const { return players_.size(); }
  // Of these, those which srtf expects to be done in less than `time` with the device to themselves.
  size_t DoneWithin(absl::Duration time, absl::Time now);
  // Of the jobs here, whether they have the turn or not, the one before which `others` come. REQUIRES: jobs()
  // > others.
  JobView InOrder(const Policy& policy, size_t others, absl::Time now);

  // Those it has done by `now`, which is no earlier than all that happened here.
  std::uint64_t Steps(const Player& player, absl::Time now);
  // The device time in steps that it has had, the part of one that has begun included.
  absl::Duration Served(const Player& player, absl::Time now);

  absl::Duration busy() const { return busy_; }
  std::uint64_t turns() const { return turns_; }
  Bytes moved() const { return moved_; }
  Bytes peak() const { return peak_; }
  // Why an own policy has failed here; empty: none has.
  const std::string& trouble() const { return trouble_; }

 private:
  void Handle(JobId job, decltype(Event::what) what);
  void Hear(Player& player, const wire::Message& message);
  void Run(Player& player);
  void PlanEndOfTurn(Player& player);
  double RateOf(const Player& player) const;
  void SetRates();
  absl::Duration Done(const Player& player) const;
  absl::Time When(const Player& player, absl::Duration done) const;
  StepsSeen SeenOf(const Player& player) const;
  void GiveUp(Player& player);
  void StepAside(Player& player);
  void AnswerSpill(Player& player);
  void AnswerRestore(Player& player);
  void PlanSpill(Player& player);
  void Next(Player& player, absl::Time at);
  static Bytes Spilled(const Player& player);
  void Resides(Player& player, Bytes more);
  std::uint64_t StepsDone(const Player& player) const;
  absl::Duration Transfer(Bytes bytes) const;
  // When the bytes of this turn are back, that could only now all be put somewhere.
  absl::Time Restored(const Player& player) const;
  Bytes Free() const;

  const SimulationOptions options_;
  const Plan plan_;
  std::string trouble_;
  Core core_;
  std::map<JobId, Player*> players_;
  std::set<JobId> running_;  // of them
  absl::Time now_;
  absl::Time timer_ = absl::InfiniteFuture();
  Bytes resident_ = 0;
  absl::Duration busy_;
  std::uint64_t turns_ = 0;
  Bytes moved_ = 0;
  Bytes peak_ = 0;  // of resident_
};

}  // namespace hocket::coordinator

#endif  // HOCKET_COORDINATOR_SIMULATOR_NODE_H_
