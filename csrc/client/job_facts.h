// What a job says of itself in its Join: the user's options, checked, and what the process knows.
#ifndef HOCKET_CSRC_CLIENT_JOB_FACTS_H_
#define HOCKET_CSRC_CLIENT_JOB_FACTS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "csrc/base/bytes.h"
#include "csrc/client/job_options.h"
#include "csrc/wire/messages.h"

namespace hocket {

// What a process with this command line runs, as people would call it: its first word, and of a Python also
// the script or module.
std::string ProgramOf(const std::vector<std::string>& arguments);

// kInvalidArgument: an option out of range, with the value and the range.
absl::StatusOr<wire::Join> JoinFor(const JobOptions& options, const std::string& device_uuid,
                                   const std::string& device_name, Bytes capacity);

}  // namespace hocket

#endif  // HOCKET_CSRC_CLIENT_JOB_FACTS_H_
