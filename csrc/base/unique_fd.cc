#include "csrc/base/unique_fd.h"

#include <fcntl.h>
#include <unistd.h>

namespace hocket {

void UniqueFd::Reset() {
  if (fd_ >= 0) close(std::exchange(fd_, -1));
}

UniqueFd UniqueFd::Duplicate() const { return UniqueFd(fd_ < 0 ? -1 : fcntl(fd_, F_DUPFD_CLOEXEC, 0)); }

}  // namespace hocket
