// Shortens a story that fails, by delta debugging: halves are left out while it still fails, then smaller
// pieces, down to single operations.
#ifndef HOCKET_TESTS_ALLOCATOR_MODEL_SHRINK_H_
#define HOCKET_TESTS_ALLOCATOR_MODEL_SHRINK_H_

#include <optional>

#include "absl/functional/function_ref.h"
#include "tests/allocator/model/operation.h"

namespace hocket::testing {

// The number of operations after which a story failed; nothing: it does not.
using FailsAfter = absl::FunctionRef<std::optional<std::size_t>(const Story&)>;

// A story that fails, made of `story`'s operations in their order. After `tries` calls of `fails_after` the
// shortest found so far. REQUIRES: `story` fails after its last operation.
inline Story Shrink(Story story, FailsAfter fails_after, int tries) {
  bool shorter = true;
  for (std::size_t piece = story.size() / 2; piece > 0; piece = piece > 1 || !shorter ? piece / 2 : 1) {
    shorter = false;
    for (std::size_t begin = 0; begin < story.size() && tries > 0; --tries) {
      const std::size_t end = std::min(begin + piece, story.size());
      Story candidate(story.begin(), story.begin() + static_cast<std::ptrdiff_t>(begin));
      candidate.insert(candidate.end(), story.begin() + static_cast<std::ptrdiff_t>(end), story.end());
      if (const std::optional<std::size_t> length = fails_after(candidate)) {
        candidate.resize(*length);
        story = std::move(candidate);
        shorter = true;
      } else {
        begin = end;
      }
    }
    if (tries == 0) break;
  }
  return story;
}

}  // namespace hocket::testing

#endif  // HOCKET_TESTS_ALLOCATOR_MODEL_SHRINK_H_
