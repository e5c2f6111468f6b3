// Thousands of random worlds (random_world.h): in each, a handful of jobs live around a real core, which
// keeps every invariant whatever they do, and gets everybody his turn as soon as all behave.
//
//   HOCKET_WORLDS_SEEDS=200000   so many worlds
//   HOCKET_WORLDS_FROM=5000      the first of their seeds
//   HOCKET_WORLDS_SEED=4711      this one alone, in this process, with its story told while it goes
//
// Where a world fails, its seed and the end of its story are told, and the others are played all the same.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <deque>
#include <iostream>
#include <new>
#include <sstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "csrc/base/check.h"
#include "csrc/base/unique_fd.h"
#include "tests/coordinator/random_world.h"

namespace hocket::coordinator {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr std::uint64_t kSeeds = 1500;
#else
constexpr std::uint64_t kSeeds = 12'000;
#endif
constexpr int kMoves = 300;
constexpr std::size_t kToldLines = 40;  // of a story, at least; the last event with all that followed

std::uint64_t Wanted(const char* variable, std::uint64_t otherwise) {
  const char* text = std::getenv(variable);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

// An exception ends the process too.
std::uint64_t Play(std::uint64_t seed, std::ostream* story = nullptr) noexcept {
  RandomWorld world(seed, story);
  world.Play(kMoves);
  return world.digest();
}

// Plays the worlds from `seed` on up to `end` in a child, because one in which anything is wrong ends its
// process. Returns the first that failed, or `end`. `said`: what it said, with its story if that is `told`.
std::uint64_t PlayInChild(std::uint64_t seed, std::uint64_t end, bool told, std::string* said) {
  void* shared = mmap(nullptr, sizeof(seed), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  HOCKET_CHECK(shared != MAP_FAILED) << "no memory";
  auto& at = *new (shared) std::uint64_t(seed);
  int ends[2];
  HOCKET_CHECK(pipe(ends) == 0) << "no pipe";
  std::fflush(nullptr);
  const pid_t pid = fork();
  HOCKET_CHECK(pid >= 0) << "no process";
  if (pid == 0) {
    dup2(ends[1], STDERR_FILENO);
    close(ends[0]);
    close(ends[1]);
    const rlimit none{0, 0};
    setrlimit(RLIMIT_CORE, &none);
    for (; at < end; ++at) Play(at, told ? &std::cerr : nullptr);
    std::_Exit(0);
  }
  close(ends[1]);
  const UniqueFd reading(ends[0]);
  char bytes[4096];
  for (ssize_t count; (count = read(reading.get(), bytes, sizeof bytes)) > 0;)
    said->append(bytes, static_cast<std::size_t>(count));
  int status = 0;
  waitpid(pid, &status, 0);
  const std::uint64_t reached = WIFEXITED(status) && WEXITSTATUS(status) == 0 ? end : at;
  munmap(shared, sizeof(seed));
  return reached;
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
