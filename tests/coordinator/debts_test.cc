// What is remembered of jobs, and for how long: nobody pays for time in which nobody waited, nor for having
// been paused, and who owes goes on owing when its process ends.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/coordinator/script.h"

namespace hocket::coordinator {
namespace {

using absl::Milliseconds;
using absl::Seconds;
using testing::HasSubstr;

std::uint64_t StepsIn(Script& s, const std::string& name, absl::Duration time) {
  const std::uint64_t before = s.Steps(name);
  s.RunsFor(time);
  return s.Steps(name) - before;
}

// It has run alone for ten minutes, was paused for a quick run of another, and goes on.
TEST(DebtsTest, WhoRanAloneAndIsPausedForAnotherHasItsShareWhenItGoesOn) {
  for (const char* policy : {"fair", "priority", "pack"}) {
    Script s(policy);
    s.Joins("long");
    s.Lives("long");
    s.RunsFor(absl::Minutes(10));
    s.Pauses("long");
    s.RunsFor(Seconds(1));
    s.Joins("quick");
    s.Lives("quick");
    s.RunsFor(Seconds(1));
    s.Resumes("long");
    s.RunsFor(Seconds(10));
    EXPECT_GT(StepsIn(s, "long", Seconds(10)), 400u) << policy << " of a thousand";
  }
}

TEST(DebtsTest, AUserWhoseJobRanAloneOwesNothingToWhoComesLater) {
  Script s("fair");
  s.Joins("idle", {.user = 2});  // so the device is not forgotten meanwhile
  s.Joins("night", {.user = 1});
  s.Lives("night");
  s.RunsFor(absl::Minutes(10));
  s.Dies("night");
  s.Joins("other", {.user = 2});
  s.Joins("next", {.user = 1});
  s.Lives("other");
  s.RunsFor(Seconds(1));
  s.Lives("next");
  s.RunsFor(Seconds(10));
  EXPECT_GT(StepsIn(s, "next", Seconds(10)), 400u) << "of a thousand";
}

// Nobody was in its way while it was paused.
TEST(DebtsTest, ProductionThatWasPausedLetsOthersInSoonAfterwards) {
  Script s("priority");
  s.Joins("production", {.priority = "high"});
  s.Joins("other");
  s.Lives("production");
  s.Lives("other");
  s.RunsFor(Seconds(20));
  s.Pauses("production");
  s.RunsFor(absl::Minutes(10));
  s.Resumes("production");
  s.RunsFor(Seconds(60));
  EXPECT_GT(StepsIn(s, "other", Seconds(60)), 20u) << s.Why("other");
}

// Nobody knows for how long.
TEST(DebtsTest, NoDeviceIsKeptFreeForAGangThatWaitsForOneThatHangs) {
  Script s("fifo");
  s.Joins("r0", {.device = "gpu0"});
  s.Joins("r1", {.device = "gpu1"});
  s.Joins("hangs", {.device = "gpu1"});
  s.Joins("single", {.device = "gpu0"});
  s.FormsGang("ddp", {"r0", "r1"});
  s.Asks("hangs");
  s.Asks("r0");
  s.Asks("r1");
  s.Asks("single");
  EXPECT_EQ(s.Holder("gpu0"), "") << "kept free for the gang: " << s.Story();
  s.Passes(Seconds(6));
  EXPECT_EQ(s.Holder("gpu0"), "single") << s.Story();
  s.GivesUp("single");
  s.GivesUp("hangs");
  EXPECT_EQ(s.Holder("gpu0"), "r0") << s.Story();
  EXPECT_EQ(s.Holder("gpu1"), "r1") << s.Story();
}

TEST(DebtsTest, WhoDoesMoreStepsThanToldDoesNotOwnTheDevice) {
  Script s("srtf");
  s.Joins("told");
  s.Says("told", SetShare{.total_steps = 100});
  s.Lives("told");
  s.RunsFor(Seconds(10));
  s.Joins("other");
  s.Lives("other");
  EXPECT_GT(StepsIn(s, "other", Seconds(60)), 1000u) << s.Story().substr(0, 2000);
  EXPECT_THAT(s.Why("told"), HasSubstr("more steps than the 100 told"));
}

// Else a loop of short processes would have all of the device.
TEST(DebtsTest, ACappedUsersNextJobPaysForTheLastOne) {
  Script s("fair");
  s.Allows(Owner::User(7), {.time_cap = 0.1});
  s.Joins("first", {.user = 7});
  s.Asks("first");
  s.Passes(Seconds(2));
  s.Dies("first");
  s.Passes(Milliseconds(10));
  s.Joins("second", {.user = 7});
  s.Asks("second");
  EXPECT_FALSE(s.Holds("second")) << s.Story();
  s.Passes(Seconds(30));
  EXPECT_TRUE(s.Holds("second")) << s.Story();
}

}  // namespace
}  // namespace hocket::coordinator
