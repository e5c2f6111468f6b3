// What one user's peer may see and do where a daemon serves several (`hocketd --system`). Pure.
//
// Of its own jobs a user may see and set all, but nothing that takes from others. Of others' it sees that
// they are there, whose they are, what they hold and whether they wait: that is in the sums that explain its
// own wait. Their names, programs, processes and reasons it does not see, and it can neither pause nor change
// nor explain them. Policies, guarantees, quotas of users and groups, the log and the end of the daemon are
// for those who *govern*: root, and whoever runs the daemon. Where a daemon serves one user, he governs.
#ifndef HOCKET_COORDINATOR_SERVER_RIGHTS_H_
#define HOCKET_COORDINATOR_SERVER_RIGHTS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "coordinator/core/events.h"
#include "nlohmann/json.hpp"

namespace hocket::coordinator {

// Whoever asks, as the kernel names him.
struct Asker {
  unsigned uid = 0;
  bool governs = false;
};

// What is known of a job when a command names one.
struct NamedJob {
  JobId id = 0;
  std::string name;
  unsigned user = 0;
  bool gone = false;
};

// The arguments with which `command` may be run for `asker`: the job that he named by its number, found among
// his own (for those who govern: among all), and his own group's full name. kNotFound: he has no such job.
// kPermissionDenied: it is not his to do; the sentence says who can. kInvalidArgument: several jobs have that
// name, by number.
absl::StatusOr<nlohmann::json> Permitted(const Asker& asker, const std::string& command,
                                         nlohmann::json arguments, const std::vector<NamedJob>& jobs);

// The answer to `command` as `asker` may read it: what is not his to see is blank.
nlohmann::json AsSeenBy(const Asker& asker, const std::string& command, nlohmann::json answer);

// Groups are a user's: the one that `uid` calls `group`.
std::string FullGroup(unsigned uid, const std::string& group);

// Whether a peer may have one more of the `most` connections (or jobs) that there can be, when it has `own`
// and all together `all`: nobody can use them up, and some are left for those who govern.
bool MayConnect(const Asker& asker, size_t own, size_t all, size_t most);

}  // namespace hocket::coordinator

#endif  // HOCKET_COORDINATOR_SERVER_RIGHTS_H_
