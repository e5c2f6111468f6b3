#include "coordinator/server/state_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "coordinator/own/own_policy.h"
#include "coordinator/policies/registry.h"
#include "coordinator/server/admission.h"
#include "csrc/base/process.h"
#include "csrc/base/unique_fd.h"

namespace hocket::coordinator {
namespace {

// Of what is said of a file that is none of ours.
constexpr size_t kMostDropped = 20;
constexpr size_t kMostShown = 200;

// One of the user's own may be on a file system that comes later: it is tried again and again.
bool IsKnownPolicy(const std::string& name) { return IsOwnPolicy(name) || MakePolicy(name).ok(); }

// What is to outlive a loss of power has to be on the disk before it has the name.
bool Sync(const std::string& path) {
  const UniqueFd file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  return file && fsync(file.get()) == 0;
}

// Why not; empty: written. `lasts`: beyond a loss of power.
std::string Replace(const std::string& path, const std::string& text, bool lasts = false) {
  const std::string fresh = path + ".new";
  std::ofstream out(fresh);
  out << text;
  out.close();
  if (out && (!lasts || Sync(fresh)) && rename(fresh.c_str(), path.c_str()) == 0) return "";
  const std::string why = absl::StrCat("cannot write ", path, ": ", std::strerror(errno));
  unlink(fresh.c_str());
  return why;
}

std::optional<JobSettings> ReadJobSettings(std::istream& in) {
  JobSettings settings;
  if (!(in >> settings.weight >> settings.priority >> settings.total_steps >> settings.paused)) return {};
  if (!CheckWeight(settings.weight).ok() || !CheckPriority(settings.priority).ok()) return {};
  return settings;
}

// Times are CLOCK_MONOTONIC, in nanoseconds; 0: never.
std::optional<TimeKept> ReadTime(std::istream& in) {
  constexpr absl::Duration kMost = absl::Hours(24 * 7);
  TimeKept time;
  int64_t as_of = 0, credit = 0, since = 0;
  if (!(in >> time.cap >> as_of >> credit >> since)) return {};
  if (!CheckTimeCap(time.cap).ok() || absl::AbsDuration(absl::Nanoseconds(credit)) > kMost) return {};
  time.as_of = absl::FromUnixNanos(as_of);
  time.credit = absl::Nanoseconds(credit);
  if (since != 0) time.in_turn_since = absl::FromUnixNanos(since);
  return time;
}

std::string ToText(const Owner& owner) {
  return owner.kind == Owner::Kind::kGroup ? absl::StrCat("group ", owner.group)
                                           : absl::StrCat("user ", owner.id);
}

bool ReadQuota(const std::string& text, std::map<Owner, Quota>& quotas) {
  std::istringstream in(text);
  std::string kind, name;
  Quota quota;
  unsigned uid = 0;
  if (!(in >> kind >> name >> quota.time_cap >> quota.time_guarantee >> quota.memory_guarantee)) return false;
  if (!(in >> quota.memory_cap)) quota.memory_cap = 0;  // of an older coordinator, as below
  if (!(in >> quota.weight) || !CheckWeight(quota.weight).ok()) quota.weight = 0;
  const bool known =
      kind == "group" ? CheckGroupName(name).ok() : kind == "user" && absl::SimpleAtoi(name, &uid);
  if (!known || (quota.time_cap != 0 && !CheckTimeCap(quota.time_cap).ok()) ||
      (quota.time_guarantee != 0 && !CheckTimeGuarantee(quota.time_guarantee).ok()) ||
      quota.memory_guarantee >= kMaxBytes || quota.memory_cap >= kMaxBytes)
    return false;
  quotas[kind == "group" ? Owner::Group(name) : Owner::User(uid)] = quota;
  return true;
}

// False: it is not taken up.
bool ReadSetting(const std::string& key, const std::string& value, Settings& settings) {
  double number = 0;
  if (key == "quota") return ReadQuota(value, settings.quotas);
  if (key == "policy" && IsKnownPolicy(value)) return settings.policy = value, true;
  if (key == "overdue" && CheckOverdue(value).ok()) return settings.overdue = value, true;
  if (!absl::SimpleAtod(value, &number)) return false;
  if (key == "switch_share" && CheckSwitchShare(number).ok()) return settings.switch_share = number, true;
  if (key == "link_bound" && CheckLinkBound(number).ok()) return settings.link_bound = number, true;
  if (key == "production_bound" && CheckProductionBound(number).ok())
    return settings.production_bound = number, true;
  if (key == "most_together" && CheckMostTogether(number).ok())
    return settings.most_together = static_cast<int>(number), true;
  return false;
}

// None: there is no such file, or it cannot be read.
std::optional<std::string> ReadAll(const std::string& path) {
  std::ifstream in(path);
  if (!in) return std::nullopt;
  return std::string(std::istreambuf_iterator<char>(in), {});
}

// What the line sets: a quota that of its owner.
std::string KeyOf(const std::string& line) {
  std::istringstream in(line);
  std::string key, kind, name;
  in >> key;
  if (key != "quota") return key;
  in >> kind >> name;
  return absl::StrCat(key, " ", kind, " ", name);
}

// `later`, and the lines of `earlier` that set something else.
std::string Together(const std::string& later, const std::string& earlier) {
  std::set<std::string> set;
  for (const absl::string_view line : absl::StrSplit(later, '\n')) set.insert(KeyOf(std::string(line)));
  std::string text = later + "\n";
  for (const absl::string_view line : absl::StrSplit(earlier, '\n', absl::SkipEmpty()))
    if (!set.contains(KeyOf(std::string(line)))) absl::StrAppend(&text, line, "\n");
  return text;
}

}  // namespace

StateFiles::StateFiles(const std::string& runtime_dir, const std::string& state_dir,
                       const std::string& read_only)
    : jobs_(runtime_dir + "/jobs"),
      settings_(state_dir + "/settings"),
      read_only_(read_only.empty() ? "" : read_only + "/settings") {
  mkdir(jobs_.c_str(), 0700);
  const std::string old = runtime_dir + "/settings";
  if (std::error_code error; std::filesystem::equivalent(runtime_dir, state_dir, error)) return;
  const std::optional<std::string> later = ReadAll(old);
  if (!later) return;
  trouble_ = Replace(settings_, Together(*later, ReadAll(settings_).value_or("")), /*lasts=*/true);
  if (trouble_.empty()) {
    unlink(old.c_str());
  } else {
    absl::StrAppend(&trouble_, ". What people have set stays in ", old, ".");
    settings_ = old;
  }
}

std::string StateFiles::PathOf(JobId id) const { return absl::StrCat(jobs_, "/", id); }

std::string StateFiles::Write(const JobFile& file) {
  std::string text = absl::StrCat(file.pid, " ", file.process_start, "\n");
  if (const auto& s = file.settings)
    absl::StrAppendFormat(&text, "%.17g %s %d %d\n", s->weight, s->priority, s->total_steps, s->paused);
  if (file.settings && file.settings->memory_guarantee > 0)
    absl::StrAppend(&text, "memory_guarantee ", file.settings->memory_guarantee, "\n");
  if (file.settings && file.settings->time_guarantee > 0)
    absl::StrAppendFormat(&text, "time_guarantee %.17g\n", file.settings->time_guarantee);
  if (file.settings && !file.settings->group.empty())
    absl::StrAppend(&text, "group ", file.settings->group, "\n");
  if (const auto& t = file.time)
    absl::StrAppendFormat(&text, "time_cap %.17g %d %d %d\n", t->cap, absl::ToUnixNanos(t->as_of),
                          absl::ToInt64Nanoseconds(t->credit),
                          t->in_turn_since ? absl::ToUnixNanos(*t->in_turn_since) : 0);
  const std::string why = Replace(PathOf(file.id), text);
  return why.empty()
             ? ""
             : why + ". A restarted coordinator will not wait for this job, or not know what was set.";
}

void StateFiles::Remove(JobId id) { unlink(PathOf(id).c_str()); }

std::optional<JobFile> StateFiles::Read(JobId id) const {
  std::ifstream in(PathOf(id));
  JobFile file{.id = id};
  if (!(in >> file.pid >> file.process_start)) return std::nullopt;
  file.settings = ReadJobSettings(in);
  if (!file.settings) return file;
  for (std::string key; in >> key;) {
    int64_t bytes = 0;
    double share = 0;
    std::string group;
    if (key == "time_guarantee" && in >> share && CheckTimeGuarantee(share).ok())
      file.settings->time_guarantee = share;
    if (key == "group" && in >> group && CheckGroupName(group).ok()) file.settings->group = group;
    if (key == "time_cap") file.time = ReadTime(in);
    if (key == "memory_guarantee" && in >> bytes && bytes > 0 && Bytes(bytes) < kMaxBytes)
      file.settings->memory_guarantee = static_cast<Bytes>(bytes);
  }
  return file;
}

LeftBehind StateFiles::FindLeftBehind() {
  LeftBehind former;
  std::error_code error;
  // What cannot be read of it ends the list: the loop's own step would throw.
  for (std::filesystem::directory_iterator entry(jobs_, error), end; !error && entry != end;
       entry.increment(error)) {
    JobId id = 0;
    std::optional<JobFile> file;
    if (absl::SimpleAtoi(entry->path().filename().string(), &id) && id < kMaxJobId) file = Read(id);
    const auto process = file ? ReadProcess(file->pid) : std::nullopt;
    if (process && process->start == file->process_start) {
      former.living.push_back(*file);
    } else {
      ++former.dead;
      unlink(entry->path().c_str());
    }
  }
  return former;
}

std::string StateFiles::Write(const Settings& settings) {
  std::string text;
  if (!settings.policy.empty()) absl::StrAppend(&text, "policy ", settings.policy, "\n");
  if (settings.switch_share > 0) absl::StrAppendFormat(&text, "switch_share %.17g\n", settings.switch_share);
  if (settings.link_bound > 0) absl::StrAppendFormat(&text, "link_bound %.17g\n", settings.link_bound);
  if (settings.production_bound > 0)
    absl::StrAppendFormat(&text, "production_bound %.17g\n", settings.production_bound);
  if (settings.most_together > 0) absl::StrAppend(&text, "most_together ", settings.most_together, "\n");
  if (!settings.overdue.empty()) absl::StrAppend(&text, "overdue ", settings.overdue, "\n");
  for (const auto& [of, quota] : settings.quotas)
    absl::StrAppendFormat(&text, "quota %s %.17g %.17g %d %d %.17g\n", ToText(of), quota.time_cap,
                          quota.time_guarantee, quota.memory_guarantee, quota.memory_cap, quota.weight);
  const std::string why = Replace(settings_, text, /*lasts=*/true);
  return why.empty() ? "" : why + ". The next coordinator will not know what was set.";
}

Settings StateFiles::ReadSettings() const {
  Settings settings;
  const bool here = read_only_.empty() || std::filesystem::exists(settings_);
  const std::string& path = here ? settings_ : read_only_;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    const std::pair<std::string, std::string> setting = absl::StrSplit(line, absl::MaxSplits(' ', 1));
    if (line.empty() || ReadSetting(setting.first, setting.second, settings)) continue;
    if (settings.dropped.size() < kMostDropped)
      settings.dropped.push_back(absl::StrCat("the line '", absl::CEscape(line.substr(0, kMostShown)),
                                              "' of ", path,
                                              " is not taken up: this coordinator knows no such "
                                              "setting, or not this value. Set it again."));
  }
  return settings;
}

}  // namespace hocket::coordinator
