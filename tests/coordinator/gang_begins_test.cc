// Ranks that begin before their gang is known: it is when the last of them has joined.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <numeric>
#include <random>

#include "absl/strings/str_cat.h"
#include "coordinator/core/limits.h"
#include "tests/coordinator/script.h"

namespace hocket::coordinator {
namespace {

using absl::Milliseconds;
using absl::Seconds;

using testing::HasSubstr;
using testing::Not;

using Names = std::vector<std::string>;

// Its step ends when its fellows have come to the end of theirs.
Part RankOn(const std::string& device) { return {.device = device, .total_steps = 20, .meets = true}; }

void Begins(Script& s, const std::string& name, const std::string& gang, const Names& ranks, Part part) {
  s.Joins(name, std::move(part));
  s.SaysItsGang(name, gang, ranks);
  s.Lives(name);
}

TEST(GangBeginsTest, ARankThatStandsInAStepIsJoinedByItsFellowWhenThatOnesDeviceIsFree) {
  Script s("fifo");
  s.Joins("single", {.step = Milliseconds(50), .total_steps = 100});
  s.Lives("single");
  Begins(s, "a1", "a", {"a0", "a1"}, RankOn("gpu1"));
  s.RunsFor(Seconds(1));
  ASSERT_EQ(s.Steps("a1"), 0u) << s.Story();
  Begins(s, "a0", "a", {"a0", "a1"}, RankOn("gpu0"));
  s.RunsFor(Milliseconds(55));
  EXPECT_EQ(s.Holder("gpu0") + "+" + s.Holder("gpu1"), "a0+a1") << s.Story();
  s.RunsFor(Seconds(20));
  for (const char* job : {"single", "a0", "a1"}) EXPECT_TRUE(s.HasFinished(job)) << job << s.Story();
}

// Each stood in its step on the device that the other's fellow waited for, for ever.
TEST(GangBeginsTest, OfTwoGangsThatBeginCrosswiseOneStandsAside) {
  for (const char* policy : {"fifo", "round-robin", "fair", "srtf"}) {
    Script s(policy);
    Begins(s, "a1", "a", {"a0", "a1"}, RankOn("gpu1"));
    Begins(s, "b0", "b", {"b0", "b1"}, RankOn("gpu0"));
    s.RunsFor(Seconds(1));
    Begins(s, "a0", "a", {"a0", "a1"}, RankOn("gpu0"));
    Begins(s, "b1", "b", {"b0", "b1"}, RankOn("gpu1"));
    s.RunsFor(Seconds(10));
    for (const char* job : {"a0", "a1", "b0", "b1"})
      EXPECT_TRUE(s.HasFinished(job)) << policy << " " << job << s.Story();
  }
}

TEST(GangBeginsTest, OfThreeGangsInACircleTheLastToBeginStandsAside) {
  Script s("fair");
  const auto gpu = [](int device) { return "gpu" + std::to_string(device); };
  const auto ranks = [](int gang) {
    const std::string name(1, static_cast<char>('a' + gang));
    return Names{name + "0", name + "1"};
  };
  for (int g : {0, 1, 2}) Begins(s, ranks(g)[0], std::to_string(g), ranks(g), RankOn(gpu(g)));
  s.RunsFor(Seconds(1));
  for (int g : {0, 1, 2}) Begins(s, ranks(g)[1], std::to_string(g), ranks(g), RankOn(gpu((g + 1) % 3)));
  s.RunsFor(Milliseconds(15));
  EXPECT_TRUE(s.JobOf("c0").set_aside) << s.Story();
  EXPECT_FALSE(s.JobOf("a0").set_aside || s.JobOf("b0").set_aside) << s.Story();
  s.RunsFor(Seconds(10));
  for (int g : {0, 1, 2}) {
    for (const std::string& rank : ranks(g)) EXPECT_TRUE(s.HasFinished(rank)) << rank << s.Story();
  }
}

// The third rank of each uses no device. (The others would wait in their steps for each other, for ever.)
TEST(GangBeginsTest, RanksThatAreThereBeginWithoutOneThatDoesNotCome) {
  Script s("fifo");
  for (const std::string gang : {"a", "b"}) {
    for (const char* rank : {"0", "1"}) {
      s.Joins(gang + rank, {.device = absl::StrCat("gpu", rank)});
      s.SaysItsGang(gang + rank, gang, {gang + "0", gang + "1", gang + "2"});
    }
  }
  for (const char* rank : {"a1", "b0", "a0", "b1"}) s.Asks(rank);
  s.Passes(kGangPatience - Milliseconds(1));
  EXPECT_EQ(s.Holder("gpu0") + "+" + s.Holder("gpu1"), "b0+a1") << s.Story();
  s.Passes(Milliseconds(1));
  EXPECT_EQ(s.Holder("gpu0") + "+" + s.Holder("gpu1"), "a0+a1") << s.Story();
  EXPECT_THAT(s.sentences(),
              testing::Contains(HasSubstr("gang a (a0, a1) has its turns with 2 of its 3 ranks")));
  s.GivesUp("a0");
  s.GivesUp("a1");
  EXPECT_EQ(s.Holder("gpu1"), "b1") << s.Story();
  s.GivesUp("b0");
  s.GivesUp("b1");
  s.Joins("a2", {.device = "gpu0"});
  s.SaysItsGang("a2", "a", {"a0", "a1", "a2"});
  EXPECT_THAT(s.sentences().back(), HasSubstr("gang a (a0, a1, a2) is complete: its 3 ranks"));
  for (const char* rank : {"a0", "a1", "a2"}) s.Asks(rank);
  EXPECT_EQ(s.Holder("gpu0") + "+" + s.Holder("gpu1"), "a0, a2+a1") << s.Story();
}

TEST(GangBeginsTest, ARankThatIsThereAloneHasItsOwnTurns) {
  Script s("fifo");
  s.Joins("a0");
  s.SaysItsGang("a0", "a", {"a0", "a1"});
  s.Asks("a0");
  s.Passes(2 * kGangPatience);
  EXPECT_EQ(s.Holder(), "a0") << s.Story();
  EXPECT_FALSE(s.core().state().gangs.begin()->second.complete) << s.Story();
}

// Whoever comes when, is killed or stopped: nobody waits for ever, nor for the watchdog.
// More, once, than are tried each time: HOCKET_TEST_SEEDS=9000 coordinator_core_test
TEST(GangBeginsTest, NobodyWaitsForEver) {
  const char* const more = std::getenv("HOCKET_TEST_SEEDS");
  const unsigned seeds = more == nullptr ? 200 : static_cast<unsigned>(std::atoi(more));
  size_t finished = 0, aside = 0;
  for (unsigned seed = 0; seed < seeds; ++seed) {
    std::mt19937 random(seed);
    const auto any = [&](int least, int most) {
      return static_cast<int>(std::uniform_int_distribution(least, most)(random));
    };
    const char* const policies[] = {"fifo", "round-robin", "fair", "srtf"};
    Script s(policies[seed % 4], 100);
    const int devices = any(1, 3);
    struct Coming {
      std::string name, gang;
      Names ranks;
      Part part;
    };
    std::vector<Coming> cast;
    const auto part = [&](bool meets, std::uint64_t steps) {
      const auto grows = static_cast<Bytes>(any(0, 1) * any(0, 12));
      return Part{.device = "gpu" + std::to_string(any(0, devices - 1)),
                  .host = static_cast<Bytes>(any(0, 60)),
                  .grows = grows,
                  .step = Milliseconds(any(1, 30)),
                  .gap = Milliseconds(any(0, 1) * any(0, 20)),
                  .total_steps = steps,
                  .spill_time = Milliseconds(any(0, 3)),
                  .ahead = any(0, 1) == 1,
                  .meets = meets};
    };
    for (int g = any(1, 3); g > 0; --g) {
      Names ranks;
      for (int r = any(2, 3); r > 0; --r)
        ranks.push_back(std::string(1, static_cast<char>('a' + g)) + std::to_string(r));
      const auto steps = static_cast<std::uint64_t>(any(1, 40));
      for (const std::string& rank : ranks)
        cast.push_back({rank, "g" + std::to_string(g), ranks, part(/*meets=*/true, steps)});
    }
    for (int i = any(0, 2); i > 0; --i)
      cast.push_back(
          {"single" + std::to_string(i), "", {}, part(false, static_cast<std::uint64_t>(any(1, 60)))});
    std::shuffle(cast.begin(), cast.end(), random);
    Names killed;
    for (const Coming& coming : cast) {
      // The program of a rank that is killed ends as a whole, those that have not begun with it.
      const bool dead = std::any_of(killed.begin(), killed.end(), [&](const std::string& name) {
        return std::count(coming.ranks.begin(), coming.ranks.end(), name) > 0;
      });
      if (dead) continue;
      s.Joins(coming.name, coming.part);
      if (!coming.gang.empty()) s.SaysItsGang(coming.name, coming.gang, coming.ranks);
      s.Lives(coming.name);
      s.RunsFor(Milliseconds(any(0, 1) * any(0, 200)));
      if (any(0, 14) == 0 && s.IsAlive(coming.name)) {
        s.Dies(coming.name);
        killed.push_back(coming.name);
      }
      if (any(0, 9) == 0 && s.IsAlive(coming.name)) {
        s.Stops(coming.name);
        s.RunsFor(Seconds(any(0, 3)));
        s.GoesOn(coming.name);
      }
      for (const auto& [id, job] : s.core().state().jobs) aside += job.set_aside;
    }
    s.RunsFor(Seconds(6));  // who has stood in a step since before the last one came may be named until then
    const size_t before = s.sentences().size();
    s.RunsFor(absl::Minutes(5));
    for (const auto& [id, job] : s.core().state().jobs) {
      ADD_FAILURE() << job.info.name << " in seed " << seed << ": " << s.Why(job.info.name) << "\n"
                    << s.Story();
    }
    for (size_t i = before; i < s.sentences().size(); ++i)
      EXPECT_THAT(s.sentences()[i], Not(HasSubstr("Does it hang?"))) << "in seed " << seed << s.Story();
    if (HasFailure()) return;
    for (const Coming& coming : cast) finished += s.core().state().jobs.empty() && s.HasFinished(coming.name);
  }
  EXPECT_GT(finished, 3 * seeds);
  EXPECT_GT(aside, 0u);
}

}  // namespace
}  // namespace hocket::coordinator
