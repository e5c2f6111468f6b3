#include "coordinator/recording/recorder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "csrc/base/steady.h"

namespace hocket::coordinator {
namespace {

constexpr char kEnding[] = ".turns";
constexpr size_t kFlushAt = 64 << 10;
constexpr size_t kMostPending = 1 << 20;
constexpr absl::Duration kLongestPart = absl::Hours(24);
constexpr absl::Duration kLookForOld = absl::Hours(1);
// The clocks are read anew for each block; they drift apart, or are set.
constexpr absl::Duration kSameClock = absl::Milliseconds(100);

// Of the part that was written to last; now, where there is none.
absl::Time LastWritten(const std::string& folder) {
  absl::Time last = absl::InfinitePast();
  for (const RecordedPart& part : PartsIn(folder)) last = std::max(last, part.written);
  return last == absl::InfinitePast() ? absl::Now() : last;
}

absl::Duration WallLessMonotonic() { return absl::Now() - SteadyNow(); }

RecorderOptions WithClock(RecorderOptions options) {
  if (!options.wall_less_monotonic) options.wall_less_monotonic = WallLessMonotonic;
  return options;
}

}  // namespace

std::vector<RecordedPart> PartsIn(const std::string& folder) {
  std::vector<RecordedPart> parts;
  std::error_code error;
  // What cannot be read of it ends the list: the loop's own step would throw.
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    RecordedPart part;
    part.path = entry->path().string();
    struct stat info {};
    if (!absl::EndsWith(name, kEnding) ||
        !absl::SimpleAtoi(name.substr(0, name.size() - strlen(kEnding)), &part.number) ||
        stat(part.path.c_str(), &info) != 0 || !S_ISREG(info.st_mode))
      continue;
    part.size = static_cast<Bytes>(info.st_size);
    part.written = absl::TimeFromTimespec(info.st_mtim);
    parts.push_back(std::move(part));
  }
  std::sort(parts.begin(), parts.end(), [](const auto& a, const auto& b) { return a.number < b.number; });
  return parts;
}

Recorder::Recorder(RecorderOptions options)
    : options_(WithClock(std::move(options))),
      part_size_(std::min(options_.most / kParts, kLargestPart)),
      flush_at_(std::min<size_t>(kFlushAt, part_size_ / 4)),
      most_pending_(std::min<size_t>(kMostPending, part_size_)),
      began_(SteadyNow()),
      last_before_(LastWritten(options_.folder)),
      writer_([this] { Run(); }) {}

Recorder::~Recorder() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
    changed_.NotifyAll();
  }
  writer_.join();
}

// --- the thread that adds -------------------------------------------------------------------------

bool Recorder::Full() {
  const bool resting = !how_far_.trouble.empty() && Clock::now() < resting_until_;
  if (!resting && pending_.size() < most_pending_) return false;
  ++how_far_.records;
  ++how_far_.lost;
  ++unsaid_lost_;
  return true;
}

template <typename Record>
void Recorder::AddRecord(const Record& record) {
  MutexLock lock(&mutex_);
  if (Full()) return;
  const size_t before = pending_.size();
  pending_.Add(record);
  ++how_far_.records;
  if (before == 0 || (before < flush_at_ && pending_.size() >= flush_at_)) changed_.NotifyAll();
}

template void Recorder::AddRecord(const TurnEnded&);
template void Recorder::AddRecord(const SpillEnded&);

void Recorder::AddJob(const std::string& text) {
  MutexLock lock(&mutex_);
  if (Full()) return;
  const bool first = pending_.size() == 0;
  pending_.AddJob(text);
  ++how_far_.records;
  if (first) changed_.NotifyAll();
}

bool Recorder::LacksJob(JobId job) {
  {
    MutexLock lock(&mutex_);
    if (std::exchange(jobs_part_, parts_begun_) != parts_begun_) jobs_.clear();
  }
  return jobs_.insert(job).second;
}

void Recorder::Flush() {
  MutexLock lock(&mutex_);
  flush_ = true;
  changed_.NotifyAll();
}

Recorder::HowFar Recorder::how_far() {
  MutexLock lock(&mutex_);
  return how_far_;
}

void Recorder::Wait() {
  MutexLock lock(&mutex_);
  flush_ = true;
  changed_.NotifyAll();
  while (how_far_.written + how_far_.lost < how_far_.records) changed_.Wait(&mutex_);
}

// --- the thread that writes -----------------------------------------------------------------------

void Recorder::Run() {
  RemoveOld(0);
  MutexLock lock(&mutex_);
  while (true) {
    while (pending_.size() == 0 && !stopping_) changed_.Wait(&mutex_);
    const auto until = Clock::now() + absl::ToChronoNanoseconds(options_.flush_after);
    while (pending_.size() < flush_at_ && !stopping_ && !flush_ && Clock::now() < until)
      changed_.WaitUntil(&mutex_, until);
    if (pending_.size() == 0) return;  // and stopping
    flush_ = false;
    if (unsaid_lost_ > 0) pending_.AddLost(unsaid_lost_);
    const std::uint64_t lost = std::exchange(unsaid_lost_, 0);
    const absl::Duration wall = options_.wall_less_monotonic();
    if (absl::AbsDuration(wall - wall_) > kSameClock) wall_ = wall;
    const std::uint64_t records = pending_.records();
    std::string block = pending_.Take(options_.epoch, wall_);
    const bool had_trouble = !how_far_.trouble.empty();
    bool written = false;
    {
      MutexUnlock unlocked(&mutex_);
      written = OpenPart(block.size()) && Append(block);
      if (written && had_trouble) SayAgain(lost);
    }
    (written ? how_far_.written : how_far_.lost) += records;
    if (written) how_far_.trouble.clear();
    if (!written) unsaid_lost_ += lost + records;
    changed_.NotifyAll();
  }
}

std::string Recorder::PathOf(std::uint64_t part) const {
  return absl::StrCat(options_.folder, "/", absl::StrFormat("%010d", part), kEnding);
}

// Goes on with the last part, or begins another.
bool Recorder::OpenPart(size_t for_bytes) {
  const absl::Time now = absl::Now();
  if (SteadyNow() - looked_for_old_ > kLookForOld) RemoveOld(0);
  // Somebody may have tidied up: what is written into a file without a name is lost.
  struct stat info {};
  if (file_ && fstat(file_.get(), &info) == 0 && info.st_nlink == 0) file_ = UniqueFd();
  const bool full = file_size_ + for_bytes > part_size_ || now - part_began_ > kLongestPart;
  if (file_ && !full) return true;
  if (mkdir(options_.folder.c_str(), 0700) != 0 && errno != EEXIST) {
    Fail(absl::StrCat("make the folder ", options_.folder), errno);
    return false;
  }
  const std::vector<RecordedPart> parts = PartsIn(options_.folder);
  std::uint64_t number = parts.empty() ? 1 : parts.back().number;
  const bool goes_on = !file_ && !parts.empty() && parts.back().size + for_bytes <= part_size_ &&
                       now - parts.back().written <= kLongestPart;
  if (!parts.empty() && !goes_on) ++number;
  RemoveOld(part_size_);
  UniqueFd file(open(PathOf(number).c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600));
  if (!file || fstat(file.get(), &info) != 0) {
    Fail(absl::StrCat("write ", PathOf(number)), errno);
    return false;
  }
  file_ = std::move(file);
  file_size_ = static_cast<Bytes>(info.st_size);
  part_ = number;
  part_began_ = now;
  MutexLock lock(&mutex_);
  ++parts_begun_;
  return true;
}

bool Recorder::Append(const std::string& block) {
  for (size_t done = 0; done < block.size();) {
    const ssize_t n = write(file_.get(), block.data() + done, block.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      const int error = errno;
      if (ftruncate(file_.get(), static_cast<off_t>(file_size_)) != 0) file_size_ += done;
      file_ = UniqueFd();
      Fail(absl::StrCat("write ", PathOf(part_)), error);
      return false;
    }
    done += static_cast<size_t>(n);
  }
  file_size_ += block.size();
  return true;
}

// So that there is `room` below the most that there may be. Old is what was written long before the last part
// that the daemon found when it began, or before as much later as it has run since: a clock that says another
// year makes nothing old.
void Recorder::RemoveOld(Bytes room) {
  const absl::Time now = std::min(absl::Now(), last_before_ + (SteadyNow() - began_));
  looked_for_old_ = SteadyNow();
  const std::vector<RecordedPart> parts = PartsIn(options_.folder);
  Bytes total = room;
  for (const RecordedPart& part : parts) total += part.size;
  for (size_t i = 0; i + 1 < parts.size() || (i < parts.size() && !file_); ++i) {
    const RecordedPart& part = parts[i];
    if (total <= options_.most && now - part.written <= options_.keep) break;
    unlink(part.path.c_str());
    total -= part.size;
  }
}

void Recorder::SayAgain(std::uint64_t lost) {
  if (options_.say)
    options_.say(
        absl::StrCat("turns are written to ", options_.folder, " again; ", lost, " records are missing."));
}

void Recorder::Fail(const std::string& what, int error) {
  bool first = false;
  const std::string why = absl::StrCat("cannot ", what, ": ", std::strerror(error));
  {
    MutexLock lock(&mutex_);
    first = how_far_.trouble.empty();
    how_far_.trouble = why;
    resting_until_ = Clock::now() + absl::ToChronoNanoseconds(options_.retry);
  }
  if (first && options_.say)
    options_.say(absl::StrCat(why,
                              ". Turns are given as before; the last 100,000 are remembered for `hocket ",
                              "trace`, and what comes meanwhile is not on disk. It is tried again every ",
                              absl::FormatDuration(options_.retry), "."));
}

}  // namespace hocket::coordinator
