#include "csrc/emulator/runtime/mangled_type.h"

#include <string_view>

namespace hocket::emulator {

double MangledTypeBytes(const char* type) {
  const std::string_view name(type);
  const auto begins_with = [&](std::string_view with) { return name.substr(0, with.size()) == with; };
  if (begins_with("N3c104Half") || begins_with("N3c108BFloat16")) return 2;
  if (begins_with("N3c107complexId")) return 16;
  if (begins_with("N3c107complexIf")) return 8;
  if (begins_with("N3c10")) return 1;  // Float8_...
  switch (*type) {
    case 'd':
    case 'l':
    case 'm':
      return 8;
    case 's':
    case 't':
      return 2;
    case 'a':
    case 'b':
    case 'h':
      return 1;
    default:
      return 4;
  }
}

}  // namespace hocket::emulator
