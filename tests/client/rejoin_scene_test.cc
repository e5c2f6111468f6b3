// The coordinator dies at every moment of a turn; nothing is lost.
#include <future>
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/scene.h"

namespace hocket {
namespace {

using ::testing::ElementsAre;

// Such a job went on, and its first step failed: "cannot open the lane's lock : No such file". When the
// coordinator was gone it waited for that lock, which it could not have, for ever.
TEST(RejoinTest, ACoordinatorThatNamesNoLaneLockIsRefusedWithTheReason) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
  wire::Channel coordinator{UniqueFd(ends[1])};
  ASSERT_TRUE(coordinator.Send(wire::Joined{.job = 5, .name = "job"}).ok());
  ClientTuning tuning;
  tuning.connect = [&] { return wire::Channel(UniqueFd(ends[0])); };
  const auto joined = ClientImpl::Join(wire::Join{.name = "job", .device = "gpu-0"}, tuning);
  ASSERT_TRUE(absl::IsFailedPrecondition(joined.status())) << joined.status();
  EXPECT_THAT(std::string(joined.status().message()),
              ::testing::HasSubstr("names no lock of the job's lane"));
  EXPECT_THAT(std::string(joined.status().message()), ::testing::HasSubstr("`hocket restart`"));
}

// One that is stopped, and for which as many wait as can.
TEST(RejoinTest, ACoordinatorThatTakesNobodyInAtFirstIsJoinedWhenItDoes) {
  int ends[2], in_vain = 0;
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
  wire::Channel coordinator{UniqueFd(ends[1])};
  ASSERT_TRUE(coordinator.Send(wire::Joined{.job = 5, .name = "job", .lane_lock = "/nowhere"}).ok());
  ClientTuning tuning;
  tuning.connect = [&]() -> absl::StatusOr<wire::Channel> {
    if (++in_vain <= 3) return absl::DeadlineExceededError("it takes nobody in");
    return wire::Channel(UniqueFd(ends[0]));
  };
  const auto joined = ClientImpl::Join(wire::Join{.name = "job", .device = "gpu-0"}, tuning);
  EXPECT_TRUE(joined.ok()) << joined.status();
}

TEST(RejoinTest, ACoordinatorThatTakesNobodyInIsNotWaitedForForEver) {
  ClientTuning tuning{.join_limit = std::chrono::milliseconds(1)};
  tuning.connect = [&] { return absl::DeadlineExceededError("it takes nobody in"); };
  const auto joined = ClientImpl::Join(wire::Join{.name = "job", .device = "gpu-0"}, tuning);
  EXPECT_TRUE(absl::IsUnavailable(joined.status())) << joined.status() << ": then it runs without one";
  EXPECT_THAT(std::string(joined.status().message()), ::testing::HasSubstr("It may be stopped"));
}

TEST(RejoinTest, WhoWaitsForTheTurnDoesNotTakeItWhereACoordinatorTakesNobodyIn) {
  Scene scene;
  std::thread thread([&] { scene.Step(); });
  scene.Expects<wire::Wait>();
  scene.TakesNobodyIn();
  scene.Dies(/*another_can_be_started=*/false);
  scene.AwaitsFailedConnect();
  EXPECT_FALSE(scene.job().HoldsTurn());
  EXPECT_TRUE(scene.job().Info().coordinated);
  scene.CanBeStarted();
  EXPECT_FALSE(scene.Answers().holds_turn);
  scene.Expects<wire::Wait>();
  scene.Grants(1);
  thread.join();
}

TEST(RejoinTest, AnotherCoordinatorNeedNotNameTheLaneLockAgain) {
  Scene scene;
  scene.Dies();
  scene.Expects<wire::Join>();
  scene.Says(wire::Joined{.job = 5, .name = "job", .hears_movable = true});
  scene.TakesTurn();
  EXPECT_TRUE(scene.job().HoldsTurn());
}

TEST(RejoinTest, TheHolderRunsOnAndSaysThatItHasTheTurn) {
  Scene scene;
  scene.TakesTurn(4);
  ASSERT_TRUE(scene.job().BeginStep().ok());
  scene.Dies();
  scene.job().EndStep(true);
  scene.Step();
  const wire::Join join = scene.Answers();
  EXPECT_TRUE(join.rejoin);
  EXPECT_TRUE(join.holds_turn);
  EXPECT_EQ(join.turn, 4u);
  EXPECT_EQ(join.job, 5u);
  EXPECT_EQ(join.persistent, 100u);
  scene.Step();
  scene.Says(wire::Yield{.turn = 4, .now = true});
  EXPECT_EQ(scene.Expects<wire::TurnOver>().steps, 4u);
}

TEST(RejoinTest, AThreadThatWaitsGoesOnWaitingAndIsAskedForAgain) {
  Scene scene;
  std::thread thread([&] { scene.Step(); });
  scene.Expects<wire::Wait>();
  scene.Dies();
  EXPECT_FALSE(scene.Answers().holds_turn);
  EXPECT_TRUE(scene.Expects<wire::Wait>().movable);  // the new coordinator cannot know
  scene.Grants(1);
  thread.join();
}

TEST(RejoinTest, AnOlderCoordinatorIsToldByAMessageOfItsOwnThatTheJobCanBeMoved) {
  Scene scene;
  scene.Dies();
  scene.Answers(/*hears_movable=*/false);
  EXPECT_TRUE(scene.AgentHasObeyed().movable);  // Joined has been heard
  scene.Says(wire::Spill{.request = 77});
  EXPECT_EQ(scene.Expects<wire::Spilled>().request, 77u);
  ThreadInUserCode thread(scene);
  scene.Expects<wire::Wait>();
  scene.Grants(1, /*contended=*/true);
  thread.Awaits();
  EXPECT_FALSE(scene.Expects<wire::TurnOver>().movable);
  thread.Leaves();
  const wire::Spilled unasked = scene.Expects<wire::Spilled>();
  EXPECT_EQ(unasked.request, 0u);
  EXPECT_TRUE(unasked.movable);
  scene.Expects<wire::Wait>();
  scene.Grants(2);
  thread.Ends();
}

TEST(RejoinTest, AGrantThatWasReadBeforeTheDeathCounts) {
  Scene scene;
  scene.allocator().missing = 10;  // the turn is being taken while the coordinator dies
  std::thread thread([&] { scene.Step(); });
  scene.Expects<wire::Wait>();
  scene.Grants(6);
  scene.Expects<wire::NeedRoom>();
  scene.Dies();
  const wire::Join join = scene.Answers();
  EXPECT_FALSE(join.holds_turn);  // not yet: nothing of it lies in the arena
  EXPECT_EQ(join.turn, 6u);
  scene.Expects<wire::NeedRoom>();  // asked again
  scene.allocator().missing = 0;
  scene.Says(wire::Room{.ok = true});
  thread.join();
}

// A job that is granted the turn while another still has the lane's lock.
struct Granted : Scene {
  Granted() {
    Expects<wire::Wait>();
    allocator().TakeLog();
    Grants(6);
    AgentHasObeyed();
  }
  OtherHolder other{lock_path()};
  std::thread thread{[this] { Step(); }};
};

// Others may have had turns from another coordinator before the lock is free, and adopted chunks of the arena
// that this job was told of: it took them for the lane's, and wrote over the others' bytes.
TEST(RejoinTest, AGrantThatOutlivesItsCoordinatorSaysNothingOfTheArena) {
  Granted scene;
  scene.Dies(/*another_can_be_started=*/false);
  scene.other.LetsGo();
  scene.thread.join();
  EXPECT_THAT(scene.allocator().TakeLog(), ElementsAre("drop all", "take turn", "begin step", "end step"));
}

TEST(RejoinTest, WhoHasNotTheLanesLockForgetsTheArenaBeforeItJoinsAgain) {
  Granted scene;
  scene.Dies();
  EXPECT_FALSE(scene.Answers().holds_turn);
  EXPECT_THAT(scene.allocator().TakeLog(), ElementsAre("drop all"));
  scene.Says(wire::ArenaDrop{.chunk = 7});
  scene.AgentHasObeyed();
  scene.other.LetsGo();
  scene.thread.join();
  EXPECT_THAT(scene.allocator().TakeLog(), ElementsAre("drop 7", "take turn", "begin step", "end step"))
      << "what the next one has told counts";
}

TEST(RejoinTest, AHandOverBesideTheDeathEndsInAJoinWithoutTheTurn) {
  Scene scene(Scene::NeverIdle());
  scene.TakesTurn(1);
  ASSERT_TRUE(scene.job().BeginStep().ok());
  scene.Says(wire::Yield{.turn = 1, .now = true});
  scene.AgentHasObeyed();
  scene.CannotBeStarted();
  scene.Dies(/*another_can_be_started=*/false);
  scene.AwaitsFailedConnect();
  scene.job().EndStep(true);
  EXPECT_FALSE(scene.job().HoldsTurn());
  scene.CanBeStarted();
  EXPECT_FALSE(scene.Answers().holds_turn);
}

TEST(RejoinTest, WithoutAnyCoordinatorAJobRunsIfItGetsTheLanesLock) {
  Scene scene;
  scene.Dies(/*another_can_be_started=*/false);
  scene.AwaitsFailedConnect();
  scene.Step();
  EXPECT_FALSE(scene.job().Info().coordinated);
  EXPECT_TRUE(scene.job().HoldsTurn());
  scene.CanBeStarted();
  const wire::Join join = scene.Answers();
  EXPECT_TRUE(join.holds_turn);
  EXPECT_EQ(join.turn, 0u);
  scene.Says(wire::Yield{.turn = 9, .now = true});  // the number it has now
  EXPECT_EQ(scene.Expects<wire::TurnOver>().turn, 9u);
  EXPECT_TRUE(scene.job().Info().coordinated);
}

// Others may have adopted some of its chunks meanwhile, or died while they wrote to them: nobody tells.
TEST(RejoinTest, WithoutAnyCoordinatorAJobForgetsTheArenaBeforeItTakesTheTurn) {
  Scene scene;
  scene.Dies(/*another_can_be_started=*/false);
  scene.AwaitsFailedConnect();
  scene.allocator().TakeLog();
  scene.Step();
  EXPECT_THAT(scene.allocator().TakeLog(), ElementsAre("drop all", "take turn", "begin step", "end step"));
}

TEST(RejoinTest, TheHolderKeepsItsArenaWithoutACoordinator) {
  Scene scene;
  scene.TakesTurn(1);
  scene.allocator().TakeLog();
  scene.Dies(/*another_can_be_started=*/false);
  scene.AwaitsFailedConnect();
  scene.AwaitsFailedConnect();
  scene.Step();
  EXPECT_THAT(scene.allocator().TakeLog(), ElementsAre("begin step", "end step"));
}

// Another one than it was given when it joined: a rank of a gang.
TEST(RejoinTest, TheLanesLockThatItKnowsIsNamedAgain) {
  Scene scene;
  const std::string lane = scene.lock_path() + "-1";
  std::thread thread([&] { scene.Step(); });
  scene.Expects<wire::Wait>();
  scene.Says(wire::Grant{.turn = 1, .lane_lock = lane});
  thread.join();
  scene.Dies();
  EXPECT_EQ(scene.Answers().lane_lock, lane);
}

TEST(RejoinTest, WithoutAnyCoordinatorThereIsNoRoomToAskFor) {
  Scene scene;
  scene.TakesTurn(1);
  scene.Dies(/*another_can_be_started=*/false);
  scene.AwaitsFailedConnect();
  scene.AwaitsFailedConnect();
  EXPECT_EQ(scene.job().AwaitRoom(1).code(), absl::StatusCode::kResourceExhausted);
}

Scene::Options WithPatience(Clock::duration patience) {
  Scene::Options options;
  options.room_patience = patience;
  return options;
}

// In its turn, and has asked for room.
std::future<absl::Status> LacksRoom(Scene& scene) {
  scene.TakesTurn(1);
  scene.allocator().lacking = 30;
  auto block = std::async(std::launch::async, [&] { return scene.allocator().Malloc(1, nullptr).status(); });
  scene.Expects<wire::NeedRoom>();
  return block;
}

// The first attempt in vain was answered with "no", which ends the program: out of memory.
TEST(RejoinTest, WhoNeedsRoomWaitsForTheNextCoordinator) {
  Scene scene(WithPatience(std::chrono::hours(1)));
  auto block = LacksRoom(scene);
  scene.Dies(/*another_can_be_started=*/false);
  scene.AwaitsFailedConnect();
  EXPECT_FALSE(scene.job().Info().coordinated);
  scene.AwaitsFailedConnect();
  scene.CanBeStarted();
  scene.Answers();
  EXPECT_EQ(scene.Expects<wire::NeedRoom>().bytes, 30u);
  scene.allocator().lacking = 0;
  scene.Says(wire::Room{.ok = true});
  EXPECT_TRUE(block.get().ok());
}

TEST(RejoinTest, WithoutACoordinatorRoomThatBecomesFreeIsFound) {
  Scene scene(WithPatience(std::chrono::hours(1)));
  auto block = LacksRoom(scene);
  scene.Dies(/*another_can_be_started=*/false);
  scene.AwaitsFailedConnect();
  scene.allocator().lacking = 0;  // another job has ended
  EXPECT_TRUE(block.get().ok());
}

TEST(RejoinTest, TheEndOfThePatienceIsTheEndOfTheWait) {
  Scene scene(WithPatience(std::chrono::milliseconds(50)));
  scene.TakesTurn(1);
  scene.Dies(/*another_can_be_started=*/false);
  scene.AwaitsFailedConnect();
  scene.allocator().lacking = 30;
  const absl::Status status = scene.allocator().Malloc(1, nullptr).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()),
              ::testing::HasSubstr("no coordinator that would make room could be had for "));
}

// It is stopped, or hangs: the connection stands, and nobody answers.
TEST(RejoinTest, ThePatienceEndsAlsoWithACoordinatorThatNeverTakesTheJobIn) {
  Scene scene(WithPatience(std::chrono::milliseconds(50)));
  auto block = LacksRoom(scene);
  scene.Dies();
  EXPECT_EQ(scene.Expects<wire::NeedRoom>().bytes, 30u) << "asked again, behind the Join";
  EXPECT_EQ(block.get().code(), absl::StatusCode::kResourceExhausted);
}

TEST(RejoinTest, AThreadThatNeedsRoomIsLetGoWhenTheJobLeaves) {
  Scene scene(WithPatience(std::chrono::hours(1)));
  auto block = LacksRoom(scene);
  scene.Dies(/*another_can_be_started=*/false);
  scene.AwaitsFailedConnect();
  scene.job().LeaveAtExit();
  EXPECT_EQ(block.get().code(), absl::StatusCode::kResourceExhausted);
}

TEST(RejoinTest, ATurnThatWasTakenAloneStandsByForTheNextCoordinator) {
  Scene scene(Scene::NeverIdle());
  scene.Dies(/*another_can_be_started=*/false);
  scene.AwaitsFailedConnect();
  scene.Step();
  scene.CanBeStarted();
  EXPECT_EQ(scene.Answers().turn, 0u);
  scene.Says(wire::StandBy{.turn = 9});
  EXPECT_EQ(scene.Expects<wire::StoodBy>().turn, 9u);
  EXPECT_FALSE(scene.job().HoldsTurn());
  scene.Says(wire::GoOn{.turn = 9});
  scene.Step();
}

TEST(RejoinTest, AGangIsNamedAgain) {
  Scene scene;
  scene.job().JoinGang("ddp", 1, 2);
  scene.Expects<wire::Gang>();
  scene.Dies();
  const wire::Join join = scene.Answers();
  EXPECT_EQ(join.gang, "ddp");
  EXPECT_EQ(join.gang_rank, 1u);
  EXPECT_EQ(join.gang_size, 2u);
}

// Its coordinator was killed between the connection and the answer.
TEST(RejoinTest, AJoinThatNobodyAnsweredIsSentToTheNextCoordinator) {
  int first[2], second[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, first), 0);
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, second), 0);
  close(first[1]);
  wire::Channel coordinator{UniqueFd(second[1])};
  ASSERT_TRUE(coordinator.Send(wire::Joined{.job = 3, .name = "job", .lane_lock = "/nowhere"}).ok());
  ClientTuning tuning;
  int asked = 0;
  tuning.connect = [&] { return wire::Channel(UniqueFd(asked++ == 0 ? first[0] : second[0])); };
  tuning.retry_pause = std::chrono::milliseconds(0);
  const auto joined = ClientImpl::Join(wire::Join{.name = "job"}, tuning);
  ASSERT_TRUE(joined.ok()) << joined.status();
  EXPECT_EQ((*joined)->Info().id, 3u);
}

TEST(RejoinTest, AThreadThatComesToADoorDoesNotWaitForTheNextAttempt) {
  Scene::Options patient;
  patient.retry_pause = std::chrono::hours(1);
  patient.steady = std::chrono::seconds(0);
  Scene scene(patient);
  OtherHolder other(scene.lock_path());  // else the attempt in vain may end with a step of its own
  scene.Dies(/*another_can_be_started=*/false);
  while (scene.job().Info().coordinated) std::this_thread::yield();
  scene.CanBeStarted();
  std::thread thread([&] { scene.Step(); });
  scene.Answers();
  scene.Expects<wire::Wait>();
  other.LetsGo();
  scene.Grants(1);
  thread.join();
}

TEST(RejoinTest, ARejoinThatIsRefusedIsTriedLessAndLessOftenAndSaidOnce) {
  Scene::Options options;
  options.retry_pause = std::chrono::milliseconds(20);
  options.steady = std::chrono::hours(1);
  Scene scene(options);
  testing::internal::CaptureStderr();
  const Clock::time_point start = Clock::now();
  for (int i = 0; i < 3; ++i) {
    scene.Dies();
    scene.Expects<wire::Join>();
    scene.Says(wire::Refused{.reason = "it speaks Hocket 7"});
    scene.AwaitsRead();
  }
  scene.Dies();
  scene.Answers();
  EXPECT_GE(Clock::now() - start, std::chrono::milliseconds(20 + 40 + 80 + 160));
  const std::string said = testing::internal::GetCapturedStderr();
  const std::size_t first = said.find("it speaks Hocket 7");
  EXPECT_NE(first, std::string::npos) << said;
  EXPECT_EQ(said.find("it speaks Hocket 7", first + 1), std::string::npos) << said;
  scene.TakesTurn(1);
}

TEST(RejoinTest, ARefusalEndsTheJoinWithItsReason) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
  wire::Channel coordinator{UniqueFd(ends[1])};
  ASSERT_TRUE(coordinator.Send(wire::Refused{.reason = "weight 0: it must be greater than 0"}).ok());
  ClientTuning tuning;
  tuning.connect = [&] { return wire::Channel(UniqueFd(ends[0])); };
  const auto joined = ClientImpl::Join(wire::Join{.name = "job"}, tuning);
  EXPECT_EQ(joined.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(joined.status().message(), "weight 0: it must be greater than 0");
}

TEST(RejoinTest, ACoordinatorThatDoesNotAnswerIsNotWaitedForForEver) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
  const UniqueFd silent(ends[1]);
  ClientTuning tuning;
  tuning.connect = [&] { return wire::Channel(UniqueFd(ends[0])); };
  tuning.join_limit = std::chrono::seconds(0);
  const auto joined = ClientImpl::Join(wire::Join{.name = "job"}, tuning);
  EXPECT_EQ(joined.status().code(), absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace hocket
