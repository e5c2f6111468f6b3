// A turn that has ended, as `hocket trace` and the command `turns` have it.
#ifndef HOCKET_COORDINATOR_RECORDING_TURN_JSON_H_
#define HOCKET_COORDINATOR_RECORDING_TURN_JSON_H_

#include <cstdint>

#include "coordinator/core/events.h"
#include "nlohmann/json.hpp"

namespace hocket::coordinator {

nlohmann::json TurnJson(const TurnEnded& turn, std::uint64_t index);

}  // namespace hocket::coordinator

#endif  // HOCKET_COORDINATOR_RECORDING_TURN_JSON_H_
