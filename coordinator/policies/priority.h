// Production jobs (priority high) first, slowed down by all others together by at most a set share
// (PolicySettings::production_bound).
//
// Each production job has an account. It earns the bound's share of the time that it lives through (its turns
// and its usual gaps), and pays for what it is delayed (it waited while an opportunistic job had the device;
// its bytes had to come back afterwards, its turns had to be given and asked for). What can be saved up is
// what the longest opportunistic turn costs and what half a second earns: so the bound holds over any few
// seconds, and a quiet hour does not pay for a slow minute.
//
// What is earned is little, and goes first to where it buys most: to steps that should end in time. While a
// production job is between two steps, an opportunistic step that would begin `t` after its gap's begin
//
//   is sure to end in time    t + step + ready <= gap, by the step's upper and the gap's lower bound
//   should end in time        its expected delay, max(0, t + step + ready - gap) by the means, and what
//                             production then takes to be ready, is no more than this step and this gap of
//                             production earn: it could be let in in each gap
//   would overrun             the expected delay is more
//
// One that is sure is let in, unless production has been delayed by more than it can ever save up; one that
// should end in time while the account is not overdrawn; one that would overrun only while there is plenty:
// what is left after it is what a quarter of a second earns, or more. So an account out of which many
// steps could be bought that end a little late does not go into one that ends very late, and the dearest
// steps come only where the others do not use up what is earned. (With a bound of 2 %, steps of 20 ms and
// gaps of 20 ms, each gap earns 0.8 ms. Of steps of 5.1 ms the fourth ends 0.4 ms late, in each gap; a fifth
// would cost 5 ms, as much as a fourth in twelve gaps.) Of these moments the latest is the *last worthwhile*
// one of a gap: later steps wait for production, and for the next gap, where they cost less. A job whose
// steps nobody has measured yet counts as one that should end in time, and what it costs is earned
// afterwards. Where production stays away, what is earned meanwhile pays for a whole step in the end.
//
// Now and then a step takes several times as long as usual. That quarter of a second's earnings is for it,
// too: with less, each such step shuts those out that should end in time until it has been paid for.
//
// Before a production job that asks, or goes on, an opportunistic one comes only where the account can pay
// for the worst, and no gap makes that much cheaper: otherwise what is saved up would buy few steps at their
// full price. However much is saved up, production that asks waits for one opportunistic step at most.
//
// An opportunistic job that comes back shortly after production has begun a step waits for the whole of it,
// and its own work between two steps stands still meanwhile. So the device is kept free for it, where it is
// the only one, production has asked, and there is plenty for all that this costs: the wait, by the upper
// bound on its gap, and its step, and where that gap is longer than production's step. For at most a quarter
// of the step that it would wait for otherwise: what is earned is little, and waiting is the dearest that it
// can be spent on. And never twice before one turn of production's.
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
    Estimate step, gap;                               // as known last
    bool asks = false;
    bool has_waited = false;  // since it asks, an opportunistic turn has ended
    absl::Time asked;
  };

  // An opportunistic job.
  struct Other {
    absl::Duration cost;                     // Cost(), as known last
    Estimate gap;                            // when it left its last turn
    absl::Time left = absl::InfinitePast();  // charged last, at the end of a turn or within it
  };

  static bool Production(const JobView& job) { return job.priority == Priority::kHigh; }
  // What one turn of an opportunistic job may cost a production job that asks right after its begin.
  static absl::Duration Cost(const JobView& job);
  // What a step of `other` takes, by the bounds and by the means, and what production then takes to be ready.
  struct Price {
    absl::Duration worst;
    absl::Duration usual;
    absl::Duration back;
  };
  // `to_begin`: with that step it would begin a turn; otherwise it goes on.
  static Price PriceOf(const JobView& absent, const JobView& other, bool to_begin);
  // Until when what `absent` has lived through is in its account.
  absl::Time CountedUntil(const JobView& absent) const;
  // What the poorest account can pay.
  absl::Duration Budget() const;
  // What is kept for steps that should end in time.
  absl::Duration Reserve() const;
  // That can be saved up. When an account is overdrawn by more, those that are sure to end in time wait, too.
  absl::Duration Most() const;
  // What a step, and a gap as usual, of `production` earn.
  absl::Duration EarnedInCycle(const JobView& production) const;
  // What its last hand-over cost it beside the wait, which it pays in each cycle, whoever ran in the gap.
  // Half of what is earned at most: where steps and gaps are so short that this is more, the bound does not
  // hold, but the others get something.
  absl::Duration Passage(const JobView& production) const;
  // Until how long after `absent` left its last turn a step of `other` may begin; negative: not at all.
  absl::Duration LastWorthwhile(const JobView& absent, const JobView& other, bool to_begin) const;
  // The same, from when on there is plenty for a whole step, however soon `absent` comes back.
  absl::Duration Plenty(const JobView& absent, const JobView& other, bool to_begin) const;
  // The one production job leaves pauses, in which a turn that costs `cost` would cost it half of that at
  // most. Of several, one may work in the pauses of the others.
  bool CheaperInPauses(absl::Duration cost) const;
  // A turn of `job` is worth what it costs production that asks, or goes on.
  bool Affords(const JobView& job) const;
  // The device is kept free until then for the only opportunistic job, while the only production job waits;
  // infinite past: it is not. The same from when production asks until it is granted, or the other has had
  // its turn.
  absl::Time AwaitedUntil() const;
  // For how long at most; zero: not at all. Whose gap is shorter than a step of production's is back before
  // that ends.
  absl::Duration LongestWait() const;
  // Until how long after `absent`, an opportunistic job, has left a step of production may begin.
  absl::Duration StopToWaitFor(const JobView& absent) const;
  void Earn(Account& account, absl::Duration time);
  void Pay(Account& account, absl::Duration delay) const;
  int Rank(const JobView& job) const;

  double bound_ = PolicySettings().production_bound;
  Fair fair_;
  std::map<EntityId, Account> accounts_;  // of production jobs
  std::map<EntityId, Other> others_;      // opportunistic ones
  EntityId awaited_ = 0;                  // the device was kept free for it, and it has come
};

}  // namespace hocket::coordinator

#endif  // HOCKET_COORDINATOR_POLICIES_PRIORITY_H_
