// Memory that moves for others: spills, room, limits.
#include <algorithm>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/scene.h"

namespace hocket {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(MemoryTest, AJobAtItsDoorIsSpilledAndComesBackWithItsTurn) {
  Scene scene;
  std::thread thread([&] { scene.Step(); });
  scene.Expects<wire::Wait>();
  scene.Says(wire::Spill{.request = 1, .bytes = 60});
  wire::Spilled answer = scene.Expects<wire::Spilled>();
  while (answer.request != 1) answer = scene.Expects<wire::Spilled>();
  EXPECT_EQ(answer.freed, 60u);
  EXPECT_EQ(answer.persistent, 40u);
  EXPECT_EQ(answer.spilled, 60u);
  EXPECT_TRUE(answer.movable);
  scene.Grants(1);
  thread.join();
  EXPECT_EQ(scene.allocator().Held().spilled, 0u);
  scene.Says(wire::Yield{.turn = 1, .now = true});
  EXPECT_EQ(scene.Expects<wire::TurnOver>().restored, 60u);
}

TEST(MemoryTest, ALargeSpillIsToldInParts) {
  Scene scene({.part = 25});
  scene.Says(wire::Spill{.request = 1, .bytes = 60});
  for (const Bytes freed : {25, 25, 10}) {
    const wire::Spilled part = scene.Expects<wire::Spilled>();
    EXPECT_EQ(part.request, 1u);
    EXPECT_EQ(part.freed, freed);
    EXPECT_EQ(part.persistent + part.spilled, 100u);
    EXPECT_EQ(part.more, freed == 25);
  }
}

TEST(MemoryTest, EachPartOfASpillSaysHowMuchOfItWasCopied) {
  Scene scene({.part = 25});
  scene.allocator().empty = 10;
  for (const std::uint64_t request : {1, 2}) {
    scene.Says(wire::Spill{.request = request, .bytes = 40});
    for (const Bytes copied : {15, 5}) EXPECT_EQ(scene.Expects<wire::Spilled>().copied, copied);
  }
}

TEST(MemoryTest, ASpillSaysForHowLongHostMemoryWasTaken) {
  Scene scene({.part = 25});
  scene.allocator().host_taking_ns_a_part = 7;
  for (const std::uint64_t request : {1, 2}) {
    scene.Says(wire::Spill{.request = request, .bytes = 50});
    for (int part = 0; part < 2; ++part) EXPECT_EQ(scene.Expects<wire::Spilled>().host_taking_ns, 7u);
  }
}

TEST(MemoryTest, ACoordinatorThatKnowsNoPartsIsToldOnce) {
  Scene scene({.part = 25, .hears_parts = false});
  scene.Says(wire::Spill{.request = 1, .bytes = 60});
  const wire::Spilled all = scene.Expects<wire::Spilled>();
  EXPECT_EQ(all.freed, 60u);
  EXPECT_FALSE(all.more);
}

TEST(MemoryTest, ASpillThatFailsAfterItsFirstPartEndsThere) {
  Scene scene({.part = 25});
  scene.allocator().fail_spill_after_part = true;
  scene.Says(wire::Spill{.request = 1, .bytes = 60});
  EXPECT_TRUE(scene.Expects<wire::Spilled>().more);
  const wire::Spilled last = scene.Expects<wire::Spilled>();
  EXPECT_FALSE(last.more);
  EXPECT_EQ(last.freed, 0u);
  EXPECT_EQ(last.persistent, 75u);
  EXPECT_THAT(last.why_not, HasSubstr("host budget"));
}

TEST(MemoryTest, ASpillThatFailsSaysWhyAndLosesNothing) {
  Scene scene;
  scene.allocator().fail_spill = true;
  scene.Says(wire::Spill{.request = 1, .bytes = 60});
  const wire::Spilled answer = scene.Expects<wire::Spilled>();
  EXPECT_EQ(answer.freed, 0u);
  EXPECT_THAT(answer.why_not, HasSubstr("host budget"));
  EXPECT_EQ(answer.persistent, 100u);
}

// A turn given up meanwhile would take the question with it, and nobody would ever answer the allocation.
TEST(MemoryTest, AJobThatWaitsForRoomIsNotIdle) {
  Scene scene;
  scene.TakesTurn(1);
  std::thread thread([&] { EXPECT_TRUE(scene.job().AwaitRoom(30).ok()); });
  scene.Expects<wire::NeedRoom>();
  scene.Says(wire::Yield{.turn = 1, .now = false});
  for (int i = 0; i < 5; ++i) scene.AgentHasObeyed();
  EXPECT_TRUE(scene.job().Info().holds_turn);
  scene.Says(wire::Room{.ok = true});
  thread.join();
  scene.Expects<wire::TurnOver>();  // now it idles
}

// The coordinator forgets the question with the turn. The one thread that waits for the answer must not keep
// the next turn's restore from asking.
TEST(MemoryTest, AnAllocationThatWaitsForRoomTriesAgainWhenItsTurnPasses) {
  Scene scene(Scene::NeverIdle());
  scene.TakesTurn(1);
  ASSERT_TRUE(scene.job().BeginStep().ok());
  scene.allocator().lacking = 30;
  std::thread allocates([&] { EXPECT_TRUE(scene.allocator().Malloc(30, nullptr).ok()); });
  scene.Expects<wire::NeedRoom>();
  scene.Says(wire::Yield{.turn = 1, .now = true});
  scene.AgentHasObeyed();
  scene.job().EndStep(true);
  scene.Expects<wire::TurnOver>();
  scene.Expects<wire::Wait>();
  scene.allocator().lacking = 0;
  scene.allocator().missing = 50;
  scene.Grants(2);
  EXPECT_TRUE(scene.Expects<wire::NeedRoom>().restoring);
  scene.allocator().missing = 0;
  scene.Says(wire::Room{.ok = true});
  allocates.join();
}

TEST(MemoryTest, AnAllocationWhoseTurnHasPassedDoesNotAskForRoom) {
  Scene scene;
  EXPECT_TRUE(scene.job().AwaitRoom(30).ok());
  scene.job().Leave();
  EXPECT_TRUE(std::holds_alternative<wire::Leave>(scene.Next()));
}

TEST(MemoryTest, ASpillThatComesWhileTheProcessEndsMovesNothing) {
  static thread_local bool ends_here = false;
  Happening ending, came;
  Scene scene;
  scene.allocator().SetHook([&](const std::string& call) {
    if (call != "held" || !ends_here) return;
    ending.Happens();
    came.Await();
  });
  std::thread ends([&] {
    ends_here = true;
    scene.job().LeaveAtExit();
  });
  ending.Await();
  scene.Says(wire::Spill{.request = 1, .bytes = 60});
  scene.AwaitsRead();
  came.Happens();
  ends.join();
  scene.allocator().SetHook(nullptr);
  scene.DestroyJob();
  EXPECT_EQ(scene.allocator().Held().spilled, 0u);
}

// 60 of the job's 100 bytes are on the host, and it waits for its turn on `thread`.
void SpillsAndWaits(Scene& scene, std::thread& thread) {
  thread = std::thread([&] { scene.Step(); });
  scene.Expects<wire::Wait>();
  scene.Says(wire::Spill{.request = 1, .bytes = 60});
  while (scene.Expects<wire::Spilled>().request != 1) continue;
}

TEST(MemoryTest, AJobThatIsNextBringsItsBytesBackBeforeItsTurn) {
  Scene scene;
  std::thread thread;
  SpillsAndWaits(scene, thread);
  scene.Says(wire::Restore{.request = 7, .bytes = 40});
  const wire::Restored answer = scene.Expects<wire::Restored>();
  EXPECT_EQ(answer.request, 7u);
  EXPECT_EQ(answer.restored, 40u);
  EXPECT_EQ(answer.persistent, 80u);
  EXPECT_EQ(answer.spilled, 20u);
  scene.Grants(1);
  thread.join();
  scene.Says(wire::Yield{.turn = 1, .now = true});
  EXPECT_EQ(scene.Expects<wire::TurnOver>().restored, 20u) << "in the turn itself";
}

TEST(MemoryTest, WhatComesBackBeforeTheTurnSaysHowMuchOfItWasCopied) {
  Scene scene;
  std::thread thread;
  SpillsAndWaits(scene, thread);
  scene.allocator().empty = 10;
  for (const std::uint64_t request : {7, 8}) {
    scene.Says(wire::Restore{.request = request, .bytes = 30});
    EXPECT_EQ(scene.Expects<wire::Restored>().copied, 20u);
  }
  scene.Grants(1);
  thread.join();
}

TEST(MemoryTest, BytesComeBackBeforeTheTurnAsFarAsThereIsRoom) {
  Scene scene;
  scene.allocator().free_ahead = 10;
  std::thread thread;
  SpillsAndWaits(scene, thread);
  scene.Says(wire::Restore{.request = 7, .bytes = 40});
  EXPECT_EQ(scene.Expects<wire::Restored>().restored, 10u);
  scene.Grants(1);
  thread.join();
  EXPECT_EQ(scene.allocator().Held().spilled, 0u);
}

TEST(MemoryTest, WhatHasComeBackBeforeACopyFailedIsTold) {
  Scene scene;
  scene.allocator().free_ahead = 10;
  scene.allocator().fail_ahead = true;
  std::thread thread;
  SpillsAndWaits(scene, thread);
  scene.Says(wire::Restore{.request = 7, .bytes = 40});
  EXPECT_EQ(scene.Expects<wire::Restored>().restored, 10u);
  scene.Grants(1);
  thread.join();
}

TEST(MemoryTest, AJobTellsInWhatPiecesItsBytesComeBack) {
  Scene scene;
  scene.allocator().chunk = 50;
  scene.allocator().free_ahead = 0;
  std::thread thread;
  SpillsAndWaits(scene, thread);
  scene.Says(wire::Restore{.request = 7, .bytes = 40});
  EXPECT_EQ(scene.Expects<wire::Restored>().piece, 50u);
  scene.Grants(1);
  thread.join();
}

TEST(MemoryTest, WhatWasSpilledIsMappedWhenTheMemoryHasBeenGivenBack) {
  Scene scene;
  scene.allocator().unmapped = 3;
  scene.Says(wire::Spill{.request = 1, .bytes = 60});
  scene.Expects<wire::Spilled>();
  while (scene.allocator().unmapped > 0) std::this_thread::yield();
  scene.TakesTurn(1);
  EXPECT_THAT(scene.allocator().TakeLog(),
              ElementsAre("spill", "map", "map", "map", "take turn", "begin step", "end step"));
}

// Has had a turn after a short wait, so the next one is expected to be short; all that was spilled is mapped,
// in three calls, and since then it waits.
void WaitsForATurnThatIsExpected(Scene& scene, std::thread& thread) {
  SpillsAndWaits(scene, thread);
  scene.Grants(1);
  thread.join();
  scene.Says(wire::Yield{.turn = 1, .now = true});
  scene.Expects<wire::TurnOver>();
  scene.allocator().unmapped = 3;
  scene.allocator().TakeLog();
  scene.Says(wire::Spill{.request = 2, .bytes = 60});
  while (scene.allocator().unmapped > 0) std::this_thread::yield();
  thread = std::thread([&] { scene.Step(); });
  scene.Expects<wire::Wait>();
}

TEST(MemoryTest, WhatIsMappedIsTakenAwayBeforeATurnThatIsExpected) {
  Scene scene({.expect_margin = std::chrono::hours(1)});  // around the time at which it is
  std::thread thread;
  WaitsForATurnThatIsExpected(scene, thread);
  while (scene.allocator().mapped > 0) std::this_thread::yield();
  scene.Grants(2);
  thread.join();
  EXPECT_THAT(scene.allocator().TakeLog(), ElementsAre("spill", "map", "map", "map", "unmap", "unmap",
                                                       "unmap", "take turn", "begin step", "end step"));
}

// The time may be over before all is taken away.
TEST(MemoryTest, WhatWasTakenAwayIsMappedAgainWhenTheTurnDoesNotCome) {
  Scene scene;
  std::thread thread;
  WaitsForATurnThatIsExpected(scene, thread);
  while (scene.allocator().mappings == 3 || scene.allocator().unmapped > 0) std::this_thread::yield();
  EXPECT_EQ(scene.allocator().mapped, 3);
  const int again = scene.allocator().mappings - 3;
  scene.Grants(2);
  thread.join();
  const std::vector<std::string> log = scene.allocator().TakeLog();
  EXPECT_EQ(std::count(log.begin(), log.end(), "unmap"), again);
  EXPECT_EQ(log[4], "unmap") << "behind the spill and three mappings";
}

// What was spilled is mapped, in three calls. The number of its Wait.
std::uint64_t WaitsWithAllMapped(Scene& scene, std::thread& thread) {
  scene.allocator().unmapped = 3;
  scene.Says(wire::Spill{.request = 1, .bytes = 60});
  scene.Expects<wire::Spilled>();
  thread = std::thread([&] { scene.Step(); });
  const std::uint64_t wait = scene.Expects<wire::Wait>().number;
  while (scene.allocator().unmapped > 0) std::this_thread::yield();
  return wait;
}

// It has not waited before, so it could not know.
TEST(MemoryTest, WhatIsMappedIsTakenAwayWhenTheTurnIsSaidToBeNear) {
  Scene scene;
  std::thread thread;
  const std::uint64_t wait = WaitsWithAllMapped(scene, thread);
  scene.Says(wire::Near{.wait = wait + 1});  // of another wait: it says nothing
  scene.Says(wire::Near{.wait = wait});
  while (scene.allocator().mapped > 0) std::this_thread::yield();
  scene.Grants(1);
  thread.join();
  EXPECT_THAT(scene.allocator().TakeLog(), ElementsAre("spill", "map", "map", "map", "unmap", "unmap",
                                                       "unmap", "take turn", "begin step", "end step"));
}

// It would have to be mapped again before the first kernel.
TEST(MemoryTest, WhereSomeFollowsItsTurnNothingIsTakenAwayBecauseTheTurnIsNear) {
  Scene scene;
  std::thread thread;
  scene.allocator().has_stages = true;
  const std::uint64_t wait = WaitsWithAllMapped(scene, thread);
  scene.Says(wire::Near{.wait = wait});
  for (std::uint64_t request = 2; request < 5; ++request) {  // the agent goes round
    scene.Says(wire::Restore{.request = request});
    while (scene.Expects<wire::Restored>().request != request) continue;
  }
  EXPECT_EQ(scene.allocator().mapped, 3);
  scene.Grants(1);
  thread.join();
}

TEST(MemoryTest, AnOrderToRestoreMovesNothingInATurnNorWhereNoneIsWantedNorAfterLeaving) {
  Scene scene;
  scene.Says(wire::Spill{.request = 1, .bytes = 60});
  scene.Expects<wire::Spilled>();
  const auto nothing_moves = [&](std::uint64_t request) {
    scene.allocator().TakeLog();
    scene.Says(wire::Restore{.request = request, .bytes = 40});
    EXPECT_EQ(scene.Expects<wire::Restored>().restored, 0u);
    EXPECT_THAT(scene.allocator().TakeLog(), ElementsAre());
  };
  nothing_moves(1);
  scene.TakesTurn(1);
  nothing_moves(2);
}

TEST(MemoryTest, AStraySeenWhileBytesComeBackBeforeTheTurnKeepsThemThereWhereItWouldFault) {
  Scene scene;
  scene.allocator().maps_spilled = false;
  std::thread thread;
  SpillsAndWaits(scene, thread);
  scene.allocator().idle = false;
  scene.Says(wire::Restore{.request = 7, .bytes = 40});
  scene.Expects<wire::Restored>();
  scene.Says(wire::Spill{.request = 8, .bytes = 40});
  EXPECT_THAT(scene.Expects<wire::Spilled>().why_not, HasSubstr("the driver cannot map host memory"));
  scene.Grants(1);
  thread.join();
}

TEST(MemoryTest, AGrantThatComesWhileBytesComeBackWaitsForThem) {
  Scene scene;
  std::thread thread;
  SpillsAndWaits(scene, thread);
  scene.allocator().TakeLog();
  Happening began, may_end;
  scene.allocator().SetHook([&](const std::string& call) {
    if (call != "restore ahead") return;
    began.Happens();
    may_end.Await();
  });
  scene.Says(wire::Restore{.request = 7, .bytes = 40});
  began.Await();
  scene.Grants(1);
  may_end.Happens();
  thread.join();
  EXPECT_THAT(scene.allocator().TakeLog(),
              ElementsAre("restore ahead", "take turn", "begin step", "end step"));
}

TEST(MemoryTest, AFullDeviceAsksForRoomAndTriesAgain) {
  Scene scene;
  scene.allocator().device_free = 7;
  scene.TakesTurn(1);
  absl::Status status;
  std::thread thread([&] { status = scene.job().AwaitRoom(30); });
  const wire::NeedRoom need = scene.Expects<wire::NeedRoom>();
  EXPECT_EQ(need.bytes, 30u);
  EXPECT_FALSE(need.restoring);
  EXPECT_TRUE(need.says_free);
  EXPECT_EQ(need.device_free, 7u);
  EXPECT_EQ(need.persistent, 100u);
  EXPECT_EQ(need.spilled, 0u);
  scene.Says(wire::Room{.ok = true});
  thread.join();
  EXPECT_TRUE(status.ok()) << status;
}

// What it has found before another one was answered may long be otherwise.
TEST(MemoryTest, AThreadThatHasWaitedBehindAnotherTellsNoOldFigures) {
  Scene scene;
  scene.TakesTurn(1);
  const auto asks = [&] { EXPECT_TRUE(scene.job().AwaitRoom(30).ok()); };
  std::thread first(asks);
  EXPECT_TRUE(scene.Expects<wire::NeedRoom>().says_free);
  static thread_local bool is_second = false;
  Happening second_waits;
  SetBlockingHooks({.before = nullptr, .after = nullptr, .interrupted = [&](InOwnCode) {
                      if (is_second) second_waits.Happens();
                    }});
  std::thread second([&] {
    is_second = true;
    asks();
  });
  second_waits.Await();
  SetBlockingHooks({});
  scene.Says(wire::Room{.ok = true});
  first.join();
  EXPECT_FALSE(scene.Expects<wire::NeedRoom>().says_free);
  scene.Says(wire::Room{.ok = true});
  second.join();
}

TEST(MemoryTest, NoRoomIsToldWithItsReason) {
  Scene scene;
  scene.TakesTurn(1);
  absl::Status status;
  std::thread thread([&] { status = scene.job().AwaitRoom(30); });
  scene.Expects<wire::NeedRoom>();
  scene.Says(wire::Room{.ok = false, .reason = "job bert holds 900 B"});
  thread.join();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("bert"));
}

TEST(MemoryTest, ARestoreThatLacksRoomWaitsForItAndNeverFails) {
  Scene scene;
  scene.allocator().missing = 50;
  std::thread thread([&] { scene.Step(); });
  scene.Expects<wire::Wait>();
  scene.Grants(1);
  for (int i = 0; i < 2; ++i) {
    const wire::NeedRoom need = scene.Expects<wire::NeedRoom>();
    EXPECT_EQ(need.bytes, 50u);
    EXPECT_TRUE(need.restoring);
    scene.Says(wire::Room{.ok = i > 0, .reason = "not now"});
  }
  scene.Expects<wire::NeedRoom>();
  scene.allocator().missing = 0;
  scene.Says(wire::Room{.ok = true});
  thread.join();
  EXPECT_TRUE(scene.job().HoldsTurn());
}

TEST(MemoryTest, ForcedSpillsMoveEverythingAtEveryBoundary) {
  Scene::Options forced;
  forced.force_spill = true;
  Scene scene(forced);
  std::thread thread([&] {
    for (int i = 0; i < 3; ++i) scene.Step();
  });
  scene.Expects<wire::Wait>();
  scene.Grants(1);
  thread.join();
  EXPECT_EQ(scene.allocator().Held().spilled_total, 300u);
  EXPECT_EQ(scene.allocator().Held().restored_total, 300u);
  EXPECT_EQ(scene.allocator().Held().spilled, 0u);
}

TEST(MemoryTest, SpillsAtRandomMoveAllOrNothingOrAPart) {
  Scene::Options forced;
  forced.force_spill = forced.spill_at_random = true;
  Scene scene(forced);
  std::set<Bytes> moved;
  std::thread thread([&] {
    for (int i = 0; i < 30; ++i) {
      const Bytes before = scene.allocator().Held().spilled_total;
      scene.Step();
      moved.insert(scene.allocator().Held().spilled_total - before);
    }
  });
  scene.Expects<wire::Wait>();
  scene.Grants(1);
  thread.join();
  EXPECT_EQ(*moved.begin(), 0u);
  EXPECT_EQ(*moved.rbegin(), 100u);
  EXPECT_GT(moved.size(), 4u);
  EXPECT_EQ(scene.allocator().Held().spilled, 0u);
}

TEST(MemoryTest, AForcedSpillDoesNotLoseAYield) {
  Scene::Options forced;
  forced.force_spill = true;
  Scene scene(forced);
  scene.TakesTurn(1);
  ASSERT_TRUE(scene.job().BeginStep().ok());
  scene.Says(wire::Yield{.turn = 1, .now = true});
  scene.job().EndStep(true);
  EXPECT_EQ(scene.Expects<wire::TurnOver>().turn, 1u);
}

TEST(MemoryTest, LeavingBringsBackWhatWasSpilled) {
  Scene scene;
  scene.Says(wire::Spill{.request = 1, .bytes = 100});
  EXPECT_EQ(scene.Expects<wire::Spilled>().freed, 100u);
  std::thread thread([&] { scene.job().Leave(); });
  EXPECT_EQ(scene.Expects<wire::Wait>().need, 100u);
  scene.Grants(1);
  thread.join();
  EXPECT_EQ(scene.allocator().Held().spilled, 0u);
  scene.Expects<wire::TurnOver>();
  scene.Expects<wire::Leave>();
}

TEST(MemoryTest, TheLastWordTellsTheMostThatWasNeeded) {
  Scene scene;
  scene.TakesTurn(1);
  scene.allocator().most_held = 700;
  scene.allocator().most_transient = 250;
  scene.DestroyJob();
  const wire::Leave leave = scene.Expects<wire::Leave>();
  EXPECT_EQ(leave.most_held, 700u);
  EXPECT_EQ(leave.most_transient, 250u);
}

TEST(MemoryTest, ALimitIsHeededAlsoByAnAllocatorThatComesLaterAndToldWhenTheJobJoinsAgain) {
  Scene::Options without;
  without.with_allocator = false;
  Scene scene(without);
  scene.Says(wire::Limit{.memory = 300});
  scene.AgentHasObeyed();
  EXPECT_THAT(scene.allocator().TakeLog(), ElementsAre());
  scene.job().SetAllocator(&scene.allocator());
  EXPECT_EQ(scene.allocator().TakeLog().front(), "limit 300");
  scene.Says(wire::Limit{.memory = 200});
  scene.AgentHasObeyed();
  EXPECT_EQ(scene.allocator().TakeLog().front(), "limit 200");
  scene.Dies();
  EXPECT_EQ(scene.Answers().memory_limit, 200u);
  scene.allocator().TakeLog();  // it has forgotten the arena
  scene.Says(wire::Limit{.memory = 0});
  scene.AgentHasObeyed();
  EXPECT_EQ(scene.allocator().TakeLog().front(), "limit 1000") << "the device's capacity";
}

TEST(MemoryTest, WhatACapOfSeveralJobsLeavesIsNotItsOwnLimitWhenTheJobJoinsAgain) {
  Scene scene;
  scene.Says(wire::Limit{.memory = 200, .together = "vision's", .own = 300});
  scene.AgentHasObeyed();
  EXPECT_EQ(scene.allocator().TakeLog().front(), "limit 200: vision's");
  scene.Dies();
  EXPECT_EQ(scene.Answers().memory_limit, 300u);
}

TEST(MemoryTest, LackingHeadroomIsToldToACoordinatorThatHearsIt) {
  Scene scene;
  scene.job().LacksHeadroom(30);
  EXPECT_EQ(scene.Expects<wire::LacksHeadroom>().bytes, 30u);
  Scene older({.hears_headroom = false});
  older.job().LacksHeadroom(30);
  older.job().ArenaLost(9);
  EXPECT_EQ(older.Expects<wire::ArenaLost>().chunk, 9u) << "the first that it is told";
}

TEST(MemoryTest, WhatOfTheHeadroomLacksStillWhenItWasMadeIsToldInTheTurnOnly) {
  Scene scene;
  scene.allocator().lacking_headroom = 20;
  scene.Says(wire::HeadroomMade{.turn = 3});
  scene.TakesTurn(3);
  scene.Says(wire::HeadroomMade{.turn = 2});  // of a turn before
  scene.Says(wire::HeadroomMade{.turn = 3});
  EXPECT_EQ(scene.Expects<wire::LacksHeadroom>().bytes, 20u);
  scene.allocator().lacking_headroom = 0;
  scene.Says(wire::HeadroomMade{.turn = 3});
  scene.job().ArenaLost(9);
  EXPECT_EQ(scene.Expects<wire::ArenaLost>().chunk, 9u) << "nothing lacks";
}

}  // namespace
}  // namespace hocket
