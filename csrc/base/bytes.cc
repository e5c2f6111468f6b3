#include "csrc/base/bytes.h"

#include <cctype>
#include <cmath>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace hocket {

std::string FormatBytes(Bytes size) {
  if (size < 1024) return absl::StrFormat("%d B", size);
  static constexpr const char* kUnits[] = {"KiB", "MiB", "GiB", "TiB", "PiB"};
  double value = static_cast<double>(size) / 1024;
  int unit = 0;
  while (value >= 1024 && unit < 4) value /= 1024, ++unit;
  return absl::StrFormat("%.1f %s", value, kUnits[unit]);
}

absl::StatusOr<Bytes> ParseBytes(absl::string_view text) {
  const absl::Status bad = absl::InvalidArgumentError(
      absl::StrCat("'", text, "' is not a size: write a number and a unit, such as 512MiB, 8GiB or 4096"));
  absl::string_view rest = absl::StripAsciiWhitespace(text);
  size_t digits = 0;
  while (digits < rest.size() &&
         (std::isdigit(static_cast<unsigned char>(rest[digits])) || rest[digits] == '.'))
    ++digits;
  double value = 0;
  if (digits == 0 || !absl::SimpleAtod(rest.substr(0, digits), &value)) return bad;
  const std::string unit = absl::AsciiStrToLower(absl::StripAsciiWhitespace(rest.substr(digits)));
  int shift = 0;
  if (!unit.empty() && unit != "b") {
    const size_t power = std::string("kmgt").find(unit[0]);
    const std::string tail = unit.substr(1);
    if (power == std::string::npos || !(tail.empty() || tail == "b" || tail == "ib")) return bad;
    shift = 10 * (static_cast<int>(power) + 1);
  }
  const double size = std::ldexp(value, shift);
  if (!(size >= 0) || size >= std::ldexp(1.0, 63)) return bad;
  return static_cast<Bytes>(size);
}

}  // namespace hocket
