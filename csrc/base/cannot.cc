#include "csrc/base/cannot.h"

#include <sys/resource.h>

#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"

namespace hocket {
namespace {

std::string Advice(int error) {
  switch (error) {
    case ENOSPC:
    case EDQUOT:
      return " Free some space there, or name another folder in HOCKET_RUNTIME_DIR.";
    case EACCES:
    case EPERM:
    case EROFS:
      return " Name a folder of your own in HOCKET_RUNTIME_DIR.";
    case EMFILE: {
      rlimit limit{};
      getrlimit(RLIMIT_NOFILE, &limit);
      return absl::StrCat(" The process has all ", limit.rlim_cur,
                          " descriptors open that it may: close some, or raise the limit (ulimit -n).");
    }
    default:
      return "";
  }
}

}  // namespace

absl::Status Cannot(absl::string_view what, int error) {
  return absl::UnavailableError(
      absl::StrCat("cannot ", what, ": ", std::strerror(error), ".", Advice(error)));
}

}  // namespace hocket
