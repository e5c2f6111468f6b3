#include "csrc/emulator/timing/stream_engine.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/emulator/timing/scene.h"

namespace hocket::emulator::timing {
namespace {

// A process that always has the next kernel queued; counts those that ended.
class Busy {
 public:
  Busy(Scene& scene, int process, Nanos kernel)
      : scene_(scene), process_(process), kernel_(kernel), stream_(scene.NewStream(process)) {}

  void QueueFor(Nanos time) {
    for (Nanos queued = 0; queued < time; queued += kernel_)
      last_ = scene_.Submit(process_, stream_, Kernel(kernel_));
  }
  Nanos Received() {
    scene_.Done(process_, last_);
    return static_cast<Nanos>(stream_->completed()) * kernel_;
  }

 private:
  Scene& scene_;
  const int process_;
  const Nanos kernel_;
  const std::shared_ptr<Stream> stream_;
  Point last_;
};

TEST(SharedDeviceTest, OneAloneGetsAllOfIt) {
  Scene scene(1);
  Busy job(scene, 0, 3 * kMs);
  job.QueueFor(900 * kMs);
  scene.RunFor(900 * kMs);
  EXPECT_EQ(job.Received(), 900 * kMs);
}

TEST(SharedDeviceTest, TwoBusyProcessesGetHalfTheDeviceEach) {
  Scene scene(2);
  Busy a(scene, 0, kMs), b(scene, 1, kMs);
  for (Busy* job : {&a, &b}) job->QueueFor(1000 * kMs);
  scene.RunFor(1000 * kMs);
  EXPECT_NEAR(a.Received(), 500 * kMs, 25 * kMs);
  EXPECT_NEAR(b.Received(), 500 * kMs, 25 * kMs);
}

TEST(SharedDeviceTest, HalvesDoNotDependOnTheLengthOfKernels) {
  Scene scene(2);
  Busy shorts(scene, 0, kMs / 100), longs(scene, 1, 37 * kMs);
  for (Busy* job : {&shorts, &longs}) job->QueueFor(2000 * kMs);
  scene.RunFor(2000 * kMs);
  EXPECT_NEAR(shorts.Received(), 1000 * kMs, 50 * kMs);
  EXPECT_NEAR(longs.Received(), 1000 * kMs, 50 * kMs);
}

TEST(SharedDeviceTest, AnEngineIsBusyUntilAllThatAnybodySubmittedIsDone) {
  Scene scene(2);
  const Nanos begin = scene.clock().Now();
  const auto busy = [&](int process, Engine engine) {
    return scene.process(process).BusyUntil(0, engine) - begin;
  };
  EXPECT_LE(busy(0, Engine::kToHost), 0);
  const auto stream = scene.NewStream(0), other = scene.NewStream(1);
  scene.Submit(0, stream, CopyOut(5 * kMs));
  scene.Submit(1, other, CopyOut(2 * kMs));
  for (int process : {0, 1}) {
    EXPECT_EQ(busy(process, Engine::kToHost), 7 * kMs);
    EXPECT_LE(busy(process, Engine::kToDevice), 0);
  }
  scene.RunFor(3 * kMs);
  EXPECT_EQ(busy(0, Engine::kToHost), 7 * kMs);
  scene.RunFor(5 * kMs);
  EXPECT_LE(busy(1, Engine::kToHost), 8 * kMs) << "now: it is idle";
}

TEST(SharedDeviceTest, AnEngineIsBusyFromWhenACopyBehindAKernelCanBegin) {
  Scene scene(1);
  const Nanos begin = scene.clock().Now();
  const auto stream = scene.NewStream(0);
  scene.Submit(0, stream, Kernel(4 * kMs));
  scene.Submit(0, stream, CopyOut(5 * kMs));
  EXPECT_LE(scene.process(0).BusyUntil(0, Engine::kToHost), begin);
  scene.RunFor(6 * kMs);
  EXPECT_EQ(scene.process(0).BusyUntil(0, Engine::kToHost), begin + 9 * kMs);
}

TEST(SharedDeviceTest, AnEngineIsNotBusyForTheDead) {
  Scene scene(2);
  scene.Submit(1, scene.NewStream(1), CopyOut(1000 * kMs));
  scene.Kill(1);
  scene.clock().MoveTo(scene.clock().Now() + 2 * kDeathInterval);
  EXPECT_LE(scene.process(0).BusyUntil(0, Engine::kToHost), scene.clock().Now());
}

TEST(SharedDeviceTest, ThirdsWithOneIdleAreHalves) {
  Scene scene(3);
  Busy a(scene, 0, 2 * kMs), c(scene, 2, 5 * kMs);
  for (Busy* job : {&a, &c}) job->QueueFor(1000 * kMs);
  scene.RunFor(1000 * kMs);
  EXPECT_NEAR(a.Received(), 500 * kMs, 25 * kMs);
  EXPECT_NEAR(c.Received(), 500 * kMs, 25 * kMs);
}

// Two processes that each wait for their step before they launch the next one.
TEST(SharedDeviceTest, ProcessesThatWaitForEachStepGetHalfEachToo) {
  Scene scene(2);
  const Nanos step[] = {20 * kMs, 7 * kMs};
  int steps[] = {0, 0};
  std::shared_ptr<Stream> streams[] = {scene.NewStream(0), scene.NewStream(1)};
  Point last[] = {scene.Submit(0, streams[0], Kernel(step[0])), scene.Submit(1, streams[1], Kernel(step[1]))};
  const Nanos end = scene.clock().Now() + 4000 * kMs;
  while (scene.clock().Now() < end) {
    scene.RunFor(kMs / 20);  // how soon a process notices that its step is done
    for (int p : {0, 1}) {
      if (!scene.Done(p, last[p])) continue;
      ++steps[p];
      last[p] = scene.Submit(p, streams[p], Kernel(step[p]));
    }
  }
  EXPECT_NEAR(steps[0] * step[0], 2000 * kMs, 100 * kMs);
  EXPECT_NEAR(steps[1] * step[1], 2000 * kMs, 100 * kMs);
}

TEST(SharedDeviceTest, ADeadProcessesWorkDisappears) {
  Scene scene(2);
  Busy survivor(scene, 0, kMs), victim(scene, 1, kMs);
  for (Busy* job : {&survivor, &victim}) job->QueueFor(10'000 * kMs);
  scene.RunFor(100 * kMs);
  scene.Kill(1);
  scene.RunFor(100 * kMs);
  EXPECT_GE(survivor.Received(), 50 * kMs + 90 * kMs) << "all of the device from 10 ms after the death on";
}

TEST(SharedDeviceTest, ADeathWakesTheOneThatWaits) {
  Scene scene(2);
  const auto stream = scene.NewStream(0);
  Busy victim(scene, 1, kMs);
  victim.QueueFor(10'000 * kMs);
  const Nanos start = scene.clock().Now();
  const Point last = scene.Submit(0, stream, Kernel(100 * kMs));
  scene.Kill(1);
  scene.Wait(0, last);
  EXPECT_LE(scene.clock().Now() - start, 100 * kMs + 2 * kDeathInterval);
}

TEST(SharedDeviceTest, AStoppedProcessLeavesTheDeviceToTheOthers) {
  Scene scene(2);
  Busy a(scene, 0, kMs), b(scene, 1, kMs);
  for (Busy* job : {&a, &b}) job->QueueFor(1000 * kMs);
  scene.process(1).Stop();
  scene.RunFor(500 * kMs);
  EXPECT_EQ(a.Received(), 500 * kMs);
}

TEST(StreamTest, AStepWorth20MsTakes20MsAndOneSleep) {
  Scene scene(1);
  const auto stream = scene.NewStream(0);
  const Nanos start = scene.clock().Now();
  Point last;
  for (int i = 0; i < 1000; ++i) last = scene.Submit(0, stream, Kernel(20'000));
  scene.Wait(0, last);
  EXPECT_EQ(scene.clock().Now() - start, 20 * kMs);
  EXPECT_EQ(scene.clock().sleeps(), 1);
}

TEST(StreamTest, AWaitOnASharedDeviceSleepsFewTimes) {
  Scene scene(2);
  const auto stream = scene.NewStream(0);
  Busy other(scene, 1, kMs);
  other.QueueFor(1000 * kMs);
  const Nanos start = scene.clock().Now();
  scene.Wait(0, scene.Submit(0, stream, Kernel(20 * kMs)));
  EXPECT_NEAR(scene.clock().Now() - start, 40 * kMs, 3 * kMs);
  EXPECT_LE(scene.clock().sleeps(), 6);
}

TEST(StreamTest, ItemsEndInOrder) {
  Scene scene(1);
  const auto stream = scene.NewStream(0);
  std::string order;
  const auto letter = [&](Work work, char c) {
    work.action = [&order, c](Nanos) { order += c; };
    return scene.Submit(0, stream, std::move(work));
  };
  letter(Kernel(5), 'a');
  letter(CopyIn(3), 'b');
  letter(Kernel(0), 'c');
  letter(Work{}, 'd');
  scene.Wait(0, letter(CopyOut(1), 'e'));
  EXPECT_EQ(order, "abcde");
}

TEST(StreamTest, KernelsOfTwoStreamsTakeTurns) {
  Scene scene(1);
  const auto a = scene.NewStream(0), b = scene.NewStream(0);
  Nanos a_ended = 0, b_ended = 0;
  const Nanos start = scene.clock().Now();
  for (int i = 0; i < 3; ++i) scene.Submit(0, a, Kernel(10));
  const Point last = scene.Submit(0, a, Mark(&a_ended));
  scene.Submit(0, b, Kernel(10));
  scene.Submit(0, b, Mark(&b_ended));
  scene.Wait(0, last);
  EXPECT_EQ(b_ended - start, 20) << "behind the kernel that ran, before those that followed it";
  EXPECT_EQ(a_ended - start, 40);
}

TEST(StreamTest, CopiesRunBesideKernels) {
  Scene scene(1);
  const auto compute = scene.NewStream(0), in = scene.NewStream(0), out = scene.NewStream(0);
  const Nanos start = scene.clock().Now();
  const Point points[] = {scene.Submit(0, compute, Kernel(20 * kMs)), scene.Submit(0, in, CopyIn(20 * kMs)),
                          scene.Submit(0, out, CopyOut(20 * kMs))};
  for (const Point& point : points) scene.Wait(0, point);
  EXPECT_EQ(scene.clock().Now() - start, 20 * kMs);
}

TEST(StreamTest, ACopyInTheSameDirectionWaitsForTheEngine) {
  Scene scene(1);
  const auto a = scene.NewStream(0), b = scene.NewStream(0);
  const Nanos start = scene.clock().Now();
  scene.Submit(0, a, CopyIn(20 * kMs));
  scene.Wait(0, scene.Submit(0, b, CopyIn(5 * kMs)));
  EXPECT_EQ(scene.clock().Now() - start, 25 * kMs);
}

TEST(StreamTest, AnEventOrdersTwoStreams) {
  Scene scene(1);
  const auto a = scene.NewStream(0), b = scene.NewStream(0);
  Nanos before = 0, after = 0;
  scene.Submit(0, a, CopyIn(7 * kMs));
  const Point event = scene.Submit(0, a, Mark(&before));
  scene.Submit(0, b, Kernel(kMs));
  scene.Submit(0, b, After(Kernel(2 * kMs), {event}));
  scene.Wait(0, scene.Submit(0, b, Mark(&after)));
  EXPECT_EQ(after - before, 2 * kMs);
}

TEST(StreamTest, TheTimeBetweenEventsIsTheModelledOne) {
  Scene scene(1);
  const auto stream = scene.NewStream(0);
  Nanos begun = 0, ended = 0;
  scene.Submit(0, stream, Kernel(3 * kMs));
  scene.Submit(0, stream, Mark(&begun));
  for (int i = 0; i < 10; ++i) scene.Submit(0, stream, Kernel(kMs));
  const Point last = scene.Submit(0, stream, Mark(&ended));
  scene.clock().MoveTo(scene.clock().Now() + 5000 * kMs);  // nobody looked meanwhile
  EXPECT_TRUE(scene.Done(0, last));
  EXPECT_EQ(ended - begun, 10 * kMs);
}

TEST(StreamTest, AnEventOnAnIdleStreamIsReachedWhenItIsRecorded) {
  Scene scene(1);
  const auto stream = scene.NewStream(0);
  Nanos reached = 0;
  scene.Submit(0, stream, Kernel(kMs));
  scene.RunFor(50 * kMs);
  EXPECT_TRUE(scene.Done(0, scene.Submit(0, stream, Mark(&reached))));
  EXPECT_EQ(reached, scene.clock().Now());
}

TEST(StreamTest, WhatNobodyWaitedForIsDoneAtItsTime) {
  Scene scene(1);
  const auto stream = scene.NewStream(0);
  const Point kernel = scene.Submit(0, stream, Kernel(10 * kMs));
  scene.RunFor(10 * kMs - 1);
  EXPECT_FALSE(scene.Done(0, kernel));
  EXPECT_FALSE(scene.process(0).Idle());
  scene.RunFor(1);
  EXPECT_TRUE(scene.Done(0, kernel));
  EXPECT_TRUE(scene.process(0).Idle());
}

// What a copy frees must compete from the copy's end on, or the others would get the device in between.
TEST(StreamTest, AKernelBehindACopyTakesItsPlaceOnASharedDeviceByItself) {
  Scene scene(2);
  const auto stream = scene.NewStream(0);
  Busy other(scene, 1, kMs);
  other.QueueFor(1000 * kMs);
  Nanos ended = 0;
  const Nanos start = scene.clock().Now();
  scene.Submit(0, stream, CopyIn(10 * kMs));
  scene.Submit(0, stream, Kernel(20 * kMs));
  scene.Submit(0, stream, Mark(&ended));
  scene.RunFor(100 * kMs);  // the process itself never asks
  EXPECT_TRUE(scene.process(0).Idle());
  EXPECT_NEAR(ended - start, 50 * kMs, 4 * kMs);
}

TEST(HostFunctionTest, ItRunsInTheOrderOfItsStreamByItself) {
  Scene scene(1);
  const auto stream = scene.NewStream(0);
  std::string order;
  Nanos called = 0, after = 0;
  const Nanos start = scene.clock().Now();
  scene.Submit(0, stream, Kernel(4 * kMs));
  scene.Submit(0, stream, HostFunction([&](Nanos now) { called = now; }));
  scene.Submit(0, stream, Kernel(kMs));
  scene.Submit(0, stream, Mark(&after));
  scene.RunFor(10 * kMs);
  EXPECT_EQ(called - start, 4 * kMs);
  EXPECT_FALSE(after == 0 && !scene.process(0).Idle());
  EXPECT_EQ(after - start, 5 * kMs);
}

TEST(HostFunctionTest, ItMayQueueWorkAndAskTheEngine) {
  Scene scene(1);
  const auto stream = scene.NewStream(0), other = scene.NewStream(0);
  Point inner;
  bool done = true;
  scene.Submit(0, stream, HostFunction([&](Nanos) {
                 inner = scene.Submit(0, other, Kernel(kMs));
                 done = scene.Done(0, inner);
               }));
  scene.RunFor(2 * kMs);
  EXPECT_FALSE(done);
  EXPECT_TRUE(scene.Done(0, inner));
}

TEST(PromptTest, APromptActionComesInTimeThoughNobodyAsks) {
  Scene scene(1);
  const auto stream = scene.NewStream(0);
  Nanos seen = 0;
  Work mark = Mark(&seen);
  mark.prompt = true;
  const Nanos start = scene.clock().Now();
  scene.Submit(0, stream, Kernel(3 * kMs));
  scene.Submit(0, stream, std::move(mark));
  scene.RunFor(3 * kMs);
  EXPECT_EQ(seen - start, 3 * kMs);
}

TEST(EndingTest, StopDropsWhatIsQueuedAndEveryWaitReturns) {
  Scene scene(1);
  const auto stream = scene.NewStream(0);
  bool called = false;
  scene.Submit(0, stream, CopyIn(10 * kMs));
  Work kernel = Kernel(10 * kMs);
  kernel.action = [&](Nanos) { called = true; };
  const Point last = scene.Submit(0, stream, std::move(kernel));
  scene.process(0).Stop();
  scene.Wait(0, last);
  EXPECT_TRUE(scene.Done(0, last));
  EXPECT_TRUE(scene.Done(0, scene.Submit(0, stream, Kernel(kMs))));
  EXPECT_FALSE(called);
}

TEST(EndingTest, WorkOfAStreamThatWasLetGoOfIsStillDone) {
  Scene scene(1);
  auto stream = scene.NewStream(0);
  Nanos reached = 0;
  scene.Submit(0, stream, Kernel(kMs));
  scene.Submit(0, stream, Mark(&reached));
  stream.reset();
  scene.RunFor(kMs);
  EXPECT_TRUE(scene.process(0).Idle());
  EXPECT_NE(reached, 0);
}

TEST(EndingTest, AnEngineCanGoInEveryState) {
  for (int state = 0; state < 5; ++state) {
    SCOPED_TRACE(state);
    Scene scene(2);
    const auto a = scene.NewStream(0), b = scene.NewStream(0);
    const Point copy = scene.Submit(0, a, CopyIn(kMs));
    if (state > 0) scene.Submit(0, b, After(Kernel(kMs), {copy}));
    if (state > 1) scene.Submit(0, b, HostFunction([](Nanos) {}));
    if (state > 2) scene.RunFor(kMs);
    if (state > 3) scene.process(0).Stop();
  }
}

TEST(ForkTest, TheChildTouchesNothingAndNeverHangs) {
  Scene scene(2);
  const auto stream = scene.NewStream(0);
  const Point copy = scene.Submit(0, stream, CopyIn(kMs));
  const Point kernel = scene.Submit(0, stream, After(Kernel(kMs), {copy}));
  scene.process(0).BeforeFork();
  scene.process(0).InChild();
  EXPECT_TRUE(scene.Done(0, kernel));
  scene.Wait(0, scene.Submit(0, stream, Kernel(kMs)));
  EXPECT_EQ(scene.state().members[0].pid, 100) << "the place is the parent's";
}

TEST(DevicesTest, EachDeviceHasItsOwnTimeAndEventsOrderAcrossThem) {
  const OwnedState second = MakeState();
  Scene scene(1);
  ASSERT_TRUE(scene.process(0).Open(1, *second).ok());
  const auto a = scene.NewStream(0), b = scene.process(0).CreateStream(1);
  const Nanos start = scene.clock().Now();
  Nanos ended = 0;
  const Point first = scene.Submit(0, a, Kernel(5 * kMs));
  scene.Submit(0, b, Kernel(5 * kMs));
  scene.Submit(0, b, After(Kernel(kMs), {first}));
  scene.Wait(0, scene.Submit(0, b, Mark(&ended)));
  EXPECT_EQ(ended - start, 6 * kMs);
}

}  // namespace
}  // namespace hocket::emulator::timing
