// A process with two devices: two jobs, of which it takes the second one's turn when it has the first one's,
// and gives neither in a step.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/core/limits.h"
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

// For three seconds, or until it is told to step aside, or no. `others` are asked for theirs, and have no
// host memory for it.
void LacksRoom(Script& s, const std::string& name, Bytes bytes, const std::vector<std::string>& others) {
  const absl::Time end = s.now() + absl::Seconds(3);
  for (bool asks = true; s.now() < end; s.Passes(absl::Milliseconds(50))) {
    if (std::exchange(asks, false)) s.NeedsRoom(name, bytes, /*restoring=*/false, /*device_free=*/0);
    for (const std::string& other : others) {
      if (s.JobOf(other).spill) s.Spills(other, 0, /*movable=*/true, "its host memory is full");
    }
    if (s.JobOf(name).room) continue;
    const auto room = s.Told<wire::Room>(name);
    if (!room->ok || room->step_aside) return;
    asks = true;
  }
}

// In its step, with both turns, it lacks room for 10 on the full device of the first. Nothing of those who
// wait there fits into host memory.
class LacksRoomTest : public testing::Test {
 protected:
  Script s{"fifo", 100};

  void SetUp() override {
    s.Joins("p0", {.device = "gpu0", .persistent = 50, .pid = 7});
    s.Joins("p1", {.device = "gpu1", .pid = 7});
    s.Asks("p0");
    s.Asks("p1");
  }
  void JoinsAndAsks(const std::string& name, const Part& part) {
    s.Joins(name, part);
    s.Asks(name, {.movable = true});
  }
  // Another such process.
  void AnotherComes() {
    JoinsAndAsks("q0", {.device = "gpu0", .persistent = 20, .host = 0, .pid = 8});
    s.Joins("q1", {.device = "gpu1", .pid = 8});
  }
};

TEST_F(LacksRoomTest, ASingleJobGoesFirstAndTheOtherTurnIsKept) {
  JoinsAndAsks("x", {.persistent = 50, .host = 0});
  LacksRoom(s, "p0", 10, {"x"});
  ASSERT_TRUE(s.Told<wire::Room>("p0")->step_aside) << s.Story();
  s.GivesUp("p0", {.stood_aside = true});
  EXPECT_EQ(s.Holder("gpu0"), "x") << s.Story();
  EXPECT_EQ(s.Holder("gpu1"), "p1") << s.Story();
  s.Asks("p0", {.need = 10, .movable = true});
  s.Dies("x");
  EXPECT_EQ(s.Holder("gpu0"), "p0") << s.Story();
}

// It could need the turn that is kept.
TEST_F(LacksRoomTest, AnotherSuchProcessDoesNotGoFirst) {
  AnotherComes();
  JoinsAndAsks("x", {.persistent = 30, .host = 0});
  LacksRoom(s, "p0", 10, {"q0", "x"});
  ASSERT_TRUE(s.Told<wire::Room>("p0")->step_aside) << s.Story();
  s.GivesUp("p0", {.stood_aside = true});
  EXPECT_EQ(s.Holder("gpu0"), "x") << "q0 asked before x did\n" << s.Story();
  s.Asks("p0", {.need = 10, .movable = true});
  s.Dies("x");
  ASSERT_EQ(s.Holder("gpu0"), "p0") << s.Story();
  s.GivesUp("p1");
  s.GivesUp("p0");
  EXPECT_EQ(s.Holder("gpu0"), "q0") << s.Story();
}

TEST_F(LacksRoomTest, WhereNobodyCouldGoFirstItIsToldNo) {
  AnotherComes();
  JoinsAndAsks("y0", {.device = "gpu0", .persistent = 30, .host = 0, .pid = 9});
  s.Joins("y1", {.device = "gpu1", .pid = 9});
  LacksRoom(s, "p0", 10, {"q0", "y0"});
  const auto room = s.Told<wire::Room>("p0");
  ASSERT_TRUE(room) << s.Story();
  EXPECT_FALSE(room->ok || room->step_aside) << s.Story();
  EXPECT_EQ(s.Holder("gpu0"), "p0") << s.Story();
}

// A device that a process uses for the first time it takes in the midst of a step.
class CrosswiseTest : public testing::Test {
 protected:
  Script s{"fifo", 100};

  // p has gpu0 and waits for gpu1, q the other way round; q has begun last.
  void Begin(Part on_gpu0, Part on_gpu1) {
    on_gpu0.device = "gpu0";
    on_gpu1.device = "gpu1";
    for (const char* process : {"p", "q"}) {
      on_gpu0.pid = on_gpu1.pid = process[0];
      s.Joins(absl::StrCat(process, "0"), on_gpu0);
      s.Joins(absl::StrCat(process, "1"), on_gpu1);
    }
    s.Asks("p0");
    s.Asks("q1");
    s.Asks("p1", {.need = on_gpu1.spilled});
    s.Asks("q0", {.need = on_gpu0.spilled});
  }
};

TEST_F(CrosswiseTest, TheLastToBeginIsSetAside) {
  Begin({}, {});
  s.Passes(kTiedFor - absl::Milliseconds(1));
  EXPECT_EQ(s.Holder("gpu1"), "q1") << "it may be a thread outside of steps: " << s.Story();
  s.Passes(absl::Milliseconds(1));
  EXPECT_EQ(s.Holder("gpu0"), "p0") << s.Story();
  EXPECT_EQ(s.Holder("gpu1"), "p1") << s.Story();
  EXPECT_EQ(s.Told<wire::Grant>("p1")->lane_lock, "/run/test/lane-gpu1-1.lock") << "q1 has the first one's";
  EXPECT_THAT(s.sentences(), testing::Contains(testing::HasSubstr("q1 (pid 113) has gpu1 in a step")));
  EXPECT_THAT(s.Why("q1"), testing::HasSubstr("is in a step in which it waits for another device"));
  s.GivesUp("p1");
  s.GivesUp("p0");
  EXPECT_EQ(s.Holder("gpu0"), "q0") << s.Story();
  s.Asks("p0");
  s.GivesUp("q1");
  s.GivesUp("q0");
  EXPECT_EQ(s.Holder("gpu0"), "p0") << s.Story();
}

// On gpu1 p1 would not find its room beside q1, whose bytes nobody can take away.
TEST_F(CrosswiseTest, WhereThereIsAChoiceItIsWhereTheOtherFindsItsRoom) {
  Begin({.persistent = 20}, {.persistent = 40, .spilled = 30});
  s.Passes(kTiedFor);
  EXPECT_EQ(s.Holder("gpu0"), "q0") << s.Story();
  EXPECT_EQ(s.Holder("gpu1"), "q1") << s.Story();
}

TEST_F(CrosswiseTest, InACircleOfThreeTheLastToBeginIsSetAside) {
  for (int process = 0; process < 3; ++process) {
    for (int i = 0; i < 2; ++i) {
      const std::string device = absl::StrCat("gpu", (process + i) % 3);
      s.Joins(absl::StrCat(process, " on ", device), {.device = device, .pid = 7 + std::uint64_t(process)});
    }
    s.Asks(absl::StrCat(process, " on gpu", process));
  }
  for (int process = 0; process < 3; ++process) s.Asks(absl::StrCat(process, " on gpu", (process + 1) % 3));
  s.Passes(kTiedFor);
  EXPECT_EQ(s.Holder("gpu2"), "1 on gpu2") << s.Story();
  s.GivesUp("1 on gpu2");
  s.GivesUp("1 on gpu1");
  EXPECT_EQ(s.Holder("gpu1"), "0 on gpu1") << s.Story();
}

// Of two gangs each has a rank that uses another device in its step, too, with turns of its own.
TEST_F(CrosswiseTest, AGangWaitsForARanksOtherDeviceAndItsHolderForTheGang) {
  for (const std::uint64_t gang : {7, 9}) {
    const std::string name = absl::StrCat(gang);
    s.Joins("rank 0 of " + name, {.device = "gpu0", .pid = gang});
    s.Joins("rank 1 of " + name, {.device = "gpu2", .pid = gang + 1});
    s.Joins("other of " + name, {.device = "gpu1", .pid = gang});
    s.FormsGang(name, {"rank 0 of " + name, "rank 1 of " + name});
  }
  s.Asks("rank 0 of 7");
  s.Asks("rank 1 of 7");
  s.Asks("other of 9");
  s.Asks("rank 0 of 9");
  s.Asks("rank 1 of 9");
  s.Asks("other of 7");
  s.Passes(kTiedFor);
  EXPECT_EQ(s.Holder("gpu0"), "rank 0 of 9") << s.Story();
  EXPECT_EQ(s.Holder("gpu2"), "rank 1 of 9") << s.Story();
  for (const char* job : {"rank 0 of 9", "rank 1 of 9", "other of 9"}) s.GivesUp(job);
  EXPECT_EQ(s.Holder("gpu1"), "other of 7") << s.Story();
}

// It could be set aside after it has written the number that the next one waits for.
TEST_F(CrosswiseTest, SuchAProcessDoesNotPassItsTurnOn) {
  for (const bool has_another : {false, true}) {
    Script s("fifo", 100);
    s.Joins("p0", {.passes = true, .pid = 7});
    s.Joins("x", {.passes = true});
    s.Asks("p0", {.movable = true, .heeds_pass = true});
    s.Passes(absl::Seconds(1));
    if (has_another) s.Joins("p1", {.device = "gpu1", .passes = true, .pid = 7});
    s.Asks("x", {.movable = true, .heeds_pass = true});
    ASSERT_TRUE(s.Told<wire::Yield>("p0")->now) << s.Story();
    EXPECT_EQ(s.Told<wire::Yield>("p0")->pass == 0, has_another) << s.Story();
  }
}

// q0 trains beside p0, which serves, and waits in its step for the device that p1 has.
TEST(TwoDevicesTest, WhoLacksRoomBesideOneThatWaitsForItsOtherDeviceLendsThat) {
  Script s("fifo", 100);
  s.Joins("p0", {.device = "gpu0", .persistent = 40, .serves = true, .pid = 7});
  s.Joins("p1", {.device = "gpu1", .serves = true, .pid = 7});
  s.Joins("q0", {.device = "gpu0", .persistent = 40, .host = 0, .stands_by = true, .pid = 8});
  s.Joins("q1", {.device = "gpu1", .stands_by = true, .pid = 8});
  for (const char* job : {"p0", "q0"}) {  // what they need is known
    s.Asks(job);
    s.GivesUp(job, {.movable = true});
  }
  s.Asks("q0");
  s.Asks("p0");
  s.StandsBy("q0");
  ASSERT_EQ(s.Holder("gpu0"), "p0, q0") << s.Story();
  s.Asks("p1");
  s.Asks("q1");
  ASSERT_EQ(s.Holder("gpu1"), "p1") << s.Story();
  LacksRoom(s, "p0", 30, {});
  EXPECT_EQ(s.Holder("gpu1"), "q1") << s.Story();
  EXPECT_EQ(s.Told<wire::Grant>("q1")->lane_lock, "/run/test/lane-gpu1-1.lock") << "p1 keeps the first one's";
  EXPECT_TRUE(s.Told<wire::Room>("p0")->ok) << s.Story();
}

// After a restart, as long as p1 has not said which turn it has.
TEST(TwoDevicesTest, WhoseOtherJobHasNotReportedDoesNotStepAsideForAnotherSuchProcess) {
  for (const std::uint64_t other : {7, 9}) {
    Script s("fifo", 100);
    s.CoordinatorRestarts({}, {}, {{1, 7}, {20, other}});
    s.Joins("p0", {.device = "gpu0",
                   .persistent = 50,
                   .rejoin = true,
                   .id = 1,
                   .holds_turn = true,
                   .turn = 3,
                   .lane_lock = "/run/test/lane-gpu0-0.lock",
                   .pid = 7});
    s.Passes(absl::Seconds(2));
    s.Joins("q0", {.device = "gpu0", .persistent = 50, .host = 0, .pid = 8});
    s.Joins("q1", {.device = "gpu1", .pid = 8});
    s.Asks("q0", {.movable = true});
    LacksRoom(s, "p0", 10, {"q0"});
    EXPECT_EQ(s.Told<wire::Room>("p0")->step_aside, other != 7) << s.Story();
  }
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
