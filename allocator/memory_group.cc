#include "allocator/memory_group.h"

#include <algorithm>
#include <fstream>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace hocket {
namespace {

// The files of one version of the interface.
struct Names {
  const char* limit;
  const char* used;
  const char* cache;  // a line of memory.stat: what goes first when memory is short
};
constexpr Names kVersion2 = {"/memory.max", "/memory.current", "inactive_file"};
constexpr Names kVersion1 = {"/memory.limit_in_bytes", "/memory.usage_in_bytes", "total_inactive_file"};

// kNoLimit where there is none ("max") or no such file.
Bytes ReadNumber(const std::string& path) {
  std::ifstream file(path);
  std::string text;
  Bytes value = 0;
  return file >> text && absl::SimpleAtoi(text, &value) ? value : kNoLimit;
}

Bytes FreeIn(const std::string& group, const Names& names) {
  const Bytes limit = ReadNumber(group + names.limit);
  const Bytes used = ReadNumber(group + names.used);
  if (limit == kNoLimit || used == kNoLimit) return kNoLimit;
  const Bytes kept = used - std::min(used, NumberAfter(group + "/memory.stat", names.cache).value_or(0));
  return limit - std::min(limit, kept);
}

// Of the group at `root` + `path` and of all above it.
Bytes FreeUpwards(const std::string& root, std::string path, const Names& names) {
  Bytes free = FreeIn(root, names);
  for (; path.size() > 1; path.erase(path.rfind('/'))) free = std::min(free, FreeIn(root + path, names));
  return free;
}

bool IsMemory(const std::string& controllers) {
  const std::vector<std::string> all = absl::StrSplit(controllers, ',');
  return std::find(all.begin(), all.end(), "memory") != all.end();
}

}  // namespace

// As text, not as a number: in the process of some builds of PyTorch for CUDA a stream reads every number as
// 0.
std::optional<Bytes> NumberAfter(const std::string& path, absl::string_view key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const std::vector<absl::string_view> words = absl::StrSplit(line, ' ', absl::SkipEmpty());
    Bytes value = 0;
    if (words.size() >= 2 && words[0] == key && absl::SimpleAtoi(words[1], &value)) return value;
  }
  return std::nullopt;
}

Bytes FreeInMemoryGroup(const std::string& root, const std::string& membership) {
  Bytes free = FreeIn(root, kVersion2);
  std::ifstream file(membership);
  for (std::string line; std::getline(file, line);) {
    const std::vector<std::string> fields = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (fields.size() != 3 || fields[2].empty() || fields[2][0] != '/') continue;
    if (fields[1].empty()) free = std::min(free, FreeUpwards(root, fields[2], kVersion2));
    if (IsMemory(fields[1])) free = std::min(free, FreeUpwards(root + "/memory", fields[2], kVersion1));
  }
  return free;
}

}  // namespace hocket
