#include "coordinator/recording/turn_json.h"

namespace hocket::coordinator {

nlohmann::json TurnJson(const TurnEnded& turn, std::uint64_t index) {
  return {{"index", index},
          {"turn", turn.turn},
          {"job", turn.job},
          {"name", turn.name},
          {"user", turn.user},
          {"device", turn.device},
          {"start_ns", absl::ToUnixNanos(turn.start)},
          {"end_ns", absl::ToUnixNanos(turn.end)},
          {"steps", turn.steps},
          {"restored", turn.restored},
          {"spilled", turn.spilled},
          {"ready_ns", absl::ToInt64Nanoseconds(turn.ready)},
          {"ahead", turn.ahead},
          {"waited_ns", absl::ToInt64Nanoseconds(turn.waited)},
          {"hand_over_ns", absl::ToInt64Nanoseconds(turn.hand_over)},
          {"died", turn.died},
          {"reason", turn.reason}};
}

nlohmann::json SpillJson(const SpillEnded& spill, std::uint64_t index) {
  return {{"index", index},
          {"job", spill.job.id},
          {"name", spill.job.name},
          {"user", spill.job.user},
          {"device", spill.job.device},
          {"for_job", spill.for_job.id},
          {"for", spill.for_job.name},
          {"for_user", spill.for_job.user},
          {"start_ns", absl::ToUnixNanos(spill.start)},
          {"end_ns", absl::ToUnixNanos(spill.end)},
          {"bytes", spill.bytes}};
}

}  // namespace hocket::coordinator
