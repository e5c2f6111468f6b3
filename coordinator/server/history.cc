#include "coordinator/server/history.h"

#include <algorithm>

#include "coordinator/recording/turn_json.h"

namespace hocket::coordinator {

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
  for (std::uint64_t i = from; i < to; ++i) turns.push_back(TurnJson(turns_[i - first_], i));
  return {{"turns", std::move(turns)}, {"next", to}, {"first", first_}, {"end", end}};
}

}  // namespace hocket::coordinator
