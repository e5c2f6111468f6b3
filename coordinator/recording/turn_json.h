// A turn, or a spill, that has ended, as `hocket trace` and the commands `turns` and `spills` have it.
#ifndef HOCKET_COORDINATOR_RECORDING_TURN_JSON_H_
#define HOCKET_COORDINATOR_RECORDING_TURN_JSON_H_

#include <cstdint>

#include "coordinator/core/events.h"
#include "nlohmann/json.hpp"

namespace hocket::coordinator {

nlohmann::json TurnJson(const TurnEnded& turn, std::uint64_t index);
nlohmann::json SpillJson(const SpillEnded& spill, std::uint64_t index);

}  // namespace hocket::coordinator

#endif  // HOCKET_COORDINATOR_RECORDING_TURN_JSON_H_
