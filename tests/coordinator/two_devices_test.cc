// A process with two devices: two jobs, of which it takes the second one's turn when it has the first one's,
// and gives neither in a step.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/coordinator/script.h"

namespace hocket::coordinator {
namespace {

// "p0" on gpu0 and "p1" on gpu1.
void JoinsOnBoth(Script& s) {
  s.Joins("p0", {.device = "gpu0", .pid = 7});
  s.Joins("p1", {.device = "gpu1", .pid = 7});
}

// The gang waited for the process, and the process for the device that was kept free for the gang.
TEST(TwoDevicesTest, ADeviceKeptFreeForAGangIsForAProcessThatHasTheTurnOfAnother) {
  Script s("srtf");
  JoinsOnBoth(s);
  s.Joins("r0", {.device = "gpu0"});
  s.Joins("r1", {.device = "gpu1"});
  s.Joins("x", {.device = "gpu1"});
  s.FormsGang("ddp", {"r0", "r1"});
  s.Asks("x");
  s.Asks("p0");
  s.Asks("r0");
  s.Asks("r1");
  s.GivesUp("x");
  ASSERT_EQ(s.Holder("gpu1"), "") << "kept free for the gang: " << s.Story();
  s.Asks("p1");
  EXPECT_EQ(s.Holder("gpu1"), "p1") << s.Story();
  s.GivesUp("p1");
  s.GivesUp("p0");
  EXPECT_EQ(s.Holder("gpu0"), "r0") << s.Story();
  EXPECT_EQ(s.Holder("gpu1"), "r1") << s.Story();
}

// r1 has begun before its gang was known, and waits in its step for r0, which waits for p0's device.
TEST(TwoDevicesTest, AGangInAStepThatWaitsForTheProcessStandsAside) {
  Script s("fifo");
  JoinsOnBoth(s);
  s.Joins("r0", {.device = "gpu0"});
  s.Joins("r1", {.device = "gpu1"});
  s.Asks("r1");
  s.Asks("p0");
  s.FormsGang("ddp", {"r0", "r1"});
  s.Asks("r0");
  ASSERT_EQ(s.Holder("gpu0"), "p0") << s.Story();
  s.Asks("p1");
  EXPECT_EQ(s.Holder("gpu1"), "p1") << s.Story();
  EXPECT_EQ(s.Told<wire::Grant>("p1")->lane_lock, "/run/test/lane-gpu1-1.lock") << "r1 has the first one's";
  s.GivesUp("p1");
  s.GivesUp("p0");
  EXPECT_EQ(s.Holder("gpu0"), "r0") << s.Story();
}

TEST(TwoDevicesTest, TheLockOfOneThatHungUpInItsStepIsLeftToIt) {
  Script s("fifo");
  JoinsOnBoth(s);
  s.Joins("x", {.device = "gpu0"});
  s.Asks("p0");
  s.Asks("x");
  s.HangsUp("p0");
  ASSERT_EQ(s.Holder("gpu0"), "x") << s.Story();
  EXPECT_EQ(s.Told<wire::Grant>("x")->lane_lock, "/run/test/lane-gpu0-1.lock") << s.Story();
}

}  // namespace
}  // namespace hocket::coordinator
