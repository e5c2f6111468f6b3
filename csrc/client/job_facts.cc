#include "csrc/client/job_facts.h"

#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "csrc/base/status_macros.h"
#include "csrc/client/version.h"
#include "csrc/wire/limits.h"

namespace hocket {
namespace {

std::string ReadFile(const char* path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string GroupOf(const JobOptions& options) {
  const char* const usual = std::getenv("HOCKET_GROUP");
  return options.group.empty() && usual != nullptr ? usual : options.group;
}

bool Serves(const JobOptions& options) {
  const char* const usual = std::getenv("HOCKET_SERVES");
  return options.serves || (usual != nullptr && std::string(usual) == "1");
}

absl::Status CheckOptions(const JobOptions& options, Bytes capacity) {
  if (!(options.weight > 0) || !std::isfinite(options.weight)) {
    return absl::InvalidArgumentError(
        absl::StrCat("weight ", options.weight, ": it must be a number greater than 0."));
  }
  if (options.priority != "high" && options.priority != "normal" && options.priority != "low") {
    return absl::InvalidArgumentError(
        absl::StrCat("priority '", options.priority, "': it must be high, normal or low."));
  }
  if (options.name.size() > wire::kMaxName) {
    return absl::InvalidArgumentError(
        absl::StrCat("a name of ", options.name.size(), " characters: it may have ", wire::kMaxName, "."));
  }
  if (const std::string group = GroupOf(options); !group.empty() && !wire::IsGroupName(group)) {
    return absl::InvalidArgumentError(
        absl::StrCat("group '", wire::MadePrintable(group), "': ", wire::kGroupNames, "."));
  }
  if (capacity > 0 && options.memory_limit > capacity) {
    return absl::InvalidArgumentError(absl::StrCat("memory limit of ", FormatBytes(options.memory_limit),
                                                   ": the device has ", FormatBytes(capacity),
                                                   ".\n  Give a limit of at most that, or none."));
  }
  return absl::OkStatus();
}

bool IsPython(absl::string_view path) {
  const absl::string_view file = path.substr(path.rfind('/') + 1);
  return absl::StartsWith(file, "python") || absl::StartsWith(file, "pypy");
}

// What one of Python's options means for what comes behind it.
enum class After { kNothing, kItsValue, kModule, kCommand };

// Short options may be written as one (-um), and their value with them (-Wignore).
After FollowsOption(absl::string_view option) {
  if (option == "--check-hash-based-pycs") return After::kItsValue;
  if (absl::StartsWith(option, "--")) return After::kNothing;
  for (size_t i = 1; i < option.size(); ++i) {
    const bool is_last = i + 1 == option.size();
    if (option[i] == 'c') return After::kCommand;
    if (option[i] == 'm') return After::kModule;
    if (option[i] == 'W' || option[i] == 'X') return is_last ? After::kItsValue : After::kNothing;
  }
  return After::kNothing;
}

std::string WhatPythonRuns(const std::vector<std::string>& arguments) {
  for (size_t i = 1; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    if (argument[0] != '-') return argument;
    if (argument == "-") return "";  // a program on standard input
    const After after = FollowsOption(argument);
    if (after == After::kCommand) return "";
    const size_t module = argument.find('m');
    if (after == After::kModule && module + 1 < argument.size()) return argument.substr(module + 1);
    if (after == After::kItsValue) ++i;
  }
  return "";
}

}  // namespace

std::string ProgramOf(const std::vector<std::string>& arguments) {
  if (arguments.empty()) return "";
  const std::string runs = IsPython(arguments[0]) ? WhatPythonRuns(arguments) : "";
  return wire::MadePrintable(runs.empty() ? arguments[0] : absl::StrCat(arguments[0], " ", runs));
}

absl::StatusOr<wire::Join> JoinFor(const JobOptions& options, const std::string& device_uuid,
                                   const std::string& device_name, Bytes capacity) {
  HOCKET_RETURN_IF_ERROR(CheckOptions(options, capacity));
  return wire::Join{
      .name = options.name,
      .pid = static_cast<std::uint64_t>(getpid()),
      .program = ProgramOf(absl::StrSplit(ReadFile("/proc/self/cmdline"), '\0', absl::SkipEmpty())),
      .device = device_uuid,
      .device_name = device_name,
      .capacity = capacity,
      .weight = options.weight,
      .priority = options.priority,
      .memory_limit = options.memory_limit,
      .total_steps = options.total_steps,
      .hocket_version = kVersion,
      .torch_version = options.torch_version,
      .heeds_limit = true,
      .heeds_restore = true,
      .group = GroupOf(options),
      .serves = Serves(options),
      .stands_by = device_uuid != "cpu",
      .counts_arena = true,
      .heeds_idle = true};
}

}  // namespace hocket
