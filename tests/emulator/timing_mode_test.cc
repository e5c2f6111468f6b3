// Timing mode as the driver shows it: modelled durations, read from events, and who gets how much.
#include <cstdlib>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/emulator/world.h"

namespace hocket {
namespace {

double Elapsed(Puppet& puppet, const std::string& from, const std::string& to) {
  const std::string answer = puppet.Ask("elapsed " + from + " " + to);
  EXPECT_EQ(answer.substr(0, 3), "ok ") << answer;
  return std::atof(answer.c_str() + 3);
}

class TimingModeTest : public testing::Test {
 protected:
  TimingModeTest() : world_("HOCKET_EMULATOR_MODE", "timing") {}

  static void Does(Puppet& puppet, const std::string& line) { EXPECT_EQ(puppet.Ask(line), "ok") << line; }

  Puppet Start() const {
    Puppet puppet = world_.Start();
    for (const char* line : {"event start timed", "event end timed", "stream one nonblocking",
                             "stream two nonblocking", "alloc x 32768", "pinned h 32768"}) {
      Does(puppet, line);
    }
    return puppet;
  }

  World world_;
};

// The stream is held while the rest is queued, so the host's speed does not show.
TEST_F(TimingModeTest, KernelsTakeTheTimeTheySay) {
  Puppet a = Start();
  Does(a, "hold default");
  Does(a, "record start default");
  Does(a, "launch default 1000 20");
  Does(a, "record end default");
  Does(a, "let-go");
  Does(a, "sync default");
  EXPECT_NEAR(Elapsed(a, "start", "end"), 20.0, 0.001);
}

TEST_F(TimingModeTest, ACopyTakesItsBytesOverTheLinksRate) {
  Puppet a = Start();
  Does(a, "hold one");
  Does(a, "record start one");
  Does(a, "to-device x 0 h 32768 one");
  Does(a, "record end one");
  Does(a, "let-go");
  Does(a, "sync one");
  EXPECT_NEAR(Elapsed(a, "start", "end"), (32 << 20) / 55.43e6, 0.001);
}

TEST_F(TimingModeTest, ACopyRunsBesideKernelsOfAnotherStream) {
  Puppet a = Start();
  Does(a, "event copied timed");
  Does(a, "hold one");
  Does(a, "record start one");
  Does(a, "wait two start");
  Does(a, "launch one 5000");
  Does(a, "to-device x 0 h 32768 two");
  Does(a, "record copied two");
  Does(a, "record end one");
  Does(a, "let-go");
  Does(a, "sync-all");
  EXPECT_NEAR(Elapsed(a, "start", "end"), 5.0, 0.001);
  EXPECT_NEAR(Elapsed(a, "start", "copied"), (32 << 20) / 55.43e6, 0.001);
}

TEST_F(TimingModeTest, SmallCopiesMoveTheirBytes) {
  Puppet a = Start();
  Does(a, "fill x 0 64 42 default");
  EXPECT_EQ(a.Ask("read x 63"), "ok 42");
}

TEST_F(TimingModeTest, HostFunctionsAreCalledInTheirStreamsOrder) {
  Puppet a = Start();
  Does(a, "hold one");
  Does(a, "launch one 1000");
  Does(a, "mark one");
  EXPECT_EQ(a.Ask("marks"), "ok 0");
  Does(a, "let-go");
  Does(a, "sync one");
  EXPECT_EQ(a.Ask("marks"), "ok 1");
  Does(a, "launch one 1000000 3600");  // an hour
  Does(a, "mark one");
  EXPECT_EQ(a.Ask("marks"), "ok 1");
}

TEST_F(TimingModeTest, TwoBusyProcessesGetHalfEach) {
  Puppet a = Start(), b = Start();
  Does(b, "launch default 1000000 3600");  // an hour
  Does(a, "hold default");
  Does(a, "record start default");
  Does(a, "launch default 1000 200");
  Does(a, "record end default");
  Does(a, "let-go");
  Does(a, "sync default");
  EXPECT_NEAR(Elapsed(a, "start", "end"), 400, 20) << "200 ms of work";
}

TEST_F(TimingModeTest, AProcessGetsAllOfTheDeviceWhenTheOtherIsKilled) {
  Puppet a = Start(), b = Start();
  Does(b, "launch default 1000000 3600");  // an hour
  Does(a, "launch default 1000");
  b.Kill();
  Does(a, "sync default");
  Does(a, "hold default");
  Does(a, "record start default");
  Does(a, "launch default 1000 20");
  Does(a, "record end default");
  Does(a, "let-go");
  Does(a, "sync default");
  EXPECT_NEAR(Elapsed(a, "start", "end"), 20.0, 0.001);
}

TEST_F(TimingModeTest, AnEventOfAnotherProcessIsReachedWhenItsWorkIsDone) {
  Puppet a = Start(), b = Start();
  Does(a, "event e shared");
  Does(b, "open-event e " + a.Ask("share-event e").substr(3));
  Does(a, "hold one");
  Does(a, "launch one 1000");
  Does(a, "record e one");
  EXPECT_EQ(b.Ask("query-event e"), "CUDA_ERROR_NOT_READY");
  Does(a, "let-go");
  Does(b, "sync-event e");
  EXPECT_EQ(a.Ask("query-event e"), "ok");
}

TEST_F(TimingModeTest, ACapturedKernelRunsEachTimeItsGraphDoes) {
  Puppet a = Start();
  Does(a, "begin-capture one");
  Does(a, "launch one 1000 10");
  Does(a, "end-capture one g");
  Does(a, "hold one");
  Does(a, "record start one");
  Does(a, "launch-graph g one");
  Does(a, "launch-graph g one");
  Does(a, "record end one");
  Does(a, "let-go");
  Does(a, "sync one");
  EXPECT_NEAR(Elapsed(a, "start", "end"), 20.0, 0.001);
}

TEST_F(TimingModeTest, WorkQueuedWhenTheProcessEndsIsDropped) {
  Puppet a = Start();
  Does(a, "launch default 1000000 3600");
  EXPECT_EQ(a.Finish(), 0);
}

}  // namespace
}  // namespace hocket
