// Asking the coordinator from outside a job: what the CLI does.
#ifndef HOCKET_CSRC_WIRE_CONTROL_H_
#define HOCKET_CSRC_WIRE_CONTROL_H_

#include <string>

#include "absl/status/statusor.h"

namespace hocket::wire {

// Sends `command` with `arguments_json` (an object) to the coordinator at `socket_path` and returns its
// JSON answer. kNotFound: no coordinator runs there. kPermissionDenied: another user's does. kUnavailable: it
// cannot be reached, or hung up before it had answered. kDeadlineExceeded: it is stopped, or busy. Otherwise
// the coordinator's own sentence. Blocks at most `timeout_ms`.
absl::StatusOr<std::string> Control(const std::string& socket_path, const std::string& command,
                                    const std::string& arguments_json, int timeout_ms = 10000);

}  // namespace hocket::wire

#endif  // HOCKET_CSRC_WIRE_CONTROL_H_
