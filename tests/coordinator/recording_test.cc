// The history on disk: what is written down comes back, whatever befalls the files.
#include "coordinator/recording/recording.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "coordinator/recording/recorder.h"
#include "coordinator/recording/turn_json.h"
#include "coordinator/simulator/simulator.h"
#include "coordinator/simulator/workload.h"
#include "csrc/base/check.h"
#include "tests/coordinator/failing_readdir.h"

namespace hocket::coordinator {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using Json = nlohmann::json;

constexpr absl::Duration kWall = absl::Hours(24 * 365 * 56);  // 1970 + 56 years, less the synthetic clock

class Seen : public BlockVisitor {
 public:
  void OnTurn(std::uint64_t, const TurnEnded& turn) override { turns.push_back(turn); }
  void OnJob(std::uint64_t, std::string_view text, absl::Duration) override { jobs.emplace_back(text); }
  void OnLost(std::uint64_t records) override { lost += records; }
  std::vector<std::uint64_t> Numbers() const {
    std::vector<std::uint64_t> numbers;
    for (const TurnEnded& turn : turns) numbers.push_back(turn.turn);
    return numbers;
  }
  std::vector<TurnEnded> turns;
  std::vector<std::string> jobs;
  std::uint64_t lost = 0;
};

class RecordingTest : public testing::Test {
 protected:
  RecordingTest() {
    char name[] = "/tmp/hocket-test-XXXXXX";
    HOCKET_CHECK(mkdtemp(name) != nullptr) << "no temporary folder";
    root_ = name;
    folder_ = root_ + "/history";
  }
  ~RecordingTest() override { std::filesystem::remove_all(root_); }

  RecorderOptions Options(std::uint64_t epoch = 1) {
    return {.folder = folder_,
            .epoch = epoch,
            .say = [this](const std::string& sentence) { said_.push_back(sentence); },
            .wall_less_monotonic = [] { return kWall; },
            .flush_after = absl::Hours(1)};
  }
  // Number `n` of a synthetic clock: it ends n seconds after its begin.
  static TurnEnded Turn(std::uint64_t n, JobId job = 1, std::uint64_t pid = 100) {
    const absl::Time end = absl::UnixEpoch() + absl::Seconds(n);
    return {.turn = n,
            .job = job,
            .pid = pid,
            .name = absl::StrCat("job", job),
            .device = "GPU-1",
            .start = end - absl::Milliseconds(400),
            .end = end,
            .steps = 2,
            .ready = absl::Milliseconds(3),
            .waited = absl::Milliseconds(600),
            .hand_over = absl::Milliseconds(4),
            .reason = absl::StrCat("least device time for its weight (0.", n, ")")};
  }
  void Write(std::uint64_t from, std::uint64_t to, RecorderOptions options) {
    Recorder recorder(std::move(options));
    for (std::uint64_t n = from; n < to; ++n) recorder.Add(Turn(n));
  }
  Seen Read(int damaged = 0) {
    Seen seen;
    EXPECT_EQ(Recording::Open(folder_).value().Read(seen), damaged);
    return seen;
  }
  Json Export(const std::string& file, Recording::Wanted wanted = {}) {
    std::FILE* const out = std::fopen(file.c_str(), "we");
    const auto written = Recording::Open(folder_).value().Write(out, wanted);
    std::fclose(out);
    return written.value();
  }
  static std::string TextOf(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), {});
  }
  static void Put(const std::string& path, const std::string& text) {
    std::ofstream(path, std::ios::binary) << text;
  }
  static void WasWritten(const std::string& path, absl::Duration ago) {
    const timespec then = absl::ToTimespec(absl::Now() - ago);
    const timespec times[2] = {then, then};
    ASSERT_EQ(utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
  }
  std::string First() const { return folder_ + "/0000000001.turns"; }

  std::string root_, folder_;
  std::vector<std::string> said_;
};

TEST_F(RecordingTest, ATurnComesBackAsItWas) {
  TurnEnded turn = Turn(7, 3, 4121);
  turn.user = 1000;
  turn.rejoined = turn.died = true;
  turn.restored = 5'000'000'000;
  turn.ahead = 1;
  turn.spilled = 77;
  turn.reason = "beside a.7: 2 of 3.5 \1 (1e-05)";
  {
    Recorder recorder(Options());
    recorder.Add(Turn(6));
    recorder.Add(turn);
  }
  const Seen seen = Read();
  ASSERT_THAT(seen.turns, SizeIs(2));
  turn.start += kWall;
  turn.end += kWall;
  turn.reason = "beside a.7: 2 of 3.5   (1e-05)";
  EXPECT_EQ(TurnJson(seen.turns[1], 0), TurnJson(turn, 0));
  EXPECT_EQ(seen.turns[1].pid, 4121u);
  EXPECT_TRUE(seen.turns[1].rejoined);
}

TEST_F(RecordingTest, ASpillComesBackAsItWasBesideTheTurns) {
  const absl::Time at = absl::UnixEpoch() + absl::Seconds(2);
  const SpillEnded spill = {.job = {.id = 2, .pid = 5, .user = 7, .name = "moved", .device = "GPU-1"},
                            .for_job = {.id = 1, .pid = 100, .user = 8, .name = "job1", .device = "GPU-1"},
                            .start = at,
                            .end = at + absl::Milliseconds(9),
                            .bytes = 3_GiB};
  SpillEnded for_nobody = spill;
  for_nobody.for_job = {};
  for_nobody.start = for_nobody.end;
  {
    Recorder recorder(Options());
    recorder.Add(spill);
    recorder.Add(Turn(1));
    recorder.Add(for_nobody);
  }
  const std::string file = root_ + "/day.json";
  const Json said = Export(file);
  EXPECT_EQ(said["spills"], 2);
  EXPECT_EQ(said["turns"], 1);
  const Json day = Json::parse(TextOf(file));
  std::vector<Json> expected;
  for (SpillEnded as : {spill, for_nobody}) {
    as.start += kWall;
    as.end += kWall;
    expected.push_back(SpillJson(as, expected.size()));
  }
  EXPECT_EQ(day["spills"], Json(expected));
  EXPECT_EQ(expected[0]["for"], "job1");
  EXPECT_EQ(day["turns"][0]["name"], "job1") << "numbered together with the spills' jobs";
  EXPECT_EQ(ReadWorkload(file).value().jobs.size(), 1u);
  Export(root_ + "/lines", {.lines = true});
  EXPECT_THAT(TextOf(root_ + "/lines"), HasSubstr("\"bytes\":3221225472"));
}

TEST_F(RecordingTest, AFolderOfOnesOwn) {
  Write(1, 2, Options());
  struct stat info {};
  ASSERT_EQ(stat(folder_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
  ASSERT_EQ(stat(First().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
}

TEST_F(RecordingTest, TheOldestPartsGoBeforeThereIsTooMuch) {
  RecorderOptions options = Options();
  options.most = 64_KiB;
  Recorder recorder(std::move(options));
  for (std::uint64_t n = 1; n <= 20'000; ++n) {
    recorder.Add(Turn(n));
    if (n % 50 != 0) continue;
    recorder.Wait();
    Bytes total = 0;
    for (const RecordedPart& part : PartsIn(folder_)) total += part.size;
    ASSERT_LE(total, 64_KiB) << "after " << n << " turns";
  }
  const Seen seen = Read();
  ASSERT_GT(seen.turns.size(), 1000u);
  ASSERT_LT(seen.turns.size(), 20'000u);
  for (size_t i = 0; i < seen.turns.size(); ++i)
    ASSERT_EQ(seen.turns[i].turn, 20'000 - (seen.turns.size() - 1) + i) << "the newest, without a gap";
  EXPECT_EQ(recorder.how_far().lost, 0u);
}

TEST_F(RecordingTest, PartsOlderThanWhatIsKeptGo) {
  Write(1, 10, Options());
  WasWritten(First(), absl::Hours(24 * 8));
  Write(10, 12, Options());
  EXPECT_THAT(PartsIn(folder_), SizeIs(2)) << "what is as old is not mixed with what is new";
  Write(12, 13, Options());
  EXPECT_THAT(Read().Numbers(), ElementsAre(10, 11, 12));
}

// As when a machine begins with a clock that is more than a year ahead: all there was went.
TEST_F(RecordingTest, AClockThatIsFarAheadTakesNothing) {
  Write(1, 3, Options());
  WasWritten(First(), absl::Hours(24 * 402));
  Write(3, 5, Options());
  WasWritten(folder_ + "/0000000002.turns", absl::Hours(24 * 400));
  Write(5, 7, Options());
  EXPECT_THAT(Read().Numbers(), ElementsAre(1, 2, 3, 4, 5, 6));
}

TEST_F(RecordingTest, AFolderThatCannotBeReadToItsEndIsReadAsFarAsItCan) {
  Write(1, 3, Options());
  const FailingReaddir failing(/*good=*/1);
  EXPECT_LE(PartsIn(folder_).size(), 1u);
  EXPECT_TRUE(FailingReaddir::failed());
}

TEST_F(RecordingTest, ADaemonGoesOnWithWhatTheLastOneWrote) {
  Write(1, 4, Options(1));
  Write(4, 6, Options(2));
  EXPECT_THAT(Read().Numbers(), ElementsAre(1, 2, 3, 4, 5));
  EXPECT_THAT(PartsIn(folder_), SizeIs(1));
}

// Wherever it was killed: the blocks before are there, what it was at is passed over, and what the next one
// writes behind it is read.
TEST_F(RecordingTest, ABlockThatWasTornIsPassedOver) {
  Write(1, 3, Options());
  const std::string whole = TextOf(First());
  std::filesystem::remove(First());
  Write(3, 5, Options());
  const std::string last = TextOf(First());
  for (size_t cut = 1; cut < last.size(); ++cut) {
    Put(First(), whole + last.substr(0, cut));
    EXPECT_THAT(Read(/*damaged=*/1).Numbers(), ElementsAre(1, 2)) << "cut after " << cut;
    Write(5, 6, Options(2));
    EXPECT_THAT(Read(/*damaged=*/1).Numbers(), ElementsAre(1, 2, 5)) << "cut after " << cut;
  }
}

TEST_F(RecordingTest, GarbageIsPassedOver) {
  Write(1, 3, Options());
  const std::string whole = TextOf(First());
  const std::string garbage = "HKT1 \xff\xff\xff\xff garbage HKT1";
  Put(First(), garbage + whole + garbage + whole);
  Put(folder_ + "/0000000002.turns", "");
  Put(folder_ + "/0000000003.turns", std::string(100'000, '\xff'));
  Put(folder_ + "/readme.txt", "not a part");
  std::filesystem::create_directory(folder_ + "/0000000004.turns");
  EXPECT_THAT(Read(/*damaged=*/3).Numbers(), ElementsAre(1, 2, 1, 2));
}

// One byte after the other is another one: the block is passed over, or a text in it reads otherwise.
TEST_F(RecordingTest, AByteThatIsWrongIsNoticed) {
  Write(1, 3, Options());
  const std::string whole = TextOf(First());
  for (size_t i = 0; i < whole.size(); ++i) {
    std::string wrong = whole;
    wrong[i] = static_cast<char>(wrong[i] ^ 0x20);
    Put(First(), wrong + whole);
    EXPECT_THAT(Read(/*damaged=*/1).Numbers(), ElementsAre(1, 2)) << "byte " << i;
  }
}

TEST_F(RecordingTest, AFolderThatCannotBeMadeIsSaidOnce) {
  Put(root_ + "/file", "");
  RecorderOptions options = Options();
  options.folder = root_ + "/file/history";
  options.retry = absl::ZeroDuration();
  Recorder recorder(std::move(options));
  for (std::uint64_t n = 1; n <= 5; ++n) {
    recorder.Add(Turn(n));
    recorder.Wait();
  }
  EXPECT_EQ(recorder.how_far().lost, 5u);
  EXPECT_THAT(recorder.how_far().trouble, HasSubstr("Not a directory"));
  ASSERT_THAT(said_, SizeIs(1));
  EXPECT_THAT(said_[0],
              HasSubstr("cannot make the folder " + root_ + "/file/history: Not a directory. Turns are"));
}

TEST_F(RecordingTest, WhatAFullDiskDidNotTakeIsCountedAndItGoesOnAfterwards) {
  std::filesystem::create_directory(folder_);
  ASSERT_EQ(symlink("/dev/full", First().c_str()), 0);
  RecorderOptions options = Options();
  options.retry = absl::ZeroDuration();
  {
    Recorder recorder(std::move(options));
    for (std::uint64_t n = 1; n <= 3; ++n) {
      recorder.Add(Turn(n));
      recorder.Wait();
    }
    EXPECT_THAT(recorder.how_far().trouble, HasSubstr("No space left on device"));
    std::filesystem::remove(First());
    recorder.Add(Turn(4));
    recorder.Wait();
    EXPECT_EQ(recorder.how_far().trouble, "");
    recorder.Add(Turn(5));
  }
  const Seen seen = Read();
  EXPECT_THAT(seen.Numbers(), ElementsAre(4, 5));
  EXPECT_EQ(seen.lost, 3u);
  EXPECT_THAT(said_,
              ElementsAre(HasSubstr("No space left on device"), HasSubstr("again; 3 records are missing")));
}

// Nothing is tried, nor kept, until it is time again.
TEST_F(RecordingTest, ADiskThatIsFullCostsNothingMeanwhile) {
  std::filesystem::create_directory(folder_);
  ASSERT_EQ(symlink("/dev/full", First().c_str()), 0);
  Recorder recorder(Options());
  recorder.Add(Turn(1));
  recorder.Wait();
  std::filesystem::remove(First());
  for (std::uint64_t n = 2; n <= 1000; ++n) recorder.Add(Turn(n));
  recorder.Wait();
  EXPECT_EQ(recorder.how_far().lost, 1000u);
  EXPECT_FALSE(std::filesystem::exists(First()));
}

TEST_F(RecordingTest, WhoTidiesUpMeanwhileLosesOnlyWhatHeRemoved) {
  Recorder recorder(Options());
  recorder.Add(Turn(1));
  recorder.Wait();
  std::filesystem::remove_all(folder_);
  recorder.Add(Turn(2));
  recorder.Wait();
  EXPECT_THAT(Read().Numbers(), ElementsAre(2));
}

TEST_F(RecordingTest, NothingRecordedIsSaid) {
  EXPECT_EQ(Recording::Open(folder_).status().message(),
            absl::StrCat("nothing is recorded in ", folder_, "."));
}

// --- what hocket trace makes of it ----------------------------------------------------------------

std::string Told(JobId id, std::uint64_t pid, bool rejoined = false) {
  return Json{{"id", id},         {"pid", pid},        {"rejoined", rejoined}, {"name", "told"},
              {"arrival_s", 0.5}, {"until_s", 2},      {"startup_s", 0.25},    {"steps", 99},
              {"step_ms", 1},     {"priority", "low"}, {"weight", 3}}
      .dump();
}

TEST_F(RecordingTest, AJobIsWhatItsTurnsCameTo) {
  {
    Recorder recorder(Options());
    for (std::uint64_t n = 1; n <= 4; ++n) recorder.Add(Turn(n));
    recorder.AddJob(Told(1, 100));
  }
  const std::string file = root_ + "/day.json";
  const Json said = Export(file);
  EXPECT_EQ(said["jobs"], 1);
  EXPECT_EQ(said["turns"], 4);
  EXPECT_EQ(said["until_s"], 4 + absl::ToInt64Seconds(kWall));
  const Json day = Json::parse(TextOf(file));
  const Json& job = day["jobs"][0];
  EXPECT_EQ(job["name"], "job1");
  EXPECT_EQ(job["steps"], 8);
  EXPECT_DOUBLE_EQ(job["held_s"], 1.6);
  EXPECT_DOUBLE_EQ(job["step_ms"], 200);
  EXPECT_DOUBLE_EQ(job["waited_s"], 2.4);
  EXPECT_EQ(job["arrival_s"], 0);
  EXPECT_EQ(job["startup_s"], 0.25);
  EXPECT_EQ(job["priority"], "low");
  EXPECT_FALSE(job.contains("pid"));
  EXPECT_EQ(day["turns"].size(), 4u);
  EXPECT_EQ(day["turns"][3]["end_ns"], absl::ToInt64Nanoseconds(absl::Seconds(4) + kWall));
  EXPECT_EQ(day["turns"][3]["index"], 3);
}

TEST_F(RecordingTest, SinceLeavesOutWhatEndedBefore) {
  {
    Recorder recorder(Options());
    recorder.AddJob(Told(2, 101));  // it had no turn, and was seen last before that
    recorder.AddJob(Told(1, 100));
    for (std::uint64_t n = 1; n <= 10; ++n) recorder.Add(Turn(n));
  }
  const std::string file = root_ + "/day.json";
  Export(file, {.since = absl::UnixEpoch() + kWall + absl::Seconds(8)});
  const Json day = Json::parse(TextOf(file));
  ASSERT_EQ(day["jobs"].size(), 1u);
  EXPECT_EQ(day["jobs"][0]["steps"], 6);
  EXPECT_EQ(day["jobs"][0]["startup_s"], 0) << "it had begun long before";
  EXPECT_EQ(day["turns"].size(), 3u);
}

// The same number and process under another daemon: the same job only if it said so when it came back.
TEST_F(RecordingTest, AJobGoesOnUnderTheNextDaemonAndANewOneDoesNot) {
  for (std::uint64_t epoch : {1, 2, 3}) {
    Recorder recorder(Options(epoch));
    TurnEnded turn = Turn(epoch);
    turn.rejoined = epoch == 2;
    recorder.Add(turn);
  }
  const std::string file = root_ + "/day.json";
  Export(file);
  const Json jobs = Json::parse(TextOf(file))["jobs"];
  ASSERT_EQ(jobs.size(), 2u);
  EXPECT_EQ(jobs[0]["steps"], 4);
  EXPECT_EQ(jobs[1]["steps"], 2);
}

// `hocketd history`, in a process that may write files of `most` bytes: a disk that is full after so many.
int Exports(const std::string& folder, const std::string& file, rlim_t most = RLIM_INFINITY) {
  const pid_t child = fork();
  if (child == 0) {
    signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{most, most};
    setrlimit(RLIMIT_FSIZE, &limit);
    std::string words[] = {"history", folder, "--output=" + file};
    char* arguments[] = {words[0].data(), words[1].data(), words[2].data(), nullptr};
    _exit(RecordingMain(3, arguments));
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST_F(RecordingTest, AnExportThatFailsLeavesWhatWasThere) {
  Write(1, 1000, Options());
  const std::string file = root_ + "/day.json";
  EXPECT_EQ(Exports(folder_, file, 4096), 1);
  EXPECT_FALSE(std::filesystem::exists(file));
  Put(file, "yesterday's");
  std::filesystem::permissions(file,
                               std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  EXPECT_EQ(Exports(folder_, file, 4096), 1);
  EXPECT_EQ(TextOf(file), "yesterday's");
  std::filesystem::create_symlink("day.json", root_ + "/link");
  EXPECT_EQ(Exports(folder_, root_ + "/link"), 0);
  EXPECT_EQ(Json::parse(TextOf(file))["turns"].size(), 999u);
  EXPECT_TRUE(std::filesystem::is_symlink(root_ + "/link"));
  EXPECT_EQ(std::filesystem::status(file).permissions(),
            std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(root_), {}), 3) << "nothing is left beside it";
  EXPECT_EQ(Exports(folder_, "/dev/null"), 0);
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/null"));
}

TEST_F(RecordingTest, LinesAreTheTurnsAlone) {
  Write(1, 4, Options());
  Export(root_ + "/lines", {.lines = true});
  std::ifstream lines(root_ + "/lines");
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count) EXPECT_EQ(Json::parse(line)["turn"], count + 1);
  EXPECT_EQ(count, 3);
}

// More than memory keeps; in about 30 bytes each.
TEST_F(RecordingTest, ADayIsRecordedAndReplayedWithTheSameTotals) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)  // a tenth of a day: it would take a minute
  constexpr std::uint64_t kTurns = 12'000;
#else
  constexpr std::uint64_t kTurns = 120'000;
#endif
  const absl::Duration every = absl::Milliseconds(720);
  std::map<std::string, std::uint64_t> steps;
  absl::Duration held;
  {
    Recorder recorder(Options());
    for (std::uint64_t n = 0; n < kTurns; ++n) {
      TurnEnded turn = Turn(n + 1, 1 + n % 3, 100 + n % 3);
      turn.start = absl::UnixEpoch() + every * static_cast<double>(n);
      turn.end = turn.start + every - absl::Microseconds(100 + n % 7);
      turn.steps = 1 + (n % 16 == 0);
      steps[turn.name] += turn.steps;
      held += turn.end - turn.start;
      recorder.Add(turn);
      if (n % 1000 == 0) recorder.Wait();
    }
  }
  Bytes bytes = 0;
  for (const RecordedPart& part : PartsIn(folder_)) bytes += part.size;
  EXPECT_LT(bytes, 40 * kTurns);
  RecordProperty("bytes_per_turn", static_cast<int>(bytes / kTurns));

  const std::string file = root_ + "/day.json";
  EXPECT_EQ(Export(file)["turns"], kTurns);
  const Workload day = ReadWorkload(file).value();
  ASSERT_THAT(day.jobs, SizeIs(3));
  const SimulationResult result = Simulate(day.jobs, {.policy = "fifo"});
  std::map<std::string, std::uint64_t> played;
  for (const SimulatedEnd& end : result.jobs) played[end.name] = end.steps;
  EXPECT_EQ(played, steps);
  EXPECT_NEAR(absl::ToDoubleSeconds(result.busy), absl::ToDoubleSeconds(held), 0.01);
}

}  // namespace
}  // namespace hocket::coordinator
