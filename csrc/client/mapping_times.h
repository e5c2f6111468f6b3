// When the agent of a job that waits maps its spilled memory's host copies at their addresses, and when it
// takes them away again because the turn is near (docs/decisions/0045).
//
//   spill      after         lead + margin        shortest     longest        margin
//     |----------|==== mapped ====|----- not -----:-- the turn --:-------------|==== mapped again
//                                from                                        until
//
// Only threads that Hocket does not know of (strays) need the mapping, and the turn has to take it away
// before the bytes can come back. How long a job waits is foreseen from its last wait, and from those before
// as far as they were like it. When the turn comes sooner, what is mapped then is the turn's affair. When it
// does not come, all is mapped again, and stays so for this wait.
//
// What is worth less than `after` of being mapped is not mapped.
//
// Where the coordinator says that the turn is near, that is when it is expected.
//
// Knows only times. Not thread-safe.
#ifndef HOCKET_CSRC_CLIENT_MAPPING_TIMES_H_
#define HOCKET_CSRC_CLIENT_MAPPING_TIMES_H_

#include <chrono>
#include <deque>
#include <optional>

#include "csrc/client/mutex.h"

namespace hocket {

class MappingTimes {
 public:
  using Time = Clock::time_point;

  enum class Action { kMap, kUnmap };
  struct Due {
    Action action = Action::kMap;
    Time at = Time::max();  // max(): there is nothing to do
  };

  // Waits are alike if the longest is longer than the shortest by no more than this or an eighth.
  static constexpr Clock::duration kAlike = std::chrono::milliseconds(250);
  static constexpr int kAlikePart = 8;
  // Before and after those times: this or a sixteenth.
  static constexpr Clock::duration kMargin = std::chrono::milliseconds(50);
  static constexpr int kMarginPart = 16;
  static constexpr std::size_t kRemembered = 3;  // waits
  // A turn that is said to be near comes at the end of another job's step: so long after it could, or that
  // one hangs.
  static constexpr Clock::duration kNear = std::chrono::seconds(5);

  // What was spilled is mapped so long after. `margin`: instead of kMargin.
  explicit MappingTimes(Clock::duration after, Clock::duration margin = kMargin)
      : after_(after), margin_(margin) {}

  // Something was.
  void Spilled(Time now);
  // The job waits for a turn from now on.
  void Asked(Time now);
  // It will have one soon, not before `at`.
  void IsNear(Time at);
  // It has one, and brings everything back; `moved`: something had been spilled.
  void TurnBegan(Time now, bool moved);

  // What is next, and from when on.
  Due Next() const;
  // A part of it is being done. Ended by Did(): it took so long, and there is `more`, for which others wait
  // until `again`.
  void Begins(Action action);
  void Did(Action action, Clock::duration took, bool more, Time again);

 private:
  struct Window {
    Time from;
    Time until;
  };
  // In which the turn is expected; none: it cannot be foreseen.
  std::optional<Window> Expected() const;

  const Clock::duration after_, margin_;
  std::deque<Clock::duration> waits_;  // the last ones in which something had been spilled
  std::optional<Time> asked_;
  std::optional<Time> near_;
  Time map_at_ = Time::max();
  Time unmap_at_ = Time::max();      // something may be mapped: not before
  Clock::duration mapping_took_{0};  // since the turn before: taking it away takes less
};

}  // namespace hocket

#endif  // HOCKET_CSRC_CLIENT_MAPPING_TIMES_H_
