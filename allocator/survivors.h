// Which allocations of a step outlive it, learned from the step before.
//
// A training loop repeats itself: the n-th allocation of a step has the size and the fate of the n-th of the
// step before. So each step is written down as a sequence of (size, did it live beyond the end of the step?),
// and while the next step runs, its allocations are aligned with that sequence: same size at the cursor, or,
// after an insertion or omission, the next place with that size within a short window. An allocation that is
// aligned with a survivor is predicted to be one. A wrong prediction costs memory in the wrong region for one
// step, never correctness: what is alive at a hand-over decides.
//
// Constant time a call. Not thread-safe: the allocator's lock guards it.
#ifndef HOCKET_ALLOCATOR_SURVIVORS_H_
#define HOCKET_ALLOCATOR_SURVIVORS_H_

#include <cstdint>
#include <vector>

#include "csrc/base/bytes.h"

namespace hocket {

// Names an allocation of a step. step == 0: outside every step.
struct Birth {
  std::uint32_t step = 0;
  std::uint32_t index = 0;
};

class Survivors {
 public:
  // Steps nest or overlap on several threads: the outermost counts.
  void BeginStep();
  // REQUIRES: a step is under way.
  void EndStep();
  bool InStep() const { return depth_ > 0; }

  // An allocation of `size` bytes, now. `*survives`: it is predicted to outlive the step; outside a step
  // that is what is assumed of all.
  Birth Allocated(Bytes size, bool* survives);
  // The allocation of that birth is freed.
  void Freed(Birth birth);

  // Of the step before the present one.
  std::size_t known_allocations() const { return last_.size(); }

 private:
  struct Entry {
    Bytes size;
    bool survives;
  };
  static constexpr std::size_t kWindow = 64;

  // Moves the cursor behind the place in the last step that answers to `size`; nullptr: there is none.
  const Entry* Align(Bytes size);

  int depth_ = 0;
  std::uint32_t step_ = 0;
  std::vector<Entry> now_;
  std::vector<Entry> last_;
  std::size_t cursor_ = 0;
};

}  // namespace hocket

#endif  // HOCKET_ALLOCATOR_SURVIVORS_H_
