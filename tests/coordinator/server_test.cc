// The daemon over real sockets: turns and deaths (life_test.cc: its own life; command_test.cc: what people
// ask of it; refusal_test.cc: peers that do not behave).
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <fstream>
#include <optional>
#include <thread>

#include "csrc/wire/codec.h"
#include "csrc/wire/shared_page.h"
#include "tests/coordinator/daemon.h"

namespace hocket::coordinator {
namespace {

using Json = nlohmann::json;

TEST(ServerTest, TwoJobsPassTheTurnOn) {
  Daemon daemon;
  Peer a(daemon, {.name = "a"});
  Peer b(daemon, {.name = "b"});
  EXPECT_EQ(a.Hear<wire::Joined>().name, "a");
  EXPECT_EQ(b.Hear<wire::Joined>().sharing_with, "a");
  a.Say(wire::Wait{});
  const auto turn = a.Hear<wire::Grant>().turn;
  b.Say(wire::Wait{});
  EXPECT_TRUE(a.Hear<wire::Yield>().now);
  a.Say(wire::TurnOver{.turn = turn, .steps = 1, .turn_steps = 1});
  EXPECT_EQ(b.Hear<wire::Grant>().turn, turn + 1);
}

// It has had the turn that it was passed before the daemon came to read anything; its messages are ready
// first.
TEST(ServerTest, TheEndOfATurnIsHeardBeforeWhatFollowsFromIt) {
  Daemon daemon;
  Peer a(daemon, {.name = "a"});
  Peer b(daemon, {.name = "b"});
  a.Say(wire::Wait{.number = 1, .heeds_pass = true});
  const auto turn = a.Hear<wire::Grant>().turn;
  b.Say(wire::Wait{.number = 1, .heeds_pass = true});
  const auto promise = b.Hear<wire::Grant>();
  ASSERT_NE(promise.pass, 0u);
  EXPECT_EQ(a.Hear<wire::Yield>().pass, promise.pass);
  kill(daemon.pid(), SIGSTOP);
  b.Say(wire::Report{});
  a.Say(wire::Report{});
  a.Say(wire::TurnOver{.turn = turn, .steps = 1, .turn_steps = 1, .passed = promise.pass});
  b.Say(wire::TurnOver{.turn = promise.turn, .steps = 1, .turn_steps = 1});
  b.Say(wire::Wait{.number = 2, .heeds_pass = true});
  kill(daemon.pid(), SIGCONT);
  const auto grant = b.Hear<wire::Grant>();
  EXPECT_GT(grant.turn, promise.turn);
  EXPECT_EQ(grant.pass, 0u);
}

// The daemon finds that nobody reads its Yield before it comes to read what that job has said.
TEST(ServerTest, WhoHasLeftIsHeardAlsoWhereSomethingIsToldToItFirst) {
  Daemon daemon;
  std::optional<Peer> a(std::in_place, daemon, wire::Join{.name = "a"});
  Peer b(daemon, {.name = "b"});
  a->Say(wire::Wait{.number = 1});
  const auto turn = a->Hear<wire::Grant>().turn;
  kill(daemon.pid(), SIGSTOP);
  b.Say(wire::Wait{.number = 1});
  a->Say(wire::TurnOver{.turn = turn, .steps = 3, .turn_steps = 3});
  a->Say(wire::Leave{});
  a.reset();
  kill(daemon.pid(), SIGCONT);
  b.Hear<wire::Grant>();
  const nlohmann::json ended = daemon.Ask("turns").value()["turns"].front();
  EXPECT_EQ(ended["name"], "a");
  EXPECT_EQ(ended["steps"], 3);
  EXPECT_FALSE(ended["died"]) << ended;
}

TEST(ServerTest, WhatWasSaidInTimeIsHeardHoweverLateItIsRead) {
  constexpr auto kMute = std::chrono::seconds(2);
  Daemon daemon({"--mute-seconds=2"});
  Peer other(daemon, {.name = "other"});
  Peer late(daemon);
  ASSERT_TRUE(daemon.Ask("version").ok()) << "it has taken the one before";
  kill(daemon.pid(), SIGSTOP);
  other.Say(wire::Report{});  // read first, and then it is seen who has said nothing
  late.Say(wire::Join{.name = "late", .device = "gpu0", .capacity = 1000});
  std::this_thread::sleep_for(kMute);  // that it passes while the daemon stands still is the test
  kill(daemon.pid(), SIGCONT);
  EXPECT_EQ(late.Hear<wire::Joined>().name, "late");
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

TEST(ServerTest, WhatAJobsAllocatorCountsIsShownInStatusAndExplain) {
  Daemon daemon;
  wire::SharedPage page = wire::SharedPage::Create().value();
  Peer a(daemon);
  a.Say(wire::Join{.name = "a", .device = "gpu0", .capacity = 100}, page.fd());
  a.Hear<wire::Joined>();
  EXPECT_EQ(JobNamed(daemon, "a")["allocator"], nullptr) << "it has made none in a step";
  uint64_t value = 1;
  for (auto* word :
       {&page.words().step_allocations, &page.words().planned_allocations,
        &page.words().deviating_allocations, &page.words().survived_total, &page.words().foreseen_total,
        &page.words().adopted, &page.words().adopted_last, &page.words().adopted_total})
    word->store(value++);
  const Json shown = {{"allocations", 1}, {"planned", 2}, {"deviated", 3},     {"survived", 4},
                      {"foreseen", 5},    {"adopted", 6}, {"adopted_last", 7}, {"adopted_total", 8}};
  EXPECT_EQ(JobNamed(daemon, "a")["allocator"], shown);
  const Json explained = daemon.Ask("explain", {{"job", "a"}}).value();
  EXPECT_EQ(explained["allocator"], shown);
  EXPECT_EQ(explained["moves"], JobNamed(daemon, "a")["moves"]);
}

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

TEST(ServerDeathTest, WhatAJobsLastWordTellsIsRememberedOfItsProgram) {
  Daemon daemon;
  const pid_t job = Spawn([&] {
    static Peer a(daemon, {.name = "a", .capacity = 1000});
    a.Say(wire::Wait{});
    a.Say(wire::TurnOver{.turn = a.Hear<wire::Grant>().turn, .steps = 1, .turn_steps = 1, .persistent = 10});
    a.Say(wire::Leave{.most_held = 700, .most_transient = 250});
  });
  KillAndReap(job);
  while (JobNamed(daemon, "a") != nullptr) continue;
  std::ifstream file(daemon.dir() + "/needs");
  std::string program, persistent, transient;
  file >> program >> persistent >> transient;
  EXPECT_EQ(persistent, "700");
  EXPECT_EQ(transient, "250");
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

}  // namespace
}  // namespace hocket::coordinator
