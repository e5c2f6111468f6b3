// What people ask of the daemon: each command of the control connection, its answer and its refusals.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "csrc/wire/codec.h"
#include "tests/coordinator/daemon.h"

namespace hocket::coordinator {
namespace {

using testing::HasSubstr;
using Json = nlohmann::json;

TEST(CommandTest, UnknownNamesListTheKnownOnes) {
  Daemon daemon;
  Peer a(daemon, {.name = "resnet"});
  a.Hear<wire::Joined>();
  EXPECT_THAT(std::string(daemon.Ask("dance").status().message()),
              HasSubstr("The commands are: explain, history, jobs, logs"));
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
  EXPECT_EQ(daemon.Ask("policy").value()["policies"].size(), 6u);
  EXPECT_EQ(daemon.Ask("switch-share", {{"share", 0.1}}).value()["share"], 0.1);
  EXPECT_EQ(daemon.Ask("policy", {{"name", "priority"}, {"bound", 0.05}}).value()["bound"], 0.05);
  EXPECT_THAT(std::string(daemon.Ask("policy", {{"name", "fair"}, {"bound", 1}}).status().message()),
              HasSubstr("a bound of 100 %"));
  EXPECT_EQ(daemon.Ask("policy").value()["policy"], "priority") << "an error changes nothing";
}

TEST(CommandTest, PolicyTakesTheSwitchShareWithTheRestOrNothing) {
  Daemon daemon;
  const auto set = daemon.Ask("policy", {{"name", "fifo"}, {"switch_share", 0.1}}).value();
  EXPECT_EQ(set["policy"], "fifo");
  EXPECT_EQ(set["switch_share"], 0.1);
  EXPECT_EQ(daemon.Ask("switch-share").value()["share"], 0.1);
  for (const Json& share : {Json(0), Json(1.5), Json(nullptr), Json("much")})
    EXPECT_FALSE(daemon.Ask("policy", {{"name", "fair"}, {"switch_share", share}}).ok()) << share;
  EXPECT_FALSE(daemon.Ask("policy", {{"name", "no"}, {"switch_share", 0.5}}).ok());
  EXPECT_FALSE(daemon.Ask("policy", {{"bound", 1}, {"switch_share", 0.5}}).ok());
  EXPECT_EQ(daemon.Ask("policy").value()["policy"], "fifo") << "an error changes nothing";
  EXPECT_EQ(daemon.Ask("policy").value()["switch_share"], 0.1) << "an error changes nothing";
}

TEST(CommandTest, PolicySetsByHowMuchBytesOfOthersMaySlowAHolderDown) {
  Daemon daemon;
  EXPECT_EQ(daemon.Ask("policy").value()["link_bound"], 0.02);
  EXPECT_EQ(daemon.Ask("policy", {{"link_bound", 0.05}}).value()["link_bound"], 0.05);
  EXPECT_EQ(daemon.Ask("policy", {{"link_bound", 1}}).value()["link_bound"], 1);
  for (const Json& nonsense : {Json(0), Json(-1), Json(1.5), Json("much")})
    EXPECT_FALSE(daemon.Ask("policy", {{"link_bound", nonsense}}).ok()) << nonsense;
  EXPECT_EQ(daemon.Ask("policy").value()["link_bound"], 1) << "an error changes nothing";
}

TEST(CommandTest, StatusShowsWhatMovesForOthersWhileOneHoldsTheTurn) {
  Daemon daemon;
  Peer a(daemon, {.name = "a", .capacity = 1_GiB, .heeds_restore = true});
  Peer b(daemon, {.name = "b", .capacity = 1_GiB, .heeds_restore = true});
  a.Hear<wire::Joined>();
  b.Hear<wire::Joined>();
  a.Say(wire::Report{.persistent = 256_MiB});
  b.Say(wire::Report{.spilled = 128_MiB});
  a.Say(wire::Wait{});
  a.Hear<wire::Grant>();
  EXPECT_TRUE(JobNamed(daemon, "a")["link"]["slowdown"].is_null());
  EXPECT_EQ(JobNamed(daemon, "a")["link"]["most"], 1);
  b.Say(wire::Wait{.need = 128_MiB, .movable = true, .spilled = 128_MiB});
  const auto order = b.Hear<wire::Restore>();
  EXPECT_EQ(order.bytes, 128_MiB);
  b.Say(wire::Restored{.request = order.request, .restored = 128_MiB, .persistent = 128_MiB});
  b.Say(wire::Report{.persistent = 128_MiB});
  while (JobNamed(daemon, "b")["persistent"] != 128_MiB) continue;
  const Json link = daemon.Ask("status").value()["devices"][0]["link"];
  EXPECT_EQ(link["beside_bytes"], 128_MiB);
  EXPECT_GT(link["beside_s"], 0);
  EXPECT_GT(link["bytes_per_s"], 0);
  EXPECT_GT(JobNamed(daemon, "a")["link"]["share"], 0);
  EXPECT_TRUE(JobNamed(daemon, "b")["link"]["share"].is_null());
}

TEST(CommandTest, PolicySetsHowManyRunTogetherAndWhatOthersDoBesideOneThatHangs) {
  Daemon daemon;
  EXPECT_EQ(daemon.Ask("policy").value()["together"], 4);
  EXPECT_EQ(daemon.Ask("policy").value()["overdue"], "wait");
  const Json set = daemon.Ask("policy", {{"name", "pack"}, {"together", 2}, {"overdue", "go-on"}}).value();
  EXPECT_EQ(set["policy"], "pack");
  EXPECT_EQ(set["together"], 2);
  EXPECT_EQ(set["overdue"], "go-on");
  for (const Json& nonsense : {Json(0), Json(-1), Json(2.5), Json(17)}) {
    EXPECT_THAT(std::string(daemon.Ask("policy", {{"together", nonsense}}).status().message()),
                HasSubstr("from 1 to 16"));
  }
  EXPECT_THAT(std::string(daemon.Ask("policy", {{"together", 3}, {"overdue", "end"}}).status().message()),
              HasSubstr("the others wait, or they go-on beside it"));
  EXPECT_EQ(daemon.Ask("policy").value()["together"], 2) << "an error changes nothing";
}

TEST(CommandTest, QuotaShowsSetsAndRemoves) {
  Daemon daemon;
  Peer a(daemon, {.name = "a"});
  const auto id = a.Hear<wire::Joined>().job;
  EXPECT_EQ(daemon.Ask("quota").value()["quotas"][0]["time_cap"], nullptr);
  const Json set = daemon.Ask("quota", {{"job", "a"}, {"time_cap", 0.25}}).value()["quotas"][0];
  EXPECT_EQ(set["job"], id);
  EXPECT_EQ(set["name"], "a");
  EXPECT_EQ(set["time_cap"], 0.25);
  EXPECT_EQ(set["time_used"], 0);
  EXPECT_EQ(JobNamed(daemon, "a")["quota"]["time_cap"], 0.25);
  for (const Json& cap : {Json(0), Json(-0.5), Json(1.01)}) {
    EXPECT_THAT(std::string(daemon.Ask("quota", {{"job", "a"}, {"time_cap", cap}}).status().message()),
                HasSubstr("0.1 % to 100 %, such as 25 %"));
  }
  EXPECT_THAT(std::string(daemon.Ask("quota", {{"job", "a"}, {"time_cap", "x"}}).status().message()),
              HasSubstr("a number"));
  EXPECT_THAT(std::string(daemon.Ask("quota", {{"job", "b"}}).status().message()),
              HasSubstr("there is no job 'b'. The jobs are: a."));
  EXPECT_EQ(daemon.Ask("quota").value()["quotas"][0]["time_cap"], 0.25) << "an error changes nothing";
  daemon.Ask("quota", {{"job", "a"}, {"time_cap", nullptr}}).value();
  EXPECT_EQ(JobNamed(daemon, "a")["quota"]["time_cap"], nullptr);
}

TEST(CommandTest, MemoryIsLimitedAndGuaranteedWithinWhatThereIs) {
  Daemon daemon;
  Peer a(daemon, {.name = "a", .device = "gpu0", .capacity = 16 << 20, .heeds_limit = true});
  Peer b(daemon, {.name = "b", .device = "gpu0", .capacity = 16 << 20});
  Peer cpu(daemon);
  cpu.Say(wire::Join{.name = "c", .device = "cpu"});
  for (Peer* peer : {&a, &b, &cpu}) peer->Hear<wire::Joined>();
  const auto error = [&](const std::string& command, Json arguments) {
    return std::string(daemon.Ask(command, std::move(arguments)).status().message());
  };
  EXPECT_EQ(daemon.Ask("set", {{"job", "a"}, {"memory_limit", 8 << 20}}).value()["memory_limit"], 8 << 20);
  EXPECT_EQ(a.Hear<wire::Limit>().memory, 8u << 20);
  for (const Json& nonsense : {Json(0), Json(-1), Json("much"), Json(1.5)}) {
    EXPECT_THAT(error("set", {{"job", "a"}, {"memory_limit", nonsense}}), HasSubstr("give a size above 0"));
    EXPECT_THAT(error("quota", {{"job", "a"}, {"memory_guarantee", nonsense}}), HasSubstr("give a size"));
  }
  EXPECT_THAT(error("set", {{"job", "a"}, {"memory_limit", 17 << 20}}),
              HasSubstr("17.0 MiB for a is more than the 16.0 MiB of gpu0"));
  EXPECT_THAT(error("set", {{"job", "b"}, {"memory_limit", 8 << 20}}), HasSubstr("older than this one"));
  EXPECT_THAT(error("quota", {{"job", "c"}, {"memory_guarantee", 1}}), HasSubstr("does not manage"));
  EXPECT_THAT(error("quota", {{"job", "a"}, {"memory_guarantee", 9 << 20}}),
              HasSubstr("9.0 MiB for a is more than its memory limit of 8.0 MiB"));
  daemon.Ask("quota", {{"job", "a"}, {"memory_guarantee", 6 << 20}}).value();
  EXPECT_THAT(error("set", {{"job", "a"}, {"memory_limit", 5 << 20}}),
              HasSubstr("6.0 MiB for a is more than its memory limit of 5.0 MiB"));
  EXPECT_THAT(error("quota", {{"job", "b"}, {"memory_guarantee", 11 << 20}}),
              HasSubstr("gpu0 has 16.0 MiB, of which others are guaranteed 6.0 MiB"));
  const Json both = {{"job", "a"}, {"memory_cap", 4 << 20}, {"memory_guarantee", 4 << 20}};
  const Json quota = daemon.Ask("quota", both).value()["quotas"][0];
  EXPECT_EQ(quota["memory_cap"], 4 << 20);
  EXPECT_EQ(quota["memory_guarantee"], 4 << 20);
  EXPECT_EQ(a.Hear<wire::Limit>().memory, 4u << 20);
  daemon.Ask("quota", {{"job", "a"}, {"memory_cap", nullptr}, {"memory_guarantee", nullptr}}).value();
  EXPECT_EQ(a.Hear<wire::Limit>().memory, 0u);
}

TEST(CommandTest, TimeIsGuaranteedUpToAllThereIs) {
  Daemon daemon;
  Peer a(daemon, {.name = "a"});
  Peer b(daemon, {.name = "b", .group = "vision"});
  for (Peer* peer : {&a, &b}) peer->Hear<wire::Joined>();
  const auto error = [&](Json arguments) {
    return std::string(daemon.Ask("quota", std::move(arguments)).status().message());
  };
  const Json quota = daemon.Ask("quota", {{"job", "a"}, {"time_guarantee", 0.6}}).value()["quotas"][0];
  EXPECT_EQ(quota["time_guarantee"], 0.6);
  EXPECT_EQ(quota["owed_s"], 0);
  EXPECT_EQ(quota["time_used"], 0);
  EXPECT_THAT(error({{"job", "a"}, {"time_guarantee", 0}}), HasSubstr("0.1 % to 100 %, such as 25 %"));
  EXPECT_THAT(
      error({{"job", "b"}, {"time_guarantee", 0.5}}),
      HasSubstr("a time guarantee of 50 % for b cannot be kept: others are guaranteed 60 % of the same "
                "device. Give at most 40 %"));
  EXPECT_THAT(error({{"job", "a"}, {"time_cap", 0.5}}),
              HasSubstr("a time guarantee of 60 % for a is more than its time cap of 50 %"));
  EXPECT_EQ(JobNamed(daemon, "a")["quota"]["time_cap"], nullptr) << "an error changes nothing";
  EXPECT_THAT(error({{"group", "vision"}, {"time_guarantee", 0.5}}),
              HasSubstr("50 % for group vision cannot be kept"));
  daemon.Ask("quota", {{"group", "vision"}, {"time_guarantee", 0.4}}).value();
  EXPECT_THAT(error({{"user", 7}, {"time_guarantee", 0.1}}), HasSubstr("others are guaranteed 100 %"));
  daemon.Ask("quota", {{"job", "a"}, {"time_guarantee", nullptr}}).value();
  EXPECT_EQ(JobNamed(daemon, "a")["quota"]["time_guarantee"], nullptr);
  daemon.Ask("quota", {{"user", 7}, {"time_guarantee", 0.6}}).value();
}

TEST(CommandTest, WhatAJobThatHasHungUpWasGuaranteedIsOthersToHave) {
  Daemon daemon;
  Peer b(daemon, {.name = "b"});
  b.Hear<wire::Joined>();
  {
    Peer a(daemon, {.name = "a"});
    a.Hear<wire::Joined>();
    daemon.Ask("quota", {{"job", "a"}, {"time_guarantee", 0.6}}).value();
    EXPECT_FALSE(daemon.Ask("quota", {{"job", "b"}, {"time_guarantee", 0.5}}).ok());
  }
  while (JobNamed(daemon, "a")["state"] != "gone") continue;  // its process lives
  EXPECT_EQ(daemon.Ask("quota", {{"job", "b"}, {"time_guarantee", 0.5}}).status(), absl::OkStatus());
}

TEST(CommandTest, GroupsAndUsersHaveQuotasTogether) {
  Daemon daemon;
  Peer a(daemon, {.name = "a", .device = "gpu0", .capacity = 1000, .group = "vision"});
  Peer b(daemon, {.name = "b", .device = "gpu0", .capacity = 1000});
  for (Peer* peer : {&a, &b}) peer->Hear<wire::Joined>();
  EXPECT_EQ(JobNamed(daemon, "a")["group"], "vision");
  daemon.Ask("set", {{"job", "b"}, {"group", "vision"}}).value();
  EXPECT_EQ(JobNamed(daemon, "b")["group"], "vision");
  const Json set =
      daemon
          .Ask("quota",
               {{"group", "vision"}, {"time_cap", 0.5}, {"time_guarantee", 0.25}, {"memory_guarantee", 600}})
          .value()["together"][0];
  EXPECT_EQ(set["kind"], "group");
  EXPECT_EQ(set["name"], "vision");
  EXPECT_EQ(set["time_cap"], 0.5);
  EXPECT_EQ(set["time_guarantee"], 0.25);
  EXPECT_EQ(set["memory_guarantee"], 600);
  EXPECT_EQ(set["jobs"], Json({"a", "b"}));
  EXPECT_EQ(set["devices"][0]["owed_s"], 0);
  const auto error = [&](const std::string& command, Json arguments) {
    return std::string(daemon.Ask(command, std::move(arguments)).status().message());
  };
  EXPECT_THAT(error("quota", {{"job", "a"}, {"memory_guarantee", 500}}),
              HasSubstr("others are guaranteed 600 B"));
  EXPECT_THAT(error("quota", {{"user", 7}, {"memory_guarantee", 500}}),
              HasSubstr("others are guaranteed 600 B"));
  EXPECT_THAT(error("quota", {{"group", "vision"}, {"memory_cap", 5}}),
              HasSubstr("a memory guarantee of 600 B for group vision is more than its memory cap of 5 B"));
  EXPECT_THAT(error("quota", {{"group", "vision"}, {"memory_cap", 0}}), HasSubstr("give a size above 0"));
  for (const char* const key : {"memory_cap", "memory_guarantee"}) {
    EXPECT_THAT(error("quota", {{"user", 7}, {key, Bytes{1} << 50}}), HasSubstr("and below 1.0 PiB"))
        << "it would be lost with the next start";
  }
  EXPECT_EQ(set["memory_cap"], nullptr);
  const Json capped = daemon.Ask("quota", {{"group", "vision"}, {"memory_cap", 700}}).value()["together"][0];
  EXPECT_EQ(capped["memory_cap"], 700);
  EXPECT_EQ(capped["memory_guarantee"], 600) << "kept";
  EXPECT_THAT(error("quota", {{"group", "two words"}, {"time_cap", 0.5}}),
              HasSubstr("'two words' is no name of a group: groups have names of letters"));
  EXPECT_THAT(error("quota", {{"user", "root"}}), HasSubstr("'user' is a uid"));
  EXPECT_THAT(error("set", {{"job", "a"}, {"group", "/"}}), HasSubstr("'/' is no name of a group"));
  daemon.Ask("set", {{"job", "b"}, {"group", nullptr}}).value();
  EXPECT_EQ(daemon.Ask("quota").value()["together"][0]["jobs"], Json({"a"}));
  daemon.Ask("quota", {{"group", "vision"}, {"time_cap", nullptr}, {"time_guarantee", nullptr}}).value();
  daemon.Ask("quota", {{"group", "vision"}, {"memory_guarantee", nullptr}}).value();
  EXPECT_EQ(daemon.Ask("quota").value()["together"][0]["memory_cap"], 700);
  daemon.Ask("quota", {{"group", "vision"}, {"memory_cap", nullptr}}).value();
  EXPECT_EQ(daemon.Ask("quota").value()["together"], Json::array());
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

TEST(CommandTest, TheTimeWithTheTurnIsShownWhileItLasts) {
  Daemon daemon;
  Peer a(daemon, {.name = "a", .device = "gpu0", .capacity = 100});
  a.Hear<wire::Joined>();
  EXPECT_EQ(JobNamed(daemon, "a")["held_s"], 0);
  EXPECT_TRUE(JobNamed(daemon, "a")["turn_s"].is_null());
  a.Say(wire::Wait{});
  const auto turn = a.Hear<wire::Grant>().turn;
  const Json first = JobNamed(daemon, "a");
  const Json then = JobNamed(daemon, "a");
  EXPECT_GT(first["turn_s"], 0);
  EXPECT_EQ(first["held_s"], first["turn_s"]);
  EXPECT_GT(then["turn_s"], first["turn_s"]);
  a.Say(wire::TurnOver{.turn = turn, .steps = 1, .turn_steps = 1});
  a.Say(wire::Wait{});
  a.Hear<wire::Grant>();
  const Json second = JobNamed(daemon, "a");
  EXPECT_GT(second["held_s"], second["turn_s"]);
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
