// Three jobs of one lane on a small device, driven at random for a long time and compared with a model that
// knows every byte (model/). What is checked: all bytes of a block at each free and each use, of all blocks
// at each turn taken; that blocks do not overlap, at each allocation; at each hand-over that the device holds
// what the jobs say they hold, the arena counted once; the allocator's invariants after each of the first
// operations and after each rare one, later after one operation in 16; and by check mode, at each use, that
// memory was not given out again before its last user was done.
//
//   HOCKET_MODEL_OPERATIONS=12500000   for each of the eight seeds: a hundred million
//   HOCKET_MODEL_SEED=100              the first of the eight
//   HOCKET_MODEL_STORY=FILE            does what the file tells, and no more (ReplaysAStory)
//
// Where a seed fails, the shortest story found that fails too is printed and kept in a file.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "tests/allocator/model/child.h"
#include "tests/allocator/model/shrink.h"
#include "tests/base/child.h"

namespace hocket {
namespace {

using ::testing::HasSubstr;
using testing::Kind;
using testing::Operation;
using testing::Outcome;
using testing::RunInChild;
using testing::Shrink;
using testing::Story;
using testing::Teller;
using testing::Wanted;

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr std::uint64_t kOperations = 20'000;
#else
constexpr std::uint64_t kOperations = 1'250'000;
#endif
constexpr std::uint64_t kChecked = 60'000;
constexpr int kTries = 500;  // to shorten a story

Story Told(std::uint64_t seed, std::uint64_t operations) {
  Teller teller(seed);
  Story story;
  while (story.size() < operations) story.push_back(teller.Next());
  return story;
}

std::optional<std::size_t> HowLongItLasts(const Story& story) {
  const Outcome outcome = RunInChild(story);
  return outcome.ok ? std::nullopt : std::optional<std::size_t>(outcome.told);
}

// The shortest story found, and how to see it again.
std::string ShortStory(const Story& story) {
  const Story shortest = Shrink(story, HowLongItLasts, kTries);
  const std::string path = absl::StrCat(::testing::TempDir(), "hocket-model-story-", getpid());
  std::ofstream(path) << ToString(shortest);
  return absl::StrCat("the shortest story found:\n", ToString(shortest), RunInChild(shortest).said,
                      "To see it again: HOCKET_MODEL_STORY=", path,
                      " allocator_model_test --gtest_filter=ModelTest.ReplaysAStory\n");
}

// What no seed may hardly try, if it has the operations that it takes.
void ExpectAllTried(const Outcome& outcome) {
  const testing::Tally& tally = outcome.tally;
  EXPECT_GT(tally.planned_allocations, tally.step_allocations / 10) << "plans";
  EXPECT_GT(tally.lodged_allocations, 0) << "plans that use the homes of survivors";
  EXPECT_LT(tally.refused, tally.Of(Kind::kMalloc) / 5) << "allocations that succeed";
  if (outcome.applied < 1'000'000) return;
  EXPECT_GE(tally.returns, 5) << "checkpoints";
  EXPECT_GT(tally.spared, 1'000'000u) << "constant bytes that are not copied again";
  EXPECT_GE(tally.followed, 50) << "memory that follows";
  EXPECT_GE(tally.gathered, 500 * 64_KiB) << "empty chunks that are mapped elsewhere";
  EXPECT_GE(tally.strays_at_spilled, 100) << "strays";
  for (int kind = 0; kind < static_cast<int>(Kind::kCorrupt); ++kind) {
    EXPECT_GE(tally.Of(static_cast<Kind>(kind)), 1) << Operation{.kind = static_cast<Kind>(kind)}.ToString();
  }
}

class ModelSeedsTest : public ::testing::TestWithParam<std::uint64_t> {};

TEST_P(ModelSeedsTest, ThreeJobsKeepTheirBytes) {
  const std::uint64_t seed = Wanted("HOCKET_MODEL_SEED", 1) + GetParam();
  const std::uint64_t operations = Wanted("HOCKET_MODEL_OPERATIONS", kOperations);
  Teller teller(seed);
  Operation operation;
  const auto next = [&] {
    operation = teller.Next();
    return &operation;
  };
  const Outcome outcome = RunInChild(next, {.operations = operations, .checked = kChecked});
  ASSERT_TRUE(outcome.ok) << "seed " << seed << " fails after operation " << outcome.told << ":\n"
                          << outcome.said << ShortStory(Told(seed, outcome.told));
  ExpectAllTried(outcome);
}

INSTANTIATE_TEST_SUITE_P(Seeds, ModelSeedsTest, ::testing::Range<std::uint64_t>(0, 8));

TEST(ModelTest, ASeedTellsTheSameStoryInEveryProcess) {
  const Story story = Told(5, 20'000);
  const Outcome once = RunInChild(story), again = RunInChild(story);
  ASSERT_TRUE(once.ok && again.ok) << once.said << again.said;
  EXPECT_EQ(once.tally.digest, again.tally.digest);
  EXPECT_EQ(once.tally.by_kind, again.tally.by_kind);
  EXPECT_EQ(once.tally.refused, again.tally.refused);
}

TEST(ModelTest, AStoryIsReadAsItIsPrinted) {
  const Story story = Told(5, 20'000);
  const auto read = testing::ParseStory(ToString(story));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(*read, story);
  EXPECT_THAT(std::string(testing::ParseStory("a allocates slot x").status().message()),
              HasSubstr("is no operation: a allocates slot x"));
}

// --- mistakes, seeded: found, and told in few words ---

Story Shortened(const Story& story) {
  const std::optional<std::size_t> length = HowLongItLasts(story);
  if (!length) return {};
  return Shrink(Story(story.begin(), story.begin() + static_cast<std::ptrdiff_t>(*length)), HowLongItLasts,
                kTries);
}

TEST(ModelTest, AByteThatChangesIsToldInAFewLines) {
  Story story = Told(6, 6'000);
  for (std::size_t i = 3'000; i < 6'000; i += 50) {
    for (const std::uint8_t job : {0, 1, 2}) {
      story.insert(story.begin() + static_cast<std::ptrdiff_t>(i),
                   {.kind = Kind::kCorrupt, .job = job, .arguments = {80}});
    }
  }
  const Story shortest = Shortened(story);
  EXPECT_LE(shortest.size(), 4u) << ToString(shortest);  // the turn, a block, the byte, and who looks
  EXPECT_THAT(ToString(shortest), HasSubstr("corrupts slot 80"));
  EXPECT_THAT(RunInChild(shortest).said, HasSubstr("byte"));
}

// The allocator relies on the driver to wait; where it does not, a chunk goes while a kernel may use it.
TEST(ModelTest, AWaitThatIsMissingIsToldInAFewLines) {
  Story story = Told(7, 6'000);
  story.insert(story.begin() + 2'000, {.kind = Kind::kSkipWaits});
  const Story shortest = Shortened(story);
  EXPECT_LE(shortest.size(), 5u) << ToString(shortest);
  EXPECT_THAT(ToString(shortest), HasSubstr("skips-waits"));
  EXPECT_THAT(RunInChild(shortest).said, HasSubstr("uses without order"));
}

// An invariant that does not hold ends a story where it is, so what is left of it is no longer than that.
TEST(ModelTest, ShrinkKeepsWhatIsNeededAndNothingElse) {
  Story story(1'000);
  for (std::uint32_t i = 0; i < story.size(); ++i) story[i].arguments[0] = i;
  const auto fails_after = [](const Story& candidate) -> std::optional<std::size_t> {
    bool seen = false;
    for (std::size_t i = 0; i < candidate.size(); ++i) {
      seen |= candidate[i].arguments[0] == 17;
      if (seen && candidate[i].arguments[0] == 830) return i + 1;
    }
    return std::nullopt;
  };
  const Story shortest = Shrink(Story(story.begin(), story.begin() + 831), fails_after, 1'000);
  ASSERT_EQ(shortest.size(), 2u);
  EXPECT_EQ(shortest[0].arguments[0], 17u);
  EXPECT_EQ(shortest[1].arguments[0], 830u);
}

TEST(ModelTest, ReplaysAStory) {
  const char* path = std::getenv("HOCKET_MODEL_STORY");
  if (path == nullptr) GTEST_SKIP() << "HOCKET_MODEL_STORY names no file";
  std::ifstream file(path);
  const auto story = testing::ParseStory({std::istreambuf_iterator<char>(file), {}});
  ASSERT_TRUE(story.ok()) << story.status();
  testing::Run(*story);
}

}  // namespace
}  // namespace hocket
