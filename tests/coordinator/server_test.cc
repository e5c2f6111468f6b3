// The daemon over real sockets: peers that behave, peers that do not, deaths and restarts.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <limits>

#include "csrc/base/check.h"
#include "csrc/wire/codec.h"
#include "csrc/wire/control.h"
#include "csrc/wire/shared_page.h"
#include "tests/coordinator/daemon.h"

namespace hocket::coordinator {
namespace {

using testing::HasSubstr;
using testing::Not;
using Json = nlohmann::json;

Json JobNamed(Daemon& daemon, const std::string& name) {
  const Json status = daemon.Ask("status").value();
  for (const Json& job : status["jobs"]) {
    if (job["name"] == name) return job;
  }
  return nullptr;
}

void SendRaw(Peer& peer, const std::string& bytes) {
  ASSERT_EQ(send(peer.channel().fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(bytes.size()));
}

// Alive and with its wits: a fresh job gets the turn.
void ExpectServes(Daemon& daemon) {
  Peer probe(daemon, {.name = "probe", .device = "probe"});
  probe.Say(wire::Wait{});
  EXPECT_GT(probe.Hear<wire::Grant>().turn, 0u);
}

TEST(ServerTest, TwoJobsPassTheTurnOn) {
  Daemon daemon;
  Peer a(daemon, {.name = "a"});
  Peer b(daemon, {.name = "b"});
  EXPECT_EQ(a.Hear<wire::Joined>().name, "a");
  EXPECT_EQ(b.Hear<wire::Joined>().sharing_with, "a");
  a.Say(wire::Wait{});
  const auto turn = a.Hear<wire::Grant>().turn;
  b.Say(wire::Wait{});
  EXPECT_FALSE(a.Hear<wire::Yield>().now);
  EXPECT_TRUE(a.Hear<wire::Yield>().now);
  a.Say(wire::TurnOver{.turn = turn, .steps = 1, .turn_steps = 1});
  EXPECT_EQ(b.Hear<wire::Grant>().turn, turn + 1);
}

TEST(ServerTest, TheSocketIsForItsUserOnly) {
  Daemon daemon;
  struct stat info {};
  ASSERT_EQ(stat(daemon.socket().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  ASSERT_EQ(stat(daemon.dir().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
}

TEST(ServerTest, AChunksDescriptorIsPassedOnAndNotKept) {
  Daemon daemon;
  Peer a(daemon, {.name = "a"});
  Peer b(daemon, {.name = "b"});
  b.Hear<wire::Joined>();
  a.Say(wire::Wait{});
  a.Hear<wire::Grant>();
  UniqueFd chunk(memfd_create("chunk", MFD_CLOEXEC));
  const size_t before = daemon.OpenDescriptors();
  a.Say(wire::ArenaGrew{.chunk = 7, .size = 64}, chunk.get());
  UniqueFd received;
  EXPECT_EQ(b.Hear<wire::ArenaAdd>(&received).chunk, 7u);
  struct stat sent {
  }, got{};
  fstat(chunk.get(), &sent);
  ASSERT_EQ(fstat(received.get(), &got), 0);
  EXPECT_EQ(sent.st_ino, got.st_ino);
  daemon.Ask("version").IgnoreError();
  EXPECT_LE(daemon.OpenDescriptors(), before + 1) << "the control connection may still be closing";
}

TEST(ServerTest, TheSharedPageIsShownInStatus) {
  Daemon daemon;
  wire::SharedPage page = wire::SharedPage::Create().value();
  Peer a(daemon);
  a.Say(wire::Join{.name = "a", .device = "gpu0", .capacity = 100, .weight = 2.5}, page.fd());
  a.Hear<wire::Joined>();
  page.words().steps.store(12);
  page.words().step_time_ns.store(7'500'000);
  const Json job = JobNamed(daemon, "a");
  EXPECT_EQ(job["steps"], 12);
  EXPECT_EQ(job["step_time_ms"], 7.5);
  EXPECT_EQ(job["weight"], 2.5);
  EXPECT_EQ(job["pid"], getpid());
  EXPECT_EQ(job["state"], "idle");
}

// --- who may not join -----------------------------------------------------------------------------

std::string Refusal(Daemon& daemon, wire::Join join) {
  return Peer(daemon, join).Hear<wire::Refused>().reason;
}

TEST(AdmissionTest, ValuesOutOfRangeAreRefusedWithTheValueAndTheRange) {
  Daemon daemon;
  EXPECT_THAT(Refusal(daemon, {.weight = 0}), HasSubstr("weight 0 is not allowed: give a number above 0"));
  EXPECT_THAT(Refusal(daemon, {.weight = -1}), HasSubstr("weight -1"));
  EXPECT_THAT(Refusal(daemon, {.weight = std::numeric_limits<double>::quiet_NaN()}), HasSubstr("weight nan"));
  EXPECT_THAT(Refusal(daemon, {.weight = std::numeric_limits<double>::infinity()}), HasSubstr("weight inf"));
  EXPECT_THAT(Refusal(daemon, {.priority = "urgent"}),
              HasSubstr("no priority 'urgent'. The priorities are: high"));
  EXPECT_THAT(Refusal(daemon, {.capacity = 1 << 20, .memory_limit = 2 << 20}),
              HasSubstr("memory_limit 2.0 MiB is more than the 1.0 MiB of gpu0"));
  EXPECT_THAT(Refusal(daemon, {.name = "a\nb"}), HasSubstr("control characters"));
  EXPECT_THAT(Refusal(daemon, {.name = std::string(200, 'x')}), HasSubstr("200 characters, at most 128"));
  EXPECT_THAT(Refusal(daemon, {.device = "../../etc/passwd"}), HasSubstr("is no device"));
  EXPECT_THAT(Refusal(daemon, {.gang = "g", .gang_rank = 3, .gang_size = 2}), HasSubstr("rank 3 of 2"));
  EXPECT_THAT(Refusal(daemon, {.rejoin = true, .gang_size = (1u << 31) - 1}),
              HasSubstr("rank 0 of 2147483647"));
  EXPECT_THAT(Refusal(daemon, {.rejoin = true, .holds_turn = true, .turn = ~uint64_t{1}}),
              HasSubstr("turn is said to be 18446744073709551614"));
  EXPECT_THAT(Refusal(daemon, {.persistent = uint64_t{1} << 63}), HasSubstr("persistent is said to be"));
  EXPECT_THAT(Refusal(daemon, {.name = "a\xc2\x9b"
                                       "2J"}),
              HasSubstr("control characters"));
  EXPECT_EQ(daemon.Ask("status").value()["jobs"].size(), 0u);
}

TEST(AdmissionTest, AJobOfTheCpuMayHaveALimitForDevices) {
  Daemon daemon;
  Peer job(daemon);
  job.Say(wire::Join{.name = "a", .device = "cpu", .memory_limit = 2 << 20});
  EXPECT_EQ(job.Hear<wire::Joined>().name, "a");
}

TEST(AdmissionTest, WhatAJobSaysLaterIsCheckedToo) {
  Daemon daemon;
  const wire::Message wrong[] = {wire::Gang{.gang = "", .rank = 0, .size = 1},
                                 wire::Gang{.gang = "g", .rank = 0, .size = uint64_t{1} << 40},
                                 wire::Gang{.gang = "a\nb", .rank = 0, .size = 1},
                                 wire::Report{.persistent = uint64_t{1} << 63},
                                 wire::Wait{.need = ~uint64_t{0}},
                                 wire::TurnOver{.persistent = ~uint64_t{0}},
                                 wire::ArenaGrew{.chunk = 1, .size = ~uint64_t{0}}};
  for (const wire::Message& message : wrong) {
    Peer peer(daemon, {.name = "a"});
    peer.Hear<wire::Joined>();
    peer.Say(message);
    EXPECT_TRUE(peer.HearsEnd()) << wire::NameOf(message);
  }
  EXPECT_THAT(daemon.Ask("logs").value()["tail"].get<std::string>(),
              HasSubstr("message rejected: Report: persistent is said to be 9223372036854775808"));
  ExpectServes(daemon);
}

TEST(AdmissionTest, AReasonThatReachesTheTerminalHasNoControlCharacters) {
  Daemon daemon;
  Peer job(daemon, {.name = "a"});
  job.Hear<wire::Joined>();
  job.Say(wire::Spilled{.persistent = 10, .why_not = "\x1b]0;title\x07two\nlines"});
  EXPECT_THAT(JobNamed(daemon, "a")["why"].get<std::string>(), HasSubstr(":  ]0;title two lines"));
}

TEST(AdmissionTest, AnotherMajorVersionIsRefusedNamingWhoKeepsTheDaemon) {
  Daemon daemon;
  Peer a(daemon, {.name = "resnet"});
  a.Hear<wire::Joined>();
  Peer newer(daemon);
  std::string frame = wire::Encode(wire::Join{}).value();
  frame[4] = 2;
  SendRaw(newer, frame);
  const std::string reason = newer.Hear<wire::Refused>().reason;
  EXPECT_THAT(reason, HasSubstr("version 2 of Hocket's protocol, this side version 1"));
  EXPECT_THAT(reason, HasSubstr("kept running by: resnet (pid "));
}

TEST(AdmissionTest, AConnectionBeginsWithJoinOrCommand) {
  Daemon daemon;
  Peer peer(daemon);
  peer.Say(wire::Wait{});
  EXPECT_THAT(peer.Hear<wire::Refused>().reason, HasSubstr("begins with Join or Command, not Wait"));
  EXPECT_TRUE(peer.HearsEnd());
}

TEST(AdmissionTest, AJobCannotSpeakAsTheCoordinator) {
  Daemon daemon;
  Peer peer(daemon, {.name = "a"});
  peer.Hear<wire::Joined>();
  peer.Say(wire::Grant{.turn = 1});
  EXPECT_TRUE(peer.HearsEnd());
  ExpectServes(daemon);
}

TEST(AdmissionTest, AnotherUsersPeerIsTurnedAwayNamingBoth) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can play another user";
  Daemon daemon;
  chmod(daemon.dir().c_str(), 0711);  // what keeps other users away before they are asked who they are
  chmod(daemon.socket().c_str(), 0666);
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t other = Spawn([&] {
    HOCKET_CHECK(setuid(65534) == 0) << "cannot become another user";
    const std::string reason = Peer(daemon).Hear<wire::Refused>().reason;
    HOCKET_CHECK(write(ends[1], reason.data(), reason.size()) > 0) << "nobody reads";
  });
  char reason[256] = {};
  EXPECT_GT(read(ends[0], reason, sizeof(reason) - 1), 0);
  EXPECT_THAT(reason, HasSubstr("serves uid 0, not uid 65534"));
  EXPECT_THAT(daemon.Ask("logs").value()["tail"].get<std::string>(),
              HasSubstr("of uid 65534 was turned away: this daemon serves uid 0"));
  KillAndReap(other);
  ExpectServes(daemon);
}

TEST(AdmissionTest, APageThatIsNoPageIsRefused) {
  Daemon daemon;
  Peer peer(daemon);
  UniqueFd null(open("/dev/null", O_RDWR));
  peer.Say(wire::Join{.device = "gpu0", .capacity = 1}, null.get());
  EXPECT_THAT(peer.Hear<wire::Refused>().reason, HasSubstr("seals"));
}

// --- peers that do not behave ---------------------------------------------------------------------

TEST(HostileTest, GarbageEndsOnlyItsOwnConnection) {
  Daemon daemon;
  Peer good(daemon, {.name = "good"});
  good.Hear<wire::Joined>();
  good.Say(wire::Wait{});
  good.Hear<wire::Grant>();
  for (const std::string& garbage : {std::string("x"), std::string(12, '\0'), std::string(70'000, 'y'),
                                     wire::Encode(wire::Join{}).value().substr(0, 40)}) {
    Peer bad(daemon);
    SendRaw(bad, garbage);
    EXPECT_TRUE(bad.HearsEnd());
  }
  EXPECT_EQ(JobNamed(daemon, "good")["state"], "holds");
  EXPECT_THAT(daemon.Ask("logs").value()["tail"].get<std::string>(), HasSubstr("this packet has 1"));
}

TEST(HostileTest, GarbageFromAHolderPassesItsTurnOn) {
  Daemon daemon;
  Peer bad(daemon, {.name = "bad"});
  Peer good(daemon, {.name = "good"});
  bad.Say(wire::Wait{});
  bad.Hear<wire::Grant>();
  good.Say(wire::Wait{});
  SendRaw(bad, "garbage");
  EXPECT_TRUE(good.Hear<wire::Grant>().fresh_arena);
  EXPECT_EQ(JobNamed(daemon, "bad")["state"], "gone");
}

TEST(HostileTest, ProtocolBreakersAreNamedInTheLog) {
  Daemon daemon;
  Peer bad(daemon, {.name = "bad"});
  bad.Say(wire::Wait{});
  bad.Say(wire::Wait{});
  EXPECT_TRUE(bad.HearsEnd());
  EXPECT_THAT(daemon.Ask("logs").value()["tail"].get<std::string>(),
              HasSubstr("Wait from bad, which has the turn"));
}

TEST(HostileTest, JoiningTwiceOnOneConnectionEndsIt) {
  Daemon daemon;
  Peer bad(daemon, {.name = "bad"});
  bad.Hear<wire::Joined>();
  bad.Say(wire::Join{.device = "gpu0", .capacity = 1});
  EXPECT_TRUE(bad.HearsEnd());
}

TEST(HostileTest, WhoNeverReadsIsDroppedAndNobodyElseNotices) {
  Daemon daemon;
  Peer talker(daemon, {.name = "talker"});
  Peer deaf(daemon, {.name = "deaf"});
  talker.Hear<wire::Joined>();
  talker.Say(wire::Wait{});
  talker.Hear<wire::Grant>();
  UniqueFd chunk(memfd_create("chunk", MFD_CLOEXEC));
  auto flood = [&](uint64_t id, const wire::Message& message, int fd) {
    absl::Status sent;  // the daemon's queue may be full for a moment: ask it something to wait for it
    while (absl::IsResourceExhausted(sent = talker.channel().Send(message, fd))) (void)daemon.Ask("version");
    EXPECT_TRUE(sent.ok()) << sent << " at chunk " << id;
  };
  for (uint64_t id = 1; id <= 4000; ++id) {
    flood(id, wire::ArenaGrew{.chunk = id, .size = 1}, id % 100 == 0 ? chunk.get() : -1);
    flood(id, wire::ArenaLost{.chunk = id}, -1);
  }
  EXPECT_TRUE(deaf.HearsEnd());
  EXPECT_EQ(JobNamed(daemon, "talker")["state"], "holds");
  EXPECT_THAT(daemon.Ask("logs").value()["tail"].get<std::string>(),
              HasSubstr("it does not read: 4096 messages wait"));
}

// --- deaths ---------------------------------------------------------------------------------------

TEST(ServerDeathTest, AHolderThatIsKilledPassesTheTurnOn) {
  Daemon daemon;
  Peer b(daemon, {.name = "b"});
  b.Hear<wire::Joined>();
  const pid_t holder = Spawn([&] {
    static Peer a(daemon, {.name = "a"});
    a.Say(wire::Wait{});
    a.Hear<wire::Grant>();
  });
  b.Say(wire::Wait{});
  EXPECT_EQ(JobNamed(daemon, "b")["state"], "waits");
  KillAndReap(holder);
  EXPECT_TRUE(b.Hear<wire::Grant>().fresh_arena);
  EXPECT_EQ(JobNamed(daemon, "a"), nullptr);
}

TEST(ServerDeathTest, AForkedChildThatKeepsTheSocketOpenDoesNotKeepTheTurn) {
  Daemon daemon;
  Peer b(daemon, {.name = "b"});
  int grandchild[2];
  ASSERT_EQ(pipe(grandchild), 0);
  const pid_t holder = Spawn([&] {
    static Peer a(daemon, {.name = "a"});
    a.Say(wire::Wait{});
    a.Hear<wire::Grant>();
    const pid_t child = fork();  // a data loader's worker: it inherits the connection
    if (child == 0) {
      while (true) pause();
    }
    ASSERT_EQ(write(grandchild[1], &child, sizeof(child)), static_cast<ssize_t>(sizeof(child)));
  });
  pid_t worker = 0;
  ASSERT_EQ(read(grandchild[0], &worker, sizeof(worker)), static_cast<ssize_t>(sizeof(worker)));
  b.Say(wire::Wait{});
  KillAndReap(holder);
  EXPECT_TRUE(b.Hear<wire::Grant>().fresh_arena);
  kill(worker, SIGKILL);
}

TEST(ServerDeathTest, AProcessThatComesBackIsOneJobAndNotTwo) {
  Daemon daemon;
  {
    Peer first(daemon, {.name = "a"});
    first.Hear<wire::Joined>();
  }
  Peer second(daemon, {.name = "a"});
  EXPECT_EQ(second.Hear<wire::Joined>().name, "a");
  EXPECT_EQ(daemon.Ask("status").value()["jobs"].size(), 1u);
}

// The daemon may see the new connection before the end of the old one.
TEST(ServerDeathTest, AJobThatComesBackBeforeItsOldConnectionEndsIsOneJob) {
  Daemon daemon;
  Peer first(daemon, {.name = "a"});
  const auto id = first.Hear<wire::Joined>().job;
  first.Say(wire::Report{.persistent = 60});
  daemon.Ask("set", {{"job", "a"}, {"weight", 3}}).value();
  Peer second(daemon, {.name = "a", .rejoin = true, .job = id, .persistent = 50});
  const auto joined = second.Hear<wire::Joined>();
  EXPECT_EQ(joined.job, id);
  EXPECT_EQ(joined.name, "a");
  EXPECT_TRUE(first.HearsEnd());
  const Json status = daemon.Ask("status").value();
  EXPECT_EQ(status["jobs"].size(), 1u) << status;
  EXPECT_EQ(status["jobs"][0]["weight"], 3);
  EXPECT_EQ(status["devices"][0]["free"], 950) << "its bytes count once";
}

TEST(ServerDeathTest, AHolderThatComesBackBeforeItsOldConnectionEndsKeepsItsTurn) {
  Daemon daemon;
  Peer first(daemon, {.name = "a"});
  const auto id = first.Hear<wire::Joined>().job;
  first.Say(wire::Wait{});
  const auto turn = first.Hear<wire::Grant>().turn;
  Peer b(daemon, {.name = "b"});
  b.Say(wire::Wait{});
  first.Hear<wire::Yield>();
  Peer second(daemon, {.name = "a", .rejoin = true, .job = id, .holds_turn = true, .turn = turn});
  EXPECT_EQ(second.Hear<wire::Yield>().turn, turn);
  second.Say(wire::TurnOver{.turn = turn});
  const auto grant = b.Hear<wire::Grant>();
  EXPECT_EQ(grant.turn, turn + 1);
  EXPECT_FALSE(grant.fresh_arena);
}

// --- the daemon's own life ------------------------------------------------------------------------

TEST(LifeTest, WithoutJobsItEndsAfterItsGrace) {
  Daemon daemon({"--grace-seconds", "0.05"});
  daemon.AwaitEnd();
  EXPECT_FALSE(std::filesystem::exists(daemon.socket()));
}

TEST(LifeTest, ItEndsAfterTheLastJobHasLeft) {
  Daemon daemon({"--grace-seconds", "0.2"});
  const pid_t job = Spawn([&] {
    static Peer a(daemon, {.name = "a"});
    a.Hear<wire::Joined>();
  });
  KillAndReap(job);
  daemon.AwaitEnd();
  EXPECT_TRUE(std::filesystem::is_empty(daemon.dir() + "/jobs"));
}

TEST(LifeTest, ASecondOneLeavesTheFirstAlone) {
  Daemon daemon;
  const int first = daemon.pid();
  EXPECT_EQ(daemon.Start().first, 0) << "what a starter wants is there";
  EXPECT_EQ(daemon.pid(), first);
  const auto [status, text] = daemon.Start({"--foreground"});
  EXPECT_EQ(status, 1);
  EXPECT_THAT(text, HasSubstr("a coordinator runs already in " + daemon.dir()));
}

TEST(LifeTest, AStaleSocketIsReplaced) {
  Daemon daemon;
  daemon.Kill(SIGKILL);
  ASSERT_TRUE(std::filesystem::exists(daemon.socket()));
  EXPECT_EQ(daemon.Ask("version").status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(daemon.Start().first, 0);
  ExpectServes(daemon);
  EXPECT_THAT(daemon.Ask("logs").value()["tail"].get<std::string>(),
              HasSubstr("replaces " + daemon.socket() + ", which a coordinator that was killed"));
}

TEST(LifeTest, AfterAKillTheHolderKeepsItsTurnAndTheOthersWait) {
  Daemon daemon;
  Peer a(daemon, {.name = "a"});
  Peer b(daemon, {.name = "b"});
  const auto ida = a.Hear<wire::Joined>().job, idb = b.Hear<wire::Joined>().job;
  a.Say(wire::Wait{});
  const auto turn = a.Hear<wire::Grant>().turn;
  daemon.Kill(SIGKILL);
  EXPECT_TRUE(a.HearsEnd());
  ASSERT_EQ(daemon.Start().first, 0);
  Peer b2(daemon, {.name = "b", .rejoin = true, .job = idb});
  b2.Say(wire::Wait{});
  Peer a2(daemon, {.name = "a", .rejoin = true, .job = ida, .holds_turn = true, .turn = turn});
  EXPECT_EQ(a2.Hear<wire::Joined>().job, ida);
  EXPECT_EQ(a2.Hear<wire::Yield>().turn, turn);
  a2.Say(wire::TurnOver{.turn = turn});
  EXPECT_EQ(b2.Hear<wire::Grant>().turn, turn + 1);
}

TEST(LifeTest, WhatPeopleHaveSetIsKeptWhenTheDaemonIsKilled) {
  Daemon daemon;
  Peer a(daemon, {.name = "a"});
  const auto id = a.Hear<wire::Joined>().job;
  daemon.Ask("set", {{"job", "a"}, {"weight", 2.5}, {"priority", "low"}, {"total_steps", 70}}).value();
  daemon.Ask("pause", {{"job", "a"}}).value();
  daemon.Ask("policy", {{"name", "srtf"}}).value();
  daemon.Ask("switch-share", {{"share", 0.1}}).value();
  daemon.Kill(SIGKILL);
  ASSERT_EQ(daemon.Start().first, 0);
  Peer a2(daemon, {.name = "a", .rejoin = true, .job = id});
  a2.Hear<wire::Joined>();
  a2.Say(wire::Wait{});
  const Json job = JobNamed(daemon, "a");
  EXPECT_EQ(job["state"], "paused");
  EXPECT_EQ(job["weight"], 2.5);
  EXPECT_EQ(job["priority"], "low");
  EXPECT_EQ(job["total_steps"], 70);
  const Json status = daemon.Ask("status").value()["daemon"];
  EXPECT_EQ(status["policy"], "srtf");
  EXPECT_EQ(status["switch_share"], 0.1);
  EXPECT_EQ(daemon.Ask("resume", {{"job", "a"}}).value()["state"], "holds");
  daemon.Kill(SIGKILL);
  ASSERT_EQ(daemon.Start({"--policy=fifo"}).first, 0);
  EXPECT_EQ(daemon.Ask("policy").value()["policy"], "fifo") << "a flag of its own comes first";
  Peer a3(daemon, {.name = "a", .rejoin = true, .job = id});
  a3.Hear<wire::Joined>();
  EXPECT_EQ(JobNamed(daemon, "a")["state"], "idle") << "resumed";
}

TEST(LifeTest, AJobThatDiedWithTheDaemonIsNotWaitedFor) {
  Daemon daemon;
  const pid_t job = Spawn([&] {
    static Peer a(daemon, {.name = "a"});
    a.Hear<wire::Joined>();
  });
  daemon.Kill(SIGKILL);
  KillAndReap(job);
  ASSERT_EQ(daemon.Start().first, 0);
  ExpectServes(daemon);
  EXPECT_EQ(daemon.Ask("status").value()["jobs"].size(), 1u) << "the probe's, until its process ends";
}

TEST(LifeTest, FlagsThatMakeNoSenseAreRefusedWithASentence) {
  Daemon daemon;
  EXPECT_THAT(daemon.Start({"--polcy=fair"}).second, HasSubstr("'--polcy=fair' is not a flag"));
  EXPECT_THAT(daemon.Start({"--policy=lottery"}).second,
              HasSubstr("The policies are: fair, fifo, priority, round-robin, srtf"));
  EXPECT_THAT(daemon.Start({"--switch-share=0"}).second, HasSubstr("above 0 and up to 1"));
  EXPECT_THAT(daemon.Start({"--grace-seconds=soon"}).second, HasSubstr("'soon' is no number"));
  EXPECT_THAT(daemon.Start({"--log-level=loud"}).second, HasSubstr("The levels are"));
  EXPECT_THAT(daemon.Start({"--runtime-dir", "/tmp/hocketd-test-no/such/folder"}).second,
              HasSubstr("cannot create the folder"));
  EXPECT_EQ(daemon.Start({"--policy"}).first, 2);
}

// --- commands -------------------------------------------------------------------------------------

TEST(CommandTest, UnknownNamesListTheKnownOnes) {
  Daemon daemon;
  Peer a(daemon, {.name = "resnet"});
  a.Hear<wire::Joined>();
  EXPECT_THAT(std::string(daemon.Ask("dance").status().message()),
              HasSubstr("The commands are: explain, jobs, logs"));
  EXPECT_THAT(std::string(daemon.Ask("policy", {{"name", "lottery"}}).status().message()),
              HasSubstr("The policies are: fair"));
  EXPECT_THAT(std::string(daemon.Ask("pause", {{"job", "bert"}}).status().message()),
              HasSubstr("there is no job 'bert'. The jobs are: resnet."));
  EXPECT_THAT(std::string(daemon.Ask("set", {{"job", "resnet"}, {"weight", -2}}).status().message()),
              HasSubstr("weight -2"));
  EXPECT_THAT(std::string(daemon.Ask("set", {{"job", "resnet"}, {"weight", "x"}}).status().message()),
              HasSubstr("a number"));
  EXPECT_THAT(std::string(daemon.Ask("set", {{"job", "resnet"}, {"total_steps", -1}}).status().message()),
              HasSubstr("0 or more"));
  EXPECT_THAT(std::string(daemon.Ask("turns", {{"since", -1}}).status().message()), HasSubstr("0 or more"));
}

TEST(CommandTest, PauseResumeSetPolicyAndExplainAnswerWithWhatIsNow) {
  Daemon daemon;
  Peer a(daemon, {.name = "a"});
  const auto id = a.Hear<wire::Joined>().job;
  EXPECT_EQ(daemon.Ask("pause", {{"job", "a"}}).value()["state"], "paused");
  EXPECT_THAT(daemon.Ask("explain", {{"job", id}}).value()["why"].get<std::string>(),
              HasSubstr("hocket resume a"));
  a.Say(wire::Wait{});
  EXPECT_EQ(daemon.Ask("resume", {{"job", "a"}}).value()["state"], "holds");
  EXPECT_EQ(daemon.Ask("set", {{"job", "a"}, {"weight", 3}, {"priority", "low"}}).value()["priority"], "low");
  EXPECT_EQ(daemon.Ask("policy", {{"name", "fifo"}}).value()["policy"], "fifo");
  EXPECT_EQ(daemon.Ask("policy").value()["policies"].size(), 5u);
  EXPECT_EQ(daemon.Ask("switch-share", {{"share", 0.1}}).value()["share"], 0.1);
}

TEST(CommandTest, ANameMeansTheJobThatRunsAndNotOneThatIsGone) {
  Daemon daemon;
  Peer first(daemon, {.name = "a", .device = "gpu0"});
  const auto gone = first.Hear<wire::Joined>().job;
  first.Say(wire::Leave{.keeps_running = true});
  Peer second(daemon, {.name = "a", .device = "gpu1"});
  const auto runs = second.Hear<wire::Joined>().job;
  EXPECT_EQ(daemon.Ask("pause", {{"job", "a"}}).value()["id"], runs);
  EXPECT_EQ(daemon.Ask("explain", {{"job", "a"}}).value()["state"], "paused");
  EXPECT_EQ(daemon.Ask("set", {{"job", "a"}, {"weight", 2}}).value()["id"], runs);
  EXPECT_EQ(daemon.Ask("resume", {{"job", "a"}}).value()["id"], runs);
  EXPECT_EQ(daemon.Ask("explain", {{"job", gone}}).value()["state"], "gone");
}

TEST(CommandTest, WhatIsMeasuredOfAJobIsShownAndRememberedAfterItsDeath) {
  Daemon daemon;
  const pid_t job = Spawn([&] {
    Peer a(daemon, {.name = "a", .device = "gpu0", .capacity = 100});
    a.Hear<wire::Joined>();
    for (std::uint64_t steps : {4, 8}) {
      a.Say(wire::Wait{});
      const auto turn = a.Hear<wire::Grant>().turn;
      a.Say(wire::TurnOver{.turn = turn, .steps = steps, .turn_steps = 4});
    }
    a.Say(wire::Wait{});
    a.Hear<wire::Grant>();
  });
  EXPECT_EQ(daemon.Ask("set", {{"job", "a"}, {"total_steps", 80}}).value()["total_steps"], 80);
  const Json shown = JobNamed(daemon, "a");
  EXPECT_GT(shown["measured"]["step"]["mean_ms"], 0);
  EXPECT_GE(shown["slowdown"], 1);
  EXPECT_GT(shown["to_go_s"], 0);
  EXPECT_FALSE(shown["overdue"]);
  EXPECT_EQ(daemon.Ask("jobs").value()["jobs"].size(), 1u);
  KillAndReap(job);
  ExpectServes(daemon);
  const Json jobs = daemon.Ask("jobs").value()["jobs"];
  ASSERT_EQ(jobs.size(), 2u) << jobs;  // and the probe
  EXPECT_EQ(jobs[0]["name"], "a");
  EXPECT_EQ(jobs[0]["steps"], 8);
  EXPECT_EQ(jobs[0]["told_steps"], 80);
}

TEST(CommandTest, StopRefusesWhileJobsTakeTurnsUnlessForced) {
  Daemon daemon;
  Peer a(daemon, {.name = "a"});
  a.Hear<wire::Joined>();
  EXPECT_THAT(std::string(daemon.Ask("stop").status().message()), HasSubstr("1 job(s) take turns here (a)"));
  EXPECT_TRUE(daemon.Ask("stop", {{"force", true}}).ok());
  daemon.AwaitEnd();
  EXPECT_FALSE(std::filesystem::exists(daemon.socket()));
}

TEST(CommandTest, TurnsArePagedAndLongAnswersComeInParts) {
  Daemon daemon;
  Peer a(daemon, {.name = "a"});
  a.Hear<wire::Joined>();
  for (int i = 0; i < 1100; ++i) {
    a.Say(wire::Wait{});
    a.Say(wire::TurnOver{.turn = a.Hear<wire::Grant>().turn, .steps = 1, .turn_steps = 1});
  }
  const Json page = daemon.Ask("turns").value();
  EXPECT_EQ(page["turns"].size(), 1000u);
  EXPECT_GT(page.dump().size(), wire::kMaxFrameSize);
  const Json rest = daemon.Ask("turns", {{"since", page["next"]}}).value();
  EXPECT_EQ(rest["turns"].size(), 100u);
  EXPECT_EQ(rest["turns"][0]["index"], 1000);
  EXPECT_EQ(rest["turns"][0]["name"], "a");
  EXPECT_EQ(rest["next"], rest["end"]);
}

}  // namespace
}  // namespace hocket::coordinator
