// Steps that do not use the turn: those that nobody has said may last longer than the work in them, and the
// thread of one that was said may wait for another job.
#include <functional>
#include <thread>
#include <variant>

#include "gtest/gtest.h"
#include "tests/client/scene.h"

namespace hocket {
namespace {

Scene::Options Guessing() {
  Scene::Options options = Scene::NeverIdle();
  options.guessed_idle_limit = std::chrono::milliseconds(1);
  return options;
}

// Said steps, too, have a limit.
Scene::Options Waiting() {
  Scene::Options options = Guessing();
  options.said_idle_limit = options.guessed_idle_limit;
  return options;
}

// A thread in a step, which does nothing until it is told to go on: then it allocates, and ends the step.
class StepThatPauses {
 public:
  StepThatPauses(Scene& scene, bool guessed)
      : thread_([this, &scene, guessed] {
          EXPECT_TRUE(scene.job().BeginStep(guessed).ok());
          in_step_.Happens();
          go_on_.Await();
          EXPECT_TRUE(scene.allocator().Malloc(30, nullptr).ok());
          scene.job().EndStep(true);
        }) {}
  void AwaitsBegin() { in_step_.Await(); }
  void GoesOn() { go_on_.Happens(); }
  void Ends() { thread_.join(); }

 private:
  Happening in_step_, go_on_;
  std::thread thread_;
};

// Has turn 1, with somebody else waiting.
void HasTurnThatIsWanted(Scene& scene, StepThatPauses& step) {
  scene.Expects<wire::Wait>();
  scene.Grants(1);
  step.AwaitsBegin();
  scene.Says(wire::Yield{.turn = 1});
}

// Long enough for the agent to look many times whether the turn is used.
void AgentLooks(Scene& scene) {
  const Clock::time_point end = Clock::now() + std::chrono::milliseconds(10);
  do scene.AgentHasObeyed();
  while (Clock::now() < end);
}

void KeepsItsTurnUntilTheStepEnds(Scene& scene, StepThatPauses& step) {
  AgentLooks(scene);
  scene.Says(wire::Yield{.turn = 1, .now = true});
  scene.AgentHasObeyed();
  step.GoesOn();
  EXPECT_EQ(scene.Expects<wire::TurnOver>().turn_steps, 1u);
  step.Ends();
}

// A step that lasts, whether it was said or guessed.
class UnusedTurnTest : public ::testing::TestWithParam<bool> {
 protected:
  bool guessed() const { return GetParam(); }
  Scene scene{Waiting()};
};

TEST_P(UnusedTurnTest, PassesInTheMidstOfTheStep) {
  StepThatPauses step(scene, guessed());
  HasTurnThatIsWanted(scene, step);
  const wire::TurnOver over = scene.Expects<wire::TurnOver>();
  EXPECT_EQ(over.turn_steps, 0u);
  EXPECT_GT(over.idle_ns, 0u);
  EXPECT_FALSE(over.movable) << "its thread may use its memory at any time";
  step.GoesOn();
  scene.Expects<wire::Wait>();
  scene.Grants(2);
  step.Ends();
  EXPECT_EQ(scene.job().Info().steps, 1u) << "it is counted where it ends";
  EXPECT_EQ(scene.allocator().touched_while_spilled(), 0);
}

TEST_P(UnusedTurnTest, AStepInsideTheStepWaitsForAnother) {
  Happening goes_on;
  std::thread thread([&] {
    EXPECT_TRUE(scene.job().BeginStep(guessed()).ok());
    goes_on.Await();
    EXPECT_TRUE(scene.job().BeginStep(guessed()).ok());  // a graph's replay, say
    EXPECT_TRUE(scene.job().HoldsTurn());
    scene.job().EndStep(false);
    scene.job().EndStep(true);
  });
  scene.Expects<wire::Wait>();
  scene.Grants(1, /*contended=*/true);
  scene.Expects<wire::TurnOver>();
  goes_on.Happens();
  scene.Expects<wire::Wait>();
  scene.Grants(2);
  thread.join();
  EXPECT_EQ(scene.job().Info().steps, 1u);
}

INSTANTIATE_TEST_SUITE_P(Steps, UnusedTurnTest, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "Guessed" : "Said"; });

TEST(GuessedStepTest, ItPassesAlsoAfterItHasStoodByForARequest) {
  Scene scene(Guessing());
  StepThatPauses step(scene, /*guessed=*/true);
  scene.Expects<wire::Wait>();
  scene.Grants(1);
  step.AwaitsBegin();
  scene.Says(wire::StandBy{1});
  scene.Expects<wire::StoodBy>();
  scene.Says(wire::Yield{.turn = 1});
  AgentLooks(scene);
  scene.Says(wire::GoOn{1});
  scene.Expects<wire::TurnOver>();
  step.GoesOn();
  scene.Expects<wire::Wait>();
  scene.Grants(2);
  step.Ends();
}

TEST(GuessedStepTest, AStepThatEndsWithoutItsTurnIsCountedAndTheNextWaits) {
  Scene scene(Guessing());
  Happening ends;
  std::thread thread([&] {
    EXPECT_TRUE(scene.job().BeginStep(/*guessed=*/true).ok());
    ends.Await();
    scene.job().EndStep(true);
    scene.Step();
  });
  scene.Expects<wire::Wait>();
  scene.Grants(1, /*contended=*/true);
  scene.Expects<wire::TurnOver>();
  ends.Happens();
  scene.Expects<wire::Wait>();
  EXPECT_EQ(scene.job().Info().steps, 1u);
  scene.Grants(2);
  thread.join();
  EXPECT_EQ(scene.job().Info().steps, 2u);
}

TEST(GuessedStepTest, AStepThatIsSaidInsideItKeepsItsTurn) {
  Scene scene(Guessing());
  Happening in_step, go_on;
  std::thread thread([&] {
    EXPECT_TRUE(scene.job().BeginStep(/*guessed=*/true).ok());
    EXPECT_TRUE(scene.job().BeginStep().ok());
    in_step.Happens();
    go_on.Await();
    scene.job().EndStep(true);
    scene.job().EndStep(true);
  });
  scene.Expects<wire::Wait>();
  scene.Grants(1);
  in_step.Await();
  scene.Says(wire::Yield{.turn = 1});
  AgentLooks(scene);
  scene.Says(wire::Yield{.turn = 1, .now = true});
  scene.AgentHasObeyed();
  go_on.Happens();
  EXPECT_EQ(scene.Expects<wire::TurnOver>().turn_steps, 1u);
  thread.join();
}

TEST(GuessedStepTest, AStepThatWasSaidKeepsItsTurn) {
  Scene scene(Guessing());
  StepThatPauses step(scene, /*guessed=*/false);
  HasTurnThatIsWanted(scene, step);
  KeepsItsTurnUntilTheStepEnds(scene, step);
}

TEST(SaidStepTest, WhoseTurnIsAskedForAgainAndAgainPassesIt) {
  Scene::Options options = Waiting();
  options.said_idle_limit = options.guessed_idle_limit = std::chrono::milliseconds(200);
  Scene scene(options);
  StepThatPauses step(scene, /*guessed=*/false);
  HasTurnThatIsWanted(scene, step);
  const Clock::time_point patience = Clock::now() + std::chrono::seconds(20);
  std::uint64_t asked = 0;
  bool passed = false;
  while (!passed && Clock::now() < patience) {
    scene.Says(wire::Yield{.turn = 1, .now = true});
    scene.Says(wire::Spill{.request = ++asked, .bytes = 0});  // which is answered when that is heard
    for (bool heard = false; !heard;) {
      const wire::Message said = scene.Next();
      passed |= std::holds_alternative<wire::TurnOver>(said);
      heard = std::holds_alternative<wire::Spilled>(said);
    }
  }
  EXPECT_TRUE(passed) << "asked " << asked << " times";
  step.GoesOn();
  if (passed) {
    scene.Expects<wire::Wait>();
    scene.Grants(2);
  }
  step.Ends();
}

TEST(SaidStepTest, OfAProcessWithSeveralDevicesItKeepsItsTurn) {
  Scene scene(Waiting());
  scene.job().KeepTurnInSteps();
  StepThatPauses step(scene, /*guessed=*/false);
  HasTurnThatIsWanted(scene, step);
  KeepsItsTurnUntilTheStepEnds(scene, step);
}

TEST(SaidStepTest, WhoseKernelsRunKeepsItsTurn) {
  Scene scene(Waiting());
  scene.allocator().idle = false;
  StepThatPauses step(scene, /*guessed=*/false);
  HasTurnThatIsWanted(scene, step);
  KeepsItsTurnUntilTheStepEnds(scene, step);
}

TEST(GuessedStepTest, AStepWhoseKernelsRunKeepsItsTurn) {
  Scene scene(Guessing());
  scene.allocator().idle = false;
  StepThatPauses step(scene, /*guessed=*/true);
  HasTurnThatIsWanted(scene, step);
  KeepsItsTurnUntilTheStepEnds(scene, step);
}

TEST(GuessedStepTest, AStepOnMemoryThatIsNotOursKeepsItsTurn) {
  Scene::Options on_the_cpu = Guessing();
  on_the_cpu.with_allocator = false;
  Scene scene(on_the_cpu);
  StepThatPauses step(scene, /*guessed=*/true);
  HasTurnThatIsWanted(scene, step);
  KeepsItsTurnUntilTheStepEnds(scene, step);
}

TEST(GuessedStepTest, ARankOfAGangKeepsItsTurn) {
  Scene scene(Guessing());
  scene.job().JoinGang("pair", 0, 2);
  StepThatPauses step(scene, /*guessed=*/true);
  HasTurnThatIsWanted(scene, step);
  KeepsItsTurnUntilTheStepEnds(scene, step);
}

TEST(GuessedStepTest, ASaidStepOfAnotherThreadKeepsTheTurn) {
  Scene scene(Guessing());
  StepThatPauses guessed(scene, /*guessed=*/true);
  scene.Expects<wire::Wait>();
  scene.Grants(1);
  guessed.AwaitsBegin();
  Happening in_step, ends;
  std::thread said([&] {
    EXPECT_TRUE(scene.job().BeginStep().ok());
    in_step.Happens();
    ends.Await();
    scene.job().EndStep(/*count=*/false);  // or ten times its length were what the other may rest
  });
  in_step.Await();
  scene.Says(wire::Yield{.turn = 1});
  AgentLooks(scene);
  EXPECT_TRUE(scene.job().HoldsTurn());
  ends.Happens();
  said.join();
  EXPECT_EQ(scene.Expects<wire::TurnOver>().turn_steps, 0u);
  guessed.GoesOn();
  scene.Expects<wire::Wait>();
  scene.Grants(2);
  guessed.Ends();
}

TEST(GuessedStepTest, AThreadThatEndsInOneIsForgotten) {
  Scene scene(Guessing());
  std::thread leaves([&] { EXPECT_TRUE(scene.job().BeginStep(/*guessed=*/true).ok()); });
  scene.Expects<wire::Wait>();
  scene.Grants(1);
  leaves.join();
  StepThatPauses step(scene, /*guessed=*/false);
  step.AwaitsBegin();
  scene.Says(wire::Yield{.turn = 1});
  KeepsItsTurnUntilTheStepEnds(scene, step);
}

}  // namespace
}  // namespace hocket
