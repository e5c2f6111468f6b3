#include "coordinator/server/admission.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "csrc/base/bytes.h"
#include "csrc/base/status_macros.h"
#include "csrc/wire/limits.h"

namespace hocket::coordinator {
namespace {

using wire::kMaxName;
using wire::kMaxText;
constexpr uint64_t kMaxGang = 4096;

bool Printable(const std::string& text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return static_cast<unsigned char>(c) >= 0x20 && c != 0x7f; });
}

absl::Status CheckText(const char* what, const std::string& text, size_t longest) {
  if (text.size() > longest) {
    return absl::InvalidArgumentError(
        absl::StrCat("the ", what, " has ", text.size(), " characters, at most ", longest, " are allowed."));
  }
  if (!Printable(text)) {
    return absl::InvalidArgumentError(absl::StrCat("the ", what, " '", absl::CEscape(text),
                                                   "' has control characters; use printable ones."));
  }
  return absl::OkStatus();
}

// It becomes part of a file's name.
absl::Status CheckDevice(const std::string& device) {
  const bool good =
      !device.empty() && device.size() <= kMaxName && device[0] != '.' &&
      std::all_of(device.begin(), device.end(), [](char c) {
        return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_' || c == '.';
      });
  if (good) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("'", absl::CEscape(device), "' is no device: expected the driver's UUID, or cpu."));
}

absl::Status CheckMemory(const wire::Join& join) {
  if (join.capacity == 0 && join.device != "cpu")
    return absl::InvalidArgumentError(absl::StrCat("device ", join.device, " is said to have no memory."));
  if (join.memory_limit > join.capacity) {
    return absl::InvalidArgumentError(absl::StrCat(
        "memory_limit ", FormatBytes(join.memory_limit), " is more than the ", FormatBytes(join.capacity),
        " of ", join.device_name.empty() ? join.device : join.device_name, ". Give at most that, or none."));
  }
  return absl::OkStatus();
}

absl::Status CheckGang(const wire::Join& join) {
  if (join.gang.empty() || (join.gang_size <= kMaxGang && join.gang_rank < join.gang_size))
    return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("rank ", join.gang_rank, " of ", join.gang_size,
                                                 " is no rank of a gang (at most ", kMaxGang, ")."));
}

}  // namespace

absl::Status CheckWeight(double weight) {
  if (std::isfinite(weight) && weight > 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("weight ", weight, " is not allowed: give a number above 0, such as 1 or 2.5."));
}

absl::Status CheckPriority(const std::string& priority) {
  if (priority == "high" || priority == "normal" || priority == "low") return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("there is no priority '", absl::CEscape(priority),
                                                 "'. The priorities are: high, normal, low."));
}

absl::Status CheckSwitchShare(double share) {
  if (std::isfinite(share) && share > 0 && share <= 1) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("a share of ", share,
                   " for switching is not allowed: give a number above 0 and up to 1, such as 0.02."));
}

absl::Status CheckJoin(const wire::Join& join) {
  HOCKET_RETURN_IF_ERROR(CheckText("name", join.name, kMaxName));
  HOCKET_RETURN_IF_ERROR(CheckText("program", join.program, kMaxText));
  HOCKET_RETURN_IF_ERROR(CheckText("device's name", join.device_name, kMaxName));
  HOCKET_RETURN_IF_ERROR(CheckText("version of Hocket", join.hocket_version, kMaxName));
  HOCKET_RETURN_IF_ERROR(CheckText("version of torch", join.torch_version, kMaxName));
  HOCKET_RETURN_IF_ERROR(CheckText("gang", join.gang, kMaxText));
  HOCKET_RETURN_IF_ERROR(CheckDevice(join.device));
  HOCKET_RETURN_IF_ERROR(CheckWeight(join.weight));
  HOCKET_RETURN_IF_ERROR(CheckPriority(join.priority));
  HOCKET_RETURN_IF_ERROR(CheckMemory(join));
  return CheckGang(join);
}

}  // namespace hocket::coordinator
