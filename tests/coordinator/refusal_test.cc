// The daemon over real sockets: who may not join, and peers that do not behave.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <limits>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/time/clock.h"
#include "csrc/base/check.h"
#include "csrc/base/process.h"
#include "csrc/wire/codec.h"
#include "tests/coordinator/daemon.h"

namespace hocket::coordinator {
namespace {

using testing::HasSubstr;
using testing::Not;

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

TEST(AdmissionTest, ALastWordWithSenselessNumbersEndsItsConnectionOnly) {
  Daemon daemon;
  Peer peer(daemon, {.name = "a"});
  peer.Hear<wire::Joined>();
  peer.Say(wire::Leave{.most_held = ~uint64_t{0}});
  EXPECT_TRUE(peer.HearsEnd());
  EXPECT_THAT(daemon.Ask("logs").value()["tail"].get<std::string>(), HasSubstr("most_held"));
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

// Each of its jobs is kept until it is dead, with a descriptor and a device of its own.
TEST(HostileTest, AProcessDoesNotJoinAndHangUpWithoutEnd) {
  Daemon daemon;
  daemon.Kill(SIGKILL);
  const auto few_files = [] {
    const rlimit few{64, 64};
    HOCKET_CHECK(setrlimit(RLIMIT_NOFILE, &few) == 0) << "cannot have fewer files";
  };
  ASSERT_EQ(daemon.Start({}, few_files).first, 0);
  const auto answer = [&](int device) {
    Peer peer(daemon, {.name = "a", .device = "gpu" + std::to_string(device)});
    return peer.HearAny().value().message;
  };
  for (int device = 0; device < 16; ++device)
    ASSERT_TRUE(std::holds_alternative<wire::Joined>(answer(device))) << device;
  const auto refused = answer(16);
  ASSERT_TRUE(std::holds_alternative<wire::Refused>(refused)) << wire::NameOf(refused);
  EXPECT_THAT(std::get<wire::Refused>(refused).reason, HasSubstr("has 16 jobs, 16 of them of uid"));
  EXPECT_THAT(std::get<wire::Refused>(refused).reason, HasSubstr("until its process ends"));
  EXPECT_EQ(daemon.Ask("status").value()["devices"].size(), 16u);
  EXPECT_TRUE(std::holds_alternative<wire::Joined>(answer(3))) << "it takes the place of its former one";
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
    flood(id, wire::ArenaGrew{.chunk = id, .size = 1}, chunk.get());
    flood(id, wire::ArenaLost{.chunk = id}, -1);
  }
  EXPECT_TRUE(deaf.HearsEnd());
  EXPECT_EQ(JobNamed(daemon, "talker")["state"], "holds");
  EXPECT_THAT(daemon.Ask("logs").value()["tail"].get<std::string>(),
              HasSubstr("it does not read: 4096 messages wait"));
}

// Descriptors that are on their way, and that nobody takes until they are given up.
class OnTheirWay {
 public:
  explicit OnTheirWay(int count) {
    HOCKET_CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends_) == 0) << "no sockets";
    wire::Channel from{UniqueFd(dup(ends_[0]))};
    UniqueFd one(memfd_create("one", MFD_CLOEXEC));
    for (int i = 0; i < count; ++i)
      HOCKET_CHECK(from.Send(wire::ArenaGrew{.chunk = 1, .size = 1}, one.get()).ok()) << i;
  }
  ~OnTheirWay() { GiveUp(); }
  void GiveUp() {
    for (int& end : ends_) UniqueFd(std::exchange(end, -1));
  }

 private:
  int ends_[2];
};

// A daemon without root's rights may have no more descriptors on their way than it may have open, where all
// counts that its user's programs have sent.
TEST(HostileTest, WhoLeavesDescriptorsUnreadDoesNotKeepTheDaemonBusyAndHearsAllInTheEnd) {
  if (geteuid() != 0) GTEST_SKIP() << "only root's rights let this test have more of them on their way";
  Daemon daemon;
  daemon.Kill(SIGKILL);
  const auto few_files = [] {
    const rlimit few{128, 128};
    HOCKET_CHECK(setrlimit(RLIMIT_NOFILE, &few) == 0) << "cannot have fewer files";
    for (int capability = 0; prctl(PR_CAPBSET_READ, capability) >= 0; ++capability)
      HOCKET_CHECK(prctl(PR_CAPBSET_DROP, capability) == 0) << capability;
  };
  ASSERT_EQ(daemon.Start({}, few_files).first, 0);
  // All of them can wait in the daemon.
  constexpr std::uint64_t kChunks = 20;
  constexpr std::size_t kDeaf = 4;
  Peer maker(daemon, {.name = "maker"});
  std::vector<Peer> deaf;
  for (std::size_t i = 0; i < kDeaf; ++i) deaf.emplace_back(daemon, wire::Join{.name = "deaf"});
  maker.Hear<wire::Joined>();
  maker.Say(wire::Wait{});
  maker.Hear<wire::Grant>();
  OnTheirWay others(200);
  UniqueFd chunk(memfd_create("chunk", MFD_CLOEXEC));
  for (std::uint64_t id = 1; id <= kChunks; ++id) {
    while (!maker.channel().Send(wire::ArenaGrew{.chunk = id, .size = 1}, chunk.get()).ok())
      ASSERT_TRUE(daemon.Ask("version").ok());
  }
  while (daemon.Ask("status").value()["devices"][0]["arena"] != kChunks) continue;
  EXPECT_GT(daemon.OpenDescriptors(), kDeaf * kChunks) << "all wait in the daemon";
  const absl::Time until = absl::Now() + absl::Seconds(60);
  bool rests = false;
  do rests = ReadProcess(daemon.pid())->state == 'S';
  while (!rests && absl::Now() < until);
  EXPECT_TRUE(rests);
  others.GiveUp();
  for (Peer& peer : deaf) {
    for (std::uint64_t id = 1; id <= kChunks; ++id) {
      UniqueFd received;
      EXPECT_EQ(peer.Hear<wire::ArenaAdd>(&received).chunk, id);
      EXPECT_TRUE(received) << id;
    }
  }
}

}  // namespace
}  // namespace hocket::coordinator
