#include "coordinator/server/history.h"

#include <algorithm>

namespace hocket::coordinator {
namespace {

nlohmann::json ToJson(const TurnEnded& turn, std::uint64_t index) {
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

}  // namespace

void History::Add(const TurnEnded& turn) {
  turns_.push_back(turn);
  if (turns_.size() <= kKept) return;
  turns_.pop_front();
  ++first_;
}

nlohmann::json History::Page(std::uint64_t since) const {
  const std::uint64_t end = first_ + turns_.size();
  const std::uint64_t from = std::clamp(since, first_, end);
  const std::uint64_t to = std::min<std::uint64_t>(end, from + kMaxPage);
  nlohmann::json turns = nlohmann::json::array();
  for (std::uint64_t i = from; i < to; ++i) turns.push_back(ToJson(turns_[i - first_], i));
  return {{"turns", std::move(turns)}, {"next", to}, {"first", first_}, {"end", end}};
}

}  // namespace hocket::coordinator
