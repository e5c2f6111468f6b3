// What `hocket status --json` shows.
#ifndef HOCKET_COORDINATOR_SERVER_STATUS_H_
#define HOCKET_COORDINATOR_SERVER_STATUS_H_

#include <string>

#include "coordinator/core/events.h"
#include "coordinator/core/state.h"
#include "nlohmann/json.hpp"

namespace hocket::coordinator {

class Core;
class Server;

// {"daemon": {...}, "devices": [...], "jobs": [...]}; PROTOCOL.md lists the keys.
nlohmann::json StatusJson(Server& server);

// Why the policy does not decide as it should (Policy::Trouble()); empty: it does.
std::string PolicyTrouble(const State& state);

// One entry of "jobs". REQUIRES: the job is known.
nlohmann::json JobJson(Server& server, JobId id);

// What it waits for that lacks room, in bytes; null: it does not. REQUIRES: the job is known.
nlohmann::json LackJson(const Core& core, JobId id);

// The quotas of a job, and how it stands to them: in "jobs" as "quota". REQUIRES: the job is known.
nlohmann::json QuotaJson(const Core& core, JobId id);
// Those of a group or a user, and how its jobs together stand to them on each device.
nlohmann::json QuotaJson(const Core& core, const Owner& owner);

// The times that policies reckon with, and how they have held: `step` in its own turn, `beside` others, `gap`
// from the end of a turn until it asks again, `ready` from the grant until it runs. Null: not known yet.
nlohmann::json MeasuredJson(const Job& job);

// What is remembered of a job, with the keys that `hocket simulate` reads: as it was until `until`.
nlohmann::json RecordOf(const Job& job, absl::Time until);

}  // namespace hocket::coordinator

#endif  // HOCKET_COORDINATOR_SERVER_STATUS_H_
