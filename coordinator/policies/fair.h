// Device time in proportion to weight: first among users (by `hocket quota --user U --weight W`; 1 unless
// set), then among a user's jobs.
//
// Each user and each job has a virtual time: the device time it has had, divided by its weight. The least is
// next. A priority multiplies a job's weight: high 4, normal 1, low 1/4.
//
// Whoever comes, or comes back after a pause, starts near where the one that runs stands: it neither starves
// the others nor pays for the time it was away. *Near*: who was away between two steps only has waited for
// its share, and keeps what it is owed, up to the credit: two of the longest turns that anybody has had
// lately, at least one second, and at most two minutes.
#ifndef HOCKET_COORDINATOR_POLICIES_FAIR_H_
#define HOCKET_COORDINATOR_POLICIES_FAIR_H_

#include <map>

#include "coordinator/policies/policy.h"

namespace hocket::coordinator {

class Fair final : public Policy {
 public:
  bool Before(const JobView& a, const JobView& b) const override;
  bool ForeseesNext() const override { return true; }
  std::string Reason(const JobView& next) const override;
  // Until the first of those that wait would be before it: a job of twice the weight keeps the turn twice as
  // long.
  absl::Duration Keep(const JobView& holder, absl::Duration held, const GpuView& gpu) const override;
  // For one that is owed time and between two steps, where it is back long before a step of another would be
  // over: half of that, at most.
  absl::Duration KeepFree(const JobView& absent, const JobView& next) const override;
  void Asked(const JobView& job) override;
  void Granted(const JobView& job) override;
  void Charge(const JobView& job, absl::Duration device_time, bool contended) override;
  std::string Standing(const JobView& job) const override;
  void Forget(EntityId job) override;

  // A job's weight times its priority's factor.
  static double Share(const JobView& job);

 private:
  // Virtual times that belong together: of all users, or of one user's jobs.
  struct Group {
    double floor = 0;    // of the one picked last, when it was picked
    double longest = 0;  // what the longest of the last turns added to one of them; fades
    // Where one that asks starts, which stood at `own`, and for which `second` is a second of device time.
    double Enter(double own, double second) const;
    void Added(double time);
  };
  struct User {
    double served = 0;  // seconds of device time, divided by the user's weight
    Group jobs_of;
    std::map<EntityId, double> jobs;  // seconds of device time, divided by Share()
  };

  double UserServed(const JobView& job) const;
  double JobServed(const JobView& job) const;

  std::map<unsigned, User> users_;
  Group all_;
};

}  // namespace hocket::coordinator

#endif  // HOCKET_COORDINATOR_POLICIES_FAIR_H_
