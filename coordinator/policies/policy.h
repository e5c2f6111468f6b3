// Who is next? A policy answers that one question for one device.
//
// The core keeps the jobs, the queue and the memory; a policy keeps only its own opinion. It reads no clock,
// does no I/O, takes no lock and is called from one thread, so the same events give the same turns. What it
// says is an *order* of the waiting jobs: the first gets the turn, and the last is the one whose memory is
// spilled first when room is needed.
//
// A gang counts as one job here. How to add a policy: README.md, in this folder.
#ifndef HOCKET_COORDINATOR_POLICIES_POLICY_H_
#define HOCKET_COORDINATOR_POLICIES_POLICY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "coordinator/policies/estimate.h"
#include "csrc/base/bytes.h"

namespace hocket::coordinator {

// A job, or a gang; never used again after it has left.
using EntityId = std::uint64_t;

enum class Priority { kLow, kNormal, kHigh };

// What a policy may know about a job. Of a gang: of the rank that says most.
struct JobView {
  EntityId id = 0;
  unsigned user = 0;       // uid
  double user_weight = 1;  // of all his jobs, against the other users'; > 0
  double weight = 1;       // > 0
  Priority priority = Priority::kNormal;
  absl::Time asked;               // since when it waits; infinite future: it does not
  absl::Time left;                // end of its last turn; infinite past: it has had none
  absl::Duration served;          // device time it has had, this turn included
  std::uint64_t steps = 0;        // completed; of a holder, those of this turn by estimate
  std::uint64_t total_steps = 0;  // 0: unknown
  // Measured.
  Estimate step;   // time in its turn for a step
  Estimate alone;  // the same, where others waited and none ran beside it; lately, or unknown
  Estimate gap;    // from the end of its turn until it asks again
  Estimate ready;  // from the grant until it runs: the lock, room, bytes that come back
  // Of the turn that ends, or had last; while one lasts: not known yet, zero.
  absl::Duration last_ready;
  absl::Duration last_passage;  // what its hand-over took beside that and the wait: messages, and the giving
  absl::Time now;               // of the event at hand
};

// What a policy may look at when it chooses.
struct GpuView {
  std::vector<JobView> waiting;  // the earliest asker first
  Bytes capacity = 0;
};

// Who runs next, and why. `reason` is shown by `hocket explain`: write it for the person whose job waits.
struct Choice {
  EntityId job = 0;
  std::string reason;
};

// How one of several that run at the same time has got on.
struct Pace {
  JobView job;
  std::uint64_t steps = 0;  // completed
  absl::Duration time;      // in which it did, > 0
};

// What people may set of the policies; each heeds what concerns it.
struct PolicySettings {
  double production_bound = 0.02;  // priority: 0 < bound < 1
  int most_together = 4;           // pack: so many jobs run at the same time; > 0
};

class Policy {
 public:
  virtual ~Policy() = default;

  // Before anything else, and when people have changed something.
  virtual void Set(const PolicySettings& settings) {}

  // True if `a` gets its turn before `b`. A strict weak order over all jobs, waiting or not; a tie keeps the
  // earlier asker first.
  virtual bool Before(const JobView& a, const JobView& b) const = 0;

  // `waiting` in the order of their turns. By Before(), unless a policy knows the whole order better.
  virtual std::vector<JobView> Order(std::vector<JobView> waiting) const;

  // Why `next` is the first of those that wait, in a few words. Asked after Order().
  virtual std::string Reason(const JobView& next) const = 0;

  // Where `job` stands in this policy's account, in words and numbers; empty where there is nothing to say.
  virtual std::string Standing(const JobView& job) const { return ""; }

  // `holder` has had the turn for `held` since it was charged last, while `gpu.waiting` (never empty) wait:
  // for how much longer should it go on before it is asked to stop after its step? Zero: not at all.
  virtual absl::Duration Keep(const JobView& holder, absl::Duration held, const GpuView& gpu) const {
    return absl::ZeroDuration();
  }

  // `next` would get the free device now, while `absent` does not wait: it left its last turn at
  // `absent.left` and may be back soon. Until how long after it left is the device kept free for it? Zero:
  // not at all.
  virtual absl::Duration KeepFree(const JobView& absent, const JobView& next) const {
    return absl::ZeroDuration();
  }

  // The other way round: `holder` has the turn and nobody waits. Until how long after `absent` left may it
  // begin another step? Infinite: as long as nobody waits. Asked of each absent job at each event, so only
  // where StopsForAbsent().
  virtual bool StopsForAbsent() const { return false; }
  virtual absl::Duration StopFor(const JobView& absent, const JobView& holder) const {
    return absl::InfiniteDuration();
  }

  // Are its bytes spilled only when those of all others are not enough, whether it waits or not?
  virtual bool StaysResident(const JobView& job) const { return false; }

  // Whom it would choose next does not depend on when it is asked, but on who waits and on what was charged
  // (what the present turn is still going to be charged may matter by one turn): then the choice can be made,
  // and told, while a turn lasts.
  virtual bool ForeseesNext() const { return false; }

  // Can Together() ever be true? Where it cannot, nobody looks who would fit beside whom.
  virtual bool RunsSeveral() const { return false; }

  // May all of `members`, who are several, run at the same time, each in a lane of its own? Asked before one
  // joins those who run, and while they do: no longer, and all of them are asked to stop. Whether their bytes
  // fit is looked after.
  virtual bool Together(const std::vector<JobView>& members) const { return false; }

  // From now on these run at the same time; a single one: alone again. Only after several have.
  virtual void Company(const std::vector<JobView>& members) {}

  // So did those who run at the same time get on, for a while in which nobody came or went.
  virtual void Measured(const std::vector<Pace>& paces) {}

  // What is known of `members` running at the same time, in words, as the end of a sentence; empty: nothing.
  virtual std::string InCompany(const std::vector<JobView>& members) const { return ""; }

  // `job` begins to wait, or is no longer paused while it waits.
  virtual void Asked(const JobView& job) {}

  // `job` gets the turn; also when it has had it alone and somebody begins to wait.
  virtual void Granted(const JobView& job) {}

  // `job` has had the turn for `device_time` more, what it took until it was ready not counted; of time in
  // which several ran, its part. Called at the end of each turn, also for a job that died in it, and within a
  // turn when the first one begins to wait for it, or somebody comes to run beside it or goes. `contended`:
  // somebody waited meanwhile. Not called for a turn that `job` had, out of this policy's order, because the
  // time is guaranteed to it.
  virtual void Charge(const JobView& job, absl::Duration device_time, bool contended) {}

  // `job` has left; its id is never used again.
  virtual void Forget(EntityId job) {}

  // Why it does not decide as it should, in words; empty: it does.
  virtual std::string Trouble() const { return ""; }

 protected:
  // Who would be next: mostly the only one who waits. REQUIRES: somebody waits.
  JobView FirstOf(const GpuView& gpu) const;
};

// For people: of a policy named by a path, the file's name.
std::string PolicyTitle(const std::string& name);

// `gpu.waiting` in the order of their turns.
std::vector<JobView> InOrder(const Policy& policy, GpuView gpu);

// The first of `gpu.waiting`, with the reason. REQUIRES: somebody waits.
Choice Pick(const Policy& policy, const GpuView& gpu);

}  // namespace hocket::coordinator

#endif  // HOCKET_COORDINATOR_POLICIES_POLICY_H_
