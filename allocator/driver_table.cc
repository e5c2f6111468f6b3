#include "allocator/driver_table.h"

#include <dlfcn.h>

#include "absl/strings/str_cat.h"
#include "csrc/base/status_macros.h"

namespace hocket {
namespace {

absl::Status Missing(const char* library, const char* function) {
  return absl::UnavailableError(
      absl::StrCat("the CUDA driver library ", library, " has no function ", function,
                   ".\n  Hocket needs a driver of CUDA 12 or newer; update it, or try "
                   "without a GPU: hocket emulate -- CMD"));
}

absl::StatusOr<void*> Open(const char* library) {
  if (void* handle = dlopen(library, RTLD_NOW | RTLD_LOCAL); handle != nullptr) return handle;
  return absl::UnavailableError(absl::StrCat("no CUDA driver: ", dlerror(),
                                             ".\n  Install the GPU's driver, or try without a GPU: "
                                             "hocket emulate -- CMD"));
}

}  // namespace

absl::StatusOr<int> DriverVersion(const char* library) {
  HOCKET_ASSIGN_OR_RETURN(void* const handle, Open(library));
  constexpr char kName[] = "cuDriverGetVersion";
  const auto ask = reinterpret_cast<cuda::Result (*)(int*)>(dlsym(handle, kName));
  if (ask == nullptr) return Missing(library, kName);
  int version = 0;
  if (const cuda::Result result = ask(&version); result != cuda::kSuccess) {
    return absl::InternalError(absl::StrCat(kName, ": driver error ", result));
  }
  return version;
}

absl::StatusOr<DriverTable> DriverTable::Load(const char* library) {
  HOCKET_ASSIGN_OR_RETURN(void* const handle, Open(library));
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
