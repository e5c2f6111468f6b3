#include "csrc/base/paths.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "csrc/base/status_macros.h"

namespace hocket {

namespace {

constexpr char kSystemDir[] = "/run/hocket";

// What it is, made or found.
absl::StatusOr<struct stat> MakeFolder(const std::string& dir, mode_t mode) {
  if (mkdir(dir.c_str(), mode) != 0 && errno != EEXIST) {
    return absl::UnavailableError(
        absl::StrCat("cannot create the folder ", dir, " for Hocket's socket: ", std::strerror(errno),
                     ". Free some space there, or name another folder in HOCKET_RUNTIME_DIR."));
  }
  struct stat info {};
  if (lstat(dir.c_str(), &info) != 0 || !S_ISDIR(info.st_mode)) {
    return absl::FailedPreconditionError(
        absl::StrCat(dir, " is not a folder. Remove it, or name another folder in HOCKET_RUNTIME_DIR."));
  }
  return info;
}

}  // namespace

std::string RuntimeDir() {
  if (const char* dir = std::getenv("HOCKET_RUNTIME_DIR"); dir != nullptr && *dir != '\0') return dir;
  if (IsSystemDir(kSystemDir)) return kSystemDir;
  return absl::StrCat("/tmp/hocket-", geteuid());
}

absl::StatusOr<std::string> EnsureRuntimeDir() {
  const std::string dir = RuntimeDir();
  HOCKET_ASSIGN_OR_RETURN(const struct stat info, MakeFolder(dir, 0700));
  if (dir != kSystemDir && (info.st_uid != geteuid() || (info.st_mode & 022) != 0)) {
    return absl::FailedPreconditionError(absl::StrCat(
        dir, " belongs to uid ", info.st_uid, " with mode ", absl::StrFormat("%04o", info.st_mode & 07777),
        ": it must be yours alone (chmod 700). Or name another folder in HOCKET_RUNTIME_DIR."));
  }
  return dir;
}

absl::StatusOr<std::string> EnsureSystemDir() {
  const char* const named = std::getenv("HOCKET_RUNTIME_DIR");
  const std::string dir = named != nullptr && *named != '\0' ? named : kSystemDir;
  if (geteuid() != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("a daemon for all users needs root, to give each his own folder in ", dir,
                     "; this is uid ", geteuid(), ". Without --system it serves you alone."));
  }
  HOCKET_ASSIGN_OR_RETURN(const struct stat info, MakeFolder(dir, 0755));
  if (info.st_uid != 0 || (info.st_mode & 022) != 0) {
    return absl::FailedPreconditionError(absl::StrCat(
        dir, " belongs to uid ", info.st_uid, " with mode ", absl::StrFormat("%04o", info.st_mode & 07777),
        ": it must be root's, and only root's to write (chmod 755). Or name another in HOCKET_RUNTIME_DIR."));
  }
  if (chmod(dir.c_str(), 0755) != 0)  // whatever the umask says
    return absl::UnavailableError(
        absl::StrCat("cannot open ", dir, " for everybody: ", std::strerror(errno)));
  return dir;
}

bool IsSystemDir(const std::string& dir) {
  struct stat folder {
  }, socket{};
  return lstat(dir.c_str(), &folder) == 0 && S_ISDIR(folder.st_mode) &&
         (folder.st_uid == 0 || dir == kSystemDir) && lstat((dir + "/hocketd.sock").c_str(), &socket) == 0 &&
         S_ISSOCK(socket.st_mode) && (socket.st_mode & S_IWOTH) != 0;
}

std::string SocketPath() { return RuntimeDir() + "/hocketd.sock"; }

bool IsTrusted(unsigned uid, const std::string& socket_path) {
  if (uid == geteuid() || uid == 0) return true;
  struct stat info {};
  return socket_path.substr(0, socket_path.rfind('/')) == kSystemDir && lstat(kSystemDir, &info) == 0 &&
         info.st_uid == uid;
}

}  // namespace hocket
