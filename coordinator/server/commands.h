// What people ask of the daemon: one row in commands.cc for each (PROTOCOL.md has the table).
#ifndef HOCKET_COORDINATOR_SERVER_COMMANDS_H_
#define HOCKET_COORDINATOR_SERVER_COMMANDS_H_

#include <string>

#include "absl/status/statusor.h"
#include "coordinator/server/rights.h"

namespace hocket::coordinator {

class Server;

// Runs `command` for `asker`, as far as that is his to do (rights.h), with its arguments (a JSON object, or
// nothing) and returns a JSON object. Errors are full sentences: an unknown command, job or policy lists
// those that are known.
absl::StatusOr<std::string> RunCommand(Server& server, const Asker& asker, const std::string& command,
                                       const std::string& arguments);

}  // namespace hocket::coordinator

#endif  // HOCKET_COORDINATOR_SERVER_COMMANDS_H_
