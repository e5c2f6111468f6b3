#include "csrc/base/paths.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace hocket {

namespace {

constexpr char kSystemDir[] = "/run/hocket";

}  // namespace

std::string RuntimeDir() {
  if (const char* dir = std::getenv("HOCKET_RUNTIME_DIR"); dir != nullptr && *dir != '\0') return dir;
  if (access(absl::StrCat(kSystemDir, "/hocketd.sock").c_str(), W_OK) == 0) return kSystemDir;
  return absl::StrCat("/tmp/hocket-", geteuid());
}

absl::StatusOr<std::string> EnsureRuntimeDir() {
  const std::string dir = RuntimeDir();
  if (mkdir(dir.c_str(), 0700) != 0 && errno != EEXIST) {
    return absl::UnavailableError(
        absl::StrCat("cannot create the folder ", dir, " for Hocket's socket: ", std::strerror(errno),
                     ". Free some space there, or name another folder in HOCKET_RUNTIME_DIR."));
  }
  struct stat info {};
  if (lstat(dir.c_str(), &info) != 0 || !S_ISDIR(info.st_mode)) {
    return absl::FailedPreconditionError(
        absl::StrCat(dir, " is not a folder. Remove it, or name another folder in HOCKET_RUNTIME_DIR."));
  }
  if (dir != kSystemDir && (info.st_uid != geteuid() || (info.st_mode & 022) != 0)) {
    return absl::FailedPreconditionError(absl::StrCat(
        dir, " belongs to uid ", info.st_uid, " with mode ", absl::StrFormat("%04o", info.st_mode & 07777),
        ": it must be yours alone (chmod 700). Or name another folder in HOCKET_RUNTIME_DIR."));
  }
  return dir;
}

std::string SocketPath() { return RuntimeDir() + "/hocketd.sock"; }

bool IsTrusted(unsigned uid, const std::string& socket_path) {
  if (uid == geteuid() || uid == 0) return true;
  struct stat info {};
  return socket_path.substr(0, socket_path.rfind('/')) == kSystemDir && lstat(kSystemDir, &info) == 0 &&
         info.st_uid == uid;
}

}  // namespace hocket
