// The turn comes and goes.
#include <fcntl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <limits>
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/scene.h"

namespace hocket {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Not;

TEST(HandOverTest, AYieldIsObeyedAtTheEndOfTheStep) {
  Scene scene(Scene::NeverIdle());
  scene.TakesTurn(1);
  ASSERT_TRUE(scene.job().BeginStep().ok());
  scene.Says(wire::Yield{.turn = 1, .now = true});
  scene.AgentHasObeyed();
  EXPECT_TRUE(scene.job().HoldsTurn());
  scene.allocator().TakeLog();
  scene.job().EndStep(true);
  EXPECT_FALSE(scene.job().HoldsTurn());
  EXPECT_THAT(scene.allocator().TakeLog(), ElementsAre("end step", "drain", "drain", "pass turn"));
  const wire::TurnOver over = scene.Expects<wire::TurnOver>();
  EXPECT_EQ(over.turn, 1u);
  EXPECT_EQ(over.steps, 2u);
  EXPECT_EQ(over.persistent, 100u);
}

// By the job's clock: at least what passed between two moments within it, at most what passed around it.
TEST(HandOverTest, ATurnsEndSaysWhatItsComingAndTheGivingOfTheOneBeforeTook) {
  using Clock = std::chrono::steady_clock;
  Scene scene;
  scene.TakesTurn(1);
  ASSERT_TRUE(scene.job().BeginStep().ok());
  scene.Says(wire::Yield{.turn = 1, .now = true});
  scene.AgentHasObeyed();
  const Clock::time_point before = Clock::now();
  scene.job().EndStep(true);
  scene.Expects<wire::TurnOver>();
  std::thread thread([&] { scene.Step(); });
  scene.Expects<wire::Wait>();
  const Clock::time_point asked = Clock::now();
  while (Clock::now() == asked) continue;
  const Clock::time_point grants = Clock::now();
  scene.Grants(2);
  scene.Says(wire::Yield{.turn = 2, .now = true});
  const wire::TurnOver over = scene.Expects<wire::TurnOver>();
  thread.join();
  EXPECT_GE(std::chrono::nanoseconds(over.hand_over_ns), grants - asked);
  EXPECT_LE(std::chrono::nanoseconds(over.hand_over_ns), Clock::now() - before);
}

TEST(HandOverTest, AWaitingThreadRunsOneStepWhateverYieldSays) {
  Scene scene;
  std::thread thread([&] { scene.Step(); });
  scene.Expects<wire::Wait>();
  scene.Grants(1);
  scene.Says(wire::Yield{.turn = 1, .now = true});
  const wire::TurnOver over = scene.Expects<wire::TurnOver>();
  thread.join();
  EXPECT_EQ(over.turn_steps, 1u);
}

TEST(HandOverTest, AYieldOfAnotherTurnIsIgnored) {
  Scene scene;
  scene.TakesTurn(2);
  scene.Says(wire::Yield{.turn = 1, .now = true});
  scene.AgentHasObeyed();
  scene.Step();
  EXPECT_TRUE(scene.job().HoldsTurn());
}

TEST(HandOverTest, AnIdleJobGivesItsTurnWhenOthersWait) {
  Scene::Options options;
  options.idle_limit = std::chrono::milliseconds(2);
  Scene scene(options);
  scene.TakesTurn(1);
  scene.Says(wire::Yield{.turn = 1, .now = false});
  const wire::TurnOver over = scene.Expects<wire::TurnOver>();
  EXPECT_FALSE(scene.job().HoldsTurn());
  EXPECT_EQ(over.turn_steps, 1u);
  EXPECT_GE(over.idle_ns, 2'000'000u);
}

// Where bytes have to move for the others.
TEST(HandOverTest, AJobKeepsItsTurnInPausesThatAreShorterThanTold) {
  Scene::Options options;
  options.idle_limit = std::chrono::milliseconds(0);
  Scene scene(options);
  scene.TakesTurn(1);
  scene.Says(wire::Yield{.turn = 1, .idle_ns = 3'600'000'000'000});
  scene.AgentHasObeyed();
  EXPECT_TRUE(scene.job().Info().holds_turn);
  scene.Says(wire::Yield{.turn = 1, .idle_ns = std::numeric_limits<std::uint64_t>::max()});
  scene.AgentHasObeyed();
  EXPECT_TRUE(scene.job().Info().holds_turn);
  scene.Says(wire::Yield{.turn = 1, .idle_ns = 10'000'000});
  const wire::TurnOver over = scene.Expects<wire::TurnOver>();
  EXPECT_EQ(over.turn_steps, 1u);
  EXPECT_GE(over.idle_ns, 10'000'000u);
}

// Somebody who asks in the midst of a pause does not wait as long as one who asks at its beginning.
TEST(HandOverTest, AJobIdlesFromTheEndOfItsLastStepOn) {
  Scene scene;
  std::thread steps([&] {
    ASSERT_TRUE(scene.job().BeginStep().ok());
    EXPECT_TRUE(scene.job().HoldsTurn());  // as an allocation asks
    scene.job().EndStep(true);
  });
  scene.Expects<wire::Wait>();
  scene.Grants(1);
  steps.join();
  const std::uint64_t idle_since = Progress::NowNs();
  while (Progress::NowNs() - idle_since < 20'000'000) std::this_thread::yield();  // the pause
  const std::uint64_t paused = Progress::NowNs() - idle_since;
  scene.Says(wire::Yield{.turn = 1, .now = false});
  EXPECT_GE(scene.Expects<wire::TurnOver>().idle_ns, paused);
}

TEST(HandOverTest, AJobInAStepIsNotIdle) {
  Scene scene;
  scene.TakesTurn(1);
  ASSERT_TRUE(scene.job().BeginStep().ok());
  scene.Says(wire::Yield{.turn = 1, .now = false});
  scene.AgentHasObeyed();
  EXPECT_TRUE(scene.job().HoldsTurn());
  scene.job().EndStep(true);  // from here on it idles
  EXPECT_EQ(scene.Expects<wire::TurnOver>().turn_steps, 2u);
}

TEST(HandOverTest, DeviceWorkKeepsTheTurnUntilItIsDone) {
  Scene scene;
  scene.TakesTurn(1);
  scene.allocator().idle = false;
  scene.Says(wire::Yield{.turn = 1, .now = false});
  scene.AgentHasObeyed();
  EXPECT_TRUE(scene.job().Info().holds_turn);
  scene.allocator().idle = true;
  scene.Expects<wire::TurnOver>();
}

TEST(HandOverTest, ACaptureKeepsTheTurn) {
  Scene scene;
  scene.TakesTurn(1);
  scene.allocator().capturing = true;
  ASSERT_TRUE(scene.job().BeginStep().ok());
  scene.Says(wire::Yield{.turn = 1, .now = true});
  scene.AgentHasObeyed();
  scene.job().EndStep(true);
  EXPECT_TRUE(scene.job().Info().holds_turn);
  scene.Step();  // lets itself in, although others wait
  scene.allocator().capturing = false;
  EXPECT_EQ(scene.Expects<wire::TurnOver>().turn_steps, 3u);
}

// An evaluation outside steps allocates all the time, so it is never idle.
TEST(HandOverTest, AnEvaluationThatNeverIdlesGivesItsTurnInAnAllocation) {
  Scene scene;
  std::atomic<bool> done{false};
  std::thread evaluation([&] {
    while (!done) ASSERT_TRUE(scene.allocator().Malloc(1, nullptr).ok());
  });
  scene.allocator().idle = false;  // and there is always device work
  scene.Expects<wire::Wait>();
  for (std::uint64_t turn = 1; turn <= 5; ++turn) {
    scene.Grants(turn);
    scene.Says(wire::Yield{.turn = turn, .now = true});
    EXPECT_EQ(scene.Expects<wire::TurnOver>().turn, turn);
    scene.Expects<wire::Wait>();
  }
  done = true;
  scene.Grants(6);
  evaluation.join();
}

TEST(HandOverTest, AThreadAtTheDoorGivesTheTurnItShouldGive) {
  Scene scene(Scene::NeverIdle());
  scene.TakesTurn(1);
  scene.Says(wire::Yield{.turn = 1, .now = true});
  scene.AgentHasObeyed();
  std::thread thread([&] { scene.Step(); });
  EXPECT_EQ(scene.Expects<wire::TurnOver>().turn, 1u);
  scene.Expects<wire::Wait>();
  scene.Grants(2);
  thread.join();
}

TEST(HandOverTest, AGrantThatSaysFreshArenaDropsAllOfIt) {
  Scene scene;
  std::thread thread([&] { scene.Step(); });
  scene.Expects<wire::Wait>();
  scene.allocator().TakeLog();
  scene.Says(wire::Grant{.turn = 1, .fresh_arena = true});
  thread.join();
  EXPECT_THAT(scene.allocator().TakeLog(), ElementsAre("drop all", "take turn", "begin step", "end step"));
}

// What a process that is not this one finds when it tries the lock without waiting.
bool OthersMayLock(const std::string& path) {
  const pid_t child = fork();
  if (child == 0) {
    LaneLock lock;
    lock.SetPath(path);
    // Not _exit(): the thread sanitizer makes its own status of the parent's threads there.
    syscall(SYS_exit_group, lock.TryAcquire().ok() ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return status == 0;
}

TEST(HandOverTest, TheLaneLockIsHeldForTheTurnAndNoLonger) {
  Scene scene;
  EXPECT_TRUE(OthersMayLock(scene.lock_path()));
  scene.TakesTurn(1);
  EXPECT_FALSE(OthersMayLock(scene.lock_path()));
  scene.Says(wire::Yield{.turn = 1, .now = true});
  scene.Expects<wire::TurnOver>();
  EXPECT_TRUE(OthersMayLock(scene.lock_path()));
}

TEST(HandOverTest, TheLockOfAnotherLivingProcessBlocksTheTurnUntilItIsDropped) {
  Scene scene;
  OtherHolder other(scene.lock_path());
  std::atomic<bool> in_step{false};
  std::thread thread([&] {
    ASSERT_TRUE(scene.job().BeginStep().ok());
    in_step = true;
    scene.job().EndStep(true);
  });
  scene.Expects<wire::Wait>();
  scene.Grants(1);
  scene.AgentHasObeyed();
  EXPECT_FALSE(in_step);
  EXPECT_FALSE(scene.job().HoldsTurn());
  other.LetsGo();
  thread.join();
  EXPECT_TRUE(in_step);
}

// Perhaps a rank keeps the lock, and its fellow waits for this job's bytes.
TEST(HandOverTest, ATurnThatIsWantedBackGoesBackWhereTheLaneIsAnothers) {
  Scene scene;
  OtherHolder other(scene.lock_path());
  std::thread thread([&] { scene.Step(); });
  scene.Expects<wire::Wait>();
  scene.Grants(1);
  scene.AgentHasObeyed();
  scene.Says(wire::Yield{.turn = 1, .now = true, .give_back = true});
  const auto over = scene.Expects<wire::TurnOver>();
  EXPECT_EQ(over.turn, 1u);
  EXPECT_EQ(over.turn_steps, 0u);
  EXPECT_TRUE(over.movable);
  scene.Expects<wire::Wait>();
  scene.Says(wire::Grant{.turn = 2, .lane_lock = scene.lock_path() + "-other"});
  thread.join();
  EXPECT_EQ(scene.job().Info().steps, 1u);
}

TEST(HandOverTest, ATurnThatIsWantedBackLastsToTheEndOfTheStepWhereTheLaneIsOurs) {
  Scene scene(Scene::NeverIdle());
  scene.TakesTurn(1);
  ASSERT_TRUE(scene.job().BeginStep().ok());
  scene.Says(wire::Yield{.turn = 1, .now = true, .give_back = true});
  scene.AgentHasObeyed();
  EXPECT_TRUE(scene.job().HoldsTurn());
  scene.job().EndStep(true);
  EXPECT_EQ(scene.Expects<wire::TurnOver>().turn_steps, 2u);
}

// The only thread that waits is interrupted as the lock comes: nobody else would take what was taken for it.
TEST(HandOverTest, ATurnTakenAloneIsHadBeforeAnInterruptionIsHeard) {
  Happening asked, answered;
  std::atomic<bool> ran{false};
  SetBlockingHooks({.before = nullptr, .after = nullptr, .interrupted = [&](InOwnCode in_own_code) {
                      asked.Happens();
                      answered.Await();
                      in_own_code([&] { return ran = true; });
                    }});
  Scene scene;
  OtherHolder other(scene.lock_path());
  scene.Dies(/*another_can_be_started=*/false);
  std::thread thread([&] { scene.Step(); });
  asked.Await();
  other.LetsGo();
  scene.AwaitsFailedConnect();  // and the lock is taken
  answered.Happens();
  thread.join();
  SetBlockingHooks({});
  EXPECT_FALSE(ran);
  EXPECT_EQ(scene.job().Info().steps, 1u);
  scene.job().Leave();
  EXPECT_TRUE(OthersMayLock(scene.lock_path()));
}

TEST(HandOverTest, LeavingDropsALaneThatWasTakenAloneMeanwhile) {
  static thread_local bool leaves_here = false;
  Happening leaving, taken;
  Scene scene;
  std::thread waits([&] { scene.Step(); });
  scene.Expects<wire::Wait>();
  OtherHolder other(scene.lock_path());
  scene.Dies(/*another_can_be_started=*/false);
  scene.allocator().SetHook([&](const std::string& call) {
    if (call != "drop all" || !leaves_here) return;
    leaving.Happens();
    taken.Await();
  });
  std::thread leaves([&] {
    leaves_here = true;
    scene.job().Leave();
  });
  leaving.Await();
  other.LetsGo();
  scene.AwaitsFailedConnect();  // and the lock is taken
  taken.Happens();
  leaves.join();
  waits.join();
  EXPECT_TRUE(OthersMayLock(scene.lock_path()));
}

TEST(HandOverTest, ACaptureThatBeginsDuringTheDrainKeepsTheTurn) {
  Scene scene(Scene::NeverIdle());
  scene.TakesTurn(1);
  ASSERT_TRUE(scene.job().BeginStep().ok());
  scene.Says(wire::Yield{.turn = 1, .now = true});
  scene.AgentHasObeyed();
  scene.allocator().TakeLog();
  scene.allocator().SetHook([&](const std::string& call) {
    if (call == "drain") scene.allocator().capturing = true;
  });
  scene.job().EndStep(true);
  scene.allocator().SetHook(nullptr);
  EXPECT_THAT(scene.allocator().TakeLog(), Not(Contains("pass turn")));
  EXPECT_TRUE(scene.job().Info().holds_turn);
  scene.allocator().capturing = false;
  std::thread thread([&] { scene.Step(); });
  scene.Expects<wire::TurnOver>();
  scene.Expects<wire::Wait>();
  scene.Grants(2);
  thread.join();
}

TEST(HandOverTest, ACaptureThatBeginsAsTheAgentGivesAnIdleTurnKeepsIt) {
  Happening began;
  Scene scene;
  scene.TakesTurn(1);
  scene.allocator().SetHook([&](const std::string& call) {
    if (call != "drain locked") return;
    scene.allocator().capturing = true;
    began.Happens();
  });
  scene.Says(wire::Yield{.turn = 1, .now = false});
  began.Await();
  scene.AgentHasObeyed();
  EXPECT_TRUE(scene.job().Info().holds_turn);
  scene.allocator().SetHook(nullptr);
  scene.allocator().capturing = false;
  scene.Expects<wire::TurnOver>();
}

TEST(HandOverTest, AGangStopsAfterTheStepNamed) {
  Scene scene(Scene::NeverIdle());
  scene.job().JoinGang("ddp", 1, 2);
  EXPECT_EQ(scene.Expects<wire::Gang>().rank, 1u);
  scene.TakesTurn(1);
  scene.Says(wire::Yield{.turn = 1, .now = true, .stop_step = 3});
  const wire::YieldAck ack = scene.Expects<wire::YieldAck>();
  EXPECT_TRUE(ack.accepted);
  EXPECT_EQ(ack.step, 1u);
  scene.Step();
  EXPECT_TRUE(scene.job().HoldsTurn());
  scene.Step();
  EXPECT_FALSE(scene.job().HoldsTurn());
  EXPECT_EQ(scene.Expects<wire::TurnOver>().steps, 3u);
}

TEST(HandOverTest, ARankThatIsPastTheStepNamedSaysSoAndGoesOn) {
  Scene scene(Scene::NeverIdle());
  scene.job().JoinGang("ddp", 0, 2);
  scene.TakesTurn(1);
  ASSERT_TRUE(scene.job().BeginStep().ok());
  scene.Says(wire::Yield{.turn = 1, .now = true, .stop_step = 1});
  EXPECT_FALSE(scene.Expects<wire::YieldAck>().accepted);
  scene.job().EndStep(true);
  EXPECT_TRUE(scene.job().HoldsTurn());
  scene.Says(wire::Yield{.turn = 1, .now = true, .stop_step = 3});
  EXPECT_TRUE(scene.Expects<wire::YieldAck>().accepted);
  scene.Step();
  EXPECT_EQ(scene.Expects<wire::TurnOver>().steps, 3u);
}

// The others may wait for it inside their step; then it comes back to the door by itself.
TEST(HandOverTest, AnIdleRankGivesItsPartOfTheGangsTurnAndHasItBackWhenItAsks) {
  Scene scene;
  scene.job().JoinGang("ddp", 0, 2);
  scene.TakesTurn(1);
  scene.Says(wire::Yield{.turn = 1, .now = false});
  EXPECT_EQ(scene.Expects<wire::TurnOver>().steps, 1u);
  std::thread thread([&] { scene.Step(); });
  EXPECT_EQ(scene.Expects<wire::Wait>().gang_step, 1u);
  scene.Grants(1);
  thread.join();
  EXPECT_EQ(scene.job().Info().steps, 2u);
}

TEST(HandOverTest, AnIdleRankGivesItsPartBeforeTheStepNamed) {
  Scene scene;
  scene.job().JoinGang("ddp", 0, 2);
  scene.TakesTurn(1);
  scene.Says(wire::Yield{.turn = 1, .now = true, .stop_step = 3});
  EXPECT_TRUE(scene.Expects<wire::YieldAck>().accepted);
  EXPECT_EQ(scene.Expects<wire::TurnOver>().steps, 1u);
}

TEST(HandOverTest, LeavingGivesTheTurnAndLetsEverybodyThrough) {
  Scene scene;
  scene.TakesTurn(1);
  scene.job().Leave();
  scene.Expects<wire::TurnOver>();
  EXPECT_TRUE(scene.Expects<wire::Leave>().keeps_running);
  EXPECT_TRUE(scene.job().HoldsTurn());  // nothing waits any more
  scene.Step();
  EXPECT_TRUE(scene.allocator().Malloc(1, nullptr).ok());
  EXPECT_FALSE(scene.job().Info().joined);
  EXPECT_TRUE(OthersMayLock(scene.lock_path()));
}

TEST(HandOverTest, LeavingIsToldAlsoWhereMuchIsQueued) {
  Scene scene;
  scene.TakesTurn(1);
  constexpr std::uint64_t kMoreThanASocketTakes = 2000;
  for (std::uint64_t rank = 0; rank < kMoreThanASocketTakes; ++rank) scene.job().JoinGang("ddp", rank, 4096);
  std::thread leaves([&] { scene.job().Leave(); });
  EXPECT_EQ(scene.Expects<wire::TurnOver>().turn_steps, 1u);
  EXPECT_TRUE(scene.Expects<wire::Leave>().keeps_running);
  leaves.join();
}

TEST(HandOverTest, LeavingInAStepGivesTheTurnToo) {
  Scene scene;
  scene.TakesTurn(1);
  ASSERT_TRUE(scene.job().BeginStep().ok());
  scene.job().Leave();
  scene.Expects<wire::TurnOver>();
  scene.job().EndStep(true);
  EXPECT_EQ(scene.job().Info().steps, 2u);
}

TEST(HandOverTest, LeavingDuringACaptureKeepsTheTurnUntilLater) {
  Scene scene;
  scene.TakesTurn(1);
  scene.allocator().capturing = true;
  scene.job().Leave();
  EXPECT_TRUE(scene.job().Info().joined);
  scene.Step();
  scene.allocator().capturing = false;
  scene.job().Leave();
  EXPECT_FALSE(scene.job().Info().joined);
}

TEST(HandOverTest, AThreadThatWaitsGoesOnWhenItsJobLeaves) {
  Scene scene;
  std::thread thread([&] { scene.Step(); });
  scene.Expects<wire::Wait>();
  scene.job().Leave();
  thread.join();
  EXPECT_TRUE(scene.Expects<wire::Leave>().keeps_running);
}

TEST(HandOverTest, TheEndOfTheJobGivesTheTurn) {
  Scene scene;
  scene.TakesTurn(1);
  scene.DestroyJob();
  scene.Expects<wire::TurnOver>();
  EXPECT_FALSE(scene.Expects<wire::Leave>().keeps_running);
}

}  // namespace
}  // namespace hocket
