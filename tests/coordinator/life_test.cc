// The daemon's own life: its start and end, and what is kept over a kill.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <optional>
#include <thread>

#include "absl/time/clock.h"
#include "coordinator/core/limits.h"
#include "coordinator/recording/recording.h"
#include "coordinator/server/admission.h"
#include "coordinator/server/state_files.h"
#include "csrc/base/process.h"
#include "csrc/base/steady.h"
#include "csrc/base/unique_fd.h"
#include "tests/coordinator/daemon.h"
#include "tests/wire/busy_listener.h"

namespace hocket::coordinator {
namespace {

using testing::HasSubstr;
using testing::StartsWith;
using Json = nlohmann::json;

TEST(LifeTest, WithoutJobsItEndsAfterItsGrace) {
  Daemon daemon;
  daemon.Kill(SIGKILL);
  const auto [status, text] = daemon.Start({"--foreground", "--grace-seconds=0.05"});  // until it has ended
  EXPECT_EQ(status, 0) << text;
  EXPECT_THAT(text, HasSubstr("goodbye"));
  EXPECT_FALSE(std::filesystem::exists(daemon.socket()));
}

// Of its processor, in nanoseconds.
std::uint64_t Used(int pid) {
  std::uint64_t used = 0;
  std::ifstream("/proc/" + std::to_string(pid) + "/schedstat") >> used;
  return used;
}

// It asked for events again and again, and had waited for none: the longest time there is, and a millisecond,
// is less than none.
TEST(LifeTest, AnIdleOneRestsHoweverLongItMayWait) {
  const std::string grace = "--grace-seconds=1e17", mute = "--mute-seconds=1e17";
  for (const auto& flags : std::vector<std::vector<std::string>>{{grace}, {grace, mute}}) {
    Daemon daemon(flags);
    std::optional<Peer> says_nothing;
    if (flags.size() > 1) says_nothing.emplace(daemon);
    bool rests = false;
    ASSERT_GT(Used(daemon.pid()), 0u) << "this kernel does not count it";
    for (int looks = 0; looks < 50 && !rests; ++looks) {
      const std::uint64_t before = Used(daemon.pid());
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      rests = Used(daemon.pid()) == before;
    }
    EXPECT_TRUE(rests) << flags.back();
  }
}

TEST(LifeTest, ItEndsAfterTheLastJobHasLeft) {
  Daemon daemon({"--grace-seconds", "15"});  // longer than this process is kept from making the job
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

// As where a folder is tidied by age: nobody writes to that file.
TEST(LifeTest, ASecondOneLeavesTheFirstAloneAlsoWhenItsLocksFileIsGone) {
  Daemon daemon;
  const int first = daemon.pid();
  Peer a(daemon, {.name = "a"});
  a.Hear<wire::Joined>();
  ASSERT_TRUE(std::filesystem::remove(daemon.dir() + "/hocketd.lock"));
  EXPECT_EQ(daemon.Start().first, 0) << "what a starter wants is there";
  const int serves = daemon.pid();
  if (serves != first) kill(first, SIGKILL);
  ASSERT_EQ(serves, first);
  const auto [status, text] = daemon.Start({"--foreground"});
  EXPECT_EQ(status, 1);
  EXPECT_THAT(text, HasSubstr("a coordinator runs already in " + daemon.dir()));
  a.Say(wire::Wait{});
  EXPECT_GT(a.Hear<wire::Grant>().turn, 0u);
}

// systemd-tmpfiles asks so before it looks into a folder.
TEST(LifeTest, WhileItLivesItsFolderIsNotTidiedUpByAge) {
  Daemon daemon;
  const UniqueFd folder(open(daemon.dir().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const auto would_be_tidied = [&] { return flock(folder.get(), LOCK_EX | LOCK_NB) == 0; };
  EXPECT_FALSE(would_be_tidied());
  daemon.Kill(SIGTERM);
  EXPECT_TRUE(would_be_tidied());
}

// It waited for that one for ever.
TEST(LifeTest, ASecondOneLeavesOneAloneThatTakesNobodyIn) {
  Daemon daemon;
  daemon.Kill(SIGKILL);
  const wire::BusyListener busy(daemon.socket());
  ASSERT_TRUE(busy.full());
  const auto [status, text] = daemon.Start({"--foreground", "--grace-seconds=0.05"});
  EXPECT_EQ(status, 1);
  EXPECT_THAT(text, HasSubstr("a coordinator runs already in " + daemon.dir()));
}

// It leaves the folder in which it was started: what it kept later was to lie in another, or nowhere.
TEST(LifeTest, AFolderThatIsNamedRelativelyHasAllThatItKeeps) {
  Daemon daemon;
  daemon.Kill(SIGTERM);
  const std::filesystem::path folder = daemon.dir();
  ASSERT_EQ(daemon
                .Start({"--runtime-dir", folder.filename()},
                       [&] { std::filesystem::current_path(folder.parent_path()); })
                .first,
            0);
  ASSERT_TRUE(daemon.Ask("policy", {{"name", "srtf"}}).ok());
  Peer a(daemon, {.name = "a"});
  EXPECT_THAT(a.Hear<wire::Joined>().lane_lock, StartsWith(daemon.dir() + "/"));
  ASSERT_TRUE(daemon.Ask("version").ok());  // it has done all that belongs to the Join
  EXPECT_TRUE(std::filesystem::exists(folder / "settings"));
  EXPECT_TRUE(std::filesystem::exists(folder / "jobs/1"));
}

TEST(LifeTest, AStaleSocketIsReplaced) {
  Daemon daemon;
  daemon.Kill(SIGKILL);
  ASSERT_TRUE(std::filesystem::exists(daemon.socket()));
  EXPECT_EQ(daemon.Ask("version").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(daemon.Start().first, 0);
  ExpectServes(daemon);
  EXPECT_THAT(daemon.Ask("logs").value()["tail"].get<std::string>(),
              HasSubstr("replaces " + daemon.socket() + ", which a coordinator that was killed"));
}

TEST(LifeTest, LogsAlsoHasWhatWasSaidBeforeTheLogWasBegunAnew) {
  Daemon daemon;
  const std::string file = daemon.dir() + "/hocketd.log";
  std::ofstream(daemon.dir() + "/hocketd.1.log") << std::string(100'000, 'x') << "\nfirst\nsecond\n";
  const std::string tail = daemon.Ask("logs").value()["tail"];
  EXPECT_THAT(tail, testing::StartsWith("first\nsecond\n{"));
  EXPECT_GT(tail.size(), std::filesystem::file_size(file));
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
  const absl::Time before = SteadyNow();
  ASSERT_EQ(daemon.Start().first, 0);
  Peer b2(daemon, {.name = "b", .rejoin = true, .job = idb});
  b2.Say(wire::Wait{});
  Peer a2(daemon, {.name = "a", .rejoin = true, .job = ida, .holds_turn = true, .turn = turn});
  EXPECT_EQ(a2.Hear<wire::Joined>().job, ida);
  const bool was_awaited = SteadyNow() - before < kRejoinWindow;  // if not, b may have had the turn meanwhile
  EXPECT_EQ(a2.Hear<wire::Yield>().turn, turn);
  a2.Say(wire::TurnOver{.turn = turn});
  const auto next = b2.Hear<wire::Grant>().turn;
  if (was_awaited) {
    EXPECT_EQ(next, turn + 1);
  }
}

TEST(LifeTest, WhoCameBackInTimeIsHeardBeforeTimeIsUp) {
  Daemon daemon;
  Peer a(daemon, {.name = "a"});
  Peer b(daemon, {.name = "b"});
  const auto ida = a.Hear<wire::Joined>().job;
  const auto idb = b.Hear<wire::Joined>().job;
  a.Say(wire::Wait{});
  const auto turn = a.Hear<wire::Grant>().turn;
  daemon.Kill(SIGKILL);
  const absl::Time before = SteadyNow();
  ASSERT_EQ(daemon.Start().first, 0);
  kill(daemon.pid(), SIGSTOP);
  const bool in_time = SteadyNow() - before < kRejoinWindow;   // if not, b may have the turn
  Peer b2(daemon), third(daemon), fourth(daemon), a2(daemon);  // taken in one by one while b is heard
  b2.Say(wire::Join{.name = "b", .device = "gpu0", .capacity = 1000, .rejoin = true, .job = idb});
  b2.Say(wire::Wait{});
  a2.Say(wire::Join{.name = "a",
                    .device = "gpu0",
                    .capacity = 1000,
                    .rejoin = true,
                    .job = ida,
                    .holds_turn = true,
                    .turn = turn});
  absl::SleepFor(kRejoinWindow);  // that it passes while the daemon stands still is the test
  kill(daemon.pid(), SIGCONT);
  EXPECT_EQ(a2.Hear<wire::Joined>().job, ida);
  EXPECT_EQ(a2.Hear<wire::Yield>().turn, turn);
  a2.Say(wire::TurnOver{.turn = turn});
  const auto next = b2.Hear<wire::Grant>().turn;
  if (in_time) {
    EXPECT_EQ(next, turn + 1);
  }
}

TEST(LifeTest, WhatPeopleHaveSetIsKeptWhenTheDaemonIsKilled) {
  Daemon daemon;
  Peer a(daemon, {.name = "a"});
  const auto id = a.Hear<wire::Joined>().job;
  daemon.Ask("set", {{"job", "a"}, {"weight", 2.5}, {"priority", "low"}, {"total_steps", 70}}).value();
  daemon.Ask("pause", {{"job", "a"}}).value();
  daemon.Ask("policy", {{"name", "srtf"}}).value();
  daemon.Ask("switch-share", {{"share", 0.1}}).value();
  daemon.Ask("policy", {{"bound", 0.05}, {"together", 3}, {"overdue", "go-on"}, {"link_bound", 0.07}})
      .value();
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
  EXPECT_EQ(status["production_bound"], 0.05);
  EXPECT_EQ(status["link_bound"], 0.07);
  EXPECT_EQ(status["most_together"], 3);
  EXPECT_EQ(status["overdue"], "go-on");
  EXPECT_EQ(daemon.Ask("resume", {{"job", "a"}}).value()["state"], "holds");
  daemon.Kill(SIGKILL);
  ASSERT_EQ(daemon.Start({"--policy=fifo"}).first, 0);
  EXPECT_EQ(daemon.Ask("policy").value()["policy"], "fifo") << "a flag of its own comes first";
  Peer a3(daemon, {.name = "a", .rejoin = true, .job = id});
  a3.Hear<wire::Joined>();
  EXPECT_EQ(JobNamed(daemon, "a")["state"], "idle") << "resumed";
}

// The daemon may answer us before it has read what the job said. A job that never waits: its last reason.
std::string WhyWhenItWaits(Daemon& daemon, const std::string& name) {
  Json job = JobNamed(daemon, name);
  for (int i = 0; i < 1000 && job["state"] != "waits"; ++i) job = JobNamed(daemon, name);
  return job["why"].get<std::string>();
}

// What a turn took that lasted while the daemon was away counts, too: here nearly all of it.
TEST(LifeTest, ATimeCapAndWhatWasHadOfItAreKeptWhenTheDaemonIsKilled) {
  Daemon daemon;
  Peer a(daemon, {.name = "a"});
  const auto id = a.Hear<wire::Joined>().job;
  daemon.Ask("quota", {{"job", "a"}, {"time_cap", 0.001}}).value();
  a.Say(wire::Wait{});
  const auto turn = a.Hear<wire::Grant>().turn;
  ASSERT_TRUE(daemon.Ask("version").ok());  // it has written down when the turn began
  daemon.Kill(SIGKILL);
  ASSERT_EQ(daemon.Start().first, 0);
  Peer a2(daemon, {.name = "a", .rejoin = true, .job = id, .holds_turn = true, .turn = turn});
  a2.Hear<wire::Joined>();
  EXPECT_TRUE(a2.Hear<wire::Yield>().now) << "it has had its time";
  a2.Say(wire::TurnOver{.turn = turn, .steps = 1, .turn_steps = 1});
  a2.Say(wire::Wait{});
  const std::string held_back = "its cap is 0.1 %; may go on in";
  EXPECT_THAT(WhyWhenItWaits(daemon, "a"), HasSubstr(held_back));
  daemon.Kill(SIGKILL);
  ASSERT_EQ(daemon.Start().first, 0);
  Peer a3(daemon, {.name = "a", .rejoin = true, .job = id});
  a3.Say(wire::Wait{});
  EXPECT_THAT(WhyWhenItWaits(daemon, "a"), HasSubstr(held_back));
  EXPECT_GT(daemon.Ask("quota").value()["quotas"][0]["may_go_on_in_s"], 0);
  daemon.Ask("quota", {{"job", "a"}, {"time_cap", nullptr}}).value();
  a3.Hear<wire::Grant>();
}

// Joins as "a", and has its lane's lock until it is killed.
pid_t JobInAStep(const Daemon& daemon) {
  return Spawn([&daemon] {
    auto* const a = new Peer(daemon, {.name = "a"});
    const std::string path = a->Hear<wire::Joined>().lane_lock;
    struct flock lock {};
    lock.l_type = F_WRLCK;
    lock.l_whence = SEEK_SET;
    if (fcntl(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600), F_SETLK, &lock) != 0) std::abort();
  });
}

// With "a" in a step, which does not report any more, and "b", which says this when it does.
wire::Join RestartsBeside(Daemon& daemon) {
  Peer b(daemon, {.name = "b"});
  const auto joined = b.Hear<wire::Joined>();
  daemon.Kill(SIGKILL);
  EXPECT_EQ(daemon.Start().first, 0);
  return {.name = "b", .rejoin = true, .job = joined.job, .lane_lock = joined.lane_lock};
}

// It is stopped, perhaps, in a step in which it waits for the one that would wait for its lock.
TEST(LifeTest, TheLockOfARankThatDoesNotReportAfterARestartIsNotWaitedForByAFellow) {
  Daemon daemon;
  const pid_t a = JobInAStep(daemon);
  wire::Join join = RestartsBeside(daemon);
  join.gang = "ddp";
  join.gang_rank = 1;
  join.gang_size = 2;
  Peer b(daemon, join);
  b.Say(wire::Wait{});
  EXPECT_EQ(b.Hear<wire::Grant>().lane_lock, daemon.dir() + "/lane-gpu0-1.lock");
  KillAndReap(a);
}

TEST(LifeTest, OneThatEndsAfterARestartIsNotWaitedForAndHasNoLock) {
  Daemon daemon;
  const pid_t a = JobInAStep(daemon);
  Peer b(daemon, RestartsBeside(daemon));
  b.Say(wire::Wait{});
  KillAndReap(a);
  EXPECT_EQ(b.Hear<wire::Grant>().lane_lock, "");
}

// Else a restarted daemon would take the files of all who join later for ones of nobody.
TEST(LifeTest, ANumberThatNobodyCanHaveHadIsNotKept) {
  Daemon daemon;
  Peer far(daemon, {.name = "far", .rejoin = true, .job = kMaxJobId - 1});
  EXPECT_LT(far.Hear<wire::Joined>().job, 1000u);
  Peer near(daemon, {.name = "near", .rejoin = true, .job = 70'000});  // its file could not be written
  EXPECT_EQ(near.Hear<wire::Joined>().job, 70'000u);
  const JobId id = kMaxJobId - 7;
  StateFiles(daemon.dir(), daemon.dir())
      .Write({.id = id, .pid = getpid(), .process_start = ReadProcess(getpid())->start});
  Peer known(daemon, {.name = "known", .rejoin = true, .job = id});
  EXPECT_EQ(known.Hear<wire::Joined>().job, id);
}

// Two processes may begin in the same tick of the clock.
TEST(LifeTest, WhatIsSetOfAJobIsOfItsProcessOnly) {
  Daemon daemon;
  JobFile file{.id = 7, .pid = daemon.pid(), .process_start = ReadProcess(getpid())->start};
  file.settings = JobSettings{.weight = 5};
  StateFiles(daemon.dir(), daemon.dir()).Write(file);
  Peer another(daemon, {.name = "another", .rejoin = true, .job = 7});
  EXPECT_NE(another.Hear<wire::Joined>().job, 7u);
  EXPECT_EQ(JobNamed(daemon, "another")["weight"], 1);
  file.pid = getpid();
  StateFiles(daemon.dir(), daemon.dir()).Write(file);
  Peer own(daemon, {.name = "own", .rejoin = true, .job = 7});
  EXPECT_EQ(own.Hear<wire::Joined>().job, 7u);
  EXPECT_EQ(JobNamed(daemon, "own")["weight"], 5);
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

// The driver gives its memory back some time after; nobody has told the new daemon of it.
TEST(LifeTest, MemoryOfAJobThatDiedWithTheDaemonMayComeBack) {
  Daemon daemon;
  const pid_t job = Spawn([&] {
    static Peer a(daemon, {.name = "a"});
    a.Hear<wire::Joined>();
  });
  EXPECT_EQ(JobNamed(daemon, "a")["state"], "idle");  // the daemon is through with its Join
  daemon.Kill(SIGKILL);
  KillAndReap(job);
  ASSERT_EQ(daemon.Start().first, 0);
  Peer b(daemon, {.name = "b"});
  b.Say(wire::Wait{});
  b.Hear<wire::Grant>();
  b.Say(wire::NeedRoom{.bytes = 1});
  EXPECT_TRUE(b.Hear<wire::Room>().ok) << "try again";
}

TEST(LifeTest, FlagsThatMakeNoSenseAreRefusedWithASentence) {
  Daemon daemon;
  EXPECT_THAT(daemon.Start({"--polcy=fair"}).second, HasSubstr("'--polcy=fair' is not a flag"));
  EXPECT_THAT(daemon.Start({"--policy=lottery"}).second,
              HasSubstr("The policies are: fair, fifo, pack, priority, round-robin, srtf"));
  EXPECT_THAT(daemon.Start({"--switch-share=0"}).second, HasSubstr("above 0 and up to 1"));
  EXPECT_THAT(daemon.Start({"--grace-seconds=soon"}).second, HasSubstr("'soon' is no number"));
  EXPECT_THAT(daemon.Start({"--log-level=loud"}).second, HasSubstr("The levels are"));
  EXPECT_THAT(daemon.Start({"--runtime-dir", "/tmp/hocketd-test-no/such/folder"}).second,
              HasSubstr("cannot create the folder"));
  EXPECT_THAT(daemon.Start({"--history-size=1KiB"}).second, HasSubstr("1.0 MiB or more, or 0 for none"));
  EXPECT_THAT(daemon.Start({"--history-days=0"}).second, HasSubstr("more than 0"));
  EXPECT_THAT(daemon.Start({"--policy-patience-seconds=0"}).second, HasSubstr("is 0.001 to 3600"));
  EXPECT_EQ(daemon.Start({"--policy"}).first, 2);
}

TEST(LifeTest, GroupsAndWhatIsGuaranteedAreKeptWhenTheDaemonIsKilled) {
  Daemon daemon;
  Peer a(daemon, {.name = "a"});
  const auto id = a.Hear<wire::Joined>().job;
  daemon.Ask("quota", {{"job", "a"}, {"time_guarantee", 0.3}}).value();
  daemon.Ask("set", {{"job", "a"}, {"group", "vision"}}).value();
  daemon.Ask("quota", {{"group", "vision"}, {"time_cap", 0.5}, {"memory_guarantee", 600}}).value();
  daemon.Ask("quota", {{"group", "vision"}, {"memory_cap", 700}}).value();
  daemon.Ask("quota", {{"user", 7}, {"time_guarantee", 0.1}}).value();
  const Json before = daemon.Ask("quota").value()["together"];
  daemon.Kill(SIGKILL);
  ASSERT_EQ(daemon.Start().first, 0);
  Peer a2(daemon, {.name = "a", .rejoin = true, .job = id});
  a2.Hear<wire::Joined>();
  EXPECT_EQ(JobNamed(daemon, "a")["quota"]["time_guarantee"], 0.3);
  EXPECT_EQ(JobNamed(daemon, "a")["group"], "vision");
  const Json after = daemon.Ask("quota").value()["together"];
  ASSERT_EQ(after.size(), 2u);
  EXPECT_EQ(after[0]["name"], "vision");
  EXPECT_EQ(after[0]["time_cap"], 0.5);
  EXPECT_EQ(after[0]["memory_guarantee"], 600);
  EXPECT_EQ(after[0]["memory_cap"], 700);
  EXPECT_EQ(after[0]["jobs"], Json({"a"}));
  EXPECT_EQ(after[1]["uid"], 7);
  EXPECT_EQ(after[1]["time_guarantee"], 0.1);
}

TEST(LifeTest, WhatTheNextOneDoesNotTakeUpIsSaidInItsLog) {
  Daemon daemon;
  const Bytes most = kMaxBytes - 1;
  ASSERT_TRUE(daemon.Ask("quota", {{"user", 7}, {"memory_cap", most}, {"memory_guarantee", most}}).ok());
  daemon.Kill(SIGKILL);
  std::ofstream(daemon.dir() + "/settings", std::ios::app) << "quota group a 0.5 0 0 1125899906842624\n";
  ASSERT_EQ(daemon.Start().first, 0);
  const Json quotas = daemon.Ask("quota").value()["together"];
  ASSERT_EQ(quotas.size(), 1u) << quotas;
  EXPECT_EQ(quotas[0]["memory_cap"], most);
  EXPECT_EQ(quotas[0]["memory_guarantee"], most);
  EXPECT_THAT(daemon.Ask("logs").value()["tail"].get<std::string>(),
              HasSubstr("the line 'quota group a 0.5 0 0 1125899906842624' of " + daemon.dir() +
                        "/settings is not taken up"));
}

TEST(LifeTest, AMemoryGuaranteeIsKeptWhenTheDaemonIsKilled) {
  Daemon daemon;
  Peer a(daemon, {.name = "a", .device = "gpu0", .capacity = 1000});
  const auto id = a.Hear<wire::Joined>().job;
  daemon.Ask("quota", {{"job", "a"}, {"memory_guarantee", 70}}).value();
  daemon.Kill(SIGKILL);
  ASSERT_EQ(daemon.Start().first, 0);
  Peer a2(daemon, {.name = "a", .device = "gpu0", .capacity = 1000, .rejoin = true, .job = id});
  a2.Hear<wire::Joined>();
  EXPECT_EQ(JobNamed(daemon, "a")["quota"]["memory_guarantee"], 70);
}

// What has been recorded, when the daemon has written it down.
std::vector<std::uint64_t> Recorded(Daemon& daemon) {
  Json answer = daemon.Ask("history").value();
  const std::uint64_t wanted = answer["records"];
  while (answer["written"] < wanted) answer = daemon.Ask("history").value();
  struct : BlockVisitor {
    void OnTurn(std::uint64_t, const TurnEnded& turn) override { turns.push_back(turn.turn); }
    void OnJob(std::uint64_t, std::string_view, absl::Duration) override {}
    void OnLost(std::uint64_t) override {}
    std::vector<std::uint64_t> turns;
  } seen;
  EXPECT_EQ(Recording::Open(answer["folder"].get<std::string>()).value().Read(seen), 0);
  return seen.turns;
}

TEST(LifeTest, TurnsAreOnDiskAlsoThoseOfADaemonThatWasKilled) {
  Daemon daemon;
  const auto takes_turns = [&](int turns) {
    Peer a(daemon, {.name = "a"});
    a.Hear<wire::Joined>();
    for (int i = 0; i < turns; ++i) {
      a.Say(wire::Wait{});
      a.Say(wire::TurnOver{.turn = a.Hear<wire::Grant>().turn, .steps = 1, .turn_steps = 1});
    }
  };
  takes_turns(3);
  EXPECT_EQ(Recorded(daemon).size(), 3u);
  daemon.Kill(SIGKILL);
  daemon.Start();
  takes_turns(2);
  EXPECT_EQ(Recorded(daemon).size(), 5u);
  daemon.Kill(SIGTERM);
  daemon.Start({"--history-size=0"});
  EXPECT_TRUE(daemon.Ask("history").value()["folder"].is_null());
  takes_turns(1);
  EXPECT_EQ(daemon.Ask("turns").value()["turns"].size(), 1u);
}

// An orderly end writes what there is.
TEST(LifeTest, TheLastTurnsAreOnDiskWhenItHasEnded) {
  Daemon daemon;
  Peer a(daemon, {.name = "a"});
  a.Say(wire::Wait{});
  a.Say(wire::TurnOver{.turn = a.Hear<wire::Grant>().turn, .steps = 1, .turn_steps = 1});
  EXPECT_EQ(daemon.Ask("turns").value()["turns"].size(), 1u);
  daemon.Kill(SIGTERM);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(daemon.dir() + "/history"), {}), 1);
}

// A file where the folder should be.
TEST(LifeTest, AHistoryThatCannotBeWrittenIsSaidAndTurnsGoOn) {
  Daemon daemon({"--history-size=0"});
  daemon.Kill(SIGTERM);
  std::ofstream(daemon.dir() + "/history") << "mine";
  daemon.Start();
  Peer a(daemon, {.name = "a"});
  for (int i = 0; i < 3; ++i) {
    a.Say(wire::Wait{});
    a.Say(wire::TurnOver{.turn = a.Hear<wire::Grant>().turn, .steps = 1, .turn_steps = 1});
    Json answer = daemon.Ask("history").value();
    const std::uint64_t wanted = answer["records"];
    while (answer["lost"] < wanted) answer = daemon.Ask("history").value();
    EXPECT_THAT(answer["trouble"].get<std::string>(), HasSubstr("Not a directory"));
  }
  const std::string log = daemon.Ask("logs").value()["tail"];
  const size_t said = log.find("Turns are given as before");
  EXPECT_NE(said, std::string::npos) << log;
  EXPECT_EQ(log.find("Turns are given as before", said + 1), std::string::npos) << "once";
}

}  // namespace
}  // namespace hocket::coordinator
