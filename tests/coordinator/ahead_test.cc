// Bytes that come back before the turn: who restores, into what, and who is spilled for it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/coordinator/script.h"

namespace hocket::coordinator {
namespace {

using absl::Milliseconds;
using absl::Seconds;
using testing::HasSubstr;

// a holds the turn of a device of 100 bytes with 40 of them. b and c wait, in this order, with all their
// threads at doors; 30 bytes of b are on the host.
Script OneIsNext(Bytes of_b = 10, Bytes of_c = 20, const std::string& policy = "fifo") {
  Script s(policy, 100);
  s.Joins("a", {.persistent = 40, .ahead = true});
  s.Joins("b", {.persistent = of_b, .spilled = 30, .ahead = true});
  s.Joins("c", {.persistent = of_c, .ahead = true});
  s.Asks("a");
  s.Passes(Milliseconds(1));
  s.Asks("b", {.movable = true});
  s.Passes(Milliseconds(1));
  s.Asks("c", {.movable = true});
  return s;
}

TEST(AheadTest, TheNextOneRestoresIntoWhatIsFree) {
  Script s = OneIsNext();
  ASSERT_TRUE(s.Told<wire::Restore>("b")) << s.Story();
  EXPECT_EQ(s.Told<wire::Restore>("b")->bytes, 30u);
  EXPECT_EQ(s.TimesTold<wire::Restore>("c"), 0);
  EXPECT_EQ(s.TimesTold<wire::Spill>("c"), 0);
  s.Restores("b", 30);
  EXPECT_EQ(s.TimesTold<wire::Restore>("b"), 1) << s.Story();
  EXPECT_THAT(s.Why("b"), HasSubstr("30 B of it have come back ahead of its turn")) << s.Why("b");
  s.GivesUp("a");
  ASSERT_EQ(s.Holder(), "b");
  s.GivesUp("b");
  EXPECT_EQ(s.turns().back().ahead, 30u);
  EXPECT_EQ(s.turns().back().restored, 0u);
  EXPECT_EQ(s.JobOf("b").restored_total, 30u);
}

TEST(AheadTest, WhoIsBeingSpilledMayBeTheNextOneAllTheSame) {
  Script s("fifo", 100);
  s.Joins("a", {.persistent = 40, .ahead = true});
  s.Joins("b", {.persistent = 20, .spilled = 10, .ahead = true});
  s.Joins("c", {.spilled = 20, .ahead = true});
  s.Asks("a");
  s.Asks("b", {.movable = true});
  s.Says("a", wire::LacksHeadroom{10});
  ASSERT_EQ(s.Told<wire::Spill>("b")->bytes, 10u) << s.Story();
  s.Passes(Milliseconds(1));
  s.Asks("c", {.movable = true});
  s.Spills("b", 10);
  EXPECT_EQ(s.TimesTold<wire::Restore>("c"), 0) << s.Story();
  EXPECT_EQ(s.TimesTold<wire::Restore>("b"), 1) << s.Story();
}

TEST(AheadTest, WhatIsOnItsWayIsNotOrderedTwice) {
  Script s = OneIsNext();
  s.Passes(Milliseconds(10));
  EXPECT_EQ(s.TimesTold<wire::Restore>("b"), 1) << s.Story();
  s.Restores("b", 20);  // whole chunks
  EXPECT_EQ(s.Told<wire::Restore>("b")->bytes, 10u) << s.Story();
}

TEST(AheadTest, TheOneBehindIsSpilledForIt) {
  Script s = OneIsNext(/*of_b=*/10, /*of_c=*/50);
  EXPECT_EQ(s.TimesTold<wire::Restore>("b"), 0) << "nothing is free";
  ASSERT_EQ(s.Told<wire::Spill>("c")->bytes, 30u) << s.Story();
  s.SpillsPart("c", 10);
  EXPECT_EQ(s.Told<wire::Restore>("b")->bytes, 10u) << s.Story();
  s.Restores("b", 10);
  s.Spills("c", 20);
  EXPECT_EQ(s.Told<wire::Restore>("b")->bytes, 20u) << s.Story();
  s.Restores("b", 20);
  EXPECT_EQ(s.TimesTold<wire::Spill>("c"), 1) << s.Story();
  EXPECT_EQ(s.TimesTold<wire::Restore>("c"), 0) << "a's turn is b's to prepare for";
  s.GivesUp("a", {.movable = true});
  ASSERT_EQ(s.Holder(), "b");
  EXPECT_EQ(s.TimesTold<wire::Spill>("a"), 0) << "nothing is missing\n" << s.Story();
}

// c's bytes are a little less than what is ordered at a time. d would be asked for the rest, and for as much
// again whenever it has answered, while c's are on their way.
TEST(AheadTest, WhileMuchIsComingNobodyIsAskedForCrumbs) {
  Script s("fifo", 8_GiB);
  s.Joins("a", {.persistent = 8_GiB - 510_MiB - 3_GiB, .ahead = true});
  s.Joins("b", {.spilled = 4_GiB, .ahead = true});
  s.Joins("c", {.persistent = 510_MiB, .ahead = true});
  s.Joins("d", {.persistent = 3_GiB, .ahead = true});
  s.Asks("a");
  for (const char* name : {"b", "c", "d"}) {
    s.Passes(Milliseconds(1));
    s.Asks(name, {.movable = true});
  }
  ASSERT_EQ(s.TimesTold<wire::Spill>("c"), 1) << s.Story();
  EXPECT_EQ(s.TimesTold<wire::Spill>("d"), 0) << s.Story();
  s.SpillsPart("c", 256_MiB);
  EXPECT_EQ(s.Told<wire::Spill>("d")->bytes, 258_MiB) << s.Story();
}

// A process that is no job has it. Each further order would be as vain, and cost two messages.
TEST(AheadTest, WhatIsFreeOnlyByTheAccountIsTriedOnceInATurn) {
  Script s("fifo", 8_GiB);
  s.Joins("a", {.persistent = 1_GiB, .ahead = true});
  s.Joins("b", {.spilled = 2_GiB, .ahead = true});
  s.Joins("c", {.persistent = 1_GiB, .ahead = true});
  s.Asks("a");
  s.Asks("b", {.movable = true});
  s.Asks("c", {.movable = true});
  ASSERT_EQ(s.TimesTold<wire::Restore>("b"), 1) << s.Story();
  s.Restores("b", 0);
  EXPECT_EQ(s.TimesTold<wire::Restore>("b"), 1) << s.Story();
  ASSERT_EQ(s.TimesTold<wire::Spill>("c"), 1) << "nothing is free\n" << s.Story();
  s.SpillsPart("c", 256_MiB);
  EXPECT_EQ(s.TimesTold<wire::Restore>("b"), 2) << s.Story();
  EXPECT_EQ(s.Told<wire::Restore>("b")->bytes, 256_MiB) << s.Story();
}

// It may want its memory in the next moment, before the others.
TEST(AheadTest, WhoDoesNotWaitKeepsHisMemory) {
  Script s("fifo", 100);
  s.Joins("a", {.persistent = 40, .ahead = true});
  s.Joins("b", {.persistent = 10, .spilled = 30, .ahead = true});
  s.Joins("c", {.persistent = 50, .ahead = true});
  s.StandsAtDoors("c");
  s.Asks("a");
  s.Asks("b", {.movable = true});
  EXPECT_EQ(s.TimesTold<wire::Spill>("c"), 0) << s.Story();
  EXPECT_EQ(s.TimesTold<wire::Restore>("b"), 0) << s.Story();
}

TEST(AheadTest, WhoseTurnComesBeforeKeepsHisMemory) {
  Script s("priority", 100);
  s.Joins("a", {.persistent = 40, .ahead = true});
  s.Joins("b", {.persistent = 10, .spilled = 30, .ahead = true});
  s.Asks("a");
  s.Asks("b", {.movable = true});
  s.Joins("p", {.priority = "high", .persistent = 50, .ahead = true});
  s.Asks("p", {.movable = true});
  EXPECT_EQ(s.TimesTold<wire::Spill>("p"), 0) << s.Story();
}

TEST(AheadTest, GuaranteedBytesAreNotSpilledForIt) {
  Script s = OneIsNext(10, 20);
  s.Says("c", SetMemoryGuarantee{20});
  s.Restores("b", 0);
  s.NeedsRoom("a", 1);
  s.GivesUp("a");
  Script t("fifo", 100);
  t.Joins("a", {.persistent = 40, .ahead = true});
  t.Joins("b", {.persistent = 10, .spilled = 30, .ahead = true});
  t.Joins("c", {.persistent = 50, .ahead = true});
  t.Says("c", SetMemoryGuarantee{40});
  t.Asks("a");
  t.Asks("b", {.movable = true});
  t.Asks("c", {.movable = true});
  EXPECT_EQ(t.Told<wire::Spill>("c")->bytes, 10u) << t.Story();
}

TEST(AheadTest, WhatTheHolderBringsBackIsHis) {
  Script s("fifo", 100);
  s.Joins("a", {.persistent = 10, .spilled = 50, .ahead = true});
  s.Joins("b", {.persistent = 10, .spilled = 40, .ahead = true});
  s.Asks("a");
  s.Asks("b", {.movable = true});
  EXPECT_EQ(s.Told<wire::Restore>("b")->bytes, 30u) << s.Story();
}

TEST(AheadTest, WhereTheHolderLacksRoomNothingIsDone) {
  Script s("fifo", 100);
  s.Joins("a", {.persistent = 40, .ahead = true});
  s.Joins("b", {.persistent = 30, .spilled = 30, .ahead = true});
  s.Asks("a");
  s.Asks("b", {.movable = true});
  ASSERT_EQ(s.TimesTold<wire::Restore>("b"), 1) << s.Story();
  s.NeedsRoom("a", 20);
  EXPECT_EQ(s.Told<wire::Spill>("b")->bytes, 20u) << s.Story();
  s.Restores("b", 30);
  s.Spills("b", 20);
  EXPECT_TRUE(s.Told<wire::Room>("a")->ok) << s.Story();
  EXPECT_EQ(s.TimesTold<wire::Restore>("b"), 1) << "a would have to ask for it again\n" << s.Story();
}

// What b brings back is there before b has said so: no ledger knows of it, and the driver has nothing left.
TEST(AheadTest, AnAllocationWaitsForWhatIsOnItsWayBack) {
  Script s = OneIsNext(/*of_b=*/0, /*of_c=*/0);
  ASSERT_EQ(s.Told<wire::Restore>("b")->bytes, 30u) << s.Story();
  for (int i = 0; i < 10; ++i) {
    s.NeedsRoom("a", 50);
    s.Passes(Milliseconds(300));
    ASSERT_TRUE(s.Told<wire::Room>("a")->ok) << "it may try again, in vain\n" << s.Story();
  }
  s.NeedsRoom("a", 50);
  s.Restores("b", 30);
  ASSERT_EQ(s.TimesTold<wire::Spill>("b"), 1) << s.Story();
  s.Spills("b", 30);
  EXPECT_TRUE(s.Told<wire::Room>("a")->ok) << s.Story();
}

TEST(AheadTest, AnAllocationThatIsTooLargeWithWhatComesBackIsRefused) {
  Script s = OneIsNext(/*of_b=*/0, /*of_c=*/0);
  ASSERT_TRUE(s.Told<wire::Restore>("b")) << s.Story();
  s.NeedsRoom("a", 70);  // 60 are free if b's do not come back
  ASSERT_TRUE(s.Told<wire::Room>("a")) << s.Story();
  EXPECT_FALSE(s.Told<wire::Room>("a")->ok) << s.Story();
}

// a grows by 30 in its turn, for which b has to make room, and gives that back. Now it has its next turn, and
// b waits, with 30 bytes on the host; 40 are free.
Script OneThatRegrows() {
  Script s("fifo", 100);
  s.Joins("a", {.persistent = 40, .ahead = true});
  s.Joins("b", {.persistent = 40, .ahead = true});
  s.Joins("c", {.persistent = 10, .ahead = true});
  s.Asks("a");
  s.Asks("b", {.movable = true});
  s.NeedsRoom("a", 30, /*restoring=*/false, /*device_free=*/10);
  s.Spills("b", 30);
  s.Passes(Milliseconds(1));
  s.GivesUp("a", {.movable = true});
  s.Asks("a", {.movable = true});
  s.GivesUp("b", {.movable = true});
  s.Asks("b", {.movable = true});
  return s;
}

TEST(AheadTest, TheRoomThatTheHolderAskedForInHisLastTurnIsKeptForHim) {
  Script s = OneThatRegrows();
  ASSERT_EQ(s.Holder(), "a") << s.Story();
  ASSERT_TRUE(s.Told<wire::Restore>("b")) << s.Story();
  EXPECT_EQ(s.Told<wire::Restore>("b")->bytes, 10u) << "40 are free, and a will want 30 of them" << s.Story();
}

TEST(AheadTest, AHolderThatNoLongerGrowsIsBelievedAfterAFewTurns) {
  Script s = OneThatRegrows();
  for (int turn = 0; turn < 8; ++turn) {
    ASSERT_EQ(s.Holder(), "a");
    if (s.JobOf("b").ahead) s.Restores("b", 0);
    s.GivesUp("a", {.movable = true});
    s.Asks("a", {.movable = true});
    ASSERT_EQ(s.Holder(), "b");
    s.GivesUp("b", {.movable = true});
    s.Asks("b", {.movable = true});
  }
  EXPECT_EQ(s.Told<wire::Restore>("b")->bytes, 30u) << s.Story();
}

TEST(AheadTest, WhatIsSpilledForTheNextOneServesTheHolderWhoLacksRoom) {
  Script s = OneIsNext(/*of_b=*/10, /*of_c=*/50);
  ASSERT_EQ(s.Told<wire::Spill>("c")->bytes, 30u) << s.Story();
  s.NeedsRoom("a", 20);
  s.Passes(Milliseconds(200));
  EXPECT_EQ(s.TimesTold<wire::Room>("a"), 0) << "it comes, and nobody has to stand aside\n" << s.Story();
  s.SpillsPart("c", 10);
  EXPECT_EQ(s.TimesTold<wire::Room>("a"), 0) << s.Story();
  s.Spills("c", 10);
  ASSERT_TRUE(s.Told<wire::Room>("a").has_value()) << s.Story();
  EXPECT_TRUE(s.Told<wire::Room>("a")->ok);
  EXPECT_FALSE(s.Told<wire::Room>("a")->step_aside);
}

TEST(AheadTest, WhatCameBackInVainIsNoCostOfATurn) {
  Script s = OneIsNext();
  s.Passes(Milliseconds(20));
  s.Restores("b", 30, Milliseconds(20));
  s.NeedsRoom("a", 55);
  s.Spills("c", 20);
  s.Spills("b", 35);
  EXPECT_EQ(s.JobOf("b").restored_ahead, 0u) << s.Story();
  EXPECT_EQ(s.JobOf("b").ahead_time, absl::ZeroDuration());
}

TEST(AheadTest, RoomThatIsOfNoUseIsNotOfferedAgain) {
  Script s = OneIsNext(/*of_b=*/10, /*of_c=*/45);  // 5 bytes are free: less than a chunk
  ASSERT_EQ(s.Told<wire::Restore>("b")->bytes, 5u) << s.Story();
  s.Restores("b", 0);
  s.Passes(Milliseconds(100));
  EXPECT_EQ(s.TimesTold<wire::Restore>("b"), 1) << s.Story();
  s.SpillsPart("c", 10);
  EXPECT_EQ(s.Told<wire::Restore>("b")->bytes, 10u) << s.Story();
}

// The ledger does not see everything: what others hold outside Hocket, say.
TEST(AheadTest, ForRoomThatIsNotThereSomebodyIsSpilled) {
  Script s = OneIsNext(/*of_b=*/10, /*of_c=*/20);
  ASSERT_EQ(s.Told<wire::Restore>("b")->bytes, 30u) << s.Story();
  EXPECT_EQ(s.TimesTold<wire::Spill>("c"), 0);
  s.Restores("b", 20);
  s.Restores("b", 0);
  EXPECT_EQ(s.Told<wire::Spill>("c")->bytes, 10u) << s.Story();
  s.Spills("c", 10);
  EXPECT_EQ(s.Told<wire::Restore>("b")->bytes, 10u) << s.Story();
}

// Less than a piece brings nothing back: an order that is as long as orders usually are would be for nothing,
// and so would the memory of others be that is spilled for it.
TEST(AheadTest, AnOrderIsForOnePieceAtLeast) {
  Script s("fifo", 2_GiB);
  s.Joins("a", {.persistent = 512_MiB, .ahead = true});
  s.Joins("b", {.spilled = 1_GiB, .ahead = true});
  s.Joins("c", {.persistent = 1280_MiB, .ahead = true});  // 256 MiB are left
  for (const char* name : {"a", "b", "c"}) s.Asks(name, {.movable = *name != 'a'});
  ASSERT_EQ(s.Told<wire::Restore>("b")->bytes, 256_MiB) << s.Story();
  s.Restores("b", 0, {}, /*piece=*/512_MiB);
  EXPECT_EQ(s.TimesTold<wire::Restore>("b"), 1) << s.Story();
  s.SpillsPart("c", 256_MiB);
  EXPECT_EQ(s.Told<wire::Restore>("b")->bytes, 512_MiB) << s.Story();
}

// Counts how often it is asked for an order.
class AskedPolicy final : public Policy {
 public:
  explicit AskedPolicy(int& times) : times_(times) {}
  bool Before(const JobView& a, const JobView& b) const override {
    ++times_;
    return a.asked < b.asked;
  }
  std::string Reason(const JobView&) const override { return "asked first"; }

 private:
  int& times_;
};

// It may be a program of the user's own, to which each question is a conversation.
TEST(AheadTest, ThePolicyIsNotAskedAgainWhileNothingHasChanged) {
  int times = 0;
  Script s([&](const std::string&) { return std::make_unique<AskedPolicy>(times); }, 100);
  s.Joins("a", {.persistent = 40, .ahead = true});
  s.Joins("b", {.persistent = 10, .spilled = 30, .ahead = true});
  s.Joins("c", {.persistent = 25, .ahead = true});
  s.Joins("d", {.persistent = 25, .ahead = true});
  for (const char* name : {"c", "d"}) s.Says(name, SetMemoryGuarantee{25});
  for (const char* name : {"a", "b", "c", "d"}) s.Asks(name, {.movable = *name != 'a'});
  const int asked = times;
  for (int i = 0; i < 10; ++i) s.Says("a", wire::Report{.persistent = 40});
  EXPECT_EQ(times, asked) << s.Story();
  s.Says("d", SetPaused{true});
  EXPECT_GT(times, asked);
}

TEST(ExplainTest, WhoAsksAboutAllWhoWaitAsksThePolicyOnce) {
  int times = 0;
  Script s([&](const std::string&) { return std::make_unique<AskedPolicy>(times); }, 100);
  std::vector<std::string> names;
  for (int i = 0; i < 30; ++i) names.push_back(absl::StrCat("job", i));
  for (const std::string& name : names) s.Joins(name);
  for (const std::string& name : names) s.Asks(name);
  const int before = times;
  EXPECT_THAT(s.Why("job29"), HasSubstr("number 29 of 29 that wait"));
  const int once = times - before;
  ASSERT_GT(once, 0);
  for (const std::string& name : names) (void)s.Why(name);
  EXPECT_EQ(times - before, once);
  s.GivesUp("job0");
  EXPECT_THAT(s.Why("job29"), HasSubstr("number 28 of 28 that wait")) << "it is asked again after an event";
}

// Where there is no room to bring them back before, they can at least come at once.
TEST(AheadTest, WhoseBytesAreOnTheHostHearsThatItsTurnIsNear) {
  Script s("fifo", 100);
  s.Joins("a", {.persistent = 100, .ahead = true});
  s.Joins("b", {.spilled = 30, .ahead = true});
  s.Joins("c", {.spilled = 30, .ahead = true});
  s.Asks("a");
  s.Asks("b", {.movable = true});
  s.Asks("c", {.movable = true});
  while (!s.Told<wire::Yield>("a") || !s.Told<wire::Yield>("a")->now) {
    ASSERT_EQ(s.TimesTold<wire::Near>("b"), 0) << "a may go on for long" << s.Story();
    s.Passes(Milliseconds(10));
  }
  ASSERT_EQ(s.TimesTold<wire::Near>("b"), 1) << s.Story();
  EXPECT_EQ(s.Told<wire::Near>("b")->wait, s.JobOf("b").wait);
  s.Says("a", wire::Report{.persistent = 100});
  EXPECT_EQ(s.TimesTold<wire::Near>("b"), 1) << "once is enough";
  EXPECT_EQ(s.TimesTold<wire::Near>("c"), 0) << s.Story();
}

// Until then strays find its bytes where they were.
TEST(AheadTest, ATurnIsNearWhenTheHoldersStepCanBeOver) {
  Script s("fifo", 100);
  s.Joins("a", {.persistent = 100, .ahead = true});
  s.Joins("b", {.spilled = 30, .ahead = true});
  for (int step = 0; step < 30; ++step) {
    s.Asks("a");
    s.Passes(Milliseconds(100));
    s.GivesUp("a", {.steps = 1});
  }
  s.Asks("a");
  s.Passes(Milliseconds(20));
  s.Asks("b", {.movable = true});
  ASSERT_EQ(s.TimesTold<wire::Near>("b"), 1) << s.Story();
  EXPECT_GT(s.Told<wire::Near>("b")->in_ns, 50'000'000u) << s.Story();
  EXPECT_LE(s.Told<wire::Near>("b")->in_ns, 80'000'000u) << s.Story();
}

TEST(AheadTest, WhoHasAllItsBytesIsNotToldThatItsTurnIsNear) {
  Script s("fifo", 100);
  s.Joins("a", {.persistent = 60, .ahead = true});
  s.Joins("b", {.persistent = 40, .ahead = true});
  s.Joins("c", {.spilled = 30, .ahead = true});
  s.Asks("a");
  s.Asks("b", {.movable = true});
  s.Asks("c", {.movable = true});
  for (int i = 0; i < 1000; ++i) s.Passes(Milliseconds(10));
  ASSERT_TRUE(s.Told<wire::Yield>("a") && s.Told<wire::Yield>("a")->now) << s.Story();
  EXPECT_EQ(s.TimesTold<wire::Near>("b") + s.TimesTold<wire::Near>("c"), 0) << s.Story();
}

TEST(AheadTest, AJobThatDoesNotKnowTheOrderIsNotTold) {
  Script s("fifo", 100);
  s.Joins("a", {.persistent = 40});
  s.Joins("b", {.persistent = 10, .spilled = 30});
  s.Asks("a");
  s.Asks("b", {.movable = true});
  EXPECT_EQ(s.TimesTold<wire::Restore>("b"), 0) << s.Story();
}

TEST(AheadTest, WhoDoesNotAnswerIsLeftAsideUntilHeDoes) {
  Script s = OneIsNext();
  s.Passes(Seconds(1.1));
  EXPECT_THAT(s.sentences().back(), HasSubstr("has not answered")) << s.Story();
  EXPECT_THAT(s.Why("b"), HasSubstr("a request to bring back 30 B")) << s.Why("b");
  s.GivesUp("a");
  EXPECT_EQ(s.Holder(), "c") << s.Story();
  s.Restores("b", 30);
  s.GivesUp("c");
  EXPECT_EQ(s.Holder(), "b") << s.Story();
}

TEST(AheadTest, AnAnswerToNobodysQuestionChangesTheLedgerOnly) {
  Script s = OneIsNext();
  s.Says("b", wire::Restored{.request = 77, .restored = 5, .persistent = 15, .spilled = 25});
  EXPECT_EQ(s.JobOf("b").persistent, 15u);
  EXPECT_TRUE(s.JobOf("b").ahead);
  EXPECT_EQ(s.JobOf("b").restored_ahead, 0u);
}

// It keeps nobody waiting, but the link as busy: turns do not become shorter, or the link would never rest.
TEST(AheadTest, WhatCameBackBeforeTheTurnCountsAsItsCost) {
  Script s = OneIsNext();
  s.Passes(Milliseconds(20));
  s.Restores("b", 30, Milliseconds(20));
  s.GivesUp("a");
  s.GivesUp("b");
  s.GivesUp("c");
  s.Asks("b");
  s.Asks("a");
  s.Passes(Milliseconds(970));
  EXPECT_FALSE(s.Told<wire::Yield>("b")->now) << s.Story();
  EXPECT_EQ(absl::Nanoseconds(s.Told<wire::Yield>("b")->idle_ns), Milliseconds(40)) << s.Story();
  s.Passes(Milliseconds(20));  // 20 ms * (1 / 0.02 - 1) = 980 ms
  EXPECT_TRUE(s.Told<wire::Yield>("b")->now) << s.Story();
}

// Three jobs of which two fit: while one runs, another is copied out and the third in. How many turns began
// with bytes to restore, and how many there were.
std::pair<int, int> LateOfAll(bool ahead, double link_bound) {
  Script s("fifo", 100);
  s.Sets(SetLinkBound{link_bound});
  for (const char* name : {"a", "b", "c"}) {
    s.Joins(name, {.persistent = *name == 'c' ? Bytes{20} : Bytes{40},
                   .spilled = *name == 'c' ? Bytes{20} : Bytes{0},
                   .step = Milliseconds(50),
                   .spill_time = Milliseconds(10),
                   .restore_time = Milliseconds(10),
                   .ahead = ahead});
  }
  for (const char* name : {"a", "b", "c"}) s.Lives(name);
  s.RunsFor(Seconds(60));
  int late = 0;
  for (size_t i = 10; i < s.turns().size(); ++i) late += s.turns()[i].restored > 0;
  return {late, static_cast<int>(s.turns().size())};
}

TEST(AheadTest, TurnsOfThreeJobsBeginWithTheirBytesInPlace) {
  const auto [late, turns] = LateOfAll(/*ahead=*/true, /*link_bound=*/1);
  ASSERT_GT(turns, 30);
  EXPECT_EQ(late, 0);
  EXPECT_GT(LateOfAll(/*ahead=*/false, /*link_bound=*/1).first, 20);
}

TEST(AheadTest, WhereTheLinkIsBoundedAFewTurnsShowWhatAStepTakesAlone) {
  const auto [late, turns] = LateOfAll(/*ahead=*/true, /*link_bound=*/0.02);
  EXPECT_GT(late, 0);
  EXPECT_LT(late, turns / 10);
}

}  // namespace
}  // namespace hocket::coordinator
