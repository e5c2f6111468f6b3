// No descriptors left; and a daemon that is killed and started again in the midst of a hand-over, of a spill,
// and of a gang's turn passing on. What jobs say then is what they would say (client/rejoin.cc).
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <deque>
#include <string>

#include "tests/coordinator/daemon.h"

namespace hocket::coordinator {
namespace {

using testing::HasSubstr;

// What the daemon says to a new connection that asks for its version: a Refused's reason, or nothing. One
// that asks just when it is turned away may hear of its end only.
std::string RefusalOf(Peer& peer) {
  (void)peer.channel().Send(wire::Command{"version", "{}"});
  const auto received = peer.channel().Receive();
  if (!received.ok()) return "";
  const auto* refused = std::get_if<wire::Refused>(&received->message);
  return refused == nullptr ? "" : refused->reason;
}

TEST(ScarcityTest, WithoutDescriptorsNewcomersAreToldAndThoseWhoAreThereServed) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "the undefined-behaviour sanitizer needs descriptors to look at a virtual table";
#endif
  Daemon daemon;
  daemon.Kill(SIGKILL);
  const auto few = [] {
    const rlimit limit{24, 24};
    setrlimit(RLIMIT_NOFILE, &limit);
  };
  ASSERT_EQ(daemon.Start({}, few).first, 0);
  Peer job(daemon, {.name = "job"});
  job.Hear<wire::Joined>();
  std::deque<Peer> others;
  std::string why;
  while (why.empty() && others.size() < 100) why = RefusalOf(others.emplace_back(daemon));
  EXPECT_THAT(why, HasSubstr("cannot take a connection: Too many open files."));
  job.Say(wire::Wait{});
  const auto turn = job.Hear<wire::Grant>().turn;
  job.Say(wire::TurnOver{.turn = turn});
  others.clear();
  ExpectServes(daemon);
}

class RestartTest : public testing::Test {
 protected:
  void KillAndStart() {
    daemon.Kill(SIGKILL);
    ASSERT_EQ(daemon.Start().first, 0);
  }
  Daemon daemon;
};

TEST_F(RestartTest, InTheMidstOfAHandOverTheTurnGivenUpMeanwhileIsTheNextOnes) {
  Peer a(daemon, {.name = "a"}), b(daemon, {.name = "b"});
  const auto ida = a.Hear<wire::Joined>().job, idb = b.Hear<wire::Joined>().job;
  a.Say(wire::Wait{});
  a.Hear<wire::Grant>();
  b.Say(wire::Wait{});
  a.Hear<wire::Yield>();
  KillAndStart();  // and nobody hears that it gives its turn up
  Peer b2(daemon, {.name = "b", .rejoin = true, .job = idb});
  b2.Say(wire::Wait{});
  Peer a2(daemon, {.name = "a", .rejoin = true, .job = ida});
  a2.Say(wire::Wait{});
  const auto next = b2.Hear<wire::Grant>().turn;
  b2.Say(wire::TurnOver{.turn = next});
  a2.Hear<wire::Grant>();
}

TEST_F(RestartTest, InTheMidstOfASpillBytesAreWhereTheirJobsSay) {
  Peer a(daemon, {.name = "a", .persistent = 800}), b(daemon, {.name = "b"});
  const auto ida = a.Hear<wire::Joined>().job, idb = b.Hear<wire::Joined>().job;
  a.Say(wire::Report{.persistent = 800});
  a.Say(wire::Spilled{.persistent = 800, .movable = true});
  b.Say(wire::Wait{});
  const auto turn = b.Hear<wire::Grant>().turn;
  b.Say(wire::NeedRoom{.bytes = 500});
  const auto asked = a.Hear<wire::Spill>();
  KillAndStart();
  Peer b2(daemon, {.name = "b", .rejoin = true, .job = idb, .holds_turn = true, .turn = turn});
  Peer a2(daemon, {.name = "a", .rejoin = true, .job = ida, .persistent = 300, .spilled = 500});
  a2.Hear<wire::Joined>();
  a2.Say(wire::Spilled{
      .request = asked.request, .freed = 500, .persistent = 300, .spilled = 500, .movable = true});
  b2.Say(wire::NeedRoom{.bytes = 500});
  EXPECT_TRUE(b2.Hear<wire::Room>().ok);
  const auto job = JobNamed(daemon, "a");
  EXPECT_EQ(job["persistent"], 300);
  EXPECT_EQ(job["spilled"], 500);
}

TEST_F(RestartTest, InTheMidstOfAGangsLastStepItsRanksGiveUpAndHaveTheNextTurnTogether) {
  Peer r0(daemon, {.name = "r0"}), r1(daemon, {.name = "r1", .device = "gpu1"}), c(daemon, {.name = "c"});
  const auto id0 = r0.Hear<wire::Joined>().job, id1 = r1.Hear<wire::Joined>().job;
  const auto idc = c.Hear<wire::Joined>().job;
  r0.Say(wire::Gang{"g", 0, 2});
  r1.Say(wire::Gang{"g", 1, 2});
  r0.Say(wire::Wait{});
  r1.Say(wire::Wait{});
  const auto turn = r0.Hear<wire::Grant>().turn;
  EXPECT_EQ(r1.Hear<wire::Grant>().turn, turn);
  c.Say(wire::Wait{});
  r0.Hear<wire::Yield>();
  r1.Hear<wire::Yield>();
  KillAndStart();  // rank 0 has given up already, rank 1 is in its step
  const auto back = [&](const char* name, JobId id, const char* device, uint64_t rank, bool holds) {
    return wire::Join{.name = name,
                      .device = device,
                      .rejoin = true,
                      .job = id,
                      .holds_turn = holds,
                      .gang = "g",
                      .gang_rank = rank,
                      .gang_size = 2,
                      .turn = holds ? turn : 0};
  };
  Peer a0(daemon, back("r0", id0, "gpu0", 0, false)), a1(daemon, back("r1", id1, "gpu1", 1, true));
  Peer c2(daemon, {.name = "c", .rejoin = true, .job = idc});
  c2.Say(wire::Wait{});
  a1.Hear<wire::Joined>();
  a1.Say(wire::TurnOver{.turn = turn, .steps = 1, .turn_steps = 1});
  const auto single = c2.Hear<wire::Grant>().turn;
  a0.Say(wire::Wait{});
  a1.Say(wire::Wait{});
  c2.Say(wire::TurnOver{.turn = single});
  EXPECT_EQ(a0.Hear<wire::Grant>().turn, a1.Hear<wire::Grant>().turn);
}

}  // namespace
}  // namespace hocket::coordinator
