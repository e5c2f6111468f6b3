// Holders that do not go on are named, with what to do, and nothing is done to them.
#include "coordinator/server/silence.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "tests/coordinator/daemon.h"

namespace hocket::coordinator {
namespace {

using testing::HasSubstr;

Job Holder() {
  Job job;
  job.info.name = "resnet";
  job.info.pid = static_cast<std::uint64_t>(getpid());
  job.turn = 1;
  job.granted = absl::FromUnixSeconds(100);
  return job;
}

wire::PageValues InStepSince(std::uint64_t second, std::uint64_t step_time_ns) {
  return {.step_time_ns = step_time_ns, .in_step = 1, .step_begun_ns = second * 1'000'000'000};
}

TEST(SilenceTest, AStepThatTakesTenTimesAsLongAsTheOthersIsNamedWithBothNumbers) {
  const std::string why = WhySilent(Holder(), InStepSince(100, 2'000'000'000), absl::FromUnixSeconds(121));
  EXPECT_THAT(why, HasSubstr("has been in one step for 21.0 s; its steps take 2.0 s on average"));
  EXPECT_THAT(why, HasSubstr("pid " + std::to_string(getpid())));
}

TEST(SilenceTest, AStepOfUsualLengthIsNotNamed) {
  EXPECT_EQ(WhySilent(Holder(), InStepSince(100, 2'000'000'000), absl::FromUnixSeconds(119)), "");
}

TEST(SilenceTest, AShortStepIsGivenSomeSecondsAnyway) {
  EXPECT_EQ(WhySilent(Holder(), InStepSince(100, 1'000'000), absl::FromUnixSeconds(104)), "");
  EXPECT_NE(WhySilent(Holder(), InStepSince(100, 1'000'000), absl::FromUnixSeconds(106)), "");
}

// It stood aside in the midst of its step while others had theirs.
TEST(SilenceTest, AStepCountsFromTheTurnThatItGoesOnIn) {
  Job job = Holder();
  job.granted = absl::FromUnixSeconds(160);
  EXPECT_EQ(WhySilent(job, InStepSince(100, 1'000'000), absl::FromUnixSeconds(162)), "");
  EXPECT_THAT(WhySilent(job, InStepSince(100, 1'000'000), absl::FromUnixSeconds(170)),
              HasSubstr("for 10.0 s"));
}

TEST(SilenceTest, BetweenStepsNothingHangs) {
  wire::PageValues page = InStepSince(100, 1'000'000);
  page.in_step = 0;
  EXPECT_EQ(WhySilent(Holder(), page, absl::FromUnixSeconds(200)), "");
  EXPECT_EQ(WhySilent(Holder(), std::nullopt, absl::FromUnixSeconds(200)), "");
}

TEST(SilenceTest, AStoppedHolderIsNamedByStatusExplainAndTheLogUntilItGoesOn) {
  Daemon daemon;
  const pid_t holder = Spawn([&] {
    static Peer a(daemon, {.name = "a"});
    a.Say(wire::Wait{});
    a.Hear<wire::Grant>();
  });
  Peer b(daemon, {.name = "b"});
  b.Say(wire::Wait{});
  kill(holder, SIGSTOP);
  ASSERT_EQ(waitpid(holder, nullptr, WUNTRACED), holder);
  const std::string why = daemon.Ask("explain", {{"job", "a"}}).value()["why"];
  EXPECT_THAT(why, HasSubstr("pid " + std::to_string(holder) + " is stopped"));
  EXPECT_THAT(why, HasSubstr("kill -CONT"));
  EXPECT_EQ(daemon.Ask("status").value()["jobs"][1]["silent"], "");
  EXPECT_THAT(daemon.Ask("status").value()["jobs"][0]["silent"].get<std::string>(), HasSubstr("is stopped"));
  EXPECT_THAT(daemon.Ask("logs").value()["tail"].get<std::string>(),
              HasSubstr("a has the turn and does not answer: pid " + std::to_string(holder)));
  kill(holder, SIGCONT);
  ASSERT_EQ(waitpid(holder, nullptr, WCONTINUED), holder);
  EXPECT_EQ(daemon.Ask("status").value()["jobs"][0]["silent"], "");
  KillAndReap(holder);
  EXPECT_GT(b.Hear<wire::Grant>().turn, 0u);
}

}  // namespace
}  // namespace hocket::coordinator
