#include "allocator/driver_table.h"

#include <dlfcn.h>

#include "absl/strings/str_cat.h"

namespace hocket {
namespace {

absl::Status Missing(const char* library, const char* function) {
  return absl::UnavailableError(
      absl::StrCat("the CUDA driver library ", library, " has no function ", function,
                   ".\n  Hocket needs a driver of CUDA 12 or newer; update it, or try "
                   "without a GPU: hocket emulate -- CMD"));
}

}  // namespace

absl::StatusOr<DriverTable> DriverTable::Load(const char* library) {
  void* handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    return absl::UnavailableError(absl::StrCat("no CUDA driver: ", dlerror(),
                                               ".\n  Install the GPU's driver, or try without a GPU: "
                                               "hocket emulate -- CMD"));
  }
  DriverTable table;
#define HOCKET_FIND(member, name, parameters) \
  table.member = reinterpret_cast<decltype(table.member)>(dlsym(handle, name));
  HOCKET_DRIVER_FUNCTIONS(HOCKET_FIND)
  HOCKET_DRIVER_OPTIONAL_FUNCTIONS(HOCKET_FIND)
#undef HOCKET_FIND
#define HOCKET_REQUIRE(member, name, parameters) \
  if (table.member == nullptr) return Missing(library, name);
  HOCKET_DRIVER_FUNCTIONS(HOCKET_REQUIRE)
#undef HOCKET_REQUIRE
  return table;
}

}  // namespace hocket
