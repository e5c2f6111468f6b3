// As fair; and several jobs at the same time, where they measurably do more together than in turn.
//
// How much they do together is measured for each set of jobs: the sum, over its members, of what a step takes
// the member alone over what it takes beside the others. 1 is what they would do in turn, without the
// hand-overs.
//
//                            looks            at the least over kPays
//     (unknown) --> on trial ------> judged ---------------------------> together
//                       ^                \                                   |  looks: no longer
//                       |                 +-------------> apart <------------+
//                       +----- after a pause, twice as long each time
//
// On trial a set runs until it is judged, also while others wait. A set of three is tried where two of them
// are together already, and has to do more than they; and so on, up to PolicySettings::most_together. Whose
// step alone is not known lately runs alone until it is.
#ifndef HOCKET_COORDINATOR_POLICIES_PACK_H_
#define HOCKET_COORDINATOR_POLICIES_PACK_H_

#include <map>
#include <set>

#include "coordinator/policies/fair.h"

namespace hocket::coordinator {

class Pack final : public Policy {
 public:
  // The least gain that is worth it: below that, what is measured is as well the error of the measurement
  // (the shares that a turn may lose to hand-overs are 2 %, and steps vary), and one that fails takes all
  // with it.
  static constexpr double kPays = 1.05;
  // So many measurements make a judgement.
  static constexpr int kLooks = 3;
  // So many steps alone make a step alone: the first are longer than the others.
  static constexpr int kAlone = 3;
  static constexpr absl::Duration kFirstPause = absl::Minutes(1);
  static constexpr absl::Duration kLongestPause = absl::Hours(1);
  // A trial that has not been judged after so long, or has been begun so often, is over.
  static constexpr absl::Duration kLongestTrial = absl::Seconds(60);
  static constexpr int kMostTrials = 10;
  // Sets that are remembered; the one that was judged the longest ago goes first.
  static constexpr std::size_t kMostSets = 256;

  void Set(const PolicySettings& settings) override { most_ = settings.most_together; }
  bool Before(const JobView& a, const JobView& b) const override { return fair_.Before(a, b); }
  std::string Reason(const JobView& next) const override { return fair_.Reason(next); }
  std::string Standing(const JobView& job) const override { return fair_.Standing(job); }
  // As fair; and while a trial lasts.
  absl::Duration Keep(const JobView& holder, absl::Duration held, const GpuView& gpu) const override;
  absl::Duration KeepFree(const JobView& absent, const JobView& next) const override {
    return fair_.KeepFree(absent, next);
  }
  bool RunsSeveral() const override { return true; }
  bool Together(const std::vector<JobView>& members) const override;
  void Company(const std::vector<JobView>& members) override;
  void Measured(const std::vector<Pace>& paces) override;
  std::string InCompany(const std::vector<JobView>& members) const override;
  void Asked(const JobView& job) override { fair_.Asked(job); }
  void Granted(const JobView& job) override { fair_.Granted(job); }
  void Charge(const JobView& job, absl::Duration device_time, bool contended) override {
    fair_.Charge(job, device_time, contended);
  }
  void Forget(EntityId job) override;

 private:
  using Members = std::set<EntityId>;
  enum class Judgement { kOnTrial, kTogether, kApart };
  struct Total {  // of several measurements, a newer one counting more
    int looks = 0;
    double mean = 0;
    double spread = 0;
    void Add(double total);
    double Least() const { return mean - 2 * spread; }
  };
  struct Record {
    Judgement judgement = Judgement::kOnTrial;
    Total total;
    int trials = 0;  // begun, since it was judged
    absl::Time since = absl::InfinitePast();
    absl::Time again;  // apart: when to try it again
    absl::Duration pause = kFirstPause;
  };

  static Members IdsOf(const std::vector<JobView>& members);
  // What a set has to do together; infinite: it is not tried.
  double Needed(const Members& members) const;
  void Split(Record& record, absl::Time now);
  void ForgetOldest();

  Fair fair_;
  int most_ = PolicySettings().most_together;
  std::map<Members, Record> records_;
  Members present_;  // who runs at the same time now; fewer than two: nobody
};

}  // namespace hocket::coordinator

#endif  // HOCKET_COORDINATOR_POLICIES_PACK_H_
