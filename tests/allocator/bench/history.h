// A recorded history of a training's allocations: one "id size step" a line, size < 0 frees that id, step -1
// is before the first step. A line that begins with # says of what it is.
#ifndef HOCKET_TESTS_ALLOCATOR_BENCH_HISTORY_H_
#define HOCKET_TESTS_ALLOCATOR_BENCH_HISTORY_H_

#include <istream>
#include <map>
#include <sstream>
#include <string>
#include <unordered_map>
#include <vector>

#include "csrc/base/bytes.h"
#include "csrc/base/check.h"

namespace hocket::bench {

struct Event {
  std::size_t block = 0;  // numbered from 0, each once
  Bytes size = 0;
  bool frees = false;
};

struct Step {
  int number = 0;  // -1: what comes before the first
  std::vector<Event> events;
};

class History {
 public:
  static History Read(std::istream& in) {
    History history;
    std::unordered_map<long long, std::size_t> blocks;
    long long id, size, step;
    for (std::string text; std::getline(in, text);) {
      if (text.empty() || text[0] == '#') continue;
      std::istringstream line(text);
      HOCKET_CHECK(line >> id >> size >> step) << "a history with the line '" << text << "'";
      if (history.steps.empty() || history.steps.back().number != step) {
        history.steps.push_back({.number = static_cast<int>(step), .events = {}});
      }
      if (size > 0) blocks[id] = history.blocks++;
      history.steps.back().events.push_back(
          {.block = blocks.at(id), .size = static_cast<Bytes>(size > 0 ? size : -size), .frees = size < 0});
    }
    HOCKET_CHECK(history.steps.size() >= 3) << "a history of " << history.steps.size() << " steps";
    return history;
  }

  // True if the last two steps make the same allocations: the last can be repeated.
  bool Steady() const { return Sizes(steps.back()) == Sizes(steps[steps.size() - 2]); }

  // Goes on for `times` steps like the last one. What that one freed of the step before, a repetition frees
  // of the step before it. REQUIRES: Steady().
  void Repeat(int times) {
    const Step last = steps.back();
    std::vector<std::size_t> born_last = Births(last);
    std::vector<std::size_t> before = Births(steps[steps.size() - 2]);
    for (; times > 0; --times) {
      std::unordered_map<std::size_t, std::size_t> now;  // a block of `last` or the step before -> its heir
      for (std::size_t i = 0; i < born_last.size(); ++i) now[before[i]] = Latest(born_last[i]);
      Step step{.number = steps.back().number + 1, .events = {}};
      std::unordered_map<std::size_t, std::size_t> born;
      for (Event event : last.events) {
        if (!event.frees) {
          event.block = born[event.block] = blocks++;
        } else if (const auto own = born.find(event.block); own != born.end()) {
          event.block = own->second;
        } else if (const auto heir = now.find(event.block); heir != now.end()) {
          event.block = heir->second;
        } else {
          continue;  // it was older, and is gone
        }
        step.events.push_back(event);
      }
      for (const auto& [block, heir] : born) heirs_[block] = heir;
      steps.push_back(std::move(step));
    }
  }

  std::vector<Step> steps;
  std::size_t blocks = 0;

  // Goes on for `times` steps like the last three in turn, as a job does whose lengths change. What they
  // leave alive is freed at their end; `outlives`: at the end of the step that follows.
  void Cycle(int times, bool outlives = false) {
    const std::vector<Step> last(steps.end() - 3, steps.end());
    std::map<std::size_t, Event> left;
    for (int i = 0; i < times; ++i) {
      Step step{.number = steps.back().number + 1, .events = {}};
      std::map<std::size_t, Event> born;
      for (const Event& event : last[static_cast<std::size_t>(i) % 3].events) {
        if (!event.frees) {
          step.events.push_back(born[event.block] = {blocks++, event.size, false});
        } else if (const auto own = born.find(event.block); own != born.end()) {
          step.events.push_back({own->second.block, event.size, true});
          born.erase(own);
        }
      }
      if (outlives) born.swap(left);
      for (auto& [block, event] : born) step.events.push_back({event.block, event.size, true});
      steps.push_back(std::move(step));
    }
  }

 private:
  static std::vector<std::size_t> Births(const Step& step) {
    std::vector<std::size_t> births;
    for (const Event& event : step.events) {
      if (!event.frees) births.push_back(event.block);
    }
    return births;
  }
  static std::vector<Bytes> Sizes(const Step& step) {
    std::vector<Bytes> sizes;
    for (const Event& event : step.events) {
      if (!event.frees) sizes.push_back(event.size);
    }
    return sizes;
  }
  std::size_t Latest(std::size_t block) const {
    const auto heir = heirs_.find(block);
    return heir == heirs_.end() ? block : heir->second;
  }

  std::unordered_map<std::size_t, std::size_t>
      heirs_;  // of a block of the repeated step: the last repetition's
};

}  // namespace hocket::bench

#endif  // HOCKET_TESTS_ALLOCATOR_BENCH_HISTORY_H_
