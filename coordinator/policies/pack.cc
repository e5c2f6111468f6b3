#include "coordinator/policies/pack.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_format.h"

namespace hocket::coordinator {

void Pack::Total::Add(double measured) {
  if (++looks == 1) {
    mean = measured;
    return;
  }
  const double weight = 1.0 / std::min(looks, 8);
  spread += (std::abs(measured - mean) - spread) * weight;
  mean += (measured - mean) * weight;
}

Pack::Members Pack::IdsOf(const std::vector<JobView>& members) {
  Members ids;
  for (const JobView& member : members) ids.insert(member.id);
  return ids;
}

// A set of three has to be worth more than the best two of them.
double Pack::Needed(const Members& members) const {
  if (members.size() == 2) return kPays;
  double best = 0;
  for (EntityId left : members) {
    Members fewer = members;
    fewer.erase(left);
    const auto record = records_.find(fewer);
    if (record != records_.end() && record->second.judgement == Judgement::kTogether)
      best = std::max(best, record->second.total.mean);
  }
  return best > 0 ? best * kPays : std::numeric_limits<double>::infinity();
}

bool Pack::Together(const std::vector<JobView>& members) const {
  const Members ids = IdsOf(members);
  const bool known = std::all_of(members.begin(), members.end(),
                                 [](const JobView& member) { return member.alone.samples() >= kAlone; });
  if (!known || static_cast<int>(ids.size()) > most_ ||
      Needed(ids) == std::numeric_limits<double>::infinity())
    return false;
  const auto record = records_.find(ids);
  return record == records_.end() || record->second.judgement != Judgement::kApart ||
         members.front().now >= record->second.again;
}

absl::Duration Pack::Keep(const JobView& holder, absl::Duration held, const GpuView& gpu) const {
  const absl::Duration keep = fair_.Keep(holder, held, gpu);
  const auto record = records_.find(present_);
  if (record == records_.end() || record->second.judgement != Judgement::kOnTrial) return keep;
  return std::max(keep, record->second.since + kLongestTrial - holder.now);
}

void Pack::Company(const std::vector<JobView>& members) {
  present_ = IdsOf(members);
  if (present_.size() < 2) return present_.clear();
  Record& record = records_[present_];
  const absl::Time now = members.front().now;
  if (record.judgement == Judgement::kApart && now >= record.again) {
    record.judgement = Judgement::kOnTrial;
    record.total = Total();
  }
  if (record.judgement != Judgement::kOnTrial) return;
  record.since = now;
  if (++record.trials > kMostTrials) Split(record, now);
  ForgetOldest();
}

void Pack::Measured(const std::vector<Pace>& paces) {
  const auto found = records_.find(present_);
  if (found == records_.end() || found->second.judgement == Judgement::kApart) return;
  Record& record = found->second;
  double total = 0;
  for (const Pace& pace : paces) {
    if (!pace.job.alone.known()) return;  // no longer: they are parted, and it will be
    total += absl::FDivDuration(pace.job.alone.mean() * static_cast<double>(pace.steps), pace.time);
  }
  record.total.Add(total);
  const absl::Time now = paces.front().job.now;
  const bool late = record.judgement == Judgement::kOnTrial && now - record.since >= kLongestTrial;
  if (record.total.looks < kLooks && !late) return;
  if (record.total.looks < kLooks || record.total.Least() < Needed(present_)) return Split(record, now);
  record.trials = 0;
  record.since = now;
  if (record.judgement == Judgement::kOnTrial) record.judgement = Judgement::kTogether;
}

void Pack::Split(Record& record, absl::Time now) {
  record.judgement = Judgement::kApart;
  record.trials = 0;
  record.since = now;
  record.again = now + record.pause;
  record.pause = std::min(2 * record.pause, kLongestPause);
}

void Pack::ForgetOldest() {
  while (records_.size() > kMostSets) {
    auto oldest = records_.end();
    for (auto record = records_.begin(); record != records_.end(); ++record) {
      const bool older = oldest == records_.end() || record->second.since < oldest->second.since;
      if (record->first != present_ && older) oldest = record;
    }
    records_.erase(oldest);
  }
}

std::string Pack::InCompany(const std::vector<JobView>& members) const {
  const auto record = records_.find(IdsOf(members));
  if (record == records_.end() || record->second.total.looks == 0)
    return "whether that pays is being measured";
  return absl::StrFormat(
      "together they do %.3g times what they would in turn%s", record->second.total.mean,
      record->second.judgement == Judgement::kOnTrial ? ", as far as that is measured" : "");
}

void Pack::Forget(EntityId job) {
  fair_.Forget(job);
  std::erase_if(records_, [job](const auto& record) { return record.first.contains(job); });
  present_.erase(job);
}

}  // namespace hocket::coordinator
