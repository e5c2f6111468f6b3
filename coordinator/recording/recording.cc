#include "coordinator/recording/recording.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <map>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "coordinator/recording/recorder.h"
#include "coordinator/recording/turn_json.h"
#include "csrc/base/cannot.h"

namespace hocket::coordinator {
namespace {

using Json = nlohmann::json;

// Of one file; what somebody else has put there may have any size.
constexpr size_t kMostRead = 2 * Recorder::kLargestPart;

double Number(const Json& record, const char* key) {
  const auto found = record.find(key);
  return found != record.end() && found->is_number() ? found->get<double>() : 0;
}

std::uint64_t Count(const Json& record, const char* key) {
  const auto found = record.find(key);
  return found != record.end() && found->is_number_unsigned() ? found->get<std::uint64_t>() : 0;
}

std::string Text(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

// A job, from its turns and what was told of it.
struct JobSum {
  std::uint64_t epoch = 0;
  Json told = Json::object();
  double arrival_s = 0, until_s = 0;  // as told, Unix time; 0: nothing was
  std::string name, device;
  unsigned user = 0;
  absl::Time asked = absl::InfiniteFuture();  // first
  absl::Time end = absl::InfinitePast();
  std::uint64_t turns = 0, steps = 0;
  absl::Duration held, waited;

  bool In(absl::Time since) const {
    return turns > 0 || until_s >= absl::ToDoubleSeconds(since - absl::UnixEpoch());
  }
  // A job that began before is one that arrives then.
  bool Began(absl::Time since) const {
    return arrival_s > 0 && arrival_s >= absl::ToDoubleSeconds(since - absl::UnixEpoch());
  }
  double Arrival(absl::Time since) const {
    return Began(since) || turns == 0 ? arrival_s : absl::ToDoubleSeconds(asked - absl::UnixEpoch());
  }

  Json ToJson(absl::Time since, double first) const {
    Json json = told;
    for (const char* key : {"id", "pid", "rejoined"}) json.erase(key);
    if (!Began(since)) json["startup_s"] = 0;
    json["arrival_s"] = Arrival(since) - first;
    json["until_s"] = std::max(until_s, absl::ToDoubleSeconds(end - absl::UnixEpoch())) - first;
    if (turns == 0) return json;
    json["name"] = name;
    json["device"] = device;
    json["user"] = user;
    json["steps"] = std::max<std::uint64_t>(1, steps);
    json["step_ms"] =
        absl::ToDoubleMilliseconds(held) / static_cast<double>(std::max<std::uint64_t>(1, steps));
    json["turns"] = turns;
    json["held_s"] = absl::ToDoubleSeconds(held);
    json["waited_s"] = absl::ToDoubleSeconds(waited);
    return json;
  }
};

// The jobs of a recording, and what there is of it.
class Sums : public BlockVisitor {
 public:
  explicit Sums(absl::Time since) : since_(since) {}

  void OnTurn(std::uint64_t epoch, const TurnEnded& turn) override {
    if (turn.end < since_) return;
    JobSum& job = Of(turn.job, turn.pid, epoch, turn.rejoined);
    job.name = turn.name;
    job.device = turn.device;
    job.user = turn.user;
    job.asked = std::min(job.asked, turn.start - turn.waited);
    job.end = std::max(job.end, turn.end);
    ++job.turns;
    job.steps += turn.steps;
    job.held += turn.end - turn.start;
    job.waited += turn.waited;
    ++turns_;
    from_ = std::min(from_, turn.start);
    until_ = std::max(until_, turn.end);
  }

  void OnJob(std::uint64_t epoch, std::string_view text, absl::Duration less) override {
    Json told = Json::parse(text, nullptr, /*allow_exceptions=*/false);
    if (!told.is_object()) return;
    const auto rejoined = told.find("rejoined");
    JobSum& job =
        Of(Count(told, "id"), Count(told, "pid"), epoch, rejoined != told.end() && *rejoined == true);
    const double arrival = Number(told, "arrival_s") + absl::ToDoubleSeconds(less);
    job.arrival_s = job.arrival_s == 0 ? arrival : std::min(job.arrival_s, arrival);
    job.until_s = std::max(job.until_s, Number(told, "until_s") + absl::ToDoubleSeconds(less));
    job.told = std::move(told);
  }

  void OnSpill(std::uint64_t, const SpillEnded& spill) override { spills_ += spill.end >= since_ ? 1 : 0; }
  void OnLost(std::uint64_t records) override { lost_ += records; }

  std::vector<Json> Jobs() const {
    double first = absl::ToDoubleSeconds(absl::Now() - absl::UnixEpoch());
    for (const JobSum& job : jobs_) first = job.In(since_) ? std::min(first, job.Arrival(since_)) : first;
    std::vector<Json> jobs;
    for (const JobSum& job : jobs_) {
      if (job.In(since_)) jobs.push_back(job.ToJson(since_, first));
    }
    return jobs;
  }

  Json ToJson(size_t jobs, int damaged) const {
    Json json = {
        {"jobs", jobs}, {"turns", turns_}, {"spills", spills_}, {"lost", lost_}, {"damaged", damaged}};
    json["from_s"] = turns_ == 0 ? Json() : Json(absl::ToDoubleSeconds(from_ - absl::UnixEpoch()));
    json["until_s"] = turns_ == 0 ? Json() : Json(absl::ToDoubleSeconds(until_ - absl::UnixEpoch()));
    return json;
  }

 private:
  // A daemon that starts anew numbers jobs from 1 again, except for those that come back to it.
  JobSum& Of(JobId id, std::uint64_t pid, std::uint64_t epoch, bool rejoined) {
    const auto [known, is_new] = last_.try_emplace({id, pid}, jobs_.size());
    if (!is_new && jobs_[known->second].epoch != epoch && !rejoined) known->second = jobs_.size();
    if (known->second == jobs_.size()) jobs_.emplace_back();
    JobSum& job = jobs_[known->second];
    job.epoch = epoch;
    return job;
  }

  const absl::Time since_;
  std::vector<JobSum> jobs_;
  std::map<std::pair<JobId, std::uint64_t>, size_t> last_;
  std::uint64_t turns_ = 0, spills_ = 0, lost_ = 0;
  absl::Time from_ = absl::InfiniteFuture(), until_ = absl::InfinitePast();
};

// Writes turns, or spills, or both, one a line.
class Lines : public BlockVisitor {
 public:
  enum Which { kTurns, kSpills, kBoth };
  Lines(std::FILE* out, const Recording::Wanted& wanted, Which which)
      : out_(out), wanted_(wanted), which_(which) {}

  void OnTurn(std::uint64_t, const TurnEnded& turn) override {
    if (which_ != kSpills && turn.end >= wanted_.since) Put(TurnJson(turn, turns_++));
  }
  void OnSpill(std::uint64_t, const SpillEnded& spill) override {
    if (which_ != kTurns && spill.end >= wanted_.since) Put(SpillJson(spill, spills_++));
  }
  void OnJob(std::uint64_t, std::string_view, absl::Duration) override {}
  void OnLost(std::uint64_t) override {}

 private:
  void Put(const Json& json) {
    if (std::exchange(any_, true)) std::fputs(wanted_.lines ? "\n" : ",\n", out_);
    std::fputs(Text(json).c_str(), out_);
  }

  std::FILE* const out_;
  const Recording::Wanted wanted_;
  const Which which_;
  std::uint64_t turns_ = 0, spills_ = 0;
  bool any_ = false;
};

}  // namespace

absl::StatusOr<Recording> Recording::Open(const std::string& folder) {
  Recording recording;
  if (access(folder.c_str(), R_OK | X_OK) != 0 && errno != ENOENT)
    return Cannot(absl::StrCat("read ", folder));
  for (const RecordedPart& part : PartsIn(folder)) {
    UniqueFd file(open(part.path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!file && errno == ENOENT) continue;  // removed just now
    if (!file) return Cannot(absl::StrCat("read ", part.path));
    recording.parts_.push_back({.file = std::move(file), .size = std::min<size_t>(part.size, kMostRead)});
  }
  if (recording.parts_.empty())
    return absl::NotFoundError(absl::StrCat("nothing is recorded in ", folder, "."));
  return recording;
}

int Recording::Read(BlockVisitor& visitor) const {
  int damaged = 0;
  std::string bytes;
  for (const Part& part : parts_) {
    bytes.resize(part.size);
    size_t read = 0;
    for (ssize_t n; read < part.size; read += static_cast<size_t>(n)) {
      n = pread(part.file.get(), bytes.data() + read, part.size - read, static_cast<off_t>(read));
      if (n <= 0) break;
    }
    damaged += ReadBlocks(std::string_view(bytes).substr(0, read), visitor) + (read < part.size ? 1 : 0);
  }
  return damaged;
}

absl::StatusOr<Json> Recording::Write(std::FILE* out, const Wanted& wanted) const {
  Sums sums(wanted.since);
  const int damaged = Read(sums);
  const std::vector<Json> jobs = sums.Jobs();
  const char* between = "";
  if (!wanted.lines) std::fputs("{\"jobs\": [\n", out);
  for (const Json& job : jobs) {
    if (wanted.lines) break;
    std::fputs(std::exchange(between, ",\n"), out);
    std::fputs(Text(job).c_str(), out);
  }
  if (!wanted.lines) std::fputs("\n], \"turns\": [\n", out);
  Lines lines(out, wanted, wanted.lines ? Lines::kBoth : Lines::kTurns);
  Read(lines);
  if (!wanted.lines) {
    std::fputs("\n], \"spills\": [\n", out);
    Lines spills(out, wanted, Lines::kSpills);
    Read(spills);
  }
  std::fputs(wanted.lines ? "\n" : "\n]}\n", out);
  if (std::fflush(out) != 0 || std::ferror(out) != 0)
    return absl::UnavailableError(
        absl::StrCat("cannot write what was recorded: ", std::strerror(errno), "."));
  return sums.ToJson(jobs.size(), damaged);
}

// --- the command line's way to it -----------------------------------------------------------------

namespace {

constexpr char kHelp[] =
    R"(hocketd history FOLDER: the turns that a coordinator has recorded there, as `hocket trace` writes them.

  --since=SECONDS   turns that have ended since then (Unix time)
  --output=FILE     write jobs and turns there, and say on stdout what was written
  --lines           write turns and spills to stdout, one a line, and say on stderr what was written
)";

struct HistoryFlags {
  std::string folder, output;
  Recording::Wanted wanted;
};

std::optional<HistoryFlags> ParseFlags(int argc, char** argv) {
  HistoryFlags flags;
  for (int i = 1; i < argc; ++i) {
    absl::string_view word = argv[i];
    double since = 0;
    if (absl::ConsumePrefix(&word, "--since=") && absl::SimpleAtod(word, &since)) {
      flags.wanted.since = absl::UnixEpoch() + absl::Seconds(since);
    } else if (absl::ConsumePrefix(&word, "--output=")) {
      flags.output = std::string(word);
    } else if (word == "--lines") {
      flags.wanted.lines = true;
    } else if (!absl::StartsWith(word, "--") && flags.folder.empty()) {
      flags.folder = std::string(word);
    } else {
      return std::nullopt;
    }
  }
  if (flags.folder.empty() || flags.output.empty() != flags.wanted.lines) return std::nullopt;
  return flags;
}

absl::Status NotWritten(const std::string& path, const std::string& why) {
  return absl::UnavailableError(
      absl::StrCat(why, " ", path, " is as it was. Free some space there, or name another file."));
}

absl::Status NotWritten(const std::string& path) {
  return NotWritten(path, absl::StrCat("cannot write ", path, ": ", std::strerror(errno), "."));
}

// A file that is there as a whole or not at all: written beside its place, and put there by Finish(). What is
// no plain file (/dev/stdout, a pipe), or is in a folder in which nothing can be made, is written as it is.
class WholeFile {
 public:
  explicit WholeFile(const std::string& path) : path_(path) {
    struct stat info {};
    const bool there = stat(path.c_str(), &info) == 0;
    char resolved[PATH_MAX];
    if (there && realpath(path.c_str(), resolved) != nullptr) path_ = resolved;
    if (!there || S_ISREG(info.st_mode)) {
      beside_ = absl::StrCat(path_, ".", getpid(), ".new");
      out_ = std::fopen(beside_.c_str(), "wxe");
      if (out_ != nullptr && there) (void)fchmod(fileno(out_), info.st_mode & 07777);
    }
    if (out_ != nullptr) return;
    beside_.clear();
    out_ = std::fopen(path_.c_str(), "we");
  }
  ~WholeFile() {
    if (out_ != nullptr) std::fclose(out_);
    if (!beside_.empty()) unlink(beside_.c_str());
  }
  WholeFile(const WholeFile&) = delete;
  WholeFile& operator=(const WholeFile&) = delete;

  std::FILE* out() { return out_; }
  // False, with errno: it is not in its place.
  bool Finish() {
    if (std::fclose(std::exchange(out_, nullptr)) != 0) return false;
    if (!beside_.empty() && rename(beside_.c_str(), path_.c_str()) != 0) return false;
    beside_.clear();
    return true;
  }

 private:
  std::string path_, beside_;  // none beside it: it is written in its place
  std::FILE* out_ = nullptr;
};

absl::StatusOr<Json> Write(const HistoryFlags& flags) {
  auto recording = Recording::Open(flags.folder);
  if (!recording.ok()) return recording.status();
  if (flags.wanted.lines) return recording->Write(stdout, flags.wanted);
  WholeFile file(flags.output);
  if (file.out() == nullptr) return NotWritten(flags.output);
  auto written = recording->Write(file.out(), flags.wanted);
  if (!written.ok()) return NotWritten(flags.output, std::string(written.status().message()));
  if (!file.Finish()) return NotWritten(flags.output);
  return written;
}

}  // namespace

int RecordingMain(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    if (std::string(argv[i]) == "--help") return std::fputs(kHelp, stdout) < 0;
  }
  const auto flags = ParseFlags(argc, argv);
  if (!flags) {
    std::fputs("hocketd history: these flags make no sense. Try: hocketd history --help\n", stderr);
    return 2;
  }
  const auto written = Write(*flags);
  if (!written.ok()) {
    std::fprintf(stderr, "hocketd history: %s\n", std::string(written.status().message()).c_str());
    return 1;
  }
  std::fprintf(flags->wanted.lines ? stderr : stdout, "%s\n", Text(*written).c_str());
  return 0;
}

}  // namespace hocket::coordinator
