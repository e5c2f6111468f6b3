// How the job is doing, written into its shared page for `hocket status`: a few relaxed stores a step.
#ifndef HOCKET_CSRC_CLIENT_PROGRESS_H_
#define HOCKET_CSRC_CLIENT_PROGRESS_H_

#include <cstdint>
#include <utility>

#include "allocator/caching_allocator.h"
#include "csrc/base/unique_fd.h"
#include "csrc/wire/shared_page.h"

namespace hocket {

// Thread-safe: each word is right by itself. With steps on several threads at once the average is of all of
// them, and a concurrent update of it may be lost.
class Progress {
 public:
  explicit Progress(wire::SharedPage page) : page_(std::move(page)) {}

  static std::uint64_t NowNs();

  void StepBegun() { Store(words().in_step, 1); }
  // `begun` and `ended` are of NowNs().
  void StepEnded(std::uint64_t begun, std::uint64_t ended, bool count);
  void TurnTaken() { words().turns.fetch_add(1, std::memory_order_relaxed); }
  void Holds(const Holdings& held);

  std::uint64_t steps() const { return Load(words().steps); }
  std::uint64_t turns() const { return Load(words().turns); }
  // Of the page, for the coordinator.
  UniqueFd Descriptor() const;

 private:
  wire::PageWords& words() { return page_.words(); }
  const wire::PageWords& words() const { return const_cast<wire::SharedPage&>(page_).words(); }
  static void Store(std::atomic<std::uint64_t>& word, std::uint64_t value) {
    word.store(value, std::memory_order_relaxed);
  }
  static std::uint64_t Load(const std::atomic<std::uint64_t>& word) {
    return word.load(std::memory_order_relaxed);
  }

  wire::SharedPage page_;
};

}  // namespace hocket

#endif  // HOCKET_CSRC_CLIENT_PROGRESS_H_
