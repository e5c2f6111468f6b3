// The last turns that were given, and the last spills, for pictures; all of a day lie on disk
// (coordinator/recording).
#ifndef HOCKET_COORDINATOR_SERVER_HISTORY_H_
#define HOCKET_COORDINATOR_SERVER_HISTORY_H_

#include <algorithm>
#include <cstdint>
#include <deque>
#include <utility>

#include "coordinator/core/events.h"
#include "coordinator/recording/turn_json.h"
#include "nlohmann/json.hpp"

namespace hocket::coordinator {

// Keeps the newest kKept records; each has an index that counts from 0 and never repeats.
template <typename Record, nlohmann::json (*kToJson)(const Record&, std::uint64_t)>
class Kept {
 public:
  static constexpr size_t kKept = 100'000;
  static constexpr size_t kMaxPage = 1'000;

  void Add(Record record) {
    records_.push_back(std::move(record));
    if (records_.size() <= kKept) return;
    records_.pop_front();
    ++first_;
  }

  // Up to kMaxPage records from index `since` on: {`name`: [...], "next": index to go on with, "first": the
  // oldest kept, "end": index of the next one to come}.
  nlohmann::json Page(const char* name, std::uint64_t since) const {
    const std::uint64_t end = first_ + records_.size();
    const std::uint64_t from = std::clamp(since, first_, end);
    const std::uint64_t to = std::min<std::uint64_t>(end, from + kMaxPage);
    nlohmann::json page = nlohmann::json::array();
    for (std::uint64_t i = from; i < to; ++i) page.push_back(kToJson(records_[i - first_], i));
    return {{name, std::move(page)}, {"next", to}, {"first", first_}, {"end", end}};
  }

 private:
  std::deque<Record> records_;
  std::uint64_t first_ = 0;  // index of records_.front()
};

struct History {
  Kept<TurnEnded, TurnJson> turns;
  Kept<SpillEnded, SpillJson> spills;
};

}  // namespace hocket::coordinator

#endif  // HOCKET_COORDINATOR_SERVER_HISTORY_H_
