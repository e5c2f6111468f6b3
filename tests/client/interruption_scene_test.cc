// Signals' handlers, and Ctrl-C, in the midst of waits at doors: what they may do, and what they leave
// behind.
#include <signal.h>

#include <functional>
#include <thread>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/scene.h"

namespace hocket {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// As Python's main thread: what it is told to run, it runs once, in the midst of its next wait.
class InterruptionTest : public ::testing::Test {
 protected:
  using Handler = std::function<bool()>;  // true: it raises

  InterruptionTest() {
    SetBlockingHooks({.before = nullptr, .after = nullptr, .interrupted = [this](InOwnCode in_own_code) {
                        if (pthread_self() != main_) return other_waits_.Happens();
                        if (!handler_) handler_waits_.Happens();
                        if (!handler_ || !may_run_) return;
                        if (comes_) std::exchange(comes_, nullptr)();
                        in_own_code([this] { return std::exchange(handler_, nullptr)(); });
                      }});
  }
  ~InterruptionTest() override { SetBlockingHooks({}); }

  // A thread that runs `program`, and `handler` in the midst of it once SignalComes().
  std::thread Main(Handler handler, std::function<void()> program) {
    may_run_ = false;
    return std::thread([this, handler = std::move(handler), program = std::move(program)] {
      main_ = pthread_self();
      handler_ = handler;
      program();
    });
  }
  void SignalComes() { may_run_ = true; }
  // In the midst of that, before the interpreter's lock is there.
  void ThenComes(std::function<void()> comes) { comes_ = std::move(comes); }

  static bool CtrlC() { return true; }
  // From `runs` until `ends`.
  static Handler Lasts(Happening& runs, Happening& ends) {
    return [&] {
      runs.Happens();
      ends.Await();
      return false;
    };
  }
  // Until a thread that is not the main one waits at a door.
  void AwaitsOther() { other_waits_.Await(); }
  // Until the handler, which runs, waits at a door itself.
  void AwaitsHandler() { handler_waits_.Await(); }

 private:
  std::atomic<pthread_t> main_{};
  Handler handler_;  // of that thread
  std::function<void()> comes_;
  std::atomic<bool> may_run_{false};
  Happening other_waits_, handler_waits_;
};

// How much came back.
Bytes OrdersRestore(Scene& scene, std::uint64_t request) {
  scene.Says(wire::Restore{.request = request, .bytes = 60});
  const wire::Restored answer = scene.Expects<wire::Restored>();
  EXPECT_EQ(answer.request, request);
  return answer.restored;
}

TEST_F(InterruptionTest, EndsAnAllocationThatWaitsForATurnAndTheGrantIsGivenBack) {
  Scene scene;
  Happening interrupted, steps;
  std::thread main = Main(CtrlC, [&] {
    EXPECT_TRUE(absl::IsCancelled(scene.allocator().Malloc(10, nullptr).status()));
    interrupted.Happens();
    steps.Await();
    scene.Step();  // in which a checkpoint is saved
  });
  scene.Expects<wire::Wait>();
  SignalComes();
  interrupted.Await();
  scene.Grants(1);
  EXPECT_EQ(scene.Expects<wire::TurnOver>().turn, 1u);
  steps.Happens();
  scene.Expects<wire::Wait>();
  scene.Grants(2);
  main.join();
  EXPECT_EQ(scene.job().Info().steps, 1u);
  EXPECT_EQ(scene.allocator().Held().persistent, 100u) << "nothing was allocated";
}

TEST_F(InterruptionTest, EndsAnAllocationThatWaitsForRoomAndTheTurnStays) {
  Scene scene(Scene::NeverIdle());
  Happening interrupted, again;
  std::thread main = Main(CtrlC, [&] {
    scene.Step();
    EXPECT_TRUE(absl::IsCancelled(scene.allocator().Malloc(10, nullptr).status()));
    EXPECT_TRUE(scene.job().HoldsTurn());
    interrupted.Happens();
    again.Await();
    EXPECT_TRUE(scene.allocator().Malloc(20, nullptr).ok());
  });
  scene.Expects<wire::Wait>();
  scene.allocator().lacking = 30;
  scene.Grants(1);
  EXPECT_EQ(scene.Expects<wire::NeedRoom>().bytes, 30u);
  SignalComes();
  interrupted.Await();
  scene.allocator().lacking = 40;
  again.Happens();
  // The coordinator takes only one question at a time, and "no" was said to the first.
  scene.AgentHasObeyed();
  scene.Says(wire::Room{.ok = false, .reason = "nobody can be moved"});
  EXPECT_EQ(scene.Expects<wire::NeedRoom>().bytes, 40u);
  scene.allocator().lacking = 0;
  scene.Says(wire::Room{.ok = true});
  main.join();
}

TEST_F(InterruptionTest, AQuestionThatNobodyAsksAnyMoreKeepsNoTurn) {
  Scene scene;
  Happening interrupted, ends;
  std::thread main = Main(CtrlC, [&] {
    scene.Step();
    EXPECT_TRUE(absl::IsCancelled(scene.allocator().Malloc(10, nullptr).status()));
    interrupted.Happens();
    ends.Await();
  });
  scene.Expects<wire::Wait>();
  scene.allocator().lacking = 30;
  scene.Grants(1);
  scene.Expects<wire::NeedRoom>();
  SignalComes();
  interrupted.Await();
  scene.Says(wire::Yield{.turn = 1});
  EXPECT_EQ(scene.Expects<wire::TurnOver>().turn, 1u);
  ends.Happens();
  main.join();
}

TEST_F(InterruptionTest, EndsAnAllocationInAStepAndTheStepEndsAsEver) {
  Scene scene(Scene::NeverIdle());
  std::thread main = Main(CtrlC, [&] {
    ASSERT_TRUE(scene.job().BeginStep().ok());
    EXPECT_TRUE(absl::IsCancelled(scene.allocator().Malloc(10, nullptr).status()));
    scene.job().EndStep(/*count=*/false);
  });
  scene.Expects<wire::Wait>();
  scene.allocator().lacking = 30;
  scene.Grants(1);
  scene.Expects<wire::NeedRoom>();
  scene.Says(wire::Yield{.turn = 1, .now = true});
  scene.AgentHasObeyed();
  SignalComes();
  EXPECT_EQ(scene.Expects<wire::TurnOver>().turn_steps, 0u);
  main.join();
}

TEST_F(InterruptionTest, EndsAReturnFromAwayAndTheThreadIsBack) {
  Scene scene;
  Happening away, returns, back, steps;
  std::thread main = Main(CtrlC, [&] {
    scene.Step();
    scene.job().BeginAway();
    away.Happens();
    returns.Await();
    EXPECT_TRUE(absl::IsCancelled(scene.job().EndAway()));
    back.Happens();
    steps.Await();
    scene.Step();  // in which a checkpoint is saved
    EXPECT_EQ(scene.allocator().Held().spilled, 0u);
  });
  scene.Expects<wire::Wait>();
  scene.Grants(1, /*contended=*/true);
  away.Await();
  scene.Expects<wire::TurnOver>();
  EXPECT_EQ(scene.Spills(60).freed, 60u);
  returns.Happens();
  EXPECT_EQ(scene.Expects<wire::Wait>().need, 60u);
  SignalComes();
  back.Await();
  EXPECT_THAT(scene.Spills(60).why_not, HasSubstr("in the program's own code"));
  EXPECT_EQ(OrdersRestore(scene, 1), 0u) << "it may be reading its memory, wherever that is";
  scene.Grants(2);  // nobody waits for it any more
  EXPECT_EQ(scene.Expects<wire::TurnOver>().turn, 2u);
  steps.Happens();
  scene.Expects<wire::Wait>();
  scene.Grants(3);
  main.join();
}

TEST_F(InterruptionTest, WhileAHandlerRunsNothingMoves) {
  Scene scene;
  Happening runs, ends;
  std::thread main = Main(Lasts(runs, ends), [&] { scene.Step(); });
  EXPECT_TRUE(scene.Expects<wire::Wait>().movable);
  SignalComes();
  runs.Await();
  const wire::Spilled refused = scene.Spills(60);
  EXPECT_EQ(refused.freed, 0u);
  EXPECT_THAT(refused.why_not, HasSubstr("in the program's own code"));
  ends.Happens();
  EXPECT_TRUE(scene.Expects<wire::Spilled>().movable) << "the coordinator is told when it may be asked again";
  EXPECT_EQ(scene.Spills(60).freed, 60u);
  scene.Grants(1);
  main.join();
  EXPECT_EQ(scene.job().Info().steps, 1u);
}

// It may be reading what is on the host: at those addresses there would be chunks that are still empty.
TEST_F(InterruptionTest, NorDoBytesComeBackBeforeTheTurnWhileAHandlerRuns) {
  Scene scene;
  Happening runs, ends;
  std::thread main = Main(Lasts(runs, ends), [&] { scene.Step(); });
  scene.Expects<wire::Wait>();
  EXPECT_EQ(scene.Spills(60).freed, 60u);
  SignalComes();
  runs.Await();
  EXPECT_THAT(scene.Spills(60).why_not, HasSubstr("in the program's own code"));
  EXPECT_EQ(OrdersRestore(scene, 1), 0u);
  EXPECT_THAT(scene.allocator().TakeLog(), ElementsAre("spill"));
  ends.Happens();
  EXPECT_TRUE(scene.Expects<wire::Spilled>().movable) << "the thread is back at its door";
  EXPECT_EQ(OrdersRestore(scene, 2), 60u);
  scene.Grants(1);
  main.join();
}

// It would find nothing at those addresses.
TEST_F(InterruptionTest, NorIsWhatIsMappedTakenAwayWhileAHandlerRuns) {
  constexpr int kMany = 100'000;  // of which each is taken away at a time of its own
  Scene scene({.expect_margin = std::chrono::seconds(10)});
  scene.TakesTurn(1);
  scene.Says(wire::Yield{.turn = 1, .now = true});
  scene.Expects<wire::TurnOver>();
  EXPECT_EQ(scene.Spills(60).freed, 60u);
  scene.TakesTurn(2);  // after a short wait: so the next one is expected to be short
  scene.Says(wire::Yield{.turn = 2, .now = true});
  scene.Expects<wire::TurnOver>();
  Happening unmaps, goes_on, runs, ends;
  scene.allocator().SetHook([&](const std::string& call) {
    if (call != "unmap") return;
    unmaps.Happens();
    goes_on.Await();
  });
  scene.allocator().unmapped = 1;
  EXPECT_EQ(scene.Spills(60).freed, 60u);
  while (scene.allocator().mapped == 0) std::this_thread::yield();
  scene.allocator().mapped = kMany;
  std::thread main = Main(Lasts(runs, ends), [&] { scene.Step(); });
  unmaps.Await();
  SignalComes();
  runs.AwaitInVain();
  EXPECT_FALSE(runs.HasHappened()) << "what has begun ends first";
  goes_on.Happens();
  runs.Await();
  const int left = scene.allocator().mapped;
  EXPECT_GT(left, 0);
  ends.AwaitInVain();
  EXPECT_EQ(scene.allocator().mapped, left);
  ends.Happens();
  while (scene.allocator().mapped == left) std::this_thread::yield();
  scene.Grants(3);
  main.join();
}

TEST_F(InterruptionTest, BytesThatMoveAreNotDisturbedByAHandler) {
  Scene scene;
  Happening spills, goes_on;
  std::atomic<bool> moved{false};
  scene.allocator().SetHook([&](const std::string& call) {
    if (call != "spill") return;
    spills.Happens();
    goes_on.Await();
    moved = true;
  });
  Happening handled;
  std::thread main = Main(
      [&] {
        EXPECT_TRUE(moved);
        handled.Happens();
        return false;
      },
      [&] { scene.Step(); });
  scene.Expects<wire::Wait>();
  scene.Says(wire::Spill{.request = 1, .bytes = 60});
  spills.Await();
  SignalComes();
  handled.AwaitInVain();
  goes_on.Happens();
  handled.Await();
  while (!scene.Spills(60).why_not.empty()) continue;  // until the thread is back at its door
  scene.Grants(1);
  main.join();
}

TEST_F(InterruptionTest, AHandlerMayMakeAStepOfItsOwn) {
  Scene scene;
  std::thread main = Main(
      [&] {
        scene.Step();
        return false;
      },
      [&] { scene.Step(); });
  scene.Expects<wire::Wait>();
  SignalComes();
  AwaitsHandler();
  scene.Grants(1);
  main.join();
  EXPECT_EQ(scene.job().Info().steps, 2u);
  scene.Says(wire::Yield{.turn = 1, .now = true});
  EXPECT_EQ(scene.Expects<wire::TurnOver>().turn, 1u) << "no step is under way";
}

// It cannot wait for the turn that its own thread is taking.
TEST_F(InterruptionTest, AHandlersStepSendsTheTurnBackThatItsThreadIsTaking) {
  for (const bool raises : {false, true}) {
    Scene scene;
    std::thread main = Main(
        [&, raises] {
          scene.Step();
          return raises;
        },
        [&, raises] {
          const absl::Status begun = scene.job().BeginStep();
          EXPECT_EQ(absl::IsCancelled(begun), raises) << begun;
          EXPECT_EQ(begun.ok(), !raises);
          scene.job().EndStep(true);
        });
    scene.Expects<wire::Wait>();
    scene.allocator().missing = 10;
    scene.Grants(1);
    EXPECT_TRUE(scene.Expects<wire::NeedRoom>().restoring);
    SignalComes();
    EXPECT_EQ(scene.Expects<wire::TurnOver>().turn, 1u);
    scene.Expects<wire::Wait>();
    scene.allocator().missing = 0;
    scene.Grants(2);
    main.join();
    EXPECT_EQ(scene.job().Info().steps, raises ? 1u : 2u);
    scene.Says(wire::Yield{.turn = 2, .now = true});
    EXPECT_EQ(scene.Expects<wire::TurnOver>().turn, 2u) << "no step is under way";
  }
}

// As a program does that is told to end, and ends its threads first.
void StepOnAnotherThread(Scene& scene) {
  std::thread other([&] { scene.Step(); });
  other.join();
}

TEST_F(InterruptionTest, SoDoesAHandlerThatWaitsForAnotherThreadsStep) {
  Scene scene;
  std::thread main = Main(
      [&] {
        StepOnAnotherThread(scene);
        return false;
      },
      [&] { scene.Step(); });
  scene.Expects<wire::Wait>();
  scene.allocator().missing = 10;
  scene.Grants(1);
  EXPECT_TRUE(scene.Expects<wire::NeedRoom>().restoring);
  SignalComes();
  EXPECT_EQ(scene.Expects<wire::TurnOver>().turn, 1u);
  scene.Expects<wire::Wait>();
  scene.allocator().missing = 0;
  scene.Grants(2);
  main.join();
  EXPECT_EQ(scene.job().Info().steps, 2u);
}

TEST_F(InterruptionTest, SoTheyDoWhileTheLanesLockIsAwaited) {
  struct sigaction action {};
  action.sa_handler = [](int) {};  // without SA_RESTART, as Python's
  sigaction(SIGUSR1, &action, nullptr);
  for (const bool on_another_thread : {false, true}) {
    Scene scene(Scene::NeverIdle());
    OtherHolder other(scene.lock_path());
    std::atomic<bool> runs{false};
    std::thread main = Main(
        [&, on_another_thread] {
          runs = true;
          if (on_another_thread) {
            StepOnAnotherThread(scene);
          } else {
            scene.Step();
          }
          return false;
        },
        [&] { scene.Step(); });
    scene.Expects<wire::Wait>();
    scene.Grants(1);
    scene.AgentHasObeyed();
    SignalComes();
    while (!runs) {  // it does not ask by itself there
      pthread_kill(main.native_handle(), SIGUSR1);
      std::this_thread::yield();
    }
    EXPECT_EQ(scene.Expects<wire::TurnOver>().turn, 1u);
    scene.Expects<wire::Wait>();
    other.LetsGo();
    scene.Grants(2);
    main.join();
    EXPECT_EQ(scene.job().Info().steps, 2u);
  }
}

// Otherwise the turn would be its job's, and used by nobody, for as long as the handler runs.
TEST_F(InterruptionTest, ATurnThatHasComeIsTakenBeforeAHandlerRuns) {
  Scene scene;
  bool ran = false;
  ThenComes([&] {
    scene.Grants(1);
    scene.AgentHasObeyed();
  });
  std::thread main = Main([&] { return ran = true; }, [&] { scene.Step(); });
  scene.Expects<wire::Wait>();
  SignalComes();
  main.join();
  EXPECT_FALSE(ran) << "Python runs it when the wait is over";
  EXPECT_EQ(scene.job().Info().steps, 1u);
}

// Without a coordinator each question for room is answered at once, for ever.
TEST_F(InterruptionTest, EndsAWaitForRoomThatIsAnsweredAgainAndAgain) {
  Scene scene;
  scene.allocator().missing = 10;
  std::atomic<int> attempts{0};
  scene.allocator().SetHook([&](const std::string& call) {
    if (call == "take turn") ++attempts;
  });
  scene.Dies(/*another_can_be_started=*/false);
  std::thread main = Main(CtrlC, [&] {
    const absl::Status begun = scene.job().BeginStep();
    EXPECT_TRUE(absl::IsCancelled(begun)) << begun;
  });
  while (attempts < 2) std::this_thread::yield();
  SignalComes();
  main.join();
}

// Another thread computes in its step, so the turn cannot pass.
TEST_F(InterruptionTest, EndsAnAllocationThatIsToldAtOnceToStandAsideAndCannot) {
  Scene scene(Scene::NeverIdle());
  Happening in_step, ends;
  std::thread other([&] {
    ASSERT_TRUE(scene.job().BeginStep().ok());
    in_step.Happens();
    ends.Await();
    scene.job().EndStep(true);
  });
  scene.Expects<wire::Wait>();
  scene.Grants(1);
  in_step.Await();
  scene.allocator().lacking = 30;
  std::thread main =
      Main(CtrlC, [&] { EXPECT_TRUE(absl::IsCancelled(scene.allocator().Malloc(10, nullptr).status())); });
  for (int round = 0; round < 2; ++round) {
    scene.Expects<wire::NeedRoom>();
    if (round == 1) SignalComes();
    scene.Says(wire::Room{.ok = true, .step_aside = true});
  }
  main.join();
  scene.Says(wire::Spill{.request = 1, .bytes = 0});
  EXPECT_TRUE(std::holds_alternative<wire::Spilled>(scene.Next())) << "it has not asked again";
  ends.Happens();
  other.join();
}

TEST_F(InterruptionTest, AChildThatIsForkedInAHandlerDoesNotWaitForItsParentsRoom) {
  Scene scene(Scene::NeverIdle());
  std::atomic<pid_t> child{-1};
  std::thread main = Main(
      [&] {
        child = fork();
        return false;
      },
      [&] {
        scene.Step();
        const absl::Status allocated = scene.allocator().Malloc(10, nullptr).status();
        if (child == 0) _exit(absl::IsResourceExhausted(allocated) ? 0 : 1);
        EXPECT_TRUE(allocated.ok()) << allocated;
      });
  scene.Expects<wire::Wait>();
  scene.allocator().lacking = 30;
  scene.Grants(1);
  scene.Expects<wire::NeedRoom>();
  SignalComes();
  while (child == -1) std::this_thread::yield();
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  scene.allocator().lacking = 0;
  scene.Says(wire::Room{.ok = true});
  main.join();
}

TEST_F(InterruptionTest, AHandlerMayLeaveWhileItsThreadTakesTheTurn) {
  Scene scene;
  std::thread main = Main(
      [&] {
        scene.job().Leave();
        return false;
      },
      [&] { scene.Step(); });
  scene.Expects<wire::Wait>();
  scene.allocator().missing = 10;
  scene.Grants(1);
  scene.Expects<wire::NeedRoom>();
  SignalComes();
  scene.Expects<wire::Leave>();
  main.join();
}

TEST_F(InterruptionTest, AHandlersAllocationAsksForRoomAfterTheOneThatItsThreadWaitsFor) {
  Scene scene(Scene::NeverIdle());
  std::thread main = Main(
      [&] {
        scene.allocator().lacking = 40;
        EXPECT_TRUE(scene.allocator().Malloc(20, nullptr).ok());
        return false;
      },
      [&] {
        scene.Step();
        EXPECT_TRUE(scene.allocator().Malloc(10, nullptr).ok());
      });
  scene.Expects<wire::Wait>();
  scene.allocator().lacking = 30;
  scene.Grants(1);
  EXPECT_EQ(scene.Expects<wire::NeedRoom>().bytes, 30u);
  SignalComes();
  while (scene.allocator().lacking != 40) std::this_thread::yield();
  scene.Says(wire::Room{.ok = false, .reason = "nobody can be moved"});
  EXPECT_EQ(scene.Expects<wire::NeedRoom>().bytes, 40u);
  scene.allocator().lacking = 0;
  scene.Says(wire::Room{.ok = true});
  main.join();
  EXPECT_EQ(scene.allocator().Held().persistent, 130u);
}

// Another thread has the turn by then: the step that was interrupted must not count as begun.
TEST_F(InterruptionTest, WhoeverRunsAHandlerIsNotLetInMeanwhile) {
  Scene scene;
  Happening runs, ends;
  std::thread main = Main(
      [&] {
        runs.Happens();
        ends.Await();
        return true;
      },
      [&] { EXPECT_TRUE(absl::IsCancelled(scene.job().BeginStep())); });
  scene.Expects<wire::Wait>();
  SignalComes();
  runs.Await();
  std::thread other([&] { scene.Step(); });
  AwaitsOther();
  scene.Grants(1);
  other.join();
  ends.Happens();
  main.join();
  scene.Says(wire::Yield{.turn = 1, .now = true});
  EXPECT_EQ(scene.Expects<wire::TurnOver>().turn_steps, 1u) << "no step is under way";
}

TEST_F(InterruptionTest, AHandlerThatWaitsForSomethingIsNotCountedTwiceWhenItIsBack) {
  Scene scene;
  Happening runs, ends, in_user_code, leaves;
  scene.TakesTurn(1, /*contended=*/true);
  scene.Expects<wire::TurnOver>();
  std::thread main = Main(Lasts(runs, ends), [&] {
    scene.Step();
    in_user_code.Happens();
    leaves.Await();
  });
  scene.Expects<wire::Wait>();
  SignalComes();
  runs.Await();
  EXPECT_EQ(scene.job().Park([](pthread_t) { return true; }), 1);
  ends.Happens();
  scene.Grants(2, /*contended=*/true);
  in_user_code.Await();
  EXPECT_FALSE(scene.Expects<wire::TurnOver>().movable);
  EXPECT_THAT(scene.Spills(60).why_not, HasSubstr("1 of 1 threads"));
  leaves.Happens();
  main.join();
}

}  // namespace
}  // namespace hocket
