// How the job is doing, written into its shared page for `hocket status`: a few relaxed stores a step.
//
// The clock is read where a step begins, and where it ends; of steps shorter than 1 ms, where that would be a
// third of what a boundary costs, at the end of one in eight.
#ifndef HOCKET_CSRC_CLIENT_PROGRESS_H_
#define HOCKET_CSRC_CLIENT_PROGRESS_H_

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <utility>

#include "allocator/caching_allocator.h"
#include "csrc/base/mutex.h"
#include "csrc/base/unique_fd.h"
#include "csrc/wire/shared_page.h"

namespace hocket {

// Thread-safe: each word is right by itself. With steps on several threads at once the average is of all of
// them, and a concurrent update of it may be lost.
class Progress {
 public:
  explicit Progress(wire::SharedPage page) : page_(std::move(page)) {}

  static std::uint64_t NowNs();

  // Returns what StepEnded() wants: 0 if its length is not measured.
  std::uint64_t StepBegun() {
    const std::uint64_t now = NowNs();
    Store(words().step_begun_ns, now);
    Store(words().in_step, 1);
    const bool measured = steps() % kMeasuredOneIn == 0 || Load(words().step_time_ns) >= kShortNs;
    return measured ? now - stood_ns_.load(std::memory_order_relaxed) : 0;
  }
  // Not counted: a scope that is no step.
  void StepEnded(std::uint64_t begun, bool count);
  // The turn passes in the midst of the steps under way: they are counted, and not measured.
  void StepsInterrupted() {
    interrupted_ns_.store(NowNs() - stood_ns_.load(std::memory_order_relaxed), std::memory_order_relaxed);
    Store(words().in_step, 0);
  }
  void StepsGoOn() {
    Store(words().step_begun_ns, NowNs());
    Store(words().in_step, 1);
  }
  // Steps under way have stood still for so long, for others: it is not counted in their lengths.
  void Stood(Clock::duration time) {
    stood_ns_.fetch_add(static_cast<std::uint64_t>(std::chrono::nanoseconds(time).count()),
                        std::memory_order_relaxed);
  }
  void TurnTaken() { words().turns.fetch_add(1, std::memory_order_relaxed); }
  void Holds(const Holdings& held);
  // See wire::SharedPage.
  bool AcceptGrant(std::uint64_t wait) { return page_.AcceptGrant(wait); }

  std::uint64_t steps() const { return Load(words().steps); }
  // Of a step, on average, as far as it is known.
  std::chrono::nanoseconds step_time() const { return std::chrono::nanoseconds(Load(words().step_time_ns)); }
  // When a step ended last; of short steps, whose ends are not all timed, when one began last, if that is
  // later.
  std::chrono::steady_clock::time_point last_boundary() const {
    return std::chrono::steady_clock::time_point(
        std::chrono::nanoseconds(std::max(Load(words().last_boundary_ns), Load(words().step_begun_ns))));
  }
  std::uint64_t turns() const { return Load(words().turns); }
  // Of the page, for the coordinator.
  UniqueFd Descriptor() const;

 private:
  static constexpr std::uint64_t kMeasuredOneIn = 8;
  static constexpr std::uint64_t kShortNs = 1'000'000;

  wire::PageWords& words() { return page_.words(); }
  const wire::PageWords& words() const { return const_cast<wire::SharedPage&>(page_).words(); }
  static void Store(std::atomic<std::uint64_t>& word, std::uint64_t value) {
    word.store(value, std::memory_order_relaxed);
  }
  static std::uint64_t Load(const std::atomic<std::uint64_t>& word) {
    return word.load(std::memory_order_relaxed);
  }

  wire::SharedPage page_;
  // Lengths of steps are taken by a clock that stands while they stand still: by the time less this.
  std::atomic<std::uint64_t> stood_ns_{0};
  std::atomic<std::uint64_t> interrupted_ns_{0};  // when, by it, a turn passed in the midst of a step last
};

}  // namespace hocket

#endif  // HOCKET_CSRC_CLIENT_PROGRESS_H_
