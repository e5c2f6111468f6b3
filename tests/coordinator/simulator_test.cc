// The simulator: identities that hold for any batch, memory, order, files.
#include "coordinator/simulator/simulator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "coordinator/policies/registry.h"
#include "coordinator/simulator/cluster.h"
#include "coordinator/simulator/queue.h"
#include "coordinator/simulator/report.h"

namespace hocket::coordinator {
namespace {

using absl::Seconds;
using testing::HasSubstr;

SimulatedJob Sized(const std::string& name, std::uint64_t steps, double arrival_s = 0) {
  return {.name = name, .arrival_s = arrival_s, .steps = steps, .step_ms = 100};
}

double MeanCompletion(const SimulationResult& result) { return Report(result, 1, false)["mean_jct_s"]; }

// Sizes as different as real ones.
std::vector<SimulatedJob> Batch() {
  std::vector<SimulatedJob> jobs;
  std::uint64_t size = 7;
  for (int i = 0; i < 30; ++i) {
    size = size * 48271 % 65521;
    jobs.push_back(Sized(absl::StrCat("job", i), 20 + size % 2000));
  }
  return jobs;
}

TEST(SimulatorTest, AQueueRunsOneJobAfterTheOther) {
  const auto result = Simulate({Sized("a", 10), Sized("b", 20)}, {.policy = kQueue});
  EXPECT_EQ(result.jobs[0].end, Seconds(1));
  EXPECT_EQ(result.jobs[1].first_step, Seconds(1));
  EXPECT_EQ(result.jobs[1].end, Seconds(3));
  EXPECT_EQ(result.turns, 2u);
}

#if !defined(__SANITIZE_ADDRESS__)  // half a minute, for nothing that the short ones do not have
TEST(SimulatorTest, ForABatchFairTakesTwiceSrtfLessTheMeanSize) {
  const auto jobs = Batch();
  double mean = 0;
  for (const SimulatedJob& job : jobs) mean += static_cast<double>(job.steps) * 0.1 / 30;
  const double srtf = MeanCompletion(Simulate(jobs, {.policy = "srtf"}));
  const double fair = MeanCompletion(Simulate(jobs, {.policy = "fair"}));
  EXPECT_NEAR(fair / (2 * srtf - mean), 1, 0.005);
}
#endif

TEST(SimulatorTest, SrtfIsTheBestOrderOfABatch) {
  auto sizes = Batch();
  std::sort(sizes.begin(), sizes.end(), [](const auto& a, const auto& b) { return a.steps < b.steps; });
  double ideal = 0, now = 0;
  for (const SimulatedJob& job : sizes) ideal += (now += static_cast<double>(job.steps) * 0.1) / 30;
  EXPECT_NEAR(MeanCompletion(Simulate(Batch(), {.policy = "srtf"})) / ideal, 1, 0.01);
}

TEST(SimulatorTest, SrtfPreemptsForAShorterArrival) {
  const auto result =
      Simulate({Sized("long", 1000), Sized("short", 10, /*arrival_s=*/5)}, {.policy = "srtf"});
  EXPECT_LE(result.jobs[1].end, Seconds(6.2));
  EXPECT_LE(result.jobs[0].end, Seconds(101.1));
}

TEST(SimulatorTest, WhoIsAwayGivesItsTurnEarlierThanWhoseThreadWorksInThePause) {
  std::vector<SimulatedJob> jobs{Sized("loading", 400), Sized("long", 300)};
  jobs[0].step_ms = 12, jobs[0].gap_ms = 41;
  jobs[1].step_ms = 63, jobs[1].gap_ms = 15;
  const auto with = [&](bool away) {
    jobs[0].away = away;
    return Simulate(jobs, {.policy = "fair"}).makespan;
  };
  EXPECT_LT(with(true), with(false));
}

// --- beside each other

Pairs Beside(double share) { return {{"k", {{"k", share}}}}; }

std::vector<SimulatedJob> OfKind(int many, Bytes transient = 0) {
  std::vector<SimulatedJob> jobs;
  for (int i = 0; i < many; ++i) {
    jobs.push_back(Sized(absl::StrCat("job", i), 1000));
    jobs.back().kind = "k";
    jobs.back().transient = transient;
  }
  return jobs;
}

TEST(SimulatorTest, PackRunsJobsBesideEachOtherThatDoMoreSo) {
  const auto result = Simulate(OfKind(2), {.policy = "pack", .pairs = Beside(0.9)});
  EXPECT_GE(result.makespan, Seconds(100 / 0.9));
  EXPECT_LE(result.makespan, Seconds(100 / 0.9) * 1.03);
}

#if !defined(__SANITIZE_ADDRESS__)  // half a minute, for nothing that the short ones do not have
TEST(SimulatorTest, PackPartsThoseThatDoLess) {
  auto jobs = OfKind(2);
  for (SimulatedJob& job : jobs) job.steps = 20'000;
  const auto result = Simulate(jobs, {.policy = "pack", .pairs = Beside(0.3)});
  EXPECT_GE(result.makespan, Seconds(4000));
  EXPECT_LE(result.makespan, Seconds(4000) * 1.01);
}
#endif

TEST(SimulatorTest, EachRunsAtItsOwnShareBesideTheOther) {
  auto jobs = OfKind(2);
  for (SimulatedJob& job : jobs) job.steps = 100'000, job.gap_ms = 5;
  jobs[1].kind = "other";
  const Pairs pairs = {{"k", {{"other", 0.9}}}, {"other", {{"k", 0.6}}}};
  const auto result = Simulate(jobs, {.policy = "pack", .until = Seconds(3600), .pairs = pairs});
  EXPECT_NEAR(static_cast<double>(result.jobs[0].steps) / (3600 * 0.9 / 0.105), 1, 0.03);
  EXPECT_NEAR(static_cast<double>(result.jobs[1].steps) / (3600 * 0.6 / 0.105), 1, 0.03);
}

TEST(SimulatorTest, WhatItTakesAloneIsAllOfItAgainWhenTheOtherHasGone) {
  auto jobs = OfKind(2);
  jobs[1].steps = 500;
  const auto result = Simulate(jobs, {.policy = "pack", .pairs = Beside(0.8)});
  // Beside each other until the shorter one has ended, then 500 steps less what the longer was ahead.
  EXPECT_NEAR(absl::ToDoubleSeconds(result.makespan), 50 / 0.8 + 50, 3);
}

TEST(SimulatorTest, NoMoreRunTogetherThanIsSaid) {
  const auto with = [&](int together) {
    return absl::ToDoubleSeconds(
        Simulate(OfKind(3), {.policy = "pack", .together = together, .pairs = Beside(0.9)}).makespan);
  };
  EXPECT_NEAR(with(1), 300, 1);
  EXPECT_GE(with(2), 300 / 1.8);
  EXPECT_NEAR(with(2), 300 / 1.8, 13);          // equal steps end together
  EXPECT_NEAR(with(3), 100 / (0.9 * 0.9), 10);  // each at the product of its shares
}

TEST(SimulatorTest, WhoDoNotFitBesideEachOtherTakeTurns) {
  for (Bytes transient : {9_GiB, Bytes{0}}) {  // 0: nobody knows beforehand
    const double share = transient > 0 ? 0.9 : 0;
    const auto result = Simulate(OfKind(2, transient), {.policy = "pack", .pairs = Beside(share)});
    EXPECT_GE(result.makespan, Seconds(200)) << transient;
    EXPECT_LE(result.makespan, Seconds(200) * 1.01) << transient;
  }
  EXPECT_LE(Simulate(OfKind(2, 7_GiB), {.policy = "pack", .pairs = Beside(0.9)}).makespan, Seconds(120));
}

std::string Refusal(const std::string& text) {
  const std::string file = testing::TempDir() + "/refused.json";
  std::ofstream(file) << text;
  std::string words[] = {"hocketd simulate", file, "--policy=fair,pack"};
  char* arguments[] = {words[0].data(), words[1].data(), words[2].data()};
  testing::internal::CaptureStderr();
  testing::internal::CaptureStdout();
  const int status = SimulateMain(3, arguments);
  testing::internal::GetCapturedStdout();
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(status, said.empty() ? 0 : 1);
  return said;
}

TEST(SimulatorTest, PackIsRefusedWhereNothingSaysWhatJobsRunAtBesideEachOther) {
  EXPECT_THAT(Refusal("steps\n1\n"), HasSubstr("pack cannot be simulated"));
  EXPECT_THAT(Refusal("steps\n1\n"), HasSubstr("job '' has no kind"));
  EXPECT_THAT(Refusal("kind\na\nb\n"), HasSubstr("nothing says what 'a' runs at beside 'b'"));
  EXPECT_THAT(Refusal(R"({"jobs": [{"kind": "a"}, {"kind": "b"}], "pairs": {"a": {"b": 1}}})"),
              HasSubstr("what 'b' runs at beside 'a'"));
  EXPECT_EQ(Refusal(R"({"jobs": [{"kind": "a"}, {"kind": "b"}], "pairs": {"a": {"b": 1}, "b": {"a": 1}}})"),
            "");
}

TEST(SimulatorTest, NothingIsLostUnderAnyPolicy) {
  for (const PolicyEntry& policy : AllPolicies()) {
    std::vector<SimulatedJob> jobs = Batch();
#if defined(__SANITIZE_ADDRESS__)
    jobs.resize(8);
#endif
    for (size_t i = 0; i < jobs.size(); ++i) {
      jobs[i].arrival_s = static_cast<double>(i) * 3;
      jobs[i].gap_ms = static_cast<double>(i % 4) * 30;
      jobs[i].persistent = 3_GiB;
      if (i % 2 == 0) jobs[i].told_steps = 0;
      jobs[i].kind = "k";
    }
    const auto result = Simulate(
        jobs,
        {.policy = policy.name, .devices = 2, .hand_over = absl::Milliseconds(1), .pairs = Beside(0.7)});
    absl::Duration work;
    for (const SimulatedJob& job : jobs) work += absl::Milliseconds(100) * static_cast<int64_t>(job.steps);
    EXPECT_EQ(result.busy, work) << policy.name;
    for (const SimulatedEnd& job : result.jobs) EXPECT_GE(job.end - job.arrival, job.alone) << policy.name;
  }
}

// Those who have had much come behind it, and it behind nobody.
TEST(SimulatorTest, AJobOfUnknownSizeIsPlacedWhereTheFewestAreThatHaveNotHadMuch) {
  const auto unknown = [](const char* name, double arrival_h, double hours) {
    SimulatedJob job{.name = name, .arrival_s = arrival_h * 3600, .step_ms = 60'000};
    job.steps = static_cast<std::uint64_t>(hours * 60);
    job.told_steps = 0;
    return job;
  };
  const std::vector<SimulatedJob> jobs{unknown("long", 0, 40), unknown("over soon", 0, 1),
                                       unknown("long, too", 0.5, 40), unknown("young", 10.9, 10),
                                       unknown("new", 11, 1)};
  const auto result = Simulate(jobs, {.policy = "srtf", .devices = 2});
  const auto took = [&](size_t i) { return result.jobs[i].end - result.jobs[i].arrival; };
  EXPECT_LE(took(3), absl::Hours(10.05)) << "nobody came beside it";
  EXPECT_LE(took(4), absl::Hours(1.05)) << "beside the two long ones";
}

TEST(SimulatorTest, TheSameInputGivesTheSameResult) {
  std::vector<SimulatedJob> jobs = Batch();
#if defined(__SANITIZE_ADDRESS__)
  jobs.resize(8);
#endif
  const auto once = [&jobs] {
    return Report(Simulate(jobs, {.policy = "fair", .devices = 3}), 3, true).dump();
  };
  EXPECT_EQ(once(), once());
}

TEST(SimulatorTest, BytesThatDoNotFitMoveAndTurnsGrowSoThatItCostsLittle) {
  auto jobs = std::vector<SimulatedJob>{Sized("a", 2000), Sized("b", 2000)};
  for (SimulatedJob& job : jobs) job.persistent = 6_GiB;
  const SimulationOptions options{.policy = "fair", .capacity = 8_GiB, .link = 10e9};
  const auto result = Simulate(jobs, options);
  EXPECT_GT(result.moved, 8_GiB);
  EXPECT_LE(result.makespan, Seconds(400) * 1.05);
  EXPECT_GE(result.makespan, Seconds(400));
}

// What it is to make has never been spilled, so nobody keeps room for it but by what it asks for.
TEST(SimulatorTest, ANewJobMakesItsMemoryWhileOthersAreToComeBack) {
  const std::vector<SimulatedJob> jobs{
      {.name = "a", .steps = 300, .step_ms = 100, .persistent = 7_GiB},
      {.name = "b", .steps = 300, .step_ms = 100, .persistent = 7_GiB},
      {.name = "new", .arrival_s = 5, .steps = 300, .step_ms = 100, .persistent = 12_GiB},
  };
  for (const char* policy : {"fair", "fifo", "round-robin"}) {
    const auto result = Simulate(jobs, {.policy = policy, .until = Seconds(180)});
    for (const SimulatedEnd& end : result.jobs) EXPECT_LE(end.end, Seconds(90) * 1.05) << policy << end.name;
  }
}

TEST(SimulatorTest, StartUpsOverlapOthersTurnsOnAsManyCoresAsThereAre) {
  auto jobs = std::vector<SimulatedJob>{Sized("a", 100), Sized("b", 100), Sized("c", 100)};
  for (SimulatedJob& job : jobs) job.startup_s = 10;
  EXPECT_EQ(Simulate(jobs, {.policy = kQueue}).makespan, Seconds(40));
  EXPECT_EQ(Simulate(jobs, {.policy = kQueue, .starting = 1}).makespan, Seconds(40));
  jobs[0].steps = 10;
  EXPECT_EQ(Simulate(jobs, {.policy = kQueue, .starting = 1}).makespan, Seconds(40));
}

TEST(SimulatorTest, SeveralDevicesShareTheJobs) {
  const auto result =
      Simulate({Sized("a", 100), Sized("b", 100), Sized("c", 100)}, {.policy = kQueue, .devices = 3});
  EXPECT_EQ(result.makespan, Seconds(10));
}

TEST(SimulatorTest, PlainJobsStartUpWhereTheyFitAndNothingMoves) {
  auto jobs = std::vector<SimulatedJob>{Sized("a", 100), Sized("b", 100), Sized("c", 100)};
  for (SimulatedJob& job : jobs) job.persistent = 3_GiB, job.startup_s = 5;
  const auto result = Simulate(jobs, {.policy = "fifo", .capacity = 8_GiB, .plain = true});
  EXPECT_EQ(result.moved, 0u);
  EXPECT_EQ(result.peak, 6_GiB);
  EXPECT_NEAR(absl::ToDoubleSeconds(result.jobs[0].end), 5 + 20, 0.2);    // a and b take turns
  EXPECT_EQ(result.jobs[2].first_step, result.jobs[0].end + Seconds(5));  // c starts up when a is gone
  EXPECT_EQ(Simulate(jobs, {.policy = kQueue, .capacity = 8_GiB, .plain = true}).makespan, Seconds(3 * 15));
}

TEST(SimulatorTest, AJobWaitsUntilADeviceWorksOnFewerThanAtOnce) {
  auto jobs = std::vector<SimulatedJob>{Sized("a", 100), Sized("b", 100), Sized("c", 100), Sized("d", 100)};
  const auto result = Simulate(jobs, {.policy = "fair", .at_once = 2});
  EXPECT_LT(result.jobs[1].first_step, Seconds(1));
  EXPECT_GE(result.jobs[2].first_step, Seconds(19.5));
  EXPECT_EQ(result.makespan, Seconds(40));
}

// Two jobs whose gaps are as long as their steps, at once, need little more than the device time of both.
TEST(SimulatorTest, UnderSrtfJobsAtOnceFillEachOthersGaps) {
  auto jobs = std::vector<SimulatedJob>{Sized("a", 100), Sized("b", 100)};
  for (SimulatedJob& job : jobs) job.gap_ms = 100;
  EXPECT_GE(Simulate(jobs, {.policy = "srtf", .at_once = 1}).makespan, Seconds(39));
  EXPECT_LE(Simulate(jobs, {.policy = "srtf", .at_once = 2}).makespan, Seconds(30));
}

TEST(SimulatorTest, StepsOfASeriesTakeTheirOwnTimesOverAndOver) {
  SimulatedJob job = Sized("a", 5);
  job.step_series_ms = {100, 300};
  job.gap_ms = 50;
  const auto result = Simulate({job}, {.policy = "fair", .every = absl::Milliseconds(500)});
  EXPECT_EQ(result.jobs[0].end, absl::Milliseconds(100 + 300 + 100 + 300 + 100 + 4 * 50));
  EXPECT_EQ(result.busy, absl::Milliseconds(900));
  // Until 500 ms: the first two steps and two gaps; until 1 s: two steps more, three gaps, and nothing of the
  // last.
  EXPECT_THAT(result.jobs[0].served, testing::ElementsAre(absl::Milliseconds(400), absl::Milliseconds(800)));
}

TEST(SimulatorTest, EqualSharesWhereOnesStepsAreNoisy) {
  auto jobs = std::vector<SimulatedJob>{Sized("steady", 2000), Sized("noisy", 2000)};
  jobs[1].step_series_ms = {50, 400, 60, 90, 70, 200};
  const auto result = Simulate(jobs, {.policy = "fair", .until = Seconds(100), .every = Seconds(10)});
  for (size_t i = 1; i < result.jobs[0].served.size(); ++i) {
    const absl::Duration had = result.jobs[0].served[i] - result.jobs[0].served[i - 1];
    EXPECT_NEAR(absl::FDivDuration(had, Seconds(10)), 0.5, 0.05) << i;
  }
}

// Its turn often lasts into its gap, until the other one asks: that time is not counted twice.
TEST(SimulatorTest, AProductionJobIsDelayedByItsBoundAtMost) {
  const double step_ms = 110, gap_ms = 669;
  auto jobs = std::vector<SimulatedJob>{Sized("production", 1'000'000), Sized("other", 1'000'000)};
  jobs[0].priority = "high";
  jobs[0].step_ms = step_ms, jobs[0].gap_ms = gap_ms;
  jobs[1].step_ms = 59, jobs[1].gap_ms = 739;  // nearly as often: they meet for many steps in a row
  const auto result = Simulate(jobs, {.policy = "priority", .until = absl::Minutes(10)});
  const double alone = 600e3 / (step_ms + gap_ms);
  EXPECT_GE(static_cast<double>(result.jobs[0].steps), alone / 1.02 - 1);
  EXPECT_GE(static_cast<double>(result.jobs[1].steps), 0.9 * 600e3 / (59 + 739));
}

TEST(SimulatorTest, WhatHasNotEndedSaysItsStepsOnly) {
  const auto result = Simulate({Sized("a", 10), Sized("b", 100), Sized("late", 10, /*arrival_s=*/9)},
                               {.policy = kQueue, .until = Seconds(5.05)});
  EXPECT_EQ(result.jobs[0].end, Seconds(1));
  EXPECT_EQ(result.jobs[1].end, absl::InfiniteDuration());
  EXPECT_EQ(result.jobs[1].steps, 40u);
  EXPECT_EQ(result.jobs[2].steps, 0u);
  const auto report = Report(result, 1, /*each=*/true);
  EXPECT_EQ(report["mean_jct_s"], 1.0);
  EXPECT_EQ(report["ends"][1]["end_s"].dump(), "null");
  EXPECT_EQ(report["ends"][2]["first_step_s"].dump(), "null");
}

SimulatedJob GangOf(int devices, std::uint64_t steps, double arrival_s = 0) {
  SimulatedJob job = Sized(absl::StrCat("of", devices), steps, arrival_s);
  job.devices = devices;
  return job;
}

TEST(ClusterTest, SrtfGivesAllDevicesOfAGangOrNone) {
  // The short gang of two waits for no one; the one of two that is longer waits for both devices.
  const auto result = SimulateCluster({GangOf(1, 100), GangOf(2, 200), GangOf(2, 10, /*arrival_s=*/5)},
                                      {.policy = "srtf", .devices = 2, .nodes = 1});
  EXPECT_EQ(result.jobs[2].end, Seconds(6));
  EXPECT_EQ(result.jobs[0].end, Seconds(11));
  EXPECT_EQ(result.jobs[1].first_step, Seconds(11));
  EXPECT_EQ(result.makespan, Seconds(31));
}

TEST(ClusterTest, AGangStandsOnOneNodeOrOnWholeOnes) {
  // Three of two devices each on nodes of three: one a node, so the third waits, though two devices are free.
  const SimulationOptions options{.policy = "srtf", .devices = 3, .nodes = 2};
  EXPECT_EQ(SimulateCluster({GangOf(2, 100), GangOf(2, 100), GangOf(2, 100)}, options).makespan, Seconds(20));
  EXPECT_EQ(SimulateCluster({GangOf(1, 100), GangOf(6, 200)}, options).makespan, Seconds(30));
}

TEST(ClusterTest, WhoComesBackPaysForTheRestart) {
  const auto result = SimulateCluster({GangOf(1, 100), GangOf(1, 10, /*arrival_s=*/5)},
                                      {.policy = "srtf", .hand_over = Seconds(3), .nodes = 1});
  EXPECT_EQ(result.jobs[1].end, Seconds(5 + 3 + 1));
  EXPECT_EQ(result.jobs[0].end, Seconds(9 + 3 + 10 - 2));  // it had made 2 s of steps
}

TEST(WorkloadTest, ColumnsComeInAnyOrder) {
  const auto jobs = ParseWorkload("steps,name,arrival_s\n5,b,2\n 3 , a , 1 \n").value().jobs;
  ASSERT_EQ(jobs.size(), 2u);
  EXPECT_EQ(jobs[0].name, "a");
  EXPECT_EQ(jobs[0].steps, 3u);
  EXPECT_EQ(jobs[1].arrival_s, 2);
}

TEST(WorkloadTest, SeveralStepTimesAreASeries) {
  const auto jobs = ParseWorkload("steps,step_ms\n5,10 20  60\n").value().jobs;
  EXPECT_THAT(jobs[0].step_series_ms, testing::ElementsAre(10, 20, 60));
  EXPECT_EQ(jobs[0].step_ms, 30);
  EXPECT_THAT(std::string(ParseWorkload("steps,step_ms\n5,10 x\n").status().message()),
              HasSubstr("'10 x' is no step_ms"));
}

TEST(WorkloadTest, ARecordedTraceIsAWorkload) {
  const auto jobs =
      ParseWorkload(R"({"turns": [], "jobs": [{"name": "a", "steps": 3, "step_ms": 1.5, "pid": 7}]})")
          .value()
          .jobs;
  EXPECT_EQ(jobs[0].steps, 3u);
  EXPECT_EQ(jobs[0].step_ms, 1.5);
}

TEST(WorkloadTest, PairsStandBesideTheJobs) {
  const auto workload = ParseWorkload(R"({"pairs": {"a": {"a": 0.5, "b": 0}, "b": {"a": 0}},
                                          "jobs": [{"kind": "a", "transient": 3}]})")
                            .value();
  EXPECT_EQ(workload.jobs[0].kind, "a");
  EXPECT_EQ(workload.jobs[0].transient, 3u);
  EXPECT_EQ(workload.pairs.at("a").at("a"), 0.5);
  EXPECT_EQ(workload.pairs.at("b").at("a"), 0);
}

// They were printed with a call for each bracket, until there was no stack left.
TEST(WorkloadTest, BracketsThatAreNestedDeepAreRefused) {
  for (const char open : {'[', '{'}) {
    std::string text = R"({"jobs": [{"name": )";
    for (int i = 0; i < 1'000'000; ++i) text += open == '[' ? "[" : "{\"a\":";
    EXPECT_THAT(std::string(ParseWorkload(text).status().message()),
                HasSubstr("its brackets are nested more than 64 deep"));
  }
  const std::string name = std::string(50, '[') + std::string(50, ']');
  EXPECT_EQ(ParseWorkload(R"({"jobs": [{"name": )" + name + "}]}").value().jobs[0].name, name);
}

TEST(WorkloadTest, AByteOrderMarkIsPassedOver) {
  const std::string path = testing::TempDir() + absl::StrCat("/marked-", getpid());
  for (const std::string text : {"steps\n5\n", "{\"jobs\": [{\"steps\": 5}]}"}) {
    const std::string marked = "\xEF\xBB\xBF" + text;
    const auto parsed = ParseWorkload(marked);
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    EXPECT_EQ(parsed->jobs[0].steps, 5u);
    std::ofstream(path, std::ios::binary) << marked;
    const auto read = ReadWorkload(path);
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(read->jobs[0].steps, 5u);
  }
  std::filesystem::remove(path);
}

TEST(WorkloadTest, WhatIsWrongIsNamed) {
  const auto error = [](const std::string& text) {
    return std::string(ParseWorkload(text).status().message());
  };
  EXPECT_THAT(error("steps\n1\nmany\n"), HasSubstr("line 3: 'many' is no steps"));
  EXPECT_THAT(error("steps\n0\n"), HasSubstr("'0' is no steps"));
  EXPECT_THAT(error("steps,weight\n1,-1\n"), HasSubstr("'-1' is no weight"));
  EXPECT_THAT(error("steps,devices\n1,0\n"), HasSubstr("'0' is no devices"));
  EXPECT_THAT(error("steps,arrival_s\n1,nan\n"), HasSubstr("'nan' is no arrival_s"));
  EXPECT_THAT(error("stops\n1\n"), HasSubstr("there is no column 'stops'. The columns are: arrival_s, "));
  EXPECT_THAT(error("steps,name\n1\n"), HasSubstr("line 2 has 1 values, the first line names 2 columns"));
  EXPECT_THAT(
      error("steps,step_ms,gap_ms\n5,1,1\n1e15,100,0\n"),
      HasSubstr("line 3: steps of 1000000000000000, with a step_ms of 100 and a gap_ms of 0, take 3.17e+06 "
                "years; a job may take 100 years"));
  EXPECT_THAT(error("steps,step_ms,gap_ms\n1e6,0,1e15\n"), HasSubstr("line 2: steps of 1000000, "));
  EXPECT_THAT(error(R"({"jobs": [{"steps": 1e15, "step_ms": 100}]})"),
              HasSubstr("job 0: steps of 1000000000000000"));
  EXPECT_THAT(error("steps,arrival_s\n1,4e9\n"), HasSubstr("line 2: arrival_s of 4e+09 is 127 years; give "));
  EXPECT_THAT(error("steps,startup_s\n1,1e15\n"), HasSubstr("line 2: startup_s of 1e+15 is "));
  EXPECT_TRUE(ParseWorkload("steps,step_ms,arrival_s\n31557600,100000,3e9\n").ok()) << "a hundred years";
  EXPECT_THAT(error(""), HasSubstr("no jobs"));
  EXPECT_THAT(error("{\"jobs\": 3}"), HasSubstr("no JSON object with a list"));
  EXPECT_THAT(error("{\"jobs\": [{\"steps\": \"x\"}]}"), HasSubstr("job 0: 'x' is no steps"));
  EXPECT_THAT(error(R"({"jobs": [{}], "pairs": 3})"), HasSubstr("\"pairs\" are no JSON object"));
  EXPECT_THAT(error(R"({"jobs": [{}], "pairs": {"a": 3}})"), HasSubstr("pairs of 'a': they are no"));
  EXPECT_THAT(error(R"({"jobs": [{}], "pairs": {"a": {"b": -1}}})"), HasSubstr("beside 'b' is no share"));
  EXPECT_THAT(error(R"({"jobs": [{}], "pairs": {"a": {"b": 0}, "b": {"a": 1}}})"), HasSubstr("both ways"));
}

}  // namespace
}  // namespace hocket::coordinator
