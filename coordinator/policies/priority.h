// Production jobs (priority high) first, slowed down by all others together by at most a set share
// (PolicySettings::production_bound).
//
// Each production job has an account. It earns the bound's share of the time that it lives through (its turns
// and its usual gaps), and pays for what it is delayed (it waited while an opportunistic job had the device;
// its bytes had to come back afterwards). What can be saved up is what the longest opportunistic turn costs
// and what a quarter of a second earns: so the bound holds over any few seconds, and a quiet hour does not
// pay for a slow minute. An opportunistic job gets the device while a production job is between two steps if,
// by the upper bound of its measured step and the lower bound of the gap, it is back in time, or if the
// account can pay for the worst. So a gap that is long enough is used at once, a short one now and then.
// Before a production job that asks, or goes on, it comes only where no gap makes that much cheaper:
// otherwise what is saved up would buy few steps at their full price. However much is saved up, production
// that asks waits for one opportunistic step at most. A job whose steps nobody has measured
// yet is let in when no account is in debt, and what it costs is earned afterwards.
//
// Room is made of what opportunistic jobs hold, also where a production job is between two steps: it would
// wait for its bytes when it asks.
//
// Among production jobs, and among opportunistic ones, device time is shared as in fair.
#ifndef HOCKET_COORDINATOR_POLICIES_PRIORITY_H_
#define HOCKET_COORDINATOR_POLICIES_PRIORITY_H_

#include <map>

#include "coordinator/policies/fair.h"

namespace hocket::coordinator {

class ProductionFirst final : public Policy {
 public:
  // The share of a production job's time that others may cost it. Another one than before: the accounts are
  // counted anew.
  void Set(const PolicySettings& settings) override;
  bool Before(const JobView& a, const JobView& b) const override;
  std::string Reason(const JobView& next) const override;
  std::string Standing(const JobView& job) const override;
  absl::Duration Keep(const JobView& holder, absl::Duration held, const GpuView& gpu) const override;
  absl::Duration KeepFree(const JobView& absent, const JobView& next) const override;
  bool StopsForAbsent() const override { return true; }
  absl::Duration StopFor(const JobView& absent, const JobView& holder) const override;
  bool StaysResident(const JobView& job) const override { return Production(job); }
  void Asked(const JobView& job) override;
  void Granted(const JobView& job) override;
  void Charge(const JobView& job, absl::Duration device_time, bool contended) override;
  void Forget(EntityId job) override;

 private:
  struct Account {
    absl::Duration lived;                             // turns, and gaps between them
    absl::Duration delayed;                           // by opportunistic jobs
    absl::Duration credit;                            // that it may be delayed now
    absl::Time counted_until = absl::InfinitePast();  // the end of the turn that was counted last
    Estimate gap;                                     // as known last
    bool asks = false;
    bool has_waited = false;  // since it asks, an opportunistic turn has ended
    absl::Time asked;
  };

  static bool Production(const JobView& job) { return job.priority == Priority::kHigh; }
  // What one turn of an opportunistic job may cost a production job that asks right after its begin.
  static absl::Duration Cost(const JobView& job);
  // Until when what `absent` has lived through is in its account.
  absl::Time CountedUntil(const JobView& absent) const;
  // What the poorest account can pay.
  absl::Duration Budget() const;
  // The one production job leaves pauses, in which a turn that costs `cost` would cost it half of that at
  // most. Of several, one may work in the pauses of the others.
  bool CheaperInPauses(absl::Duration cost) const;
  // A turn of `job` is worth what it costs production that asks, or goes on.
  bool Affords(const JobView& job) const;
  void Earn(Account& account, absl::Duration time);
  static void Pay(Account& account, absl::Duration delay);
  int Rank(const JobView& job) const;

  double bound_ = PolicySettings().production_bound;
  Fair fair_;
  std::map<EntityId, Account> accounts_;      // of production jobs
  std::map<EntityId, absl::Duration> costs_;  // of opportunistic ones, as known last
};

}  // namespace hocket::coordinator

#endif  // HOCKET_COORDINATOR_POLICIES_PRIORITY_H_
