#include "coordinator/server/needs.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace hocket::coordinator {
namespace {

constexpr Bytes kMostBytes = Bytes{1} << 50;
constexpr std::size_t kLongestFile = 1 << 20;

// FNV-1a: the same in every version.
std::uint64_t FnvOf(const std::string& text) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

std::optional<std::pair<std::uint64_t, KnownNeed>> NeedInLine(const std::string& line) {
  std::istringstream in(line);
  std::uint64_t program = 0;
  KnownNeed need;
  std::string rest;
  if (line.find('-') != std::string::npos) return std::nullopt;
  if (!(in >> std::hex >> program >> std::dec >> need.persistent >> need.transient >> need.host >> need.runs))
    return std::nullopt;
  if (in >> rest || program == 0 || need.runs == 0) return std::nullopt;
  if (need.persistent >= kMostBytes || need.transient >= kMostBytes) return std::nullopt;
  return std::make_pair(program, need);
}

// As large as this run's, or nearer to it than before: a run that ended early says little.
Bytes Towards(Bytes before, Bytes now) { return std::max(now, before / 2 + now / 2); }

}  // namespace

Needs::Needs(const std::string& runtime_dir) : path_(runtime_dir + "/needs") {
  std::ifstream in(path_, std::ios::binary);
  std::string text(kLongestFile, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(std::max<std::streamsize>(0, in.gcount())));
  std::istringstream lines(text);
  std::size_t senseless = 0;
  for (std::string line; std::getline(lines, line);) {
    if (const auto entry = NeedInLine(line)) {
      std::erase_if(entries_, [&](const auto& known) { return known.first == entry->first; });
      entries_.push_back(*entry);
    } else {
      ++senseless;
    }
  }
  while (entries_.size() > kMost) entries_.pop_front();
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
  if (program == 0 || need.persistent >= kMostBytes || need.transient >= kMostBytes) return "";
  if (const auto before = Of(program)) {
    need.persistent = Towards(before->persistent, need.persistent);
    need.transient = Towards(before->transient, need.transient);
    need.runs = before->runs + 1;
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
