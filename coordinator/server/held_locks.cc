#include "coordinator/server/held_locks.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <filesystem>
#include <system_error>

#include "absl/strings/match.h"
#include "csrc/base/unique_fd.h"

namespace hocket::coordinator {
namespace {

// 0: nobody, as far as can be seen from here.
int HolderOf(const std::string& path) {
  const UniqueFd file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  struct stat status {};
  if (!file || fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) return 0;
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  if (fcntl(file.get(), F_GETLK, &lock) != 0 || lock.l_type == F_UNLCK) return 0;
  return lock.l_pid;
}

}  // namespace

std::map<int, std::vector<std::string>> HeldLocks(const std::string& folder) {
  std::map<int, std::vector<std::string>> held;
  std::error_code failed;
  for (std::filesystem::directory_iterator entry(folder, failed), end; !failed && entry != end;
       entry.increment(failed)) {
    const std::string name = entry->path().filename().string();
    if (!absl::StartsWith(name, "lane-") || !absl::EndsWith(name, ".lock")) continue;
    const std::string path = folder + "/" + name;
    if (const int pid = HolderOf(path); pid > 0) held[pid].push_back(path);
  }
  return held;
}

}  // namespace hocket::coordinator
