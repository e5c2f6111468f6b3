// Timing mode the naive way: every process and engine looked at in every nanosecond, and every item whenever
// one has come or ended. It shares no code with what it is compared to.
#ifndef HOCKET_TESTS_EMULATOR_TIMING_REFERENCE_H_
#define HOCKET_TESTS_EMULATOR_TIMING_REFERENCE_H_

#include <array>
#include <optional>
#include <utility>
#include <vector>

namespace hocket::emulator::timing {

struct ReferenceItem {
  int stream = 0;
  int engine = -1;  // -1: a mark
  long duration = 0;
  std::vector<int> after;  // indices of items of the same process
  // What comes of it:
  bool started = false;
  long since = 0;
  long received = 0;
  long ended = -1;
};

class Reference {
 public:
  Reference(int processes, long slice, long start)
      : items_(processes), news_(processes), running_(processes, {-1, -1, -1}), slice_(slice), now_(start) {}

  int Submit(int process, ReferenceItem item) {
    items_[process].push_back(std::move(item));
    news_[process] = true;
    return static_cast<int>(items_[process].size()) - 1;
  }

  void RunUntil(long end) {
    HappenNow();
    while (now_ < end) {
      for (int engine = 0; engine < 3; ++engine) Serve(engine);
      ++now_;
      HappenNow();
    }
    HappenNow();
  }

  // Returns when the last item has ended.
  long RunToTheEnd() {
    while (!AllEnded()) RunUntil(now_ + 1);
    return now_;
  }

  const std::vector<std::vector<ReferenceItem>>& items() const { return items_; }

 private:
  bool AllEnded() const {
    for (const auto& items : items_) {
      for (const ReferenceItem& item : items) {
        if (item.ended < 0) return false;
      }
    }
    return true;
  }

  // Whatever takes no time, until nothing more happens.
  void HappenNow() {
    for (std::size_t process = 0; process < items_.size(); ++process) {
      do {
        if (news_[process]) Start(process);
        End(process);
      } while (news_[process]);
    }
  }

  void Start(std::size_t process) {
    std::vector<ReferenceItem>& items = items_[process];
    news_[process] = false;
    for (std::size_t i = 0; i < items.size(); ++i) {
      ReferenceItem& item = items[i];
      if (item.started || !Startable(items, i)) continue;
      item.started = true;
      item.since = now_;
      if (item.engine >= 0) continue;
      item.ended = now_;
      news_[process] = true;
    }
    for (int engine = 0; engine < 3; ++engine) running_[process][engine] = First(items, engine);
  }

  void End(std::size_t process) {
    for (int engine = 0; engine < 3; ++engine) {
      ReferenceItem* item = Running(process, engine);
      if (item == nullptr || item->received < item->duration) continue;
      item->ended = now_;
      news_[process] = true;
    }
  }

  static bool Startable(const std::vector<ReferenceItem>& items, std::size_t index) {
    for (std::size_t i = 0; i < index; ++i) {
      if (items[i].stream == items[index].stream && items[i].ended < 0) return false;
    }
    for (int i : items[index].after) {
      if (items[i].ended < 0) return false;
    }
    return true;
  }

  // The index of the item that has the process's part of the engine; -1: none.
  static int First(const std::vector<ReferenceItem>& items, int engine) {
    int first = -1;
    for (int i = 0; i < static_cast<int>(items.size()); ++i) {
      const ReferenceItem& item = items[i];
      if (item.engine != engine || !item.started || item.ended >= 0) continue;
      if (item.received > 0) return i;
      if (first < 0 || item.since < items[first].since) first = i;
    }
    return first;
  }

  ReferenceItem* Running(std::size_t process, int engine) {
    const int index = running_[process][engine];
    return index < 0 ? nullptr : &items_[process][index];
  }

  void Serve(int engine) {
    const int processes = static_cast<int>(items_.size());
    Turn& turn = turns_[engine];
    if (turn.left == 0 || Running(turn.process, engine) == nullptr) {
      turn.left = 0;
      for (int i = 1; i <= processes && turn.left == 0; ++i) {
        const int next = (turn.process + i) % processes;
        if (Running(next, engine) == nullptr) continue;
        turn = {next, slice_};
        break;
      }
    }
    if (turn.left == 0) return;
    ++Running(turn.process, engine)->received;
    --turn.left;
  }

  struct Turn {
    int process = 0;
    long left = 0;
  };

  std::vector<std::vector<ReferenceItem>> items_;
  std::vector<bool> news_;                   // of each process: an item has come or ended
  std::vector<std::array<int, 3>> running_;  // of each process and engine: First(), which only news change
  const long slice_;
  long now_;
  std::array<Turn, 3> turns_ = {};
};

}  // namespace hocket::emulator::timing

#endif  // HOCKET_TESTS_EMULATOR_TIMING_REFERENCE_H_
