#include "csrc/base/say.h"

#include <poll.h>
#include <unistd.h>

#include <string>

namespace hocket {
namespace {

// A pipe that poll() says can be written to takes that much at once (pipe(7): PIPE_BUF).
constexpr std::size_t kAtOnce = 4096;

bool CanBeWritten(int descriptor) {
  pollfd file{.fd = descriptor, .events = POLLOUT, .revents = 0};
  // With an error beside it, nobody reads any more, and a write would be a signal.
  return poll(&file, 1, /*timeout=*/0) == 1 && file.revents == POLLOUT;
}

}  // namespace

void Say(std::string_view text) {
  const std::string line = "hocket: " + std::string(text.substr(0, kAtOnce - 16)) + "\n";
  if (CanBeWritten(STDERR_FILENO)) (void)!write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace hocket
