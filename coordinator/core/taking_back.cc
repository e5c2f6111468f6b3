// Grants that lie unread, because their job is stopped or in a debugger: taken back for the others.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "coordinator/core/core.h"
#include "coordinator/core/limits.h"

namespace hocket::coordinator {

// When it was sent its Grant.
absl::Time Core::GrantedTo(const Job& job, const Turn& turn) {
  return std::max(job.granted, turn.grant_said);
}

// From when on Grants of this turn that may lie unread are to be taken back.
absl::Time Core::TakeBackTime(const Turn& turn) const {
  absl::Time at = absl::InfiniteFuture();
  for (JobId id : turn.granted) {
    if (job(id).grant_open) at = std::min(at, GrantedTo(job(id), turn) + kAnswerLimit);
  }
  return at;
}

// Once for each Grant: if it does not succeed, the job has taken it up.
void Core::TakeBackUnread(const Turn& turn) {
  if (due_ < TakeBackTime(turn) || !Contended(turn)) return;
  for (JobId id : turn.granted) {
    Job& rank = job(id);
    if (!rank.grant_open || due_ < GrantedTo(rank, turn) + kAnswerLimit) continue;
    rank.grant_open = false;
    actions_.emplace_back(TakeBack{.job = id, .wait = rank.wait});
  }
}

// Nothing was done in this part: nothing is learned from it, and nobody is charged for it. (If the Grant said
// fresh_arena: everybody was told to drop the arena's chunks when its last holder died.)
void Core::On(Job* job, const GrantTakenBack& event) {
  if (job == nullptr || job->turn == 0 || job->wait != event.wait) return;
  Say(absl::StrCat(
          job->info.name, " (pid ", job->info.pid, ") has not taken up the turn that it was given ",
          absl::FormatDuration(now_ - job->granted),
          " ago; it goes to the others, and this job gets none until it answers. Is it stopped, or in "
          "a debugger?"),
      "silent", job->id);
  job->unresponsive = job->taken_back = true;
  AskOthersThan(*job);
  job->waited += now_ - job->granted;
  LeavePart(*job);
}

}  // namespace hocket::coordinator
