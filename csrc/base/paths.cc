#include "csrc/base/paths.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "csrc/base/status_macros.h"

namespace hocket {

namespace {

constexpr char kSystemDir[] = "/run/hocket";
constexpr char kSystemStateDir[] = "/var/lib/hocket";

// Empty: it is not set.
std::string Variable(const char* name) {
  const char* const value = std::getenv(name);
  return value != nullptr ? value : "";
}

// Empty: it names no folder, or root has another user's, as under `sudo -E`: what root made there would be in
// that one's way.
std::string OwnFolder(const char* name) {
  const std::string dir = Variable(name);
  struct stat info {};
  if (!absl::StartsWith(dir, "/")) return "";
  return geteuid() != 0 || stat(dir.c_str(), &info) != 0 || info.st_uid == 0 ? dir : "";
}

// With those above it.
void MakeFolders(const std::string& dir) {
  for (size_t end = dir.find('/', 1); end != std::string::npos; end = dir.find('/', end + 1))
    (void)mkdir(dir.substr(0, end).c_str(), 0700);
  (void)mkdir(dir.c_str(), 0700);
}

std::string WorkingFolder() {
  char buffer[4096];
  return getcwd(buffer, sizeof(buffer)) != nullptr ? buffer : "";
}

// When this code was loaded: a program that goes elsewhere afterwards still means the same folder.
const std::string kStartedIn = WorkingFolder();

// $HOCKET_RUNTIME_DIR, absolute; empty where it is not set. A daemon leaves the folder in which it was
// started, and jobs of one node run in many.
std::string NamedDir() {
  std::string dir = Variable("HOCKET_RUNTIME_DIR");
  if (dir.empty() || dir[0] == '/' || kStartedIn.empty()) return dir;
  while (dir.rfind("./", 0) == 0) dir.erase(0, std::min(dir.find_first_not_of('/', 1), dir.size()));
  return absl::StrCat(kStartedIn == "/" ? "" : kStartedIn, "/", dir);
}

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
  if (std::string dir = NamedDir(); !dir.empty()) return dir;
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
  const std::string named = NamedDir();
  const std::string dir = named.empty() ? kSystemDir : named;
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

// Paths that are not absolute do not count (XDG Base Directory Specification).
std::string StateDir(bool system) {
  if (std::string dir = NamedDir(); !dir.empty()) return dir;
  if (system) return kSystemStateDir;
  if (const std::string states = OwnFolder("XDG_STATE_HOME"); !states.empty()) return states + "/hocket";
  const std::string home = OwnFolder("HOME");
  return home.empty() ? "" : home + "/.local/state/hocket";
}

// A link to another place is as good as a folder.
absl::StatusOr<std::string> EnsureStateDir(bool system) {
  const std::string dir = StateDir(system);
  if (!dir.empty() && dir == NamedDir()) return dir;  // made with the socket's
  if (dir.empty())
    return absl::FailedPreconditionError(
        absl::StrCat("neither XDG_STATE_HOME nor HOME names a folder of uid ", geteuid(), " for settings."));
  MakeFolders(dir);
  struct stat info {};
  if (stat(dir.c_str(), &info) != 0)
    return absl::UnavailableError(
        absl::StrCat("cannot create the folder ", dir, " for settings: ", std::strerror(errno), "."));
  if (!S_ISDIR(info.st_mode) || info.st_uid != geteuid() || (info.st_mode & 022) != 0) {
    return absl::FailedPreconditionError(absl::StrCat(dir, ", for settings, belongs to uid ", info.st_uid,
                                                      " with mode ",
                                                      absl::StrFormat("%04o", info.st_mode & 07777),
                                                      ": it must be a folder of uid ", geteuid(), " alone."));
  }
  if (access(dir.c_str(), W_OK) != 0)
    return absl::UnavailableError(
        absl::StrCat("cannot write to the folder ", dir, ", for settings: ", std::strerror(errno), "."));
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
