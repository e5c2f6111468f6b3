// The last turns that were given, for pictures; all of a day lie on disk (coordinator/recording).
#ifndef HOCKET_COORDINATOR_SERVER_HISTORY_H_
#define HOCKET_COORDINATOR_SERVER_HISTORY_H_

#include <cstdint>
#include <deque>

#include "coordinator/core/events.h"
#include "nlohmann/json.hpp"

namespace hocket::coordinator {

// Keeps the newest kKept records; each has an index that counts from 0 and never repeats.
class History {
 public:
  static constexpr size_t kKept = 100'000;
  static constexpr size_t kMaxPage = 1'000;

  void Add(const TurnEnded& turn);

  // Up to kMaxPage records from index `since` on: {"turns": [...], "next": index to go on with, "first": the
  // oldest kept, "end": index of the next one to come}.
  nlohmann::json Page(std::uint64_t since) const;

 private:
  std::deque<TurnEnded> turns_;
  std::uint64_t first_ = 0;  // index of turns_.front()
};

}  // namespace hocket::coordinator

#endif  // HOCKET_COORDINATOR_SERVER_HISTORY_H_
