// Runs stories in child processes, because a world in which anything is wrong ends its process.
#ifndef HOCKET_TESTS_ALLOCATOR_MODEL_CHILD_H_
#define HOCKET_TESTS_ALLOCATOR_MODEL_CHILD_H_

#include <cstdint>
#include <string>

#include "absl/functional/function_ref.h"
#include "tests/allocator/model/operation.h"
#include "tests/allocator/model/world.h"

namespace hocket::testing {

struct Outcome {
  bool ok = false;
  std::uint64_t told = 0;     // operations, the last of which is the one that failed
  std::uint64_t applied = 0;  // of these
  Tally tally;
  std::string said;  // to stderr
};

// How much of what is told is done, and checked: the invariants after each of the first `checked` operations,
// after every rare one, and after one in kCheckedEvery.
struct Extent {
  std::uint64_t operations = ~std::uint64_t{0};  // that apply
  std::uint64_t checked = ~std::uint64_t{0};
};
inline constexpr std::uint64_t kCheckedEvery = 16;

// Does what `next` tells in a new world, in a child, until it tells nothing more (nullptr).
// REQUIRES: this process has no thread but this one and has not used the emulated device.
Outcome RunInChild(absl::FunctionRef<const Operation*()> next, const Extent& extent);
Outcome RunInChild(const Story& story);
// In this process.
void Run(const Story& story);

}  // namespace hocket::testing

#endif  // HOCKET_TESTS_ALLOCATOR_MODEL_CHILD_H_
