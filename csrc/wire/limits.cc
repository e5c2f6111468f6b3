#include "csrc/wire/limits.h"

#include <algorithm>

#include "absl/strings/ascii.h"

namespace hocket::wire {
namespace {

// How many bytes the control character that begins at `i` has; 0: there is none.
size_t ControlAt(absl::string_view text, size_t i) {
  const auto byte = [&](size_t at) { return static_cast<unsigned char>(text[at]); };
  if (byte(i) < 0x20 || byte(i) == 0x7f) return 1;
  return byte(i) == 0xc2 && i + 1 < text.size() && byte(i + 1) >= 0x80 && byte(i + 1) < 0xa0 ? 2 : 0;
}

}  // namespace

bool IsPrintable(absl::string_view text) {
  for (size_t i = 0; i < text.size(); ++i) {
    if (ControlAt(text, i) > 0) return false;
  }
  return true;
}

bool IsGroupName(absl::string_view text) {
  return !text.empty() && text.size() <= kMaxName &&
         std::all_of(text.begin(), text.end(), [](unsigned char c) {
           return absl::ascii_isalnum(c) || c == '.' || c == '_' || c == '-';
         });
}

std::string MadePrintable(std::string text) {
  text.resize(std::min(text.size(), kMaxText));
  for (size_t i = 0; i < text.size(); ++i) {
    if (const size_t size = ControlAt(text, i); size > 0) text.replace(i, size, 1, ' ');
  }
  return text;
}

}  // namespace hocket::wire
