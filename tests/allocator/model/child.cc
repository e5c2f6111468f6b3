#include "tests/allocator/model/child.h"

#include <unistd.h>

#include <string>

#include "tests/base/child.h"

namespace hocket::testing {
namespace {

// What the child leaves behind, whatever becomes of it.
struct Traces {
  std::uint64_t told = 0;
  std::uint64_t applied = 0;
  Tally tally;
};

void RunWorld(absl::FunctionRef<const Operation*()> next, const Extent& extent, Traces& traces) {
  World world(traces.tally);
  while (traces.applied < extent.operations) {
    const Operation* operation = next();
    if (operation == nullptr) break;
    ++traces.told;
    if (!world.Apply(*operation)) continue;
    ++traces.applied;
    if (traces.applied <= extent.checked || operation->IsRare() || traces.applied % kCheckedEvery == 0) {
      world.Check(*operation);
    }
  }
}

}  // namespace

Outcome RunInChild(absl::FunctionRef<const Operation*()> next, const Extent& extent) {
  const SharedWithChild<Traces> traces;
  const ChildEnd child = RunForked([&] { RunWorld(next, extent, *traces); });
  // Of a child that died the device stays, as a name.
  unlink(("/dev/shm/hocket-emulator-" + std::to_string(geteuid()) + "-allocator-test-" +
          std::to_string(child.pid))
             .c_str());
  return {.ok = child.ok,
          .told = traces->told,
          .applied = traces->applied,
          .tally = traces->tally,
          .said = child.said};
}

Outcome RunInChild(const Story& story) {
  auto next = story.begin();
  return RunInChild([&] { return next == story.end() ? nullptr : &*next++; }, {});
}

void Run(const Story& story) {
  Traces traces;
  auto next = story.begin();
  RunWorld([&] { return next == story.end() ? nullptr : &*next++; }, {}, traces);
}

}  // namespace hocket::testing
