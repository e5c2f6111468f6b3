// Clocks that jump, and a daemon whose memory is used up: nobody loses a step.
#include <sys/resource.h>

#include <fstream>

#include "gmock/gmock.h"
#include "tests/client/real_coordinator.h"

namespace hocket {
namespace {

using ::testing::HasSubstr;

class ScarcityTest : public testing::RealCoordinatorTest {
 protected:
  ~ScarcityTest() override { unsetenv("LD_PRELOAD"); }

  // Of jobs and daemons that start from now on.
  static void LetTheWallClockJump() {
    setenv("ASAN_OPTIONS", "verify_asan_link_order=0", 1);
    setenv("LD_PRELOAD", WALL_CLOCK_JUMPS_PATH, 1);
  }
  // A policy of the user's own that is ready and then never answers.
  std::string WriteDumbPolicy() {
    const std::string path = folder_ + "/dumb";
    std::ofstream(path) << "#!/bin/sh\necho '{\"hocket_policy\": 1}'\nwhile read line; do :; done\n";
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
    return path;
  }
  pid_t Daemon() {
    auto channel = wire::Channel::Connect(SocketPath());
    return channel.ok() && channel->Peer().ok() ? channel->Peer()->first : 0;
  }
};

TEST_F(ScarcityTest, AWallClockThatJumpsByDaysCostsNobodyAStep) {
  LetTheWallClockJump();
  std::mt19937 random(5);
  for (const char* name : {"a", "b", "c"}) Starts(name, 150);
  for (int i = 0; i < 5; ++i) {
    Progresses(10);
    if (i == 2) KillDaemon();
    KillsOneJob(random);
    Starts("again", 150);
  }
  AllEnd();
}

// It was waited for until the clock had come to the time that it had been: three days.
TEST_F(ScarcityTest, APolicyThatDoesNotAnswerHasFailedWhateverTheWallClockDoes) {
  LetTheWallClockJump();
  for (const char* name : {"a", "b"}) Starts(name, 4'000);
  Progresses(10);
  unsetenv("LD_PRELOAD");
  Asks("policy", {{"program", WriteDumbPolicy()}});
  AllEnd();
  EXPECT_THAT(Asks("logs")["tail"].get<std::string>(), HasSubstr("it has not answered within 1s"));
}

// An allocation fails: it ends, as if it had been killed, and the first job that notices starts another.
TEST_F(ScarcityTest, ADaemonWithoutMemoryEndsAndNobodyLosesAStep) {
  for (const char* name : {"a", "b"}) Starts(name, 600);
  Progresses(200);
  const pid_t daemon = Daemon();
  ASSERT_NE(daemon, 0);
  const rlimit none{1, RLIM_INFINITY};
  ASSERT_EQ(prlimit(daemon, RLIMIT_AS, &none, nullptr), 0);
  // Asked for what it keeps until it needs more memory than it has at hand.
  const nlohmann::json much = {{"name", std::string(40'000, 'x')}};
  for (int i = 0; Daemon() == daemon && i < 1'000; ++i) {
    (void)wire::Control(SocketPath(), "policy", much.dump());
    (void)wire::Control(SocketPath(), "turns", "{}");
  }
  AllEnd();
  EXPECT_NE(Daemon(), daemon);
}

}  // namespace
}  // namespace hocket
