// What texts in messages may be: how long, in bytes, and of which characters. Jobs keep to it, and the
// coordinator refuses other names: they become parts of files' names and stand in people's terminals.
#ifndef HOCKET_CSRC_WIRE_LIMITS_H_
#define HOCKET_CSRC_WIRE_LIMITS_H_

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"

namespace hocket::wire {

// Names of jobs and devices, versions.
inline constexpr size_t kMaxName = 128;
// Programs, names of gangs, and reasons.
inline constexpr size_t kMaxText = 4096;

// No control characters: none of ASCII, nor of those that UTF-8 writes as C2 80 to C2 9F, which a terminal
// may obey too.
bool IsPrintable(absl::string_view text);

// Letters, digits and . _ -, at most kMaxName: as a person types them, and in a line of a file.
bool IsGroupName(absl::string_view text);
inline constexpr const char* kGroupNames =
    "groups have names of letters, digits, '.', '_' and '-', at most 128 of them";

// `text`, at most kMaxText bytes of it, with blanks for control characters.
std::string MadePrintable(std::string text);

}  // namespace hocket::wire

#endif  // HOCKET_CSRC_WIRE_LIMITS_H_
