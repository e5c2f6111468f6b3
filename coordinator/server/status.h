// What `hocket status --json` shows.
#ifndef HOCKET_COORDINATOR_SERVER_STATUS_H_
#define HOCKET_COORDINATOR_SERVER_STATUS_H_

#include "coordinator/core/events.h"
#include "nlohmann/json.hpp"

namespace hocket::coordinator {

class Server;

// {"daemon": {...}, "devices": [...], "jobs": [...]}; PROTOCOL.md lists the keys.
nlohmann::json StatusJson(Server& server);

// One entry of "jobs". REQUIRES: the job is known.
nlohmann::json JobJson(Server& server, JobId id);

}  // namespace hocket::coordinator

#endif  // HOCKET_COORDINATOR_SERVER_STATUS_H_
