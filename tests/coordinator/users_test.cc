// A daemon that serves several users: what one's jobs and commands can see and do of another's. Real sockets;
// a peer of another user connects as that user, which the kernel tells the daemon.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/capability.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <optional>

#include "coordinator/core/events.h"
#include "csrc/base/check.h"
#include "csrc/base/process.h"
#include "csrc/wire/codec.h"
#include "tests/coordinator/daemon.h"

namespace hocket::coordinator {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using Json = nlohmann::json;

constexpr uid_t kAnn = 12345;
constexpr uid_t kBob = 12346;

// Whatever `what` connects is that user's.
template <typename What>
auto As(uid_t uid, What what) {
  HOCKET_CHECK(seteuid(uid) == 0) << "cannot become uid " << uid;
  struct Back {
    ~Back() { HOCKET_CHECK(seteuid(0) == 0) << "cannot become root again"; }
  } back;
  return what();
}

class UsersTest : public testing::Test {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "needs root, to be two users";
    daemon_.emplace(std::vector<std::string>{"--system"});
  }

  Peer Joins(uid_t uid, wire::Join join) {
    return As(uid, [&] { return Peer(*daemon_, std::move(join)); });
  }

  absl::StatusOr<Json> Asks(uid_t uid, const std::string& command, const Json& arguments = Json::object()) {
    return As(uid, [&] { return daemon_->Ask(command, arguments); });
  }

  std::string Refusal(uid_t uid, const std::string& command, const Json& arguments = Json::object()) {
    return std::string(Asks(uid, command, arguments).status().message());
  }

  std::optional<Daemon> daemon_;
};

// What a job hears until it is granted the turn, by name; `granted` is the Grant.
std::vector<std::string> HearsUntilGrant(Peer& peer, wire::Grant* granted = nullptr) {
  std::vector<std::string> heard;
  while (true) {
    auto received = peer.HearAny();
    HOCKET_CHECK(received.ok()) << received.status().message();
    heard.emplace_back(wire::NameOf(received->message));
    HOCKET_CHECK(!received->descriptor) << "a descriptor came with " << heard.back();
    if (auto* grant = std::get_if<wire::Grant>(&received->message)) {
      if (granted != nullptr) *granted = *grant;
      return heard;
    }
  }
}

TEST_F(UsersTest, EveryUserFindsTheSocketAndHasAFolderForHisLocksAlone) {
  struct stat info {};
  ASSERT_EQ(stat(daemon_->socket().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0666u);
  ASSERT_EQ(stat(daemon_->dir().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0755u);
  Peer ann = Joins(kAnn, {.name = "a"});
  const std::string lock = ann.Hear<wire::Joined>().lane_lock;
  EXPECT_EQ(lock, daemon_->dir() + "/users/12345/lane-gpu0-0.lock");
  ASSERT_EQ(stat((daemon_->dir() + "/users/12345").c_str(), &info), 0);
  EXPECT_EQ(info.st_uid, kAnn);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
  EXPECT_LT(As(kBob, [&] { return open(lock.c_str(), O_RDWR | O_CREAT, 0600); }), 0);
}

TEST_F(UsersTest, TwoUsersJobsPassTheTurnOn) {
  Peer ann = Joins(kAnn, {.name = "a"});
  Peer bob = Joins(kBob, {.name = "b"});
  ann.Say(wire::Wait{});
  const auto turn = ann.Hear<wire::Grant>().turn;
  bob.Say(wire::Wait{});
  EXPECT_TRUE(ann.Hear<wire::Yield>().now);
  ann.Say(wire::TurnOver{.turn = turn, .steps = 1, .turn_steps = 1});
  EXPECT_EQ(bob.Hear<wire::Grant>().turn, turn + 1);
}

TEST_F(UsersTest, NobodyGetsADescriptorOfAnotherUsersArena) {
  Peer ann = Joins(kAnn, {.name = "a"});
  Peer anns_other = Joins(kAnn, {.name = "a2"});
  Peer bob = Joins(kBob, {.name = "b"});
  anns_other.Hear<wire::Joined>();
  ann.Say(wire::Wait{});
  const auto turn = ann.Hear<wire::Grant>().turn;
  UniqueFd chunk(memfd_create("chunk", MFD_CLOEXEC));
  ann.Say(wire::ArenaGrew{.chunk = 7, .size = 64}, chunk.get());
  UniqueFd received;
  EXPECT_EQ(anns_other.Hear<wire::ArenaAdd>(&received).chunk, 7u);
  EXPECT_TRUE(received);
  bob.Say(wire::Wait{});
  ann.Hear<wire::Yield>();
  ann.Say(wire::TurnOver{.turn = turn, .steps = 1, .turn_steps = 1});
  wire::Grant grant;
  EXPECT_THAT(HearsUntilGrant(bob, &grant), ElementsAre("Joined", "Grant"));
  bob.Say(wire::ArenaGrew{.chunk = 7, .size = 64}, chunk.get());  // in a lane of its own: nobody is told
  bob.Say(wire::TurnOver{.turn = grant.turn, .steps = 1, .turn_steps = 1});
  anns_other.Say(wire::Wait{});
  EXPECT_THAT(HearsUntilGrant(anns_other), ElementsAre("Grant"));
}

// As one that comes back after a restart it says which lane it had, which turn, and what its number was.
TEST_F(UsersTest, WhoClaimsAnotherUsersLaneComesIntoOneOfItsOwn) {
  Peer ann = Joins(kAnn, {.name = "a"});
  const std::string lock = ann.Hear<wire::Joined>().lane_lock;
  ann.Say(wire::Wait{});
  ann.Hear<wire::Grant>();
  UniqueFd chunk(memfd_create("chunk", MFD_CLOEXEC));
  ann.Say(wire::ArenaGrew{.chunk = 7, .size = 64}, chunk.get());
  const JobId anns = (*Asks(kAnn, "status"))["jobs"][0]["id"];
  Peer bob = Joins(kBob, {.name = "b", .rejoin = true, .job = anns, .lane_lock = lock});
  const auto joined = bob.Hear<wire::Joined>();
  EXPECT_NE(joined.job, anns);
  EXPECT_THAT(joined.lane_lock, HasSubstr("/users/12346/"));
  bob.Say(wire::Wait{});
  const auto yield = ann.Hear<wire::Yield>();
  ann.Say(wire::TurnOver{.turn = yield.turn, .steps = 1, .turn_steps = 1});
  EXPECT_THAT(HearsUntilGrant(bob), ElementsAre("ArenaDrop", "Grant"));
}

TEST_F(UsersTest, AGangIsOneUsersThoughAnotherNamesItToo) {
  Peer rank0 = Joins(kAnn, {.name = "a"});
  Peer rank1 = Joins(kBob, {.name = "b"});
  rank0.Say(wire::Gang{.gang = "g", .rank = 0, .size = 2});
  rank1.Say(wire::Gang{.gang = "g", .rank = 1, .size = 2});
  rank1.Say(wire::Wait{});
  rank1.Hear<wire::Grant>();
  const Json gang = (*Asks(kAnn, "status"))["jobs"][0]["gang"];
  EXPECT_EQ(gang["size"], 2);
  EXPECT_EQ(gang["complete"], false);
}

TEST_F(UsersTest, AnIdThatIsAwaitedAfterARestartIsForItsOwnProcess) {
  Peer ann = Joins(kAnn, {.name = "a"});
  const JobId id = ann.Hear<wire::Joined>().job;
  ASSERT_TRUE(Asks(0, "status").ok());  // so it has been written down
  daemon_->Kill(SIGKILL);
  ASSERT_EQ(daemon_->Start({"--system"}).first, 0);
  pid_t thief = Spawn([&] {
    Peer bob = Joins(kBob, {.name = "b", .rejoin = true, .job = id});
    HOCKET_CHECK(bob.Hear<wire::Joined>().job != id) << "it got another's number";
  });
  Peer again = Joins(kAnn, {.name = "a", .rejoin = true, .job = id});
  EXPECT_EQ(again.Hear<wire::Joined>().job, id);
  KillAndReap(thief);
}

// --- what people may see and do -------------------------------------------------------------------

TEST_F(UsersTest, NothingButTheBytesAndTheUserIsSeenOfAnothersJob) {
  Peer ann =
      Joins(kAnn, {.name = "secret", .program = "python secret.py", .persistent = 300, .group = "secret"});
  Peer bob = Joins(kBob, {.name = "b"});
  EXPECT_EQ(bob.Hear<wire::Joined>().sharing_with, "a job of uid 12345");
  ann.Say(wire::Gang{.gang = "secret", .rank = 0, .size = 2});
  ann.Say(wire::Wait{});
  const auto turn = ann.Hear<wire::Grant>().turn;
  bob.Say(wire::Wait{});
  ann.Hear<wire::Yield>();
  const Json status = Asks(kBob, "status").value();
  EXPECT_THAT(status.dump(), AllOf(Not(HasSubstr("secret")), HasSubstr("a job of uid 12345")));
  EXPECT_EQ(status["devices"][0]["holder"], "a job of uid 12345");
  EXPECT_EQ(status["jobs"][0]["persistent"], 300);
  EXPECT_EQ(status["jobs"][0]["pid"], 0);
  EXPECT_THAT(Asks(kBob, "explain", {{"job", "b"}}).value()["why"],
              AllOf(HasSubstr("a job of uid 12345 has had the turn"), Not(HasSubstr("secret"))));
  ann.Say(wire::TurnOver{.turn = turn, .steps = 1, .turn_steps = 1});
  bob.Hear<wire::Grant>();
  for (const char* command : {"status", "turns", "spills", "jobs", "quota"})
    EXPECT_THAT(Asks(kBob, command).value().dump(), Not(HasSubstr("secret"))) << command;
  EXPECT_EQ(Asks(kBob, "turns").value()["turns"].size(), 1u);
  EXPECT_THAT(std::string(Asks(kBob, "history").status().message()), HasSubstr("only root may"));
  for (uid_t who : {kAnn, uid_t{0}})
    EXPECT_THAT(Asks(who, "turns").value().dump(), HasSubstr("secret")) << who;
}

TEST_F(UsersTest, AnothersJobCanNeitherBePausedNorChangedNorExplained) {
  Peer ann = Joins(kAnn, {.name = "a"});
  const std::string id = std::to_string(ann.Hear<wire::Joined>().job);
  for (const char* command : {"pause", "resume", "explain", "quota"}) {
    EXPECT_THAT(Refusal(kBob, command, {{"job", "a"}}), HasSubstr("there is no job 'a' of yours")) << command;
    EXPECT_THAT(Refusal(kBob, command, {{"job", id}}), HasSubstr("is uid 12345's: only that user, or root"))
        << command;
  }
  EXPECT_THAT(Refusal(kBob, "set", {{"job", id}, {"weight", 2}}), HasSubstr("only that user, or root"));
  EXPECT_EQ(Asks(kAnn, "pause", {{"job", "a"}}).value()["state"], "paused");
  EXPECT_EQ(Asks(0, "resume", {{"job", "a"}}).value()["state"], "idle");
}

TEST_F(UsersTest, WhatTakesFromOthersIsForRoot) {
  Peer ann = Joins(kAnn, {.name = "a"});
  ann.Hear<wire::Joined>();
  const std::vector<std::pair<std::string, Json>> for_root = {
      {"policy", {{"name", "fifo"}}},
      {"policy", {{"program", "/bin/sh"}}},
      {"policy", {{"bound", 0.1}}},
      {"policy", {{"link_bound", 0.1}}},
      {"policy", {{"switch_share", 0.5}}},
      {"switch-share", {{"share", 0.5}}},
      {"quota", {{"job", "a"}, {"time_guarantee", 0.5}}},
      {"quota", {{"job", "a"}, {"memory_guarantee", 100}}},
      {"quota", {{"user", kAnn}, {"time_cap", 0.5}}},
      {"quota", {{"user", kAnn}, {"weight", 3}}},
      {"quota", {{"group", "g"}, {"time_cap", 0.5}}},
      {"logs", Json::object()},
      {"stop", {{"force", true}}},
  };
  for (const auto& [command, arguments] : for_root)
    EXPECT_THAT(Refusal(kAnn, command, arguments), HasSubstr("only root may")) << command << arguments;
  EXPECT_EQ(Asks(kAnn, "policy").value()["policy"], "fair");
  EXPECT_EQ(Asks(kAnn, "quota", {{"job", "a"}, {"time_cap", 0.5}}).value()["quotas"][0]["time_cap"], 0.5);
  EXPECT_EQ(Asks(0, "policy", {{"name", "fifo"}}).value()["policy"], "fifo");
}

TEST_F(UsersTest, AUsersWeightIsRootsToSetAndOutlivesTheDaemon) {
  EXPECT_EQ(Asks(0, "quota", {{"user", kAnn}, {"weight", 2.5}}).value()["together"][0]["weight"], 2.5);
  EXPECT_THAT(Refusal(0, "quota", {{"user", kAnn}, {"weight", 0}}), HasSubstr("weight 0 is not allowed"));
  EXPECT_THAT(Refusal(0, "quota", {{"group", "1.g"}, {"weight", 2}}), HasSubstr("a weight is a user's"));
  daemon_->Kill(SIGKILL);
  ASSERT_EQ(daemon_->Start({"--system"}).first, 0);
  EXPECT_EQ(Asks(kAnn, "quota").value()["together"][0]["weight"], 2.5);
  EXPECT_EQ(Asks(0, "quota", {{"user", kAnn}, {"weight", nullptr}}).value()["together"][0]["weight"],
            nullptr);
}

TEST_F(UsersTest, NamesAndGroupsAreAUsersOwn) {
  Peer ann = Joins(kAnn, {.name = "train", .group = "team"});
  Peer bob = Joins(kBob, {.name = "train", .group = "team"});
  EXPECT_EQ(ann.Hear<wire::Joined>().name, "train");
  EXPECT_EQ(bob.Hear<wire::Joined>().name, "train");
  EXPECT_EQ(Asks(kBob, "explain", {{"job", "train"}}).value()["name"], "train");
  EXPECT_THAT(Refusal(0, "explain", {{"job", "train"}}),
              AllOf(HasSubstr("several users have a job 'train'"), HasSubstr("(uid 12346)")));
  const auto jobs_of = [&](const char* group) {
    return Asks(0, "quota", {{"group", group}, {"time_cap", 0.5}}).value()["together"][0]["jobs"];
  };
  EXPECT_EQ(jobs_of("12345.team").size(), 1u);
  EXPECT_THAT(Refusal(0, "quota", {{"group", "team"}}), HasSubstr("such as 1000.team"));
  EXPECT_EQ(Asks(kBob, "quota").value()["together"].size(), 0u);
  EXPECT_EQ(Asks(kAnn, "quota").value()["together"].size(), 1u);
}

TEST_F(UsersTest, WhatTheDaemonWritesIsRootsToRead) {
  Peer ann = Joins(kAnn, {.name = "a"});
  ann.Hear<wire::Joined>();
  Asks(0, "policy", {{"name", "fifo"}}).value();
  int files = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(daemon_->dir())) {
    if (!entry.is_regular_file()) continue;
    ++files;
    EXPECT_LT(As(kBob, [&] { return open(entry.path().c_str(), O_RDONLY); }), 0) << entry.path();
  }
  EXPECT_GE(files, 4) << "the log, the lock, the settings and a job";
}

// --- nobody uses the daemon up --------------------------------------------------------------------

TEST_F(UsersTest, AUserHasOnlySomeOfTheConnections) {
  daemon_->Kill(SIGKILL);
  const auto few_files = [] {
    const rlimit few{64, 64};
    HOCKET_CHECK(setrlimit(RLIMIT_NOFILE, &few) == 0) << "cannot have fewer files";
  };
  ASSERT_EQ(daemon_->Start({"--system"}, few_files).first, 0);
  std::vector<Peer> bobs;
  for (int i = 0; i < 4; ++i) {
    bobs.push_back(Joins(kBob, {.name = "b"}));
    bobs.back().Hear<wire::Joined>();
  }
  Peer one_more = As(kBob, [&] { return Peer(*daemon_); });
  EXPECT_THAT(one_more.Hear<wire::Refused>().reason, HasSubstr("4 of them of uid 12346: as many as it may"));
  Peer ann = Joins(kAnn, {.name = "a"});
  EXPECT_EQ(ann.Hear<wire::Joined>().name, "a");
}

TEST_F(UsersTest, WhoSaysNothingIsTurnedOutAndWhoHasJoinedMayBeSilent) {
  daemon_->Kill(SIGKILL);
  ASSERT_EQ(daemon_->Start({"--system", "--mute-seconds=1"}).first, 0);
  ASSERT_NE(daemon_->pid(), 0);
  kill(daemon_->pid(), SIGSTOP);  // when it sees the connection, all has been said there
  while (ReadProcess(daemon_->pid())->state != 'T') continue;
  Peer joined = As(kAnn, [&] {
    Peer peer(*daemon_);
    peer.Say(wire::Join{.name = "a", .device = "gpu0", .capacity = 1000});
    return peer;
  });
  kill(daemon_->pid(), SIGCONT);
  joined.Hear<wire::Joined>();
  Peer mute = As(kBob, [&] { return Peer(*daemon_); });
  EXPECT_THAT(mute.Hear<wire::Refused>().reason, HasSubstr("said nothing for 1s"));
  EXPECT_TRUE(mute.HearsEnd());
  joined.Say(wire::Wait{});
  EXPECT_GT(joined.Hear<wire::Grant>().turn, 0u);
}

TEST_F(UsersTest, WhoDoesNotReadAnswersGetsNoMore) {
  Peer bob = As(kBob, [&] { return Peer(*daemon_); });
  while (
      !absl::IsUnavailable(bob.channel().Send(wire::Command{.command = "status"}))) {  // until it is closed
  }
  ExpectServes(*daemon_);
}

// --- the daemon itself ----------------------------------------------------------------------------

TEST_F(UsersTest, ItNeedsNoMoreOfRootThanToGiveFoldersAway) {
  daemon_->Kill(SIGKILL);
  const auto only_chown = [] {
    for (int capability = 0; prctl(PR_CAPBSET_READ, capability) >= 0; ++capability) {
      HOCKET_CHECK(capability == CAP_CHOWN || prctl(PR_CAPBSET_DROP, capability) == 0) << capability;
    }
  };
  const auto [status, text] = daemon_->Start({"--system"}, only_chown);
  ASSERT_EQ(status, 0) << text;
  for (int times = 0; times < 2; ++times) {
    Peer ann = Joins(kAnn, {.name = "a"});
    Peer bob = Joins(kBob, {.name = "b"});
    EXPECT_EQ(ann.Hear<wire::Joined>().name, "a");
    EXPECT_EQ(bob.Hear<wire::Joined>().name, "b");
  }
}

TEST_F(UsersTest, ItsSocketStaysForTheNextOneUntilSomebodyStopsIt) {
  daemon_->Kill(SIGTERM);
  EXPECT_TRUE(std::filesystem::exists(daemon_->socket()));
  ASSERT_EQ(daemon_->Start({"--system"}).first, 0);
  EXPECT_EQ(Asks(0, "version").value()["system"], true);
  EXPECT_TRUE(Asks(0, "stop", {{"restart", true}}).ok());
  daemon_->AwaitEnd();
  EXPECT_TRUE(std::filesystem::exists(daemon_->socket()));
  ASSERT_EQ(daemon_->Start({"--system"}).first, 0);
  EXPECT_TRUE(Asks(0, "stop").ok());
  daemon_->AwaitEnd();
  EXPECT_FALSE(std::filesystem::exists(daemon_->socket()));
}

TEST(SystemDaemonTest, NeedsAFolderOfRootsAndSaysSo) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root, to give a folder away";
  Daemon other;
  other.Kill(SIGKILL);
  ASSERT_EQ(chown(other.dir().c_str(), kBob, static_cast<gid_t>(-1)), 0);
  const auto [status, text] = other.Start({"--system"});
  EXPECT_EQ(status, 1);
  EXPECT_THAT(text, HasSubstr("belongs to uid 12346 with mode 0700: it must be root's"));
}

}  // namespace
}  // namespace hocket::coordinator
