#include "coordinator/server/needs.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string_view>
#include <system_error>
#include <unordered_map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "csrc/wire/messages.h"

namespace hocket::coordinator {
namespace {

constexpr Bytes kMostBytes = Bytes{1} << 50;
constexpr std::uint64_t kMostRuns = 1'000'000'000;
constexpr std::size_t kLongestFile = 1 << 20;
constexpr std::size_t kPart = 4096;  // of which the longest is a multiple

// FNV-1a: the same in every version.
std::uint64_t FnvOf(const std::string& text) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

// Takes the number in front of `text`, and the space after it. False: there is none, or it is too large for
// its type.
bool TakeNumber(std::string_view& text, std::uint64_t& number, int base = 10) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, base);
  if (error != std::errc()) return false;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  if (text.empty()) return true;
  const bool space = text.front() == ' ';
  text.remove_prefix(1);
  return space && !text.empty();
}

bool Sensible(const KnownNeed& need) {
  return need.persistent < kMostBytes && need.transient < kMostBytes &&
         (need.host < kMostBytes || need.host == wire::kNoHostLimit) && need.runs > 0 &&
         need.runs <= kMostRuns;
}

std::optional<std::pair<std::uint64_t, KnownNeed>> NeedInLine(std::string_view line) {
  std::uint64_t program = 0;
  KnownNeed need;
  const bool whole = TakeNumber(line, program, 16) && TakeNumber(line, need.persistent) &&
                     TakeNumber(line, need.transient) && TakeNumber(line, need.host) &&
                     TakeNumber(line, need.runs) && line.empty();
  if (!whole || program == 0 || !Sensible(need)) return std::nullopt;
  return std::make_pair(program, need);
}

// No more of it than is looked at: a line that is cut off there would say other numbers.
std::string ReadStart(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::string text;
  char part[kPart];
  while (text.size() < kLongestFile && (in.read(part, sizeof(part)), in.gcount() > 0))
    text.append(part, static_cast<std::size_t>(in.gcount()));
  if (text.size() == kLongestFile) text.resize(text.rfind('\n') + 1);  // npos + 1: nothing
  return text;
}

// As large as this run's, or nearer to it than before: a run that ended early says little.
Bytes Towards(Bytes before, Bytes now) { return std::max(now, before / 2 + now / 2); }

}  // namespace

Needs::Needs(const std::string& runtime_dir) : path_(runtime_dir + "/needs") {
  const std::string text = ReadStart(path_);
  std::unordered_map<std::uint64_t, Entries::iterator> known;
  std::size_t senseless = 0;
  for (std::string_view left = text; !left.empty();) {
    const std::size_t end = std::min(left.find('\n'), left.size());
    const auto entry = NeedInLine(left.substr(0, end));
    left.remove_prefix(std::min(left.size(), end + 1));
    senseless += !entry;
    if (!entry) continue;
    const auto before = known.find(entry->first);
    if (before != known.end()) entries_.erase(before->second);
    known[entry->first] = entries_.insert(entries_.end(), *entry);
    if (entries_.size() <= kMost) continue;
    known.erase(entries_.front().first);
    entries_.pop_front();
  }
  if (senseless > 0)
    trouble_ = absl::StrCat(path_, ", which says what programs needed in earlier runs, has ", senseless,
                            " line(s) that make no sense; they are ignored.");
}

std::optional<KnownNeed> Needs::Of(std::uint64_t program) const {
  const auto found = std::find_if(entries_.begin(), entries_.end(),
                                  [&](const auto& known) { return known.first == program; });
  if (program == 0 || found == entries_.end()) return std::nullopt;
  return found->second;
}

std::string Needs::Learn(std::uint64_t program, KnownNeed need) {
  if (need.host >= kMostBytes) need.host = wire::kNoHostLimit;  // as good as none
  if (program == 0 || !Sensible(need)) return "";
  if (const auto before = Of(program)) {
    need.persistent = Towards(before->persistent, need.persistent);
    need.transient = Towards(before->transient, need.transient);
    need.runs = std::min(before->runs + 1, kMostRuns);
  }
  std::erase_if(entries_, [&](const auto& known) { return known.first == program; });
  entries_.emplace_back(program, need);
  if (entries_.size() > kMost) entries_.pop_front();
  return Write();
}

std::string Needs::Write() const {
  const std::string fresh = path_ + ".new";
  std::ofstream out(fresh);
  for (const auto& [program, need] : entries_)
    out << absl::StrFormat("%016x %d %d %d %d\n", program, need.persistent, need.transient, need.host,
                           need.runs);
  out.close();
  if (out && rename(fresh.c_str(), path_.c_str()) == 0) return "";
  const std::string why = absl::StrCat("cannot write ", path_, ": ", std::strerror(errno),
                                       ". What this run needed will not be known to the next one.");
  unlink(fresh.c_str());
  return why;
}

// Nobody can keep us waiting here: where a process has put memory that somebody serves (FUSE) in its command
// line's place, the kernel leaves it out (since 4.17, CVE-2018-1120).
std::uint64_t ProgramKey(int pid, unsigned user) {
  std::ifstream in(absl::StrCat("/proc/", pid, "/cmdline"), std::ios::binary);
  const std::string line((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  return line.empty() ? 0 : FnvOf(absl::StrCat(user, "\n", line));
}

}  // namespace hocket::coordinator
