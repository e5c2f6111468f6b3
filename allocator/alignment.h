// Aligns the allocations of a step, as they come, with those of a step that was written down.
//
//   written   a b c d e f        an insertion (x) answers to nothing; the cursor stays
//   now       a b x c   e        an omission (d) is jumped over, within a short window
//
// A jump may be a mistake: an inserted allocation of a size that comes again later. If the next allocation
// answers not to what follows the jump, but to what stood at the cursor before it, the jump is undone.
//
// Constant time a call. Not thread-safe.
#ifndef HOCKET_ALLOCATOR_ALIGNMENT_H_
#define HOCKET_ALLOCATOR_ALIGNMENT_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "allocator/driver.h"

namespace hocket {

// What is longer is not learned from: to pack it would take too long, and it may never end.
inline constexpr std::size_t kLongestStep = 30'000;  // allocations

// An allocation of a step. Times count the step's allocations and frees.
struct StepEntry {
  static constexpr std::uint32_t kAlive = ~std::uint32_t{0};

  Bytes size = 0;
  Stream stream = nullptr;
  std::uint32_t born = 0;
  std::uint32_t freed = kAlive;

  // Alive when the step ended.
  bool survives() const { return freed == kAlive; }
  bool operator==(const StepEntry&) const = default;
};

class Alignment {
 public:
  struct Match {
    bool found = false;
    // Reached in order, or by a jump that does not follow another: a run of jumps is no alignment to trust.
    bool sure = false;
    bool undid_jump = false;  // the match before, at `mistake`, was none
    std::uint32_t index = 0;
    std::uint32_t mistake = 0;
  };

  void Restart() { *this = Alignment(); }
  // The entry of `written` that answers to an allocation of `size` bytes on `stream`.
  Match Next(const std::vector<StepEntry>& written, Bytes size, Stream stream);
  // The next allocations answer to the next entries, without looking.
  void Skip(std::size_t count = 1) { cursor_ += count; }

  // Entries up to here have been answered or passed over.
  std::size_t cursor() const { return cursor_; }
  // Every allocation so far answered to the next entry.
  bool exact() const { return exact_; }

 private:
  static constexpr std::size_t kWindow = 64;

  Match Jump(const std::vector<StepEntry>& written, Bytes size, Stream stream);

  std::size_t cursor_ = 0;
  std::size_t before_jump_ = 0;  // where the cursor stood
  bool jumped_ = false;          // the last match was a jump
  bool exact_ = true;
};

}  // namespace hocket

#endif  // HOCKET_ALLOCATOR_ALIGNMENT_H_
