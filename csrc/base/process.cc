#include "csrc/base/process.h"

#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace hocket {

std::optional<ProcessState> ReadProcess(int pid) {
  std::ifstream file(absl::StrCat("/proc/", pid, "/stat"));
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const size_t name_ends = text.rfind(')');  // the name, field 2, may hold blanks and parentheses
  if (name_ends == std::string::npos) return std::nullopt;
  const std::vector<std::string> fields = absl::StrSplit(text.substr(name_ends + 1), ' ', absl::SkipEmpty());
  ProcessState process;
  if (fields.size() < 20 || !absl::SimpleAtoi(fields[19], &process.start)) return std::nullopt;
  process.state = fields[0][0];
  if (process.state == 'Z' || process.state == 'X') return std::nullopt;
  return process;
}

}  // namespace hocket
