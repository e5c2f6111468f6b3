// Thousands of random worlds (random_world.h): in each, a handful of jobs live around a real core, which
// keeps every invariant whatever they do, and gets everybody his turn as soon as all behave.
//
//   HOCKET_WORLDS_SEEDS=200000   so many worlds
//   HOCKET_WORLDS_FROM=5000      the first of their seeds
//   HOCKET_WORLDS_SEED=4711      this one alone, in this process, with its story told while it goes
//
// Where a world fails, its seed and the end of its story are told, and the others are played all the same.
#include <gtest/gtest.h>

#include <cstdlib>
#include <deque>
#include <iostream>
#include <sstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tests/base/child.h"
#include "tests/coordinator/random_world.h"

namespace hocket::coordinator {
namespace {

using testing::Wanted;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr std::uint64_t kSeeds = 1500;
#else
constexpr std::uint64_t kSeeds = 12'000;
#endif
constexpr int kMoves = 300;
constexpr std::size_t kToldLines = 40;  // of a story, at least; the last event with all that followed

// An exception ends the process too.
std::uint64_t Play(std::uint64_t seed, std::ostream* story = nullptr) noexcept {
  RandomWorld world(seed, story);
  world.Play(kMoves);
  return world.digest();
}

// Plays the worlds from `seed` on up to `end` in a child. Returns the first that failed, or `end`. `said`:
// what it said, with its story if that is `told`.
std::uint64_t PlayInChild(std::uint64_t seed, std::uint64_t end, bool told, std::string* said) {
  const testing::SharedWithChild<std::uint64_t> at;
  const testing::ChildEnd child = testing::RunForked([&] {
    for (*at = seed; *at < end; ++*at) Play(*at, told ? &std::cerr : nullptr);
  });
  *said = child.said;
  return child.ok ? end : *at;
}

// The last lines.
std::string EndOf(const std::string& story) {
  std::istringstream lines(story);
  std::deque<std::string> last;
  for (std::string line; std::getline(lines, line);) {
    last.push_back(line);
    if (last.size() > 3 * kToldLines) last.pop_front();
  }
  return absl::StrJoin(last, "\n");
}

TEST(RandomWorldsTest, KeepTheInvariantsAndGetEverybodyHisTurn) {
  if (std::getenv("HOCKET_WORLDS_SEED") != nullptr) {
    Play(Wanted("HOCKET_WORLDS_SEED", 0), &std::cerr);
    return;
  }
  const std::uint64_t from = Wanted("HOCKET_WORLDS_FROM", 0);
  const std::uint64_t end = from + Wanted("HOCKET_WORLDS_SEEDS", kSeeds);
  for (std::uint64_t seed = from; seed < end; ++seed) {
    std::string said, story;
    seed = PlayInChild(seed, end, /*told=*/false, &said);
    if (seed == end) break;
    PlayInChild(seed, seed + 1, /*told=*/true, &story);
    ADD_FAILURE() << "seed " << seed << ": " << said << "It went so, in the end:\n"
                  << EndOf(story) << "\nHOCKET_WORLDS_SEED=" << seed << " plays this world again.";
  }
}

TEST(RandomWorldsTest, ASeedGivesTheSameWorldEachTime) {
  int compared = 0;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    std::string said;
    if (PlayInChild(seed, seed + 1, /*told=*/false, &said) == seed) continue;  // the other test tells
    EXPECT_EQ(Play(seed), Play(seed)) << "seed " << seed;
    ++compared;
  }
  EXPECT_GT(compared, 0);
}

}  // namespace
}  // namespace hocket::coordinator
